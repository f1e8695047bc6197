"""The four families of a test: which messages it looks at, and in which direction.

| family | looked at | a large statistic means |
|---|---|---|
| `wrong_helpful` | wrong messages | the pool does better with one of them |
| `correct_harmful` | correct messages | the pool does worse with one of them |
| `off_diagonal` | both of these | either of these |
| `any` | all messages, unknown ones too | one of them matters, in whichever direction |

An unknown proposal is neither wrong nor correct, so only `any` looks at it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from dhd_labels.records import POOL_SIZE
from dhd_labels.stats.arrays import BoolArray, FloatArray

Family = Literal["wrong_helpful", "correct_harmful", "off_diagonal", "any"]
FAMILIES: tuple[Family, ...] = get_args(Family)
Null = Literal["seven", "removals"]
NULLS: tuple[Null, ...] = get_args(Null)
"""`seven`: the seven outcomes of a block are exchangeable. `removals`: its five removal draws are, whatever the full
draws did, so that a pure effect of the pool's size is no reason to reject."""
CORRECT, WRONG, UNKNOWN = 1, 0, -1
"""Codes of a proposal's correctness in arrays."""


def target_slots(proposals: npt.ArrayLike, family: Family) -> tuple[BoolArray, BoolArray]:
    """Return two (n_pools, 5) masks: slots where helpful counts, and slots where harmful counts.

    Args:
        proposals: (n_pools, 5) of `CORRECT`, `WRONG` and `UNKNOWN`.
        family: which test.
    """
    known = np.asarray(proposals)
    if known.ndim != 2 or known.shape[1] != POOL_SIZE or not np.isin(known, (CORRECT, WRONG, UNKNOWN)).all():
        raise ValueError(f"The proposals must be an (n_pools, {POOL_SIZE}) array of 1, 0 and -1, got {known!r}")
    if family == "any":
        return np.ones(known.shape, dtype=np.bool_), np.ones(known.shape, dtype=np.bool_)
    helpful, harmful = known == WRONG, known == CORRECT
    if family == "wrong_helpful":
        harmful = np.zeros_like(harmful)
    elif family == "correct_harmful":
        helpful = np.zeros_like(helpful)
    return helpful, harmful


@cache
def placements(helpful: int, harmful: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Return every way to place the tested slots among the five: (slots of the helpful side, of the harmful side).

    The sides share no slot, except that both are all five in the family `any`.
    """
    slots = range(POOL_SIZE)
    if helpful == harmful == POOL_SIZE:
        return ((tuple(slots), tuple(slots)),)
    return tuple(
        (chosen, other)
        for chosen in itertools.combinations(slots, helpful)
        for other in itertools.combinations([slot for slot in slots if slot not in chosen], harmful)
    )


Ranks = tuple[int | None, int | None]
"""(lowest rank of the helpful side, highest rank of the harmful side), None where a side has no slot."""
_RANKS = (None, *range(POOL_SIZE))
RANK_PAIRS: tuple[Ranks, ...] = tuple(pair for pair in itertools.product(_RANKS, repeat=2) if pair[0] != pair[1])


@cache
def rank_weights(helpful: int, harmful: int) -> FloatArray:
    """Return (30,) how many placements of the tested slots each of `RANK_PAIRS` decides.

    Ranks order the five slots by their removal successes. The lowest and the highest are all that a maximum statistic
    needs: the most helpful message is the one whose removal succeeds least often.
    """
    ways = Counter((min(a, default=None), max(b, default=None)) for a, b in placements(helpful, harmful))
    return np.array([float(ways[pair]) for pair in RANK_PAIRS])
