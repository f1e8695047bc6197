"""The walk of docs/selectors.md (and of the README, where it has one): every block between the marks is run, in order.

Only the number of simulated problems is made smaller, and the Hub is one on localhost.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

from dhd_selectors import Selector
from tests.hub_stub import TOKEN, running

MARKED = re.compile(r"<!-- walk -->\n(.*?)<!-- /walk -->", re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
DOCUMENTS = [name for name in ("README.md", "docs/selectors.md") if MARKED.search((ROOT / name).read_text("utf-8"))]
PROBLEMS = 60


def steps(name: str) -> list[tuple[str, str]]:
    """Return (kind, text) of each block: a `file` to write, `bash` or `python` to run."""
    found = []
    for part in MARKED.findall((ROOT / name).read_text("utf-8")):
        for language, text in BLOCK.findall(part):
            kind = "file" if re.match(r"# \w+\.py\n", text) else language
            found.append((kind, re.sub(r"--problems \d+", f"--problems {PROBLEMS}", text)))
    return found


def run(kind: str, text: str, place: Path, environment: dict[str, str]) -> str:
    command = ["bash", "-euc", text] if kind == "bash" else [sys.executable, "-W", "error", "-c", text]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    assert TOKEN not in done.stdout + done.stderr and "Traceback" not in done.stderr
    return done.stdout


def test_the_walk_is_there() -> None:
    assert "docs/selectors.md" in DOCUMENTS


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_step_of_the_walk_works(document: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    keep = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING"))}
    said = ""
    with running() as hub:
        environment = keep | hub.environment(tmp_path / "home") | {"PYTHONPATH": os.pathsep.join(sys.path)}
        environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{environment['PATH']}"
        kinds = []
        for kind, text in steps(document):
            kinds.append(kind)
            if kind == "file":
                (tmp_path / text.split("\n")[0].removeprefix("# ")).write_text(text)
                assert len(text.strip().splitlines()) <= 23, "the example is short"
            else:
                said += run(kind, text, tmp_path, environment)
        assert hub.unknown == []
        ((name, repo),) = hub.repos.items()
    assert kinds.count("bash") >= 3 and kinds.count("python") >= 2 and kinds.count("file") == 1
    assert repo.private and "dhd_selector.json" in repo.commits[repo.refs["main"]]
    assert f"Pushed to {hub.endpoint}/{name} at commit {repo.refs['main']}." in said
    decided = re.findall(r"\[(?:\d(?:, \d)*)?\]$", said, re.MULTILINE)
    assert len(decided) == kinds.count("python")
    assert Selector.from_pretrained(tmp_path / "models" / "lgbm").name == "lgbm"
