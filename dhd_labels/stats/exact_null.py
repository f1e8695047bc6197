"""The exact conditional test of one problem: does any of its messages matter?

Statistic: the largest trajectory value, signed by the family, over the tested messages of the pool. Inside, it is the
integer T = max of sum over blocks of (both full draws - 2 x draw without i), and the trajectory value is T / (2 B).

Null `seven`: in each block the seven outcomes are exchangeable. Given the number of successes of each block, all their
arrangements are equally likely, so the distribution of T is counted, not drawn: no seed, no sampling floor, and p is
exactly P(T >= observed). Null `removals`: only the five removal draws are exchangeable, given their number of
successes and both full draws; it does not reject for a pure effect of the pool's size.

How it is counted: the five removal slots are exchangeable, so the joint distribution over blocks needs only the sum
of full draws and the *sorted* removal successes (a few thousand states at five blocks). A block with 0 or 7 successes
adds 0 to every message and is left out. One distribution serves all families: which ranks the tested slots hold
is uniform. Counts are integers held as float64: exact to 2**53, which ten mixed blocks do not reach, and right to
1e-12 beyond; ties are decided by integers alone.

Unit: a pool with one integrator and one order. Source: protocol, controlled repeats, problem-level test.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.arrays import BoolArray, FloatArray, IntArray
from dhd_labels.stats.blocks import DRAWS, Blocks
from dhd_labels.stats.families import RANK_PAIRS, Family, Null, rank_weights, target_slots

_Matrix: TypeAlias = Any  # scipy.sparse has no types
_CACHED_JOINTS = 24  # a path of prefixes; larger joints weigh megabytes
_CACHED_NULLS = 100_000


@dataclass(frozen=True, slots=True)
class NullDistribution:
    """The distribution of T under the null, given the counts of its blocks.

    Attributes:
        values: (n,) attainable T, ascending.
        tail: (n,) P(T >= value), descending from 1.
    """

    values: IntArray
    tail: FloatArray

    @property
    def floor(self) -> float:
        """The smallest p that any data with these counts can reach."""
        return float(self.tail[-1])

    def p_value(self, statistic: int) -> float:
        """Return P(T >= statistic).

        Raises:
            ValueError: no data with these counts has such a statistic.
        """
        place = int(np.searchsorted(self.values, statistic))
        if place == len(self.values) or self.values[place] != statistic:
            raise ValueError(f"The statistic must be one of {self.values.tolist()}, got {statistic}")
        return float(self.tail[place])


@dataclass(frozen=True, slots=True)
class ProblemTests:
    """One family of tests, one test an eligible pool.

    A pool is left out only when it has no tested slot or no complete block; p = 1 stays in.

    Attributes:
        pool: (n,) the pool of each test.
        statistic: (n,) the largest signed trajectory value.
        p: (n,) exact upper tail.
        floor: (n,) the smallest p with the counts of that pool.
        best_floor: (n,) the smallest p with the most favourable counts of as many blocks.
        n_blocks: (n,) complete blocks.
        excluded: pools left out, by reason: `no_target_slot`, `no_complete_block`.
    """

    family: Family
    null: Null
    pool: IntArray
    statistic: FloatArray
    p: FloatArray
    floor: FloatArray
    best_floor: FloatArray
    n_blocks: IntArray
    excluded: Mapping[str, int]


def problem_tests(blocks: Blocks, proposals: npt.ArrayLike, family: Family, null: Null) -> ProblemTests:
    """Test every pool.

    Args:
        blocks: complete blocks; pools may have different numbers of them, as long as these were decided by counts
            alone (`allocation`).
        proposals: (n_pools, 5) correctness codes of `families`.
        family: which messages, in which direction.
        null: what is exchangeable.
    """
    helpful, harmful = target_slots(proposals, family)
    per_pool = blocks.per_pool
    blockless, targetless = per_pool == 0, ~(helpful | harmful).any(axis=1)
    pool = np.flatnonzero(~blockless & ~targetless)
    statistic = signed_maximum(blocks.pool_sums(blocks.effects), helpful, harmful)[pool]
    keys = np.column_stack(
        [pool_keys(blocks, null)[pool], helpful.sum(axis=1)[pool], harmful.sum(axis=1)[pool], statistic, per_pool[pool]]
    )
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    found = np.array([_evaluate(key, null) for key in unique.tolist()]).reshape(-1, 3)[inverse]
    reasons = {"no_target_slot": targetless & ~blockless, "no_complete_block": blockless}
    excluded = {reason: int(mask.sum()) for reason, mask in reasons.items() if mask.any()}
    value = statistic / (FULL_DRAWS * per_pool[pool])
    return ProblemTests(family, null, pool, value, found[:, 0], found[:, 1], found[:, 2], per_pool[pool], excluded)


def signed_maximum(effects: IntArray, helpful: BoolArray, harmful: BoolArray) -> IntArray:
    """Return (n,) the largest effect over helpful slots or negated effect over harmful slots, from (n, 5) sums."""
    lowest = np.iinfo(np.int64).min // 4
    signed = np.maximum(np.where(helpful, effects, lowest), np.where(harmful, -effects, lowest))
    return np.asarray(signed.max(axis=1), dtype=np.int64)


def pool_keys(blocks: Blocks, null: Null) -> IntArray:
    """Return what each pool's null distribution depends on, one row of integers a pool.

    `seven`: -n blocks with 1 success, -n with 2, ... -n with 6. `removals`: the same for 1 to 4 removal successes, and
    the sum of full draws less what removal draws that all succeeded take away. (Negated, so that sorted rows
    share prefixes.)
    """
    if null == "seven":
        return -_histogram(blocks, blocks.counts, DRAWS)[:, 1:DRAWS]
    removal = blocks.outcomes[:, FULL_DRAWS:].sum(axis=1, dtype=np.int64)
    by_count = _histogram(blocks, removal, POOL_SIZE)
    full = blocks.pool_sums(blocks.outcomes[:, :FULL_DRAWS].sum(axis=1, dtype=np.int64))
    return np.column_stack([-by_count[:, 1:POOL_SIZE], full - FULL_DRAWS * by_count[:, POOL_SIZE]])


def _histogram(blocks: Blocks, value: IntArray, most: int) -> IntArray:
    flat = np.bincount(blocks.pool * (most + 1) + value, minlength=blocks.n_pools * (most + 1))
    return flat.reshape(blocks.n_pools, most + 1).astype(np.int64)


def _evaluate(key: list[int], null: Null) -> tuple[float, float, float]:
    """Return p, floor and best floor of one row of keys."""
    *where, helpful, harmful, statistic, n_blocks = key
    if null == "seven":
        found = seven_null(_repeated(where), helpful, harmful)
    else:
        found = removals_null(_repeated(where[:-1]), where[-1], helpful, harmful)
    return found.p_value(statistic), found.floor, best_floor(n_blocks, helpful, harmful, null)


def _repeated(negated: list[int]) -> tuple[int, ...]:
    return tuple(itertools.chain.from_iterable([count] * -times for count, times in enumerate(negated, 1)))


@lru_cache(maxsize=_CACHED_NULLS)
def seven_null(counts: tuple[int, ...], helpful: int, harmful: int) -> NullDistribution:
    """Return the distribution of T when the seven outcomes of each block are exchangeable.

    Args:
        counts: successes of each block, in any order; give them sorted, since results are kept by this key.
        helpful: tested slots whose helpful effects count.
        harmful: tested slots whose harmful effects count; both are 5 for the family `any`, else they share no slot.
    """
    return _maximum(_seven_maxima(tuple(sorted(count for count in counts if 0 < count < DRAWS))), helpful, harmful)


@lru_cache(maxsize=_CACHED_NULLS)
def removals_null(counts: tuple[int, ...], full: int, helpful: int, harmful: int) -> NullDistribution:
    """Return the distribution of T when the five removal draws of each block are exchangeable.

    Args:
        counts: removal successes of each block, 1 to 4.
        full: the sum of all full draws, less 2 for each block whose removal draws all succeeded.
        helpful: as for `seven_null`.
        harmful: as for `seven_null`.
    """
    return _maximum(_removals_maxima(tuple(sorted(counts)), full), helpful, harmful)


def best_floor(n_blocks: int, helpful: int, harmful: int, null: Null) -> float:
    """Return the smallest p that the most favourable counts of so many blocks can reach.

    `seven`: the minimum over all counts of the chance that some tested slot is as extreme as can be in every
    block; by inclusion and exclusion over slots. `removals`: one removal draw of each block stands apart.

    Five blocks of *six* successes, where one message alone is needed, are less favourable: `seven_null((6,) * 5, 1, 0)`
    has a floor of 6e-5. A p below that needs blocks in which several messages are needed at once.
    """
    if null == "removals":
        fewest = min(side for side in (helpful, harmful) if side)
        return min(1.0, float(fewest) * float(POOL_SIZE) ** -n_blocks)
    return _best_floor_seven(n_blocks, helpful, harmful)


@cache
def _best_floor_seven(n_blocks: int, helpful: int, harmful: int) -> float:
    return float(extreme_chance(_mixed_counts(n_blocks), helpful, harmful).min())


@cache
def _mixed_counts(n_blocks: int) -> IntArray:
    rows = list(itertools.combinations_with_replacement(range(1, DRAWS), n_blocks))
    return np.array(rows, dtype=np.int64).reshape(len(rows), n_blocks)


def extreme_chance(counts: IntArray, helpful: int, harmful: int) -> FloatArray:
    """Return (n,) the chance that T is as large as it can be, given (n, n_blocks) mixed counts.

    The largest T of a helpful slot is 2 a block, and 1 in a block with one success; of a harmful slot, whose
    outcomes are mirrored, 1 in a block with six. The two sides exclude each other, since they need other full draws.
    """
    if not counts.shape[1]:
        return np.ones(len(counts))
    sides = [(slots, given) for slots, given in ((helpful, counts), (harmful, DRAWS - counts)) if slots]
    lost = np.array([(given == 1).sum(axis=1) for _, given in sides])
    chance = np.array([_union(slots, given) for slots, given in sides])
    return np.asarray(np.where(lost == lost.min(axis=0), chance, 0.0).sum(axis=0))


def _union(slots: int, counts: IntArray) -> FloatArray:
    """Return (n,) the chance that one of the slots is at its largest in every block."""
    together = _all_at_largest()[: slots + 1, counts].prod(axis=2)
    signs = [-((-1) ** chosen) * comb(slots, chosen) if chosen else 0 for chosen in range(slots + 1)]
    return np.asarray(np.array(signs) @ together)


@cache
def _all_at_largest() -> FloatArray:
    """Return (6, 7) the chance that so many named slots are all at their largest, in a block with 0 to 6 successes."""
    table = np.zeros((POOL_SIZE + 1, DRAWS))
    for chosen, count in itertools.product(range(POOL_SIZE + 1), range(1, DRAWS)):
        ways = 2 if count == 1 else comb(POOL_SIZE - chosen, count - FULL_DRAWS)
        table[chosen, count] = ways / comb(DRAWS, count)
    return table


def _maximum(maxima: FloatArray, helpful: int, harmful: int) -> NullDistribution:
    """Return the distribution of T for tested slots that are placed anywhere among the five."""
    total = rank_weights(helpful, harmful) @ maxima
    values = np.flatnonzero(total)
    above = np.cumsum(total[values][::-1])[::-1]
    return NullDistribution(values - len(total) // 2, above / above[0])


@lru_cache(maxsize=_CACHED_NULLS)
def _seven_maxima(counts: tuple[int, ...]) -> FloatArray:
    return _maxima(_joint_seven(counts), np.arange(FULL_DRAWS * len(counts) + 1), len(counts))


@lru_cache(maxsize=_CACHED_NULLS)
def _removals_maxima(counts: tuple[int, ...], full: int) -> FloatArray:
    return _maxima(_joint_removals(counts), np.array([full]), len(counts))


def _maxima(joint: FloatArray, full: IntArray, n_blocks: int) -> FloatArray:
    """Return (30, 2 m + 1) arrangements by T, from -m to m, for each of `RANK_PAIRS`.

    Args:
        joint: arrangements by sorted removal successes and sum of full draws.
        full: the sums of full draws that its columns stand for.
        n_blocks: blocks in it.
    """
    state, column = np.nonzero(joint)
    weights = joint[state, column]
    helped = full[column] - FULL_DRAWS * sorted_successes(n_blocks)[state].T
    most = int(np.abs(helped).max())
    no_slot = np.int64(-most)
    found = np.empty((len(RANK_PAIRS), 2 * most + 1))
    for row, (low, high) in zip(found, RANK_PAIRS, strict=True):
        largest = np.maximum(no_slot if low is None else helped[low], no_slot if high is None else -helped[high])
        row[:] = np.bincount(largest + most, weights, minlength=2 * most + 1)
    return found


@lru_cache(maxsize=_CACHED_JOINTS)
def _joint_seven(counts: tuple[int, ...]) -> FloatArray:
    """Return (n_sorted, 2 n + 1) arrangements by sorted removal successes and sum of full draws."""
    if not counts:
        return np.ones((1, 1))
    before, count, n = _joint_seven(counts[:-1]), counts[-1], len(counts) - 1
    after = np.zeros((len(sorted_successes(n + 1)), FULL_DRAWS * len(counts) + 1))
    width = before.shape[1]
    for full in range(FULL_DRAWS + 1):
        if 0 <= count - full <= POOL_SIZE:
            after[:, full : full + width] += comb(FULL_DRAWS, full) * (_one_more_block(n)[count - full] @ before)
    return after


@lru_cache(maxsize=_CACHED_JOINTS)
def _joint_removals(counts: tuple[int, ...]) -> FloatArray:
    """Return (n_sorted, 1) arrangements by sorted removal successes."""
    if not counts:
        return np.ones((1, 1))
    return np.asarray(_one_more_block(len(counts) - 1)[counts[-1]] @ _joint_removals(counts[:-1]))


@cache
def sorted_successes(n_blocks: int) -> IntArray:
    """Return (n, 5) every ascending row of removal successes 0..n_blocks, in lexicographic order."""
    rows = itertools.combinations_with_replacement(range(n_blocks + 1), POOL_SIZE)
    return np.array(list(rows), dtype=np.int64)


@cache
def _one_more_block(n_blocks: int) -> tuple[_Matrix, ...]:
    """Return the sparse matrices that add a block with 0 to 5 removal successes to a column of arrangements."""
    before, after = sorted_successes(n_blocks), sorted_successes(n_blocks + 1)
    digits = (n_blocks + 2) ** np.arange(POOL_SIZE)[::-1]
    added = np.array(list(itertools.product((0, 1), repeat=POOL_SIZE)))
    reached = np.sort(before[:, None, :] + added, axis=2) @ digits
    target, shape = np.searchsorted(after @ digits, reached), (len(after), len(before))
    matrices = []
    for successes in range(POOL_SIZE + 1):
        rows = target[:, added.sum(axis=1) == successes]
        starts = np.arange(len(before) + 1) * rows.shape[1]
        matrices.append(scipy.sparse.csc_array((np.ones(rows.size), rows.ravel(), starts), shape=shape))
    return tuple(matrices)
