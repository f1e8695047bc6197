"""The gain of a policy over a reference, with the problem as the unit.

Estimand: mean over held-out problems of (success of the chosen subset - success of the reference's subset), paired.
Success of a subset in a pool is its mean over the draws that judge, by the accuracy rule of protocol.md (`no_answer`
is incorrect, other ungraded outcomes are missing). Pools and repeated splits are averaged within their problem, then
problems are averaged; under `same-problem` every held-out block counts once. A pool of which either subset has no
usable draw leaves that comparison and is counted.

Interval: problems are resampled, 95 % percentiles, then stretched about the estimate for two reasons: a percentile
interval is too short for few problems (Student's t over the normal quantile, and n over n - 1), and cross-fitted
folds are coupled (square root of `coupling`, 1 where nothing is learned or only one fit decides). p-value: the sign
of every problem's difference is flipped, and the flipped sums are stretched by the same square root. An interval is
never allowed to leave out a 0 that this test does not reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd

from dhd_labels.stats.intervals import resampled_ratios
from dhd_selectors.base import FloatArray

POINTS = 100.0
LEVEL = 0.95
N_RESAMPLES = 10_000
N_FLIPS = 10_000
EXACT_UP_TO = 14
"""Most non-zero problems for which all sign flips are enumerated (2**14 of them)."""
_TIE = 1e-12  # of the sums, and of one difference: sums that are equal on paper must count as ties
_CHUNK = 4_000_000  # random numbers held at once


@dataclass(frozen=True, slots=True)
class Gain:
    """A gain and its interval in points (fractions x 100), and its p-value; None where not computable.

    `p_method` says how the p-value was made, and `coupling` by how much the variance was multiplied for the folds.
    """

    reference: str
    gain: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    n_problems: int
    p_method: str = ""
    coupling: float = 1.0


@dataclass(frozen=True, slots=True)
class Differences:
    """Paired differences of success as fractions, one entry a problem, and the decisions left out by reason.

    `total` is the sum of a problem's differences, and `count` how many of them there are: 1 where they were averaged
    first.
    """

    total: FloatArray
    count: FloatArray
    excluded: dict[str, int]

    @property
    def values(self) -> FloatArray:
        """Return (n_problems,) the mean difference of each problem."""
        return self.total / self.count


def paired(
    chosen: FloatArray, other: FloatArray, problem: pd.Series, reference: str, *, per_decision: bool = False
) -> Differences:
    """Return success of what was chosen minus success of the reference, by problem.

    Args:
        chosen: (n,) success of the chosen subset of each decision, NaN when unknown.
        other: (n,) success of the reference's.
        problem: (n,) problem of each decision.
        reference: name of the reference, for the reasons.
        per_decision: count every decision once, and not every problem.
    """
    lost_chosen = np.isnan(chosen)
    lost_other = np.isnan(other) & ~lost_chosen
    kept = ~(lost_chosen | lost_other)
    difference = chosen[kept] - other[kept]
    difference[np.abs(difference) < _TIE] = 0.0  # means that are equal on paper, such as a mean of six equal ones
    by_problem = pd.Series(difference).groupby(problem.to_numpy()[kept])
    excluded = {
        f"no_outcome_of_chosen_arm:{reference}": int(lost_chosen.sum()),
        f"no_outcome_of_reference_arm:{reference}": int(lost_other.sum()),
    }
    total = by_problem.sum() if per_decision else by_problem.mean()
    count = by_problem.size() if per_decision else total * 0 + 1
    counted = {reason: n for reason, n in excluded.items() if n}
    return Differences(np.asarray(total, dtype=np.float64), np.asarray(count, dtype=np.float64), counted)


def estimate(differences: Differences, reference: str, rng: np.random.Generator, coupling: float = 1.0) -> Gain:
    """Return the mean difference in points, its interval and its p-value.

    One problem has a gain but neither interval nor p-value; none has nothing. Where all problems differ by the same
    amount and that is not 0, there is no spread to make an interval from.

    Args:
        differences: one entry a problem.
        reference: name of the reference.
        rng: source of randomness.
        coupling: variance of the gain over that which independent problems would have (`training.coupling`).
    """
    total, count = differences.total, differences.count
    n = len(total)
    if n == 0:
        return Gain(reference, None, None, None, None, 0)
    gain = float(total.sum() / count.sum()) * POINTS + 0.0  # no negative zero
    if n == 1:
        return Gain(reference, gain, None, None, None, 1)
    p_value, method = sign_flip(total, rng, coupling)
    low, high = interval(total, count, rng, coupling)
    if low is not None and high is not None and p_value > 1 - LEVEL:
        low, high = min(low, 0.0), max(high, 0.0)
    return Gain(reference, gain, _points(low), _points(high), p_value, n, method, coupling)


def interval(
    total: FloatArray,
    count: FloatArray,
    rng: np.random.Generator,
    coupling: float = 1.0,
    n_resamples: int = N_RESAMPLES,
) -> tuple[float | None, float | None]:
    """Return the stretched percentile bootstrap interval of sum(total) / sum(count), resampling problems.

    Args:
        total: (n_problems,) sums within problems, at least two.
        count: (n_problems,) what they are divided by.
        rng: source of randomness.
        coupling: factor of the variance for coupled folds.
        n_resamples: number of bootstrap samples.

    Returns:
        Both ends; [0, 0] where no problem differs at all, and None where all differ alike.
    """
    n = len(total)
    centre = float(total.sum() / count.sum())
    if np.ptp(total / count) <= _TIE:
        return (0.0, 0.0) if not total.any() else (None, None)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(resampled_ratios(total, count, rng, n_resamples=n_resamples), [tail, 1.0 - tail])
    stretch = np.sqrt(coupling) * small_sample(n)
    return float(centre + stretch * (low - centre)), float(centre + stretch * (high - centre))


def small_sample(n: int) -> float:
    """Return by how much a percentile interval over n problems is too short: Student's t over the normal."""
    from scipy.stats import t

    middle = (1.0 + LEVEL) / 2.0
    return float(t.ppf(middle, n - 1) / NormalDist().inv_cdf(middle) * np.sqrt(n / (n - 1)))


def sign_flip(
    values: FloatArray, rng: np.random.Generator, coupling: float = 1.0, n_flips: int = N_FLIPS
) -> tuple[float, str]:
    """Return the two-sided p-value of a zero mean when each problem's difference is symmetric about 0, and its method.

    Problems with a difference of 0 stay in and never change p, as flipping them changes no sum. Exact (all 2**m flips
    of the m others) up to `EXACT_UP_TO`; otherwise that many are drawn, with the add-one rule, so that p is never 0.
    Without any difference p is 1.

    Args:
        values: (n_problems,) one difference a problem.
        rng: source of randomness.
        coupling: factor of the variance for coupled folds; flipped sums are multiplied by its square root.
        n_flips: flips that are drawn where not all are enumerated.
    """
    moving = values[values != 0.0]
    m = len(moving)
    if m == 0:
        return 1.0, "sign flip, no problem differs"
    observed = (abs(float(moving.sum())) - _TIE * float(np.abs(moving).sum())) / np.sqrt(coupling)
    if m <= EXACT_UP_TO:
        signs = 1.0 - 2.0 * ((np.arange(2**m)[:, None] >> np.arange(m)) & 1)
        return float((np.abs(signs @ moving) >= observed).mean()), f"sign flip, exact (2^{m}), zeros kept"
    hits = int((np.abs(_flipped_sums(moving, rng, n_flips)) >= observed).sum())
    return (hits + 1) / (n_flips + 1), f"sign flip, {n_flips} drawn, add-one, zeros kept"


def _flipped_sums(values: FloatArray, rng: np.random.Generator, n_flips: int) -> FloatArray:
    """Return (n_flips,) sums with random signs; equal magnitudes are flipped together, by a binomial count."""
    size, times = np.unique(np.abs(values), return_counts=True)
    step = max(1, _CHUNK // len(size))
    parts = [min(step, n_flips - done) for done in range(0, n_flips, step)]
    sums = [(2.0 * rng.binomial(times, 0.5, size=(part, len(size))) - times) @ size for part in parts]
    return np.concatenate(sums)


def _points(value: float | None) -> float | None:
    return None if value is None else value * POINTS + 0.0
