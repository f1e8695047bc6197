"""What every subset of a pool's messages earned, and the matched blocks behind it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dhd_labels.records import Arm
from dhd_labels.stats.blocks import COLUMNS, Blocks, matched_blocks
from dhd_selectors.actions import ACTION_OF_ARM, FULL, N_ACTIONS, REMOVALS, action_of
from dhd_selectors.base import POOL_KEYS, BoolArray, FloatArray, IntArray

IN_BLOCKS = (FULL, *REMOVALS)
"""Actions that matched blocks draw; in a pool with blocks they are scored by these draws alone."""


def codes_of(keys: pd.DataFrame, pools: pd.DataFrame) -> IntArray:
    """Return (n_rows,) the number of each row's pool; -1 for a pool that is not among `pools`.

    Args:
        keys: rows with the columns `POOL_KEYS`.
        pools: (n_pools, ...) one row a pool, with these columns.
    """
    joined, known = np.zeros(len(keys), dtype=np.int64), np.zeros(len(pools), dtype=np.int64)
    missing = np.zeros(len(keys), dtype=np.bool_)
    for name in POOL_KEYS:
        index = pd.Index(pools[name].astype(object).unique())
        row = _coded(keys[name], index)
        joined, missing = joined * len(index) + row, missing | (row < 0)
        known = known * len(index) + _coded(pools[name], index)
    found = pd.Index(known).get_indexer(pd.Index(joined)).astype(np.int64)
    return np.where(missing, -1, found)


def _coded(values: pd.Series, index: pd.Index) -> IntArray:
    if isinstance(values.dtype, pd.CategoricalDtype):
        of_category = np.append(index.get_indexer(pd.Index(values.cat.categories, dtype=object)), -1)
        return of_category[values.cat.codes.to_numpy()].astype(np.int64)
    return index.get_indexer(pd.Index(values, dtype=object)).astype(np.int64)


def actions_of(replays: pd.DataFrame) -> IntArray:
    """Return (n_replays,) what each replay showed; -1 where its arm is not one of the protocol."""
    arm = replays["arm"].astype("category")
    of_category = np.array([*(ACTION_OF_ARM.get(name, -1) for name in arm.cat.categories), -1], dtype=np.int64)
    action = of_category[arm.cat.codes.to_numpy()]
    subset = np.flatnonzero((arm == Arm.subset(()).kind).to_numpy())
    if len(subset):
        kept = replays["kept"].iloc[subset]
        action[subset] = [-1 if slots is None else action_of(tuple(slots)) for slots in kept]
    return action


def success_table(
    pool: IntArray, action: IntArray, replays: pd.DataFrame, screen: IntArray
) -> tuple[FloatArray, BoolArray]:
    """Return the mean success of each action over its usable draws, NaN without any, and what is recorded.

    The accuracy rule of protocol.md: `no_answer` counts as incorrect, any other ungraded outcome is missing. In pools
    with matched blocks the full pool and the removals use the draws of blocks, everything else the other draws; in
    pools without blocks all use the other draws. Where the first blocks decided how many more a problem got, only these
    count: every problem has them, whatever came of them. An action is recorded when it was drawn at all, whatever
    became of it.

    Args:
        pool: (n_replays,) number of each replay's pool, or -1.
        action: (n_replays,) what it showed, or -1.
        replays: rows with `block`, `status` and `correct`.
        screen: (n_pools,) screening blocks of each pool, 0 under fixed allocation.

    Returns:
        (n_pools, 32) success, and (n_pools, 32) whether it is recorded.
    """
    n_pools = len(screen)
    block = replays["block"].to_numpy(dtype=np.float64, na_value=-1.0)
    in_block = block >= 0
    known = (pool >= 0) & (action >= 0)
    has_blocks = np.zeros(n_pools, dtype=np.bool_)
    has_blocks[pool[known & in_block]] = True
    further = (screen[pool] > 0) & (block >= screen[pool])
    matched = has_blocks[pool] & np.isin(action, IN_BLOCKS)
    usable = np.flatnonzero(known & (in_block == matched) & ~further)
    cell = pool[usable] * N_ACTIONS + action[usable]
    success = success_of(replays)[usable]
    graded = np.isfinite(success)
    draws = np.bincount(cell[graded], minlength=n_pools * N_ACTIONS)
    total = np.bincount(cell[graded], success[graded], minlength=n_pools * N_ACTIONS)
    mean = np.where(draws > 0, total / np.maximum(draws, 1), np.nan)
    recorded = np.bincount(cell, minlength=n_pools * N_ACTIONS) > 0
    return mean.reshape(n_pools, N_ACTIONS), recorded.reshape(n_pools, N_ACTIONS)


def success_of(replays: pd.DataFrame) -> FloatArray:
    """Return (n_rows,) 1 for correct, 0 for incorrect and `no_answer`, NaN for every other status."""
    correct = replays["correct"].astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan)
    graded, no_answer = ((replays["status"] == status).to_numpy(dtype=np.bool_) for status in ("graded", "no_answer"))
    return np.where(graded, correct, np.where(no_answer, 0.0, np.nan))


def complete_blocks(pool: IntArray, action: IntArray, replays: pd.DataFrame, screen: IntArray) -> Blocks:
    """Return the complete matched blocks of all pools, all draws graded (the rule for effects).

    Of a pool that was screened, only the blocks after the screening: those that its trajectory values come from.

    Args:
        pool: as in `success_table`.
        action: as in `success_table`.
        replays: rows with `block`, `draw`, `status` and `correct`.
        screen: as in `success_table`.

    Raises:
        DhdError: a draw of a block is there twice.
    """
    block = replays["block"].to_numpy(dtype=np.float64, na_value=-1.0)
    rows = np.flatnonzero((block >= np.maximum(screen[pool], 0)) & (pool >= 0) & np.isin(action, IN_BLOCKS))
    column_of = np.full((N_ACTIONS, 2), -1, dtype=np.int64)
    for (arm, number), place in COLUMNS.items():
        column_of[ACTION_OF_ARM[arm], number] = place
    draw = replays["draw"].to_numpy(dtype=np.int64, na_value=-1)[rows]
    column = np.where((draw >= 0) & (draw < 2), column_of[action[rows], np.clip(draw, 0, 1)], -1)
    fits = column >= 0
    rows = rows[fits]
    success = np.where(
        (replays["status"] == "graded").to_numpy(dtype=np.bool_)[rows], success_of(replays.iloc[rows]), np.nan
    )
    names = [str(number) for number in range(len(screen))]
    return matched_blocks(pool[rows], block[rows].astype(np.int64), column[fits], success, names)
