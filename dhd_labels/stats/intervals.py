"""Intervals of rates, means and ratios, with the problem as the unit.

`wilson` is for a rate of independent trials. Messages of one problem are not independent, so everything that is pooled
over messages gets a bootstrap that resamples whole problems (`cluster_bootstrap`), or problems and then the blocks
within each drawn problem (`block_bootstrap`). Where benchmarks are pooled, problems are resampled within each
(`strata`), since the benchmarks are fixed and not a sample of benchmarks.

Estimand: a ratio of sums, sum of numerators / sum of denominators over clusters. A mean is the ratio with the number
of rows as denominator; a share or a flip rate has its own. Intervals are percentile intervals of 10,000
resamples. A number that cannot be computed is None with a reason: no denominator, one problem, no variation.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dhd_labels.stats.arrays import FloatArray, IntArray

N_RESAMPLES = 10_000
LEVEL = 0.95
_CHUNK = 200_000  # random numbers held at once
_FEW_KINDS = 3  # clusters a kind from which counting kinds is faster than drawing clusters


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its interval.

    Attributes:
        value: the ratio; None when its denominator is 0.
        low: lower end; None where there is no interval.
        high: upper end; None where there is no interval.
        n: clusters with a denominator other than 0.
        undefined: resamples in which the denominator was 0; they are left out of the interval.
        reason: why a number is missing; None when none is.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    undefined: int = 0
    reason: str | None = None


def wilson(successes: npt.ArrayLike, trials: npt.ArrayLike, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
    """Return the Wilson score interval of a rate, elementwise; NaN where there are no trials.

    Source: Wilson (1927), without continuity correction. Unit: a trial; the trials must be independent.
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if ((k < 0) | (k > n)).any():
        raise ValueError(f"The successes must be in 0..trials, got {k} of {n}")
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = (k + z2 / 2) / (n + z2)
        half = np.sqrt(z2 * (k * (n - k) / n + z2 / 4)) / (n + z2)
    missing = n == 0
    low = np.where(k == 0, 0.0, centre - half)
    high = np.where(k == n, 1.0, centre + half)
    return np.where(missing, np.nan, low), np.where(missing, np.nan, high)


def cluster_sums(values: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int) -> FloatArray:
    """Sum rows of (n_rows,) or (n_rows, k) within each cluster, to (n_clusters, ...)."""
    rows = np.asarray(values, dtype=np.float64)
    total = np.zeros((n_clusters, *rows.shape[1:]))
    np.add.at(total, np.asarray(cluster, dtype=np.int64), rows)
    return total


def cluster_bootstrap(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    rng: np.random.Generator,
    strata: npt.ArrayLike | None = None,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> list[Estimate]:
    """Return one estimate a column, with its problem-clustered bootstrap interval.

    Args:
        numerator: (n_clusters,) or (n_clusters, k) sums within each cluster (`cluster_sums`).
        denominator: of the same shape; ones give the mean over clusters.
        rng: source of randomness.
        strata: (n_clusters,) benchmark of each cluster; clusters are resampled within it.
        n_resamples: bootstrap samples.
        level: coverage aimed at.
    """
    top, bottom = _columns(numerator), _columns(denominator)
    ratios = resampled_ratios(top, bottom, rng, strata, n_resamples)
    return [_estimate(*columns, level) for columns in zip(top.T, bottom.T, ratios.T, strict=True)]


def resampled_ratios(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    rng: np.random.Generator,
    strata: npt.ArrayLike | None = None,
    n_resamples: int = N_RESAMPLES,
) -> FloatArray:
    """Return (n_resamples, k) ratios of resampled sums; NaN where a denominator is 0.

    All columns share their resamples, so the interval of a difference is that of the difference of two columns
    (`contrast`).
    """
    values = np.concatenate([_columns(numerator), _columns(denominator)], axis=1)
    if not np.isfinite(values).all():
        raise ValueError("The numerators and denominators must be finite, got a missing value: leave its row out")
    groups = np.zeros(len(values), dtype=np.int64) if strata is None else np.asarray(strata)
    totals = np.zeros((n_resamples, values.shape[1]))
    for group in np.unique(groups):
        totals += _resampled_sums(values[groups == group], rng, n_resamples)
    return _ratio(totals)


def contrast(
    numerator: npt.ArrayLike, denominator: npt.ArrayLike, rng: np.random.Generator,
    strata: npt.ArrayLike | None = None, n_resamples: int = N_RESAMPLES, level: float = LEVEL,
) -> Estimate:  # fmt: skip
    """Return the first column's ratio minus the second's, such as the mean value of correct and of wrong messages."""
    top, bottom = _columns(numerator), _columns(denominator)
    if top.shape[1] != 2:
        raise ValueError(f"A contrast must have two columns, got {top.shape[1]}")
    ratios = resampled_ratios(top, bottom, rng, strata, n_resamples)
    both = _ratio(np.concatenate([top.sum(axis=0), bottom.sum(axis=0)])[None])[0]
    counted = int((bottom != 0).any(axis=1).sum())
    return _with_interval(float(both[0] - both[1]), ratios[:, 0] - ratios[:, 1], counted, level)


def block_bootstrap(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    cluster: npt.ArrayLike,
    rng: np.random.Generator,
    strata: npt.ArrayLike | None = None,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> Estimate:
    """Return a ratio with its problem-then-block bootstrap interval: problems are drawn, then blocks within each.

    Each drawn problem draws as many blocks as it has, anew each time it is drawn. The interval is wider than that of
    `cluster_bootstrap`, by the noise of blocks, which the problems' own spread already has in it: use it as the
    cautious one.

    Args:
        numerator: (n_blocks,) one a block.
        denominator: (n_blocks,) one a block.
        cluster: (n_blocks,) problem of each block.
        rng: source of randomness.
        strata: (n_blocks,) benchmark of each block; the same for all blocks of a problem.
        n_resamples: bootstrap samples.
        level: coverage aimed at.
    """
    order = np.argsort(np.asarray(cluster), kind="stable")
    values = np.column_stack([np.asarray(a, dtype=np.float64)[order] for a in (numerator, denominator)])
    groups = np.zeros(len(order), dtype=np.int64) if strata is None else np.asarray(strata)[order]
    _, start, sizes = np.unique(np.asarray(cluster)[order], return_index=True, return_counts=True)
    totals = np.zeros((n_resamples, 2))
    for group in np.unique(groups):
        inside = groups[start] == group
        totals += _resampled_blocks(values, start[inside], sizes[inside], rng, n_resamples)
    by_problem = np.add.reduceat(values, start, axis=0) if len(start) else values
    return _estimate(by_problem[:, 0], by_problem[:, 1], _ratio(totals)[:, 0], level)


def _columns(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _ratio(totals: FloatArray) -> FloatArray:
    """Divide the first half of the columns by the second."""
    top, bottom = np.split(totals, 2, axis=1)
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0))


def _resampled_sums(values: FloatArray, rng: np.random.Generator, n_resamples: int) -> FloatArray:
    """Return (n_resamples, k) sums over n clusters drawn with replacement from (n, k).

    Where clusters come in few kinds (small counts mostly do), how often each kind is drawn is multinomial: the
    same distribution for less.
    """
    n = len(values)
    kinds, times = np.unique(values, axis=0, return_counts=True)
    if len(kinds) * _FEW_KINDS <= n:
        step = max(1, _CHUNK // len(kinds))
        sizes = [min(step, n_resamples - done) for done in range(0, n_resamples, step)]
        return np.concatenate([rng.multinomial(n, times / n, size=size) @ kinds for size in sizes])
    step = max(1, _CHUNK // n)
    sums = np.empty((n_resamples, values.shape[1]))
    for done in range(0, n_resamples, step):
        size = min(step, n_resamples - done)
        drawn = rng.integers(0, n, size=(size, n), dtype=np.int32) + (np.arange(size, dtype=np.int32) * n)[:, None]
        sums[done : done + size] = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n) @ values
    return sums


def _resampled_blocks(
    values: FloatArray, start: IntArray, sizes: IntArray, rng: np.random.Generator, n_resamples: int
) -> FloatArray:
    """Return (n_resamples, 2) sums over problems drawn with replacement and blocks drawn within each."""
    n, fewest, most = len(start), int(sizes.min()), int(sizes.max())
    both = values[:, 0] + 1j * values[:, 1]  # one look-up for numerator and denominator
    step = max(1, _CHUNK // n)
    sums = np.zeros(n_resamples, dtype=np.complex128)
    for done in range(0, n_resamples, step):
        problem = rng.integers(0, n, size=(min(step, n_resamples - done), n), dtype=np.int32)
        first, size = start[problem], sizes[problem]
        for turn in range(most):
            block = first + (rng.random(problem.shape) * size).astype(np.int64)
            drawn = both[block] if turn < fewest else np.where(turn < size, both[block], 0)
            sums[done : done + len(problem)] += drawn.sum(axis=1)
    return np.column_stack([sums.real, sums.imag])


def _estimate(top: FloatArray, bottom: FloatArray, ratios: FloatArray, level: float) -> Estimate:
    counted = int((bottom != 0).sum())
    if bottom.sum() == 0:
        return Estimate(None, None, None, counted, reason="nothing to divide by")
    return _with_interval(float(top.sum() / bottom.sum()), ratios, counted, level)


def _with_interval(value: float, ratios: FloatArray, counted: int, level: float) -> Estimate:
    """Return the percentile interval, or why there is none."""
    known = ratios[np.isfinite(ratios)]
    undefined = len(ratios) - len(known)
    if not np.isfinite(value):
        return Estimate(None, None, None, counted, undefined, "nothing to divide by")
    if counted < 2:
        return Estimate(value, None, None, counted, undefined, "one problem has no spread")
    tail = (1 - level) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    if np.ptp(known) <= 1e-12 * max(1.0, abs(value)):
        return Estimate(value, None, None, counted, undefined, "no variation between problems")
    return Estimate(value, float(low), float(high), counted, undefined)
