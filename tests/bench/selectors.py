"""Cross-fitting `lgbm` over many messages, against the LightGBM fits in it.

`python -m tests.bench.selectors --messages 1000000` measures a million, `python -m tests.bench selectors` a tenth.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import lightgbm
import numpy as np
from rich.console import Console

from dhd_labels.records import POOL_SIZE
from dhd_labels.report.table import Table
from dhd_labels.simulate import Plan, scenario, simulate_dataset
from dhd_labels.stats.blocks import Blocks
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.policy import RemoveWorst
from tests.bench.memory import peak as peak_memory
from training import data as training_data
from training.crossfit import cross_fit
from training.data import LabelData, load_data
from training.estimands import make_folds

MESSAGES = 100_000
SOURCE_PROBLEMS = 4_000
"""Pools whose features the fits use; a larger world repeats them, with outcomes of its own."""
SPLITS = ("train", "validation", "test")


class Clock:
    """Adds up the seconds inside a function."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.seconds, self.calls = 0.0, 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it."""
        start = time.perf_counter()
        made = self._work(*arguments, **named)
        self.seconds += time.perf_counter() - start
        self.calls += 1
        return made


def read(labels: Path) -> dict[str, float]:
    """Read a data set and build its features; return what either took."""
    features = Clock(training_data.build_features)
    start = time.perf_counter()
    with mock.patch.object(training_data, "build_features", features):
        data = load_data(str(labels), SPLITS)
    seconds = time.perf_counter() - start
    return {
        "messages": len(data.y),
        "read": seconds - features.seconds,
        "features": features.seconds,
        "peak": peak_memory(),
    }


def enlarged(data: LabelData, n_pools: int, rng: np.random.Generator) -> LabelData:
    """Return so many pools, each of a problem of its own: features of some pool, and outcomes drawn anew."""
    source = rng.integers(data.n_pools, size=n_pools)
    rows = data.rows[source].ravel()
    success = np.clip(data.success[source] + 0.2 * rng.integers(-1, 2, (n_pools, data.success.shape[1])), 0, 1)
    names = np.array([f"p{n:07d}" for n in range(n_pools)], dtype=object)
    return dataclasses.replace(
        data,
        X=data.X.iloc[rows].reset_index(drop=True),
        labels=data.labels.iloc[rows].reset_index(drop=True),
        y=data.y[rows] + 0.1 * rng.integers(-2, 3, len(rows)),
        weight=data.weight[rows],
        slot=data.slot[rows],
        pool=np.repeat(np.arange(n_pools), POOL_SIZE),
        rows=np.arange(n_pools * POOL_SIZE).reshape(n_pools, POOL_SIZE),
        trainable=data.trainable[rows],
        pools=data.pools.iloc[source].reset_index(drop=True).assign(problem_id=names, pool_id=names),
        success=success,
        recorded=data.recorded[source],
        blocks=Blocks(np.zeros((0, 7), np.int8), np.zeros(0, np.int64), np.zeros(0, np.int64), n_pools),
    )


def fit(labels: Path, messages: int, jobs: int) -> dict[str, float]:
    """Cross-fit over so many messages; return what it took, and how much of it LightGBM's own training."""
    data = enlarged(load_data(str(labels), SPLITS), messages // POOL_SIZE, np.random.default_rng(0))
    bare = Clock(lightgbm.train)
    start = time.perf_counter()
    with mock.patch.object(lightgbm, "train", bare):
        folds = make_folds(data, "unseen-problem", 0).folds
        cross_fit(LightGBMSelector(n_jobs=jobs), RemoveWorst(), data, folds, seed=0)
    whole = time.perf_counter() - start
    return {"whole": whole, "bare": bare.seconds, "fits": bare.calls, "columns": data.X.shape[1], "peak": peak_memory()}


def selectors(messages: int = MESSAGES, jobs: int = 1) -> Table:
    """Return what reading, features and five folds of `lgbm` take, each step in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder, "large"), Path(folder, "small")
        simulate_dataset(Plan(scenario("mixed"), messages // POOL_SIZE, 5, seed=1), large)
        simulate_dataset(Plan(scenario("mixed"), SOURCE_PROBLEMS, 5, seed=1), small)
        seen = _in_a_process("--read", large)
        made = _in_a_process("--fit", small, "--messages", str(messages), "--jobs", str(jobs))
    ratio, peak = made["whole"] / made["bare"], made["peak"] / 1024
    rows = (
        ("read", f"{seen['read']:.0f}", "", f"{seen['peak'] / 1024:.2f}"),
        ("features", f"{seen['features']:.0f}", "", f"{seen['peak'] / 1024:.2f}"),
        (f"cross-fit, {made['fits']} fits", f"{made['whole']:.0f}", f"{ratio:.2f}", f"{peak:.2f}"),
        ("LightGBM's own training in it", f"{made['bare']:.0f}", "1.00", ""),
    )
    title = f"`lgbm` on {messages:,} messages, {made['columns']} features, five folds, {jobs} thread(s)"
    note = (
        "Reading and features share a process, the cross-fit has its own; it repeats the features of 20,000 messages."
    )
    return Table(title, ("step", "seconds", "ratio", "peak GB"), rows, note)


def _in_a_process(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.selectors", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    made: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return made


def main() -> None:
    """Print the table, or as a child process what one step took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--jobs", type=int, default=1, help="threads of LightGBM, in both")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.read:
        print(json.dumps(read(asked.read)))
    elif asked.fit:
        print(json.dumps(fit(asked.fit, asked.messages, asked.jobs)))
    else:
        Console(width=120).print(selectors(asked.messages, asked.jobs).to_rich())


if __name__ == "__main__":
    main()
