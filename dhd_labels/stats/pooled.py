"""The pooled test: are there more repeatable effects than noise would make?

Statistic: the number of repeatable messages over all pools; `wrong_helpful` counts wrong messages that are stable
helpful, and so on (`families`, `repeatable`). The paper shuffles 5,000 null data sets and adds one. Here the number in
each pool has an exact distribution given the success counts of its blocks, and pools are independent, so the
distribution of the total is their convolution: p is exact, however small. Where a pool has too many mixed blocks to be
counted, null data sets are drawn instead, seeded, with the add-one p.

Nulls: `seven` and `removals`, as in `exact_null`. Under `removals` the pool's size may matter.
Unit: a pool with one integrator and one order. Source: protocol, controlled repeats, pooled test.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.arrays import BoolArray, FloatArray, IntArray
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.families import Family, Null, target_slots
from dhd_labels.stats.repeatable import (
    HARMFUL,
    HELPFUL,
    INDETERMINATE,
    Law,
    arrangements,
    automaton,
    canonical,
    family_counts,
    law_of,
    stable_counts,
)

N_DRAWS = 5_000
_NEGLIGIBLE = 1e-40  # mass cut from either end of a convolution; p is raised by all of it
_CHUNK = 4_000_000  # letters held at once
Method = Literal["exact", "monte_carlo"]


@dataclass(frozen=True, slots=True)
class PooledTest:
    """The number of repeatable messages against its null.

    Attributes:
        statistic: repeatable messages found.
        expected: their expected number under the null, by the exact part and the mean of draws.
        p: upper tail, never 0.
        draws: null data sets drawn; None where p is exact.
        n_pools: pools with a tested slot and a complete block.
        n_messages: tested (message, direction) slots in them; in `any` each message once.
        excluded: pools left out, by reason.
    """

    family: Family
    null: Null
    statistic: int
    expected: float
    p: float
    method: Method
    draws: int | None
    n_pools: int
    n_messages: int
    excluded: Mapping[str, int]


Key = tuple[tuple[Law, ...], int, int]
"""(laws of the blocks, tested slots of the helpful side, of the harmful side): pools with equal keys are alike."""


def stability_codes(blocks: Blocks) -> IntArray:
    """Return (n_pools, 5) stability codes of `repeatable`; a pool without two complete blocks is indeterminate."""
    codes = np.full((blocks.n_pools, POOL_SIZE), INDETERMINATE, dtype=np.int64)
    per_pool = blocks.per_pool
    order = np.argsort(blocks.pool, kind="stable")
    letters = blocks.effects[order] + FULL_DRAWS
    pools = blocks.pool[order]
    for n_blocks in np.unique(per_pool[per_pool > 0]).tolist():
        chosen = per_pool[pools] == n_blocks
        cube = letters[chosen].reshape(-1, n_blocks, POOL_SIZE).transpose(0, 2, 1)
        codes[pools[chosen][::n_blocks]] = automaton(n_blocks).classify(cube)
    return codes


def pooled_test(
    blocks: Blocks,
    proposals: npt.ArrayLike,
    family: Family,
    null: Null,
    rng: np.random.Generator,
    draws: int = N_DRAWS,
) -> PooledTest:
    """Test the number of repeatable messages over all pools.

    Args:
        blocks: complete blocks.
        proposals: (n_pools, 5) correctness codes of `families`.
        family: which messages, in which direction.
        null: what is exchangeable.
        rng: used only where a pool cannot be counted exactly.
        draws: null data sets drawn then.
    """
    helpful, harmful = target_slots(proposals, family)
    blockless, targetless = blocks.per_pool == 0, ~(helpful | harmful).any(axis=1)
    tested = ~blockless & ~targetless
    reasons = {"no_target_slot": targetless & ~blockless, "no_complete_block": blockless}
    statistic = int(_repeatable(stability_codes(blocks), helpful, harmful)[tested].sum())
    keys = _keys(blocks, helpful, harmful, tested, null)
    exact, lost, left = _convolved(keys)
    if left:
        p, expected = _drawn(exact, left, statistic, rng, draws)
    else:
        p = min(1.0, float(exact[statistic:].sum()) + lost)
        expected = float(exact @ np.arange(len(exact)))
    return PooledTest(
        family, null, statistic, expected, p, "monte_carlo" if left else "exact", draws if left else None,
        int(tested.sum()), int((helpful | harmful)[tested].sum()),
        {reason: int(mask.sum()) for reason, mask in reasons.items() if mask.any()},
    )  # fmt: skip


def _repeatable(codes: IntArray, helpful: BoolArray, harmful: BoolArray) -> IntArray:
    """Return (n_pools,) how many tested slots are stable in a direction that is looked for."""
    counted = (helpful & (codes == HELPFUL)) | (harmful & (codes == HARMFUL))
    return np.asarray(counted.sum(axis=1), dtype=np.int64)


def _keys(blocks: Blocks, helpful: BoolArray, harmful: BoolArray, tested: BoolArray, null: Null) -> Counter[Key]:
    """Count the tested pools by what their null distribution depends on."""
    full = blocks.outcomes[:, :FULL_DRAWS].sum(axis=1, dtype=np.int64)
    known = list(itertools.product(range(FULL_DRAWS + 1), range(POOL_SIZE + 1)))
    code = full * (POOL_SIZE + 1) + blocks.counts - full
    per_law = np.bincount(blocks.pool * len(known) + code, minlength=blocks.n_pools * len(known))
    rows = np.column_stack([per_law.reshape(-1, len(known)), helpful.sum(axis=1), harmful.sum(axis=1)])
    found: Counter[Key] = Counter()
    for row, times in zip(*(a.tolist() for a in np.unique(rows[tested], axis=0, return_counts=True)), strict=True):
        *by_law, one_side, other_side = row
        laws = [law_of(*law, permute_full=null == "seven") for law, count in zip(known, by_law, strict=True)
                for _ in range(count)]  # fmt: skip
        found[canonical(tuple(laws)), one_side, other_side] += times
    return found


def _convolved(keys: Counter[Key]) -> tuple[FloatArray, float, list[tuple[Key, int]]]:
    """Return the distribution of the total over pools that can be counted, the mass cut from it, and the others."""
    parts, lost, left = [np.ones(1)], 0.0, []
    for key, times in sorted(keys.items()):
        laws, helpful, harmful = key
        table = stable_counts(laws)
        if table is None:
            left.append((key, times))
            continue
        one = np.einsum("ud,udn->n", table, family_counts(helpful, harmful))
        parts.append(_power(one[: np.flatnonzero(one)[-1] + 1], times))
    while len(parts) > 1:  # by pairs, so that long ones meet long ones
        merged = [_cut(np.convolve(one, other)) for one, other in zip(parts[::2], parts[1::2], strict=False)]
        lost += sum(cut for _, cut in merged)
        parts = [total for total, _ in merged] + parts[len(merged) * 2 :]
    return parts[0], lost, left


def _power(one: FloatArray, times: int) -> FloatArray:
    """Return the distribution of the sum of so many independent copies, by repeated doubling."""
    total = np.ones(1)
    while times:
        if times & 1:
            total = np.convolve(total, one)
        one, times = np.convolve(one, one) if times > 1 else one, times >> 1
    return total


def _cut(total: FloatArray) -> tuple[FloatArray, float]:
    """Return a distribution without its negligible upper end, and the mass that was there."""
    above = np.cumsum(total[::-1])[::-1]
    kept = max(1, int(np.searchsorted(-above, -_NEGLIGIBLE, side="right")))
    return total[:kept], float(total[kept:].sum())


def _drawn(
    exact: FloatArray, left: list[tuple[Key, int]], statistic: int, rng: np.random.Generator, draws: int
) -> tuple[float, float]:
    """Return the add-one p and the mean of null totals."""
    totals = rng.choice(len(exact), size=draws, p=exact / exact.sum()).astype(np.int64)
    for (laws, helpful, harmful), times in left:
        for _ in range(times):
            totals += simulated_counts(laws, helpful, harmful, draws, rng)
    return float(((totals >= statistic).sum() + 1) / (draws + 1)), float(totals.mean())


def simulated_counts(
    laws: tuple[Law, ...], helpful: int, harmful: int, draws: int, rng: np.random.Generator
) -> IntArray:
    """Return (draws,) numbers of repeatable messages in null arrangements of one pool's blocks."""
    rule, slots = automaton(len(laws)), np.arange(POOL_SIZE)
    one_side = np.broadcast_to(slots < helpful, (1, POOL_SIZE))
    other_side = np.broadcast_to(slots >= POOL_SIZE - harmful, (1, POOL_SIZE))
    step = max(1, _CHUNK // (POOL_SIZE * len(laws)))
    found = []
    for start in range(0, draws, step):
        size = min(step, draws - start)
        letters = np.empty((size, POOL_SIZE, len(laws)), dtype=np.int64)
        for block, law in enumerate(laws):
            rows, ways = arrangements(law)
            letters[:, :, block] = rows[rng.choice(len(rows), size=size, p=ways / ways.sum())]
        found.append(_repeatable(rule.classify(letters), one_side, other_side))
    return np.concatenate(found)
