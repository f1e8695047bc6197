"""SIGKILL at any moment, any number of times: nothing is paid twice, nothing is lost, the same bytes come out."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, cli, oracle

from dhd_labels.replay import calls
from dhd_labels.replay.run import run
from tests.replay.test_studies import results

SLOTS = 4
SETTINGS = ["benchmark.size=8", "protocol.blocks=3", f"engines.world.slots={SLOTS}"]


def arguments(folder: Path, *settings: str) -> list[str]:
    chosen = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    return ["run", "oracle", "--run-dir", str(folder), *chosen]


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("replay.allocation=screened", "replay.further_blocks=6")])
def test_killed_runs_repeat_nothing_and_build_the_same_bytes(tmp_path: Path, more: tuple[str, ...]) -> None:
    log, killed_dir = tmp_path / "calls.log", tmp_path / "killed"
    slow = (f"engines.world.call_log={log}", "engines.world.latency_s=0.03", *more)
    rng, kills = random.Random(7), 0
    while kills < 6:
        with subprocess.Popen(
            [sys.executable, "-m", "dhd_labels", *arguments(killed_dir, *slow)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as child:
            size = log.stat().st_size if log.exists() else 0
            while (log.stat().st_size if log.exists() else 0) == size and child.poll() is None:
                time.sleep(0.002)  # kill a run that is making calls, not one that is still importing
            time.sleep(rng.uniform(0.0, 0.5))
            child.send_signal(signal.SIGKILL)
            if child.wait() == -signal.SIGKILL:
                kills += 1
            else:
                break
    assert kills >= 3, "the runs must be long enough to be killed"
    last = cli(*arguments(killed_dir, *slow))
    assert last.returncode == 0, last.stdout + last.stderr

    calls = Counter(log.read_text().split())
    repeats = sum(calls.values()) - len(calls)
    assert repeats <= kills * SLOTS, "only calls in flight at a kill may run again"
    assert len(calls) == (8 * (1 + 5 + 4 + 20 + 7) + 6 * 7 if more else 8 * (1 + 5 + 4 + 20 + 21))

    whole = cli(*arguments(tmp_path / "whole", *more))
    assert whole.returncode == 0, whole.stderr
    for name in ("killed", "whole"):
        built = cli("build", str(tmp_path / name), "--out", str(tmp_path / f"data-{name}"))
        assert built.returncode == 0, built.stderr
    assert digests(tmp_path / "data-killed") == digests(tmp_path / "data-whole")
    assert any(name.endswith(".parquet") for name in digests(tmp_path / "data-whole"))


@pytest.mark.slow
def test_interrupt_exits_cleanly_and_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dhd_labels", *arguments(tmp_path / "run", "engines.world.latency_s=0.05")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        store = tmp_path / "run/store.sqlite-wal"
        while not store.exists() and child.poll() is None:
            time.sleep(0.01)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert "run the same command to go on" in out and "Traceback" not in err
    done = cli(*arguments(tmp_path / "run", "engines.world.latency_s=0.05"))
    assert done.returncode == 0 and ": 0 answers were in the store" not in done.stdout


def test_what_is_asked_again_is_not_piled_up_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign with many unusable answers holds a bounded number of prompts; where the bound is changes no answer."""
    settings = ("benchmark.size=8", "protocol.blocks=2", "engines.world.fault_rate=0.4")
    piled = run(oracle(*settings), tmp_path / "piled")
    most = 0
    settle = calls._Execution._settle

    def watched(execution: calls._Execution, *arguments: Any) -> bool:
        nonlocal most
        again = settle(execution, *arguments)
        most = max(most, len(execution.again))
        return again

    monkeypatch.setattr(calls._Execution, "_settle", watched)
    monkeypatch.setattr(calls, "MOST_AGAIN", 3)
    bounded = run(oracle(*settings), tmp_path / "bounded")
    assert most <= 3 + 8, "the calls of one group come on top"
    assert results(piled) == results(bounded)
