"""From a run to a selector in somebody else's folder: the commands of `make labels REPO=...` against the test Hub."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support import ROOT

from tests.dataset.test_push_wire import consistent
from tests.hub import TOKEN, HubStub


def test_what_is_made_here_trains_and_loads_elsewhere(hub: HubStub, tmp_path: Path) -> None:
    def python(*command: str, cwd: str) -> str:
        """Run a command as a person in a folder would, with that person's own cache of the Hub."""
        (tmp_path / cwd).mkdir(exist_ok=True)
        keep = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING"))}
        path = os.pathsep.join(map(str, (ROOT, ROOT / "selectors")))
        env = keep | hub.environment(tmp_path / cwd / "home") | {"PYTHONPATH": path}
        run = [sys.executable, *command]
        done = subprocess.run(
            run, cwd=tmp_path / cwd, env=env, capture_output=True, text=True, timeout=240, check=False
        )
        assert TOKEN not in done.stdout + done.stderr
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    dhd = ("-m", "dhd_labels")
    assert "signed in as stub-user" in python(*dhd, "check-token", "me/demo", cwd="here")
    small = ("--limit", "30", "--set", "protocol.blocks=3")
    python(*dhd, "run", "oracle", "--run-dir", "runs/oracle", *small, cwd="here")
    python(*dhd, "build", "runs/oracle", "--out", "data/oracle", cwd="here")
    said = python(*dhd, "push", "data/oracle", "--repo", "me/demo", cwd="here")
    repo = hub.repos["me/demo"]
    assert repo.private and hub.commits("me/demo") == 1
    assert f"Commit: {repo.refs['main']}" in said
    consistent(repo)

    fitted = python("-m", "training.fit", "--selector", "lgbm", "--labels", "me/demo", cwd="elsewhere")
    assert "lgbm" in fitted
    (code,) = re.findall(r"```python\n(.*?)```", repo.head()["README.md"].decode(), re.DOTALL)
    show = "\nprint({split: data.num_rows for split, data in messages.items()})"
    loaded = python("-c", code + show, cwd="elsewhere")
    assert sum(map(int, re.findall(r": (\d+)", loaded))) == 150
    assert hub.unknown == []
