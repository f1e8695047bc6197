"""Problem-clustered bootstrap of any statistic of per-problem sums, at a cost that does not grow with the problems.

Problems with equal sums are interchangeable, so a resample of P problems is a multinomial draw of how often each
distinct row of sums comes: the very distribution of drawing problems one by one with replacement, at the price of the
few distinct rows. Pooled benchmarks are resampled one by one, each with as many problems as it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dhd_labels.stats.frames import FloatArray, IntArray

RESAMPLES = 10_000
LEVEL = 0.95
_CELLS = 20_000_000
"""Drawn counts held at once."""
Statistic = Callable[[FloatArray], FloatArray]
"""From (n_resamples, n_sums) totals to (n_resamples,) values; NaN where the statistic does not exist."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with its 95 % percentile interval; NaN where it does not exist. `n` counts the problems behind it."""

    value: float
    low: float
    high: float
    n: int


def ratio(totals: FloatArray) -> FloatArray:
    """Return first total over second; NaN where the second is 0."""
    return np.divide(totals[:, 0], totals[:, 1], out=np.full(len(totals), np.nan), where=totals[:, 1] > 0)


def ratio_difference(totals: FloatArray) -> FloatArray:
    """Return first over second minus third over fourth total."""
    return ratio(totals[:, :2]) - ratio(totals[:, 2:])


def cluster_estimate(
    sums: Sequence[FloatArray],
    problem: IntArray,
    stratum: IntArray,
    statistic: Statistic = ratio,
    *,
    seed: int = 0,
) -> Estimate:
    """Return a statistic and its interval from resampled problems.

    Problems that contribute nothing to any sum are no part of the sample that is resampled. One problem has a value
    and no interval.

    Args:
        sums: each (n,), what a unit adds to each total; for a mean: success and 1, both 0 where missing.
        problem: (n,) problem of each unit.
        stratum: (n,) benchmark of each unit.
        statistic: from totals to the estimate.
        seed: seed of the resampling; equal data gives equal intervals.
    """
    table, strata = _per_problem(np.column_stack(sums), problem, stratum)
    counted = table.any(axis=1)
    table, strata = table[counted], strata[counted]
    if not len(table):
        return Estimate(np.nan, np.nan, np.nan, 0)
    value = float(statistic(table.sum(axis=0, keepdims=True))[0])
    if len(table) == 1 or np.isnan(value):
        return Estimate(value, np.nan, np.nan, len(table))
    drawn = statistic(_resampled_totals(table, strata, np.random.default_rng(seed)))
    tail = (1 - LEVEL) / 2
    low, high = np.nanquantile(drawn, [tail, 1 - tail]) if np.isfinite(drawn).any() else (np.nan, np.nan)
    return Estimate(value, float(low), float(high), len(table))


def _per_problem(table: FloatArray, problem: IntArray, stratum: IntArray) -> tuple[FloatArray, IntArray]:
    summed = np.column_stack([np.bincount(problem, weights=column) for column in table.T])
    strata = np.zeros(len(summed), dtype=np.int64)
    strata[problem] = stratum
    return summed, strata


def _resampled_totals(table: FloatArray, strata: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return (RESAMPLES, n_sums) totals of resampled problems."""
    totals = np.zeros((RESAMPLES, table.shape[1]))
    for stratum in np.unique(strata):
        rows, counts = _distinct(table[strata == stratum])
        share = counts / counts.sum()
        step = max(1, _CELLS // len(rows))
        for start in range(0, RESAMPLES, step):
            size = min(step, RESAMPLES - start)
            totals[start : start + size] += rng.multinomial(counts.sum(), share, size) @ rows
    return totals


def _distinct(table: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the distinct rows, sorted, and how often each comes."""
    code = np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        values, place = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + place, return_inverse=True)[1]
    _, first, counts = np.unique(code, return_index=True, return_counts=True)
    return table[first], counts
