"""Benchmarks, each as a ratio to a named alternative in the same run: `make bench`, `python -m tests.bench NAME`."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from dhd_labels.config import load_config
from dhd_labels.replay.run import run
from dhd_labels.report.table import Table
from tests.bench.exact import bootstrap, exact
from tests.bench.grading import hostile, speed
from tests.bench.keep import keep
from tests.bench.memory import memory
from tests.bench.outside import outside
from tests.bench.plan import planning
from tests.bench.ray_rows import ray_rows
from tests.bench.screened import effects, null, screened
from tests.bench.selectors import selectors
from tests.bench.selectors_worlds import selectors_worlds
from tests.bench.slots import slots


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_store(path: Path, calls: int, group: int) -> None:
    """The alternative: one durable SQLite commit a group of calls, and nothing else."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE t (a TEXT)")
    for _ in range(calls // group):
        db.execute("BEGIN")
        db.executemany("INSERT INTO t VALUES (?)", [("x" * 200,)] * group)
        db.execute("COMMIT")
    db.close()


def overhead() -> Table:
    """End to end through plan, prompts, scripted engine and store, against the bare commits."""
    config = load_config("oracle")
    with tempfile.TemporaryDirectory() as folder:
        took = seconds(lambda: run(config, Path(folder, "run")))
        again = seconds(lambda: run(config, Path(folder, "run")))
        report = run(config, Path(folder, "run"))
        calls = report.tally.found
        slots = 8
        bare = seconds(lambda: bare_store(Path(folder, "bare.sqlite"), calls, slots))
    rows = (
        ("run, every call made", f"{calls / took:,.0f}", f"{took / bare:.1f}"),
        ("run again, every call in the store", f"{calls / again:,.0f}", f"{again / bare:.1f}"),
        (f"bare SQLite commits, {slots} rows each", f"{calls / bare:,.0f}", "1.0"),
    )
    return Table(f"Overhead with the scripted engine ({calls} calls)", ("what", "calls/s", "time, ratio to bare"), rows)


if __name__ == "__main__":
    machinery = (overhead, outside, slots, memory, planning, ray_rows, speed, hostile, selectors, keep)
    chosen = sys.argv[1:]
    for measure in (*machinery, exact, bootstrap, screened, null, effects, selectors_worlds):
        if not chosen or measure.__name__ in chosen:
            Console(width=120).print(measure().to_rich())
