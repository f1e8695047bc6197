"""Matched blocks as one array: what every test, interval and selection of the controlled repeats starts from.

A block is two draws with the full pool and one draw without each message (protocol: controlled repeats). Only complete
blocks are used; every other one is counted under the first reason that fits:

* `one_full_draw`: one of the two full draws was never made;
* `missing_draw`: another draw was never made;
* `ungraded_outcome`: all seven were made, at least one has no verdict.

The unit of `pool` is (pool, integrator, order): what a label belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE, Arm
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.arrays import IntArray

DRAWS = FULL_DRAWS + POOL_SIZE
"""Outcomes of a block: columns full 0, full 1, without 0, ..., without 4."""
COLUMNS: Mapping[tuple[str, int], int] = {
    **{(Arm.full().name, draw): draw for draw in range(FULL_DRAWS)},
    **{(Arm.without(slot).name, 0): FULL_DRAWS + slot for slot in range(POOL_SIZE)},
}
"""The column of an (arm name, draw) inside a block."""
_NEVER_MADE, _UNGRADED = -2, -1


@dataclass(frozen=True, slots=True)
class Blocks:
    """The complete blocks of some pools.

    Attributes:
        outcomes: (n_blocks, 7) of 0 and 1, int8, in the order of `COLUMNS`; sorted by pool, then block.
        pool: (n_blocks,) number of each block's pool, 0 to n_pools - 1.
        number: (n_blocks,) the block's own number in its pool.
        n_pools: how many pools there are, with and without a complete block.
        excluded: blocks left out, by reason.
    """

    outcomes: npt.NDArray[np.int8]
    pool: IntArray
    number: IntArray
    n_pools: int
    excluded: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.outcomes.shape != (len(self.pool), DRAWS) or len(self.number) != len(self.pool):
            raise ValueError(
                f"The outcomes of blocks must have shape ({len(self.pool)}, {DRAWS}), got {self.outcomes.shape}"
            )
        if not np.isin(self.outcomes, (0, 1)).all():
            raise ValueError(f"The outcomes of blocks must be 0 or 1, got {np.unique(self.outcomes).tolist()}")
        if len(self.pool) and (self.pool.min() < 0 or self.pool.max() >= self.n_pools):
            raise ValueError(f"The pool of a block must be in 0..{self.n_pools - 1}, got {self.pool.max()}")

    @classmethod
    def of(cls, outcomes: npt.ArrayLike) -> Blocks:
        """Make blocks from a (n_pools, n_blocks, 7) array with the same number of blocks in each pool."""
        cube = np.asarray(outcomes, dtype=np.int8)
        n_pools, n_blocks = cube.shape[:2]
        pool = np.repeat(np.arange(n_pools, dtype=np.int64), n_blocks)
        number = np.tile(np.arange(n_blocks, dtype=np.int64), n_pools)
        return cls(cube.reshape(n_pools * n_blocks, -1), pool, number, n_pools)

    @property
    def counts(self) -> IntArray:
        """(n_blocks,) successes of each block, 0 to 7."""
        return np.asarray(self.outcomes.sum(axis=1), dtype=np.int64)

    @property
    def effects(self) -> IntArray:
        """(n_blocks, 5) sum of both full draws - 2 x draw without each message: twice the effect of that block."""
        full = self.outcomes[:, :FULL_DRAWS].sum(axis=1, dtype=np.int64)
        return np.asarray(full[:, None] - FULL_DRAWS * self.outcomes[:, FULL_DRAWS:].astype(np.int64))

    @property
    def per_pool(self) -> IntArray:
        """(n_pools,) complete blocks of each pool."""
        return np.bincount(self.pool, minlength=self.n_pools).astype(np.int64)

    def where(self, kept: npt.NDArray[np.bool_]) -> Blocks:
        """Return the blocks that a (n_blocks,) mask keeps; the pools and the counted exclusions stay."""
        return Blocks(self.outcomes[kept], self.pool[kept], self.number[kept], self.n_pools, self.excluded)

    def pool_sums(self, values: npt.NDArray[np.int64]) -> IntArray:
        """Sum an integer array of (n_blocks, ...) within each pool, to (n_pools, ...)."""
        total = np.zeros((self.n_pools, *values.shape[1:]), dtype=np.int64)
        np.add.at(total, self.pool, values)
        return total


def matched_blocks(
    pool: npt.ArrayLike, block: npt.ArrayLike, column: npt.ArrayLike, success: npt.ArrayLike, names: Sequence[str]
) -> Blocks:
    """Gather draws into blocks.

    Args:
        pool: (n_draws,) number of each draw's pool.
        block: (n_draws,) number of its block, 0 or more.
        column: (n_draws,) its column, by `COLUMNS`.
        success: (n_draws,) 1.0 or 0.0, NaN where there is no verdict.
        names: (n_pools,) what to call each pool in an error.

    Raises:
        DhdError: a draw is there twice. Its two outcomes would be one too many, and none of them is the right one.
    """
    pools, numbers, columns = (np.asarray(a, dtype=np.int64) for a in (pool, block, column))
    value = np.asarray(success, dtype=np.float64)
    codes = np.where(np.isnan(value), _UNGRADED, np.nan_to_num(value))
    if not np.isin(codes, (_UNGRADED, 0, 1)).all():
        raise DhdError(f"The success of a draw must be 0, 1 or missing, got {np.setdiff1d(codes, (-1, 0, 1))[0]}")
    width = int(numbers.max(initial=0)) + 1
    place, row = np.unique(pools * width + numbers, return_inverse=True)
    cell = row * DRAWS + columns
    _refuse_duplicates(cell, place, width, names)
    table = np.full((len(place), DRAWS), _NEVER_MADE, dtype=np.int8)
    table.ravel()[cell] = codes
    kept, excluded = _complete(table)
    return Blocks(table[kept], place[kept] // width, place[kept] % width, len(names), excluded)


def _refuse_duplicates(cell: IntArray, place: IntArray, width: int, names: Sequence[str]) -> None:
    found, times = np.unique(cell, return_counts=True)
    if (times > 1).any():
        first = int(found[times > 1][0])
        arm, draw = list(COLUMNS)[first % DRAWS]
        pool, block = divmod(int(place[first // DRAWS]), width)
        raise DhdError(
            f"The draws of a block must be there once, got {times.max()} of draw {draw} of {arm} in block {block} of "
            f"pool {names[pool]}: keep one row of each ({(times > 1).sum()} draws are there more than once)"
        )


def _complete(table: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which rows are complete, and the others counted by their first reason."""
    absent = table == _NEVER_MADE
    reasons = {
        "one_full_draw": absent[:, :FULL_DRAWS].sum(axis=1) == 1,
        "missing_draw": absent.any(axis=1),
        "ungraded_outcome": (table == _UNGRADED).any(axis=1),
    }
    left, excluded = np.ones(len(table), dtype=np.bool_), {}
    for reason, applies in reasons.items():
        if (count := int((left & applies).sum())) > 0:
            excluded[reason] = count
        left &= ~applies
    return left, excluded
