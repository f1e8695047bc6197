"""Peak memory of a campaign, step by step, each step in a process of its own.

`python -m tests.bench.memory --calls 1000000` runs a whole campaign of a million calls and says what it took.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

import dhd_labels
from dhd_labels.__main__ import main as command_line
from dhd_labels.config import RunConfig, load_config
from dhd_labels.replay.estimate import plan_run
from dhd_labels.report.table import Table

SMALL, LARGE, WHOLE = 10_000, 40_000, 1_000_000
"""Calls of the two campaigns of the short measurement, and of the one that it is extrapolated to."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step took: seconds, those of a processor, and the peak of its process in MB.

    Python, libraries and the scripted engine are included.
    """

    seconds: float
    processor: float
    peak: float


def campaign(calls: int) -> RunConfig:
    """Return the `oracle` preset with as many problems as it takes to make at least so many calls."""
    one = plan_run(load_config("oracle", ["benchmark.size=1"]))
    return load_config("oracle", [f"benchmark.size={math.ceil(calls / sum(role.calls for role in one.roles))}"])


def _say_nothing(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        command_line(arguments)


STEPS: Mapping[str, Callable[[Path, RunConfig], object]] = {
    "plan": lambda folder, config: plan_run(config),
    "run": lambda folder, config: dhd_labels.run(config, folder / "run"),
    "run again, every call in the store": lambda folder, config: dhd_labels.run(config, folder / "run"),
    "status": lambda folder, config: _say_nothing("status", str(folder / "run"), "--json"),
    "build": lambda folder, config: _say_nothing("build", str(folder / "run"), "--out", str(folder / "data")),
    "show": lambda folder, config: _say_nothing("show", str(folder / "run"), "oracle:000", "--json"),
}


def measure(calls: int, place: Path | None = None) -> dict[str, Cost]:
    """Return what every step of a campaign takes. The campaign is kept in a temporary folder in `place`."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return {step: _in_a_process(step, calls, folder) for step in STEPS}


def _in_a_process(step: str, calls: int, folder: str) -> Cost:
    command = [sys.executable, "-m", "tests.bench.memory", "--step", step, "--calls", str(calls), "--place", folder]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _step(step: str, calls: int, folder: Path) -> Cost:
    config = campaign(calls)
    start, used = time.perf_counter(), time.process_time()
    STEPS[step](folder, config)
    return Cost(time.perf_counter() - start, time.process_time() - used, peak())


def peak() -> float:
    """Return the peak resident memory of this process in MB.

    Not `getrusage`: its peak of a child begins with that of the process that started it.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def memory() -> Table:
    """Return peaks of two campaigns, and what their difference says of a million calls."""
    small, large = measure(SMALL), measure(LARGE)
    rows = []
    for step in STEPS:
        growth = (large[step].peak - small[step].peak) / (LARGE - SMALL)
        whole = large[step].peak + max(0.0, growth) * (WHOLE - LARGE)
        peaks = (f"{small[step].peak:.0f}", f"{large[step].peak:.0f}", f"{100_000 * growth:+.0f}")
        rows.append((step, *peaks, f"{whole / 1024:.2f}"))
    columns = ("step", f"MB, {SMALL:,} calls", f"MB, {LARGE:,} calls", "MB per 100,000 calls", "GB, a million calls")
    note = (
        "The last column is extrapolated along a straight line, which overstates `build`: it holds up to "
        f"10,000 rows of each file, and at these sizes its files are still filling up. `--calls {WHOLE}` measures it."
    )
    return Table("Peak memory of a campaign, scripted engine included", columns, tuple(rows), note)


def whole(calls: int, place: Path | None) -> Table:
    """Return what every step of one campaign took."""
    rows = tuple(
        (
            step,
            f"{cost.seconds:,.0f}",
            f"{cost.processor:,.0f}",
            f"{calls / cost.seconds:,.0f}",
            f"{cost.peak / 1024:.2f}",
        )
        for step, cost in measure(calls, place).items()
    )
    columns = ("step", "seconds", "of a processor", "calls/s", "peak GB")
    return Table(f"A campaign of {calls:,} calls, scripted engine included", columns, rows)


def main() -> None:
    """Print a table, or as a child process what one step took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, help="run one campaign of at least so many calls")
    parser.add_argument("--place", type=Path, help="where the temporary folder goes; a million calls need 1 GB")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        cost = _step(asked.step, asked.calls, asked.place)
        print(json.dumps(asdict(cost)))
    else:
        Console(width=120).print((whole(asked.calls, asked.place) if asked.calls else memory()).to_rich())


if __name__ == "__main__":
    main()
