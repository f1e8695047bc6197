"""How often the interval of a cross-fitted gain misses: where no message matters, and where the true gain is known."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context

import numpy as np

from dhd_labels.simulate.worlds import scenario
from dhd_selectors.actions import FULL
from dhd_selectors.base import needs_labels
from dhd_selectors.policy import load_policy
from dhd_selectors.registry import load_selector
from tests.bench.calibration.cheap import Cheap, cheap_world
from tests.bench.calibration.checks import Check, mean_check, rate_check
from training.compare import Comparison
from training.crossfit import Decisions, decide
from training.estimands import Fold, make_folds
from training.gain import POINTS, Gain
from training.placebos import placebos
from training.references import Reference, Study, chosen, success_of_other

BLOCKS, MISSES, ESTIMAND = 5, 0.05, "unseen-problem"
NULL_PROBLEMS, EFFECT_PROBLEMS, POPULATION = 60, 200, 4_000
RULES = ("random", "drop-wrong", "oracle-correct", "consensus", "confidence")
"""Selectors that learn nothing."""
LEARNERS = ("learned-correct", "logistic", "lgbm")
LEARNED = "learned-correct"
WITH_PLACEBOS = ("lgbm",)
_WORTH_PROCESSES, _ENOUGH_FOR_A_MEAN = 8, 15


@dataclass(frozen=True, slots=True)
class Found:
    """A gain of one data set, and what it is in truth, in points."""

    gain: Gain
    true: float


Rows = dict[str, Found]


def null_gains(seed: int) -> Rows:
    """Return every gain of one data set in which no message matters; the truth is 0."""
    study = _study(cheap_world(scenario("null"), NULL_PROBLEMS, BLOCKS, 70_000 + seed))
    rows: Rows = {}
    made = {name: _decided(study, name) for name in (*RULES, *LEARNERS)}
    for name, (decisions, learned) in made.items():
        rows[f"{name} over keep-all"] = Found(_gain(study, decisions, None, learned), 0.0)
    for name in ("logistic", "lgbm"):
        rows[f"{name} over {LEARNED}"] = Found(_gain(study, made[name][0], made[LEARNED][0], True), 0.0)
    for name in WITH_PLACEBOS:
        for placebo in placebos(study, load_selector(name, random_state=0, n_jobs=1)):
            assert placebo.decisions is not None
            rows[f"placebo {placebo.name} of {name}"] = Found(_gain(study, placebo.decisions, None, True), 0.0)
    return rows


def effect_gains(seed: int) -> Rows:
    """Return the gains of learners in `reasoning`, against the true gain of what they fitted, on other problems."""
    study = _study(cheap_world(scenario("reasoning"), EFFECT_PROBLEMS, BLOCKS, 80_000 + seed))
    rows: Rows = {}
    for name in LEARNERS:
        decisions, _ = _decided(study, name)
        rows[f"{name} over keep-all"] = Found(_gain(study, decisions, None, True), _true_gain(study, decisions))
    return rows


def misses(data_sets: int) -> Iterator[Check]:
    """Check misses of 0, P(p <= 0.05) and bias where nothing matters, then misses of the true gain and bias."""
    for where, worker, n in (("null", null_gains, NULL_PROBLEMS), ("reasoning", effect_gains, EFFECT_PROBLEMS)):
        made = _each(worker, data_sets if where == "null" else max(2, data_sets // 4))
        for what in made[0]:
            yield from _checks(what, f"{where}, {n} problems", [rows[what] for rows in made], null=where == "null")


def _checks(what: str, where: str, found: list[Found], *, null: bool) -> Iterator[Check]:
    missed = np.array([not _covers(row) for row in found])
    yield rate_check(f"misses, {what}", where, missed, "at most", MISSES, "data sets")
    if null:
        rejected = np.array([row.gain.p_value is not None and row.gain.p_value <= MISSES for row in found])
        yield rate_check(f"P(p <= {MISSES}), {what}", where, rejected, "at most", MISSES, "data sets")
    errors = np.array([(row.gain.gain or 0.0) - row.true for row in found])
    if len(found) >= _ENOUGH_FOR_A_MEAN:
        yield mean_check(f"bias, {what}, points", where, errors, "equal to", 0.0)


def _covers(row: Found) -> bool:
    low, high = row.gain.ci_low, row.gain.ci_high
    return low is not None and high is not None and low <= row.true <= high


def _study(world: Cheap) -> Study:
    return Study(load_policy("remove-worst"), world.data, [make_folds(world.data, ESTIMAND, 0)], 0)


def _decided(study: Study, name: str) -> tuple[Decisions, bool]:
    selector = load_selector(name, random_state=0, n_jobs=1)
    return study.decide(selector), needs_labels(selector)


def _gain(study: Study, decisions: Decisions, other: Decisions | None, learned: bool) -> Gain:
    success = decisions.success[:, FULL] if other is None else success_of_other(study, decisions, other)
    return Comparison(study, decisions, ESTIMAND, learned).gain(Reference("", success, False), 0, {})


def _true_gain(study: Study, decisions: Decisions) -> float:
    """Return the mean over folds of what the fitted selectors gain in a large population, by true success rates."""
    world = _population()
    everything = np.arange(world.data.n_pools)
    fold = study.splits[0].folds[0]
    gains = []
    for fitted in decisions.fits:
        assert fitted is not None
        action = decide(fitted, study.policy, world.data, Fold(everything[:0], everything, fold.learn, fold.judge))
        gains.append(float((chosen(world.truth, action) - world.truth[:, FULL]).mean()))
    return POINTS * float(np.mean(gains))


@cache
def _population() -> Cheap:
    return cheap_world(scenario("reasoning"), POPULATION, 1, 99)


def _each(worker: Callable[[int], Rows], data_sets: int) -> list[Rows]:
    if data_sets < _WORTH_PROCESSES:
        return [worker(seed) for seed in range(data_sets)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        return list(pool.map(worker, range(data_sets), chunksize=2))
