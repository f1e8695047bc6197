"""What selectors attain in the simulated worlds, on problems never seen, over seeds.

    python -m tests.bench selectors_worlds
    python -m tests.bench.selectors_worlds --seeds 6 reasoning mixed
    python -m tests.bench.selectors_worlds --seeds 20 --selectors lgbm,learned-correct correctness

Gains over keep-all in points. `true` scores the same decisions by the true success probabilities of the simulator,
which has a fifth of the noise of the draws; selectors and thresholds see draws only.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from dhd_labels.dataset.load import load_frame
from dhd_labels.report.table import Table
from dhd_labels.simulate import Plan, scenario, simulate_dataset
from dhd_selectors import load_selector
from dhd_selectors.actions import FULL
from dhd_selectors.base import FloatArray, uses_text
from dhd_selectors.policy import load_policy
from training.crossfit import Decisions, cross_fit
from training.data import load_data, main_groups
from training.estimands import make_folds
from training.gain import interval

SPLITS = ("train", "validation", "test")
SELECTORS = ("lgbm", "logistic", "learned-correct", "oracle-correct", "random")
COMPARED = "learned-correct"


@dataclass(frozen=True, slots=True)
class Run:
    """One selector on one data set: gains over keep-all, and whether the interval over `COMPARED` is above 0."""

    drawn: float
    true: float
    ceiling: float
    above: bool


def selectors_worlds(
    scenarios: Sequence[str] = ("reasoning",),
    seeds: int = 2,
    selectors: Sequence[str] = SELECTORS,
    problems: int = 2000,
) -> Table:
    """Return one row for each scenario and selector, means over seeds 1, 2, ... with their standard error."""
    rows = []
    for name in scenarios:
        runs: dict[str, list[Run]] = {selector: [] for selector in selectors}
        for seed in range(1, seeds + 1):
            for selector, run in _world(name, seed, selectors, problems).items():
                runs[selector].append(run)
                print(
                    f"{name} {seed} {selector}: drawn {run.drawn:.2f}, true {run.true:.2f}", file=sys.stderr, flush=True
                )
        rows += [(name, selector, *_cells(found)) for selector, found in runs.items()]
    columns = ("scenario", "selector", "drawn", "true", "share of the text's ceiling", f"above {COMPARED}")
    return Table(
        f"{problems} problems, 5 blocks, unseen-problem, remove-worst, {seeds} seeds: mean (SE)", columns, tuple(rows)
    )


def _world(name: str, seed: int, selectors: Sequence[str], problems: int) -> dict[str, Run]:
    with tempfile.TemporaryDirectory() as folder:
        simulate_dataset(Plan(scenario(name), problems, 5, seed=seed), Path(folder, "data"))
        labels = str(Path(folder, "data"))
        data = load_data(labels, SPLITS, texts=any(uses_text(load_selector(s)) for s in selectors))
        rows = main_groups(load_frame(labels, "messages", SPLITS))
        expected = json.loads(Path(labels, "simulation.json").read_text())["expected"]["attainable_from_text"]
    value = rows["true_value"].to_numpy(dtype=np.float64)[data.rows]
    folds = make_folds(data, "unseen-problem", seed).folds
    made: dict[str, Decisions] = {
        s: cross_fit(load_selector(s, random_state=seed, n_jobs=1), load_policy("remove-worst"), data, folds, seed=seed)
        for s in selectors
    }
    drawn = {s: _drawn(decisions) for s, decisions in made.items()}
    runs = {}
    for s, decisions in made.items():
        above = s != COMPARED in drawn and _above(drawn[s] - drawn[COMPARED], seed)
        runs[s] = Run(100 * float(drawn[s].mean()), 100 * _true(decisions, value), expected, above)
    return runs


def _drawn(decisions: Decisions) -> FloatArray:
    """Return (n_pools,) by number of the pool: success of what is shown minus that of the full pool."""
    each = np.arange(len(decisions.pool))
    gain: FloatArray = decisions.success[each, decisions.action] - decisions.success[each, FULL]
    return gain[np.argsort(decisions.pool)]


def _above(differences: FloatArray, seed: int) -> bool:
    low, _ = interval(differences, np.ones_like(differences), np.random.default_rng(seed))
    return low is not None and low > 0


def _true(decisions: Decisions, value: FloatArray) -> float:
    """Return the mean true gain; removing a message gains what it is worth, negated."""
    removed = np.array([-value[pool, slot] for pool, action in zip(decisions.pool, decisions.action, strict=True)
                        for slot in range(value.shape[1]) if not action >> slot & 1])  # fmt: skip
    return float(removed.sum() / len(decisions.pool))


def _cells(runs: Sequence[Run]) -> tuple[str, ...]:
    share = [run.true / run.ceiling for run in runs] if runs[0].ceiling else [float("nan")]
    columns = ([run.drawn for run in runs], [run.true for run in runs], [100 * s for s in share])
    return (*(_mean(values) for values in columns), f"{sum(run.above for run in runs)} of {len(runs)}")


def _mean(values: Sequence[float]) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):.2f} ({error:.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", default=["reasoning"])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--selectors", default=",".join(SELECTORS))
    chosen = parser.parse_args()
    table = selectors_worlds(chosen.scenarios, chosen.seeds, chosen.selectors.split(","), chosen.problems)
    Console(width=140).print(table.to_rich())
