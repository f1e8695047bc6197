"""One decision of a saved `lgbm` rule on one core, features included, against the bare LightGBM prediction."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dhd_labels.dataset.load import load_frame
from dhd_labels.report.table import Table
from dhd_labels.simulate import Plan, scenario, simulate_dataset
from dhd_selectors import Selector, load_selector
from dhd_selectors.features import pool_features
from dhd_selectors.saving import DecisionRule
from dhd_selectors.saving.pool import read_pool
from training.data import load_data

PROBLEMS = 400
TIMES = 400


def keep() -> Table:
    """Decide for pools of the test split again and again, from dictionaries and from rows of a frame."""
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "labels")
        simulate_dataset(Plan(scenario("reasoning"), PROBLEMS, 5, 1), labels)
        data = load_data(str(labels), ("train", "validation"))
        fitted = load_selector("lgbm", random_state=0, n_jobs=1).fit(data.X, data.y)
        DecisionRule("lgbm", fitted, "remove-worst", (0.0,)).save_pretrained(Path(folder, "rule"))
        rule = Selector.from_pretrained(Path(folder, "rule"))
        problems = load_frame(labels, "problems", ("test",)).to_dict("records")
        messages = dict(iter(load_frame(labels, "messages", ("test",)).groupby("problem_id")))
    frames = [(problem, messages[problem["problem_id"]]) for problem in problems if problem["problem_id"] in messages]
    records = [(problem, rows.to_dict("records")) for problem, rows in frames]
    matrices = [pool_features(read_pool(*pool)) for pool in records]
    os.sched_setaffinity(0, {min(cores)})
    try:
        took = {
            "keep(problem, dictionaries)": _milliseconds(rule.keep, records),
            "keep(problem, rows of a frame)": _milliseconds(rule.keep, frames),
            "reading and features alone": _milliseconds(lambda *pool: pool_features(read_pool(*pool)), records),
        }
        booster = rule.selector.booster_  # type: ignore[attr-defined]
        arrays = [(matrix.to_numpy(),) for matrix in matrices]
        bare = _milliseconds(lambda matrix: booster.predict(matrix, num_threads=1), arrays)
    finally:
        os.sched_setaffinity(0, cores)
    rows = (*took.items(), ("bare LightGBM prediction of the same five rows", bare))
    return Table(
        f"One decision of lgbm on one core (median of {TIMES})",
        ("what", "ms a pool", "ratio to bare LightGBM"),
        tuple((what, f"{ms:.2f}", f"{ms / bare:.1f}") for what, ms in rows),
    )


def _milliseconds(work: Callable[..., object], pools: list[tuple[object, ...]]) -> float:
    times = []
    for number in range(TIMES):
        start = time.perf_counter()
        work(*pools[number % len(pools)])
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e3
