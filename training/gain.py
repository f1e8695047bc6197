"""The gain of a policy over a reference, with the problem as the unit.

Estimand: mean over held-out problems of (success of the chosen arm - success of the reference policy's arm),
paired. Success of an arm in a pool is its mean over the recorded draws, by the accuracy rule of protocol.md
(`no_answer` is incorrect, other ungraded outcomes are missing). Pools are averaged within their problem, then
problems are averaged. A pool whose chosen or reference arm has no usable draw leaves that comparison and is
counted.

The interval is the percentile bootstrap over problems; the p-value flips the sign of each problem's
difference. Both are conditional on the fitted selectors: they hold the noise of new problems, not that of
refitting. Cross-fitting couples the folds (each fold's outcomes help decide for the others), which they ignore:
the gain stays unbiased, but where nothing can be learned they are somewhat too sure of themselves. Measured with
least squares on four features in worlds where no message matters, 60 problems, 300 worlds: the interval covers 0
in 90 % (tuned threshold) and 87 % (pinned), p <= 0.05 in 8 %; with decisions fixed beforehand 93 % and 2 %. A
single fit judged on the test split (`--test`) does not have this defect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dhd_selectors.actions import ALONE, FULL
from dhd_selectors.base import FloatArray, IntArray, predict_values
from dhd_selectors.baselines import DropWrong
from dhd_selectors.policy import RemoveWorst
from training.crossfit import Decisions
from training.data import LabelData

POINTS = 100.0
N_RESAMPLES = 10_000
N_FLIPS = 10_000
EXACT_UP_TO = 14
"""Most non-zero problems for which all sign flips are enumerated (2**14 of them)."""
_CHUNK = 4_000_000  # random numbers held at once
_TIE = 1e-12  # relative: sums that are equal on paper must count as ties

REFERENCES = ("keep-all", "drop-wrong", "alone")
PRIVILEGED_REFERENCES = frozenset({"drop-wrong"})
"""References that know the verdicts; tables mark them."""


@dataclass(frozen=True, slots=True)
class Gain:
    """A gain and its interval in points (fractions x 100), and its p-value; None where not computable."""

    reference: str
    gain: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    n_problems: int


@dataclass(frozen=True, slots=True)
class Differences:
    """Per-problem differences of success as fractions, (n_problems,), and the pools left out by reason."""

    values: FloatArray
    excluded: dict[str, int]


def reference_actions(name: str, data: LabelData) -> IntArray:
    """Return (n_pools,) the actions of a reference: `keep-all`, `drop-wrong` (privileged) or `alone`."""
    if name == "keep-all":
        return np.full(data.n_pools, FULL, dtype=np.int64)
    if name == "alone":
        return np.full(data.n_pools, ALONE, dtype=np.int64)
    rule = DropWrong()
    values = predict_values(rule, data.X, data.labels)
    return RemoveWorst().choose(data.pool, data.slot, values, data.recorded, (0.0,))


def paired_differences(data: LabelData, decisions: Decisions, reference: str) -> Differences:
    """Return success of the chosen arm minus success of the reference's arm, averaged within each problem.

    Args:
        data: the pools.
        decisions: what was chosen, with the success of every action.
        reference: one of `REFERENCES`.
    """
    row = np.arange(len(decisions.pool))
    chosen = decisions.success[row, decisions.action]
    other = decisions.success[row, reference_actions(reference, data)[decisions.pool]]
    lost_chosen = np.isnan(chosen)
    lost_other = np.isnan(other) & ~lost_chosen
    kept = ~(lost_chosen | lost_other)
    problem = data.pool_problem.to_numpy()[decisions.pool[kept]]
    by_problem = pd.Series(chosen[kept] - other[kept]).groupby(problem)
    excluded = {
        f"no_outcome_of_chosen_arm:{reference}": int(lost_chosen.sum()),
        f"no_outcome_of_reference_arm:{reference}": int(lost_other.sum()),
    }
    return Differences(
        by_problem.mean().to_numpy().astype(np.float64), {reason: n for reason, n in excluded.items() if n}
    )


def estimate(differences: FloatArray, reference: str, rng: np.random.Generator) -> Gain:
    """Return the mean of per-problem differences in points, its interval and its p-value.

    One problem has a gain but neither interval nor p-value; none has nothing.
    """
    n = len(differences)
    if n == 0:
        return Gain(reference, None, None, None, None, 0)
    gain = float(differences.mean()) * POINTS + 0.0  # no negative zero
    if n == 1:
        return Gain(reference, gain, None, None, None, 1)
    low, high = bootstrap_interval(differences, rng)
    return Gain(reference, gain, low * POINTS, high * POINTS, sign_flip_p(differences, rng), n)


def bootstrap_interval(
    values: FloatArray, rng: np.random.Generator, n_resamples: int = N_RESAMPLES, level: float = 0.95
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean, resampling problems with replacement.

    Args:
        values: (n_problems,) one difference a problem; the clusters are already averaged.
        rng: source of randomness.
        n_resamples: number of bootstrap samples.
        level: coverage aimed at.
    """
    n = len(values)
    step = max(1, _CHUNK // n)
    sizes = [min(step, n_resamples - done) for done in range(0, n_resamples, step)]
    means = np.concatenate([values[rng.integers(0, n, size=(size, n))].mean(axis=1) for size in sizes])
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)


def sign_flip_p(values: FloatArray, rng: np.random.Generator, n_flips: int = N_FLIPS) -> float:
    """Return the two-sided p-value of a zero mean when each problem's difference is symmetric about 0.

    Exact (all 2**m flips of the m non-zero values) up to `EXACT_UP_TO`; otherwise Monte Carlo with the
    add-one rule, so it is never 0. Without a non-zero value it is 1.
    """
    moving = values[values != 0.0]
    m = len(moving)
    if m == 0:
        return 1.0
    observed = abs(float(moving.sum())) - _TIE * float(np.abs(moving).sum())
    if m <= EXACT_UP_TO:
        signs = 1.0 - 2.0 * ((np.arange(2**m)[:, None] >> np.arange(m)) & 1)
        return float((np.abs(signs @ moving) >= observed).mean())
    step = max(1, _CHUNK // m)
    hits = 0
    for done in range(0, n_flips, step):
        flips = rng.integers(0, 2, size=(min(step, n_flips - done), m), dtype=np.int8)
        hits += int((np.abs((1.0 - 2.0 * flips) @ moving) >= observed).sum())
    return (hits + 1) / (n_flips + 1)
