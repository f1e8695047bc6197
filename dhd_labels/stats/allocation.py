"""Screened allocation: one block everywhere, further blocks only where they can tell something.

A block with 0 or 7 successes is the same under every arrangement and adds nothing to any test. Where answers are
nearly deterministic most blocks are like that, so problems whose first block is not mixed are stopped.

Why the tests stay valid. Null: within each block the outcomes are exchangeable and blocks are independent, so given the
success counts of all blocks their arrangements are independent and uniform. `next_blocks` looks at counts alone, of
all problems and in any order. The number of blocks that a problem gets is therefore a function of counts (and of a
budget), and given the counts it says nothing about arrangements: they are still uniform, and the p-value of
`exact_null`, which conditions on exactly these counts, is still P(T >= observed) under that null. This holds for
`seven`, and for `removals`, which conditions on the full and the removal successes of each block: their sum decides.
A rule that looked at which arm failed, or at a p-value, would break it.

A stopped problem is not dropped: its own p is 1, and it stays in the family that BH adjusts, which costs power
and nothing else.

Effect sizes are another matter. A first block is kept only if mixed, so in the problems that go on its effects are
larger than on average: with v the true effect and P the chance of a mixed block, its mean is v / P. Estimates must not
use it there (`later_effects`), or must use the first block of every problem (`screen_effects`). Source: protocol,
controlled repeats; the allocation is ours, the paper's is fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dhd_labels.errors import DhdError
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.arrays import BoolArray, FloatArray, IntArray
from dhd_labels.stats.blocks import DRAWS, Blocks


@dataclass(frozen=True, slots=True)
class Effects:
    """Mean trajectory values of some pools.

    Attributes:
        pool: (n,) which pools.
        values: (n, 5) mean effect of each message over the blocks used.
        n_blocks: (n,) blocks used.
        excluded: pools without a value, by reason.
    """

    pool: IntArray
    values: FloatArray
    n_blocks: IntArray
    excluded: Mapping[str, int]


def mixedness(count: int) -> int:
    """Return how far a block is from saying nothing: 0 for 0 or 7 successes, 3 for 3 or 4.

    Raises:
        DhdError: the count is no number of successes of a block.
    """
    if not 0 <= count <= DRAWS:
        raise DhdError(f"The success count of a block must be in 0..{DRAWS}, got {count}")
    return min(count, DRAWS - count)


def next_blocks(
    counts_so_far: Sequence[Sequence[int]], budget: int, max_blocks: int, screen_blocks: int = 1
) -> list[int]:
    """Return how many further blocks each problem gets now.

    While a problem has fewer than `screen_blocks`, only these are given, so that all are screened by the same rule.
    Then the problems with a mixed block among them are filled up to `max_blocks`, the most mixed first, equals in the
    order given, until the budget is spent. Only the screen decides, so asking again after an interruption goes on with
    the same allocation.

    Args:
        counts_so_far: successes (0 to 7) of each problem's complete blocks, in block order. Give the problems in an
            order that has nothing to do with their outcomes, such as that of a hash: a small budget favours the first.
        budget: blocks that may still be made, of 7 calls each.
        max_blocks: most blocks of one problem, those of the screen included.
        screen_blocks: blocks that every problem gets. A second one costs a block everywhere and finds most of the
            problems whose first block failed to show their effect.

    Raises:
        DhdError: a count, the budget, `max_blocks` or `screen_blocks` is out of range.
    """
    if budget < 0 or not 1 <= screen_blocks <= max_blocks:
        raise DhdError(
            "The budget must be 0 or more and 1 <= screen_blocks <= max_blocks, got "
            f"{budget}, {screen_blocks} and {max_blocks}"
        )
    given = [0] * len(counts_so_far)
    for problem, blocks in _wanted(counts_so_far, max_blocks, screen_blocks):
        given[problem] += min(blocks, budget)
        budget -= min(blocks, budget)
    return given


def _wanted(counts_so_far: Sequence[Sequence[int]], max_blocks: int, screen_blocks: int) -> list[tuple[int, int]]:
    """Return (problem, blocks that it should get) in the order in which a budget is spent."""
    worth = [sum(map(mixedness, counts[:screen_blocks])) for counts in counts_so_far]
    have = [len(counts) for counts in counts_so_far]
    unseen = [(p, 1) for turn in range(screen_blocks) for p, blocks in enumerate(have) if blocks <= turn]
    if unseen:
        return unseen
    mixed = sorted((p for p, value in enumerate(worth) if value), key=lambda p: -worth[p])
    return [(p, max(0, max_blocks - have[p])) for p in mixed]


def later_effects(blocks: Blocks, screen_blocks: int = 1) -> Effects:
    """Return effects that do not reuse the blocks which decided that a pool goes on.

    Estimand: the mean trajectory value of the pools that go on. Unbiased for these, since later blocks had no say.
    Pools that were stopped have no value and are counted (`stopped_after_screen`); nothing is claimed about them.
    """
    return _effects(blocks, blocks.number >= screen_blocks, "stopped_after_screen")


def screen_effects(blocks: Blocks, screen_blocks: int = 1) -> Effects:
    """Return effects from the blocks that every pool has.

    Estimand: the mean trajectory value of all pools. Unbiased, since every pool has them whatever came of them.
    """
    return _effects(blocks, blocks.number < screen_blocks, "no_complete_block")


def all_effects(blocks: Blocks) -> Effects:
    """Return effects over all blocks: right where the allocation is fixed, biased away from 0 where it is screened."""
    return _effects(blocks, np.ones(len(blocks.pool), dtype=np.bool_), "no_complete_block")


def _effects(blocks: Blocks, used: BoolArray, otherwise: str) -> Effects:
    """Average the blocks in use within each pool; a pool without any block at all is `no_complete_block`."""
    kept = blocks.where(used)
    n_blocks, any_block = kept.per_pool, blocks.per_pool > 0
    pool = np.flatnonzero(n_blocks)
    values = kept.pool_sums(kept.effects)[pool] / (FULL_DRAWS * n_blocks[pool, None])
    reasons = Counter({otherwise: int((any_block & (n_blocks == 0)).sum())})
    reasons["no_complete_block"] += int((~any_block).sum())
    return Effects(pool, values, n_blocks[pool], dict(+reasons))
