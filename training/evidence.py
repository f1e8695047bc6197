"""Evidence: what a stated set of draws says of every message and every subset of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_selectors.actions import FULL, N_ACTIONS, REMOVALS
from dhd_selectors.base import BoolArray, FloatArray, IntArray
from training.data import LabelData
from training.outcomes import IN_BLOCKS

Shuffle = Literal["within-problem", "across-problems"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Targets, their weights and the success of subsets, all from the same draws; NaN where these say nothing."""

    y: FloatArray
    """(n_messages,) trajectory values."""
    weight: FloatArray
    """(n_messages,) number of blocks behind each value, at least 1."""
    success: FloatArray
    """(n_pools, 32) mean success of each action."""
    blocks: BoolArray | None = None
    """(n_blocks,) which complete blocks it is made from; None for all draws of the data set."""
    source: IntArray | None = None
    """(n_messages,) of which message this was found, where it was shuffled; None where it was not."""

    def shares_draws(self, other: Evidence) -> bool:
        """Return whether some draw is part of both."""
        if self.blocks is None or other.blocks is None:
            return True
        return bool((self.blocks & other.blocks).any())


def all_evidence(data: LabelData) -> Evidence:
    """Return what all draws of the data set say."""
    return Evidence(data.y, data.weight, data.success)


def of_blocks(data: LabelData, chosen: BoolArray) -> Evidence:
    """Return what some complete blocks say: of the full pool and the five removals, and nothing of other subsets.

    Args:
        data: the messages.
        chosen: (n_blocks,) which of `data.blocks`.
    """
    blocks = data.blocks.where(chosen)
    count = blocks.per_pool
    known = np.maximum(count, 1).astype(np.float64)
    full = blocks.pool_sums(blocks.outcomes[:, :FULL_DRAWS].sum(axis=1, dtype=np.int64))
    without = blocks.pool_sums(blocks.outcomes[:, FULL_DRAWS:].astype(np.int64))
    success = np.full((data.n_pools, N_ACTIONS), np.nan)
    some = count > 0
    success[some, FULL] = (full / (FULL_DRAWS * known))[some]
    success[np.ix_(some, np.array(REMOVALS))] = (without / known[:, None])[some]
    # Whole numbers over one denominator, so that effects that are equal on paper are equal here.
    effect = (full[:, None] - FULL_DRAWS * without) / (FULL_DRAWS * known)[:, None]
    y = np.where(some[:, None], effect, np.nan)[data.pool, data.slot]
    return Evidence(y, known[data.pool], success, chosen)


def with_other_draws(data: LabelData, evidence: Evidence) -> Evidence:
    """Return evidence of blocks that also knows the subsets which only draws outside blocks show, such as `alone`."""
    success = data.success.copy()
    success[:, IN_BLOCKS] = evidence.success[:, IN_BLOCKS]
    return Evidence(evidence.y, evidence.weight, success, evidence.blocks)


def shuffled(evidence: Evidence, data: LabelData, pools: IntArray, how: Shuffle, rng: np.random.Generator) -> Evidence:
    """Return evidence that says of a message what was found of another one: the placebo.

    Within a problem, the messages of each pool swap slots, and every subset with them. Across problems, each pool also
    gets the evidence of another one.

    Args:
        evidence: what is shuffled.
        data: the messages.
        pools: pools that take part; all others keep theirs.
        how: within each problem, or across problems.
        rng: source of randomness.
    """
    source = rng.permutation(pools) if how == "across-problems" else pools
    slots = rng.permuted(np.tile(np.arange(POOL_SIZE), (len(pools), 1)), axis=1)
    to, of = data.rows[pools], np.take_along_axis(data.rows[source], slots, axis=1)
    y, weight, success = evidence.y.copy(), evidence.weight.copy(), evidence.success.copy()
    y[to], weight[to] = evidence.y[of], evidence.weight[of]
    message = np.arange(len(y), dtype=np.int64)
    message[to] = of
    bits = np.arange(N_ACTIONS)[:, None] >> np.arange(POOL_SIZE) & 1
    moved = (1 << slots) @ bits.T  # slot i of an action stands for slot slots[i] of the source
    success[pools] = np.take_along_axis(evidence.success[source], moved, axis=1)
    return Evidence(y, weight, success, evidence.blocks, message)
