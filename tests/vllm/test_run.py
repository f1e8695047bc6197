"""A whole run on the real vLLM, through the command line. Run by `make test-vllm`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from support import ROOT

from dhd_labels.config import load_config

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


def test_a_whole_run_makes_a_data_set_that_loads(settings: dict[str, Any], tmp_path: Path) -> None:
    config = load_config("quickstart", ["protocol.blocks=2", "protocol.alone_draws=1", "name=small-vllm"])
    values = config.model_dump(mode="json")
    values["engines"] = {"local": settings}
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(values))
    command(tmp_path, "run", str(file), "--run-dir", "run", "--limit", "2")
    again = command(tmp_path, "run", str(file), "--run-dir", "run", "--limit", "2")
    assert ", 0 calls made" in again
    command(tmp_path, "build", "run", "--out", "data")

    messages = datasets.concatenate_datasets(list(datasets.load_dataset(str(tmp_path / "data"), "messages").values()))
    replays = datasets.concatenate_datasets(list(datasets.load_dataset(str(tmp_path / "data"), "replays").values()))
    assert len(messages) == 10 and set(messages["integrator"]) == {settings["name"]}
    assert len(replays) == 2 * (1 + 5 + 2 * 7)
    assert sum(replays["cached_tokens"]) > 0 and any(correct is not None for correct in replays["correct"])
    assert not [
        file
        for file in (tmp_path / "data").rglob("*")
        if file.is_file() and settings["model"].encode() in file.read_bytes()
    ]


def command(folder: Path, *arguments: str) -> str:
    """Run a command line in a child process, as a user would; failed records (3) are no failure of the command."""
    line = [sys.executable, "-m", "dhd_labels", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=800, check=False, env=environment)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return done.stdout
