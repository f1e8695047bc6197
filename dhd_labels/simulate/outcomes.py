"""Success probabilities of every arm, and draws from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE, Arm
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.simulate.pools import IntArray, Pools, SmallIntArray, draw_pools
from dhd_labels.simulate.worlds import FloatArray, World

ARMS: tuple[Arm, ...] = (
    Arm.alone(),
    *(Arm.only(slot) for slot in range(POOL_SIZE)),
    *(Arm.prefix(k) for k in range(1, POOL_SIZE + 1)),
    *(Arm.without(slot, k) for k in range(2, POOL_SIZE + 1) for slot in range(k)),
)
"""The unmatched arms, in the order of `replay.plan`; the full pool and its removals are drawn in blocks as well."""
ALONE, FULL = ARMS.index(Arm.alone()), ARMS.index(Arm.full())
ONLY = [ARMS.index(Arm.only(slot)) for slot in range(POOL_SIZE)]
WITHOUT = [ARMS.index(Arm.without(slot)) for slot in range(POOL_SIZE)]
BLOCK_ARMS = [FULL] * FULL_DRAWS + WITHOUT
"""The draws of a block: index into `ARMS` of each."""
STATUS = ("graded", "no_answer", "truncated", "operational", "undetermined")
"""Status of an outcome; the code of an outcome is 1 or 0 when graded, else minus the index in here."""
_SHOWN = np.array([[slot in arm.kept for slot in range(POOL_SIZE)] for arm in ARMS], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of n_units units; a unit is a pool under one integrator, and a pool's units follow each other.

    Codes are 1 correct, 0 wrong, and below 0 the missing ones (`STATUS`).

    Attributes:
        pools: the pools.
        probability: (n_units, len(ARMS)) true success probability of every arm.
        main: (n_units, len(ARMS), draws) codes outside of blocks.
        blocks: (n_units, n_blocks, 7) codes in blocks, in the order of `BLOCK_ARMS`.
    """

    pools: Pools
    probability: FloatArray
    main: SmallIntArray
    blocks: SmallIntArray

    @property
    def true_value(self) -> FloatArray:
        """Return (n_units, 5): success probability with the full pool minus that without each message."""
        return true_values(self.probability)

    @property
    def full(self) -> FloatArray:
        """Return (n_units, n_blocks, 2) success of the full draws; NaN where missing."""
        return success(self.blocks[:, :, :FULL_DRAWS])

    @property
    def without(self) -> FloatArray:
        """Return (n_units, n_blocks, 5) success of the removal draws; NaN where missing."""
        return success(self.blocks[:, :, FULL_DRAWS:])


def simulate_outcomes(
    world: World, n_problems: int, blocks: int, rng: np.random.Generator, *, draws: int = 1
) -> Outcomes:
    """Simulate pools and outcomes, without their texts.

    Args:
        world: the parameters.
        n_problems: number of problems, at least 1.
        blocks: matched blocks of a pool, at least 0.
        rng: source of randomness.
        draws: draws of each unmatched arm, at least 0.

    Raises:
        DhdError: a size is out of range.
    """
    check_sizes(n_problems, blocks, draws)
    pools = draw_pools(world, n_problems, rng)
    p = probabilities(world, pools)
    main = _draw(np.repeat(p[:, :, None], draws, axis=2), world, rng)
    drawn = np.repeat(p[:, None, BLOCK_ARMS], blocks, axis=1)
    return Outcomes(pools, p, main, _draw(drawn, world, rng))


def check_sizes(n_problems: int, blocks: int, draws: int) -> None:
    """Refuse sizes that no data set can have.

    Raises:
        DhdError: a size is out of range.
    """
    for what, number, lowest, highest in (
        ("problems", n_problems, 1, MAX_PROBLEMS),
        ("blocks", blocks, 0, MAX_DRAWS),
        ("draws", draws, 0, MAX_DRAWS),
    ):
        if not lowest <= number <= highest:
            raise DhdError(f"The number of {what} must be between {lowest} and {highest}, got {number}.")
    if not blocks and not draws:
        raise DhdError("The blocks and the draws must not both be 0: there would be no outcome.")


MAX_PROBLEMS, MAX_DRAWS = 10_000_000, 100


def probabilities(world: World, pools: Pools) -> FloatArray:
    """Return (n_units, len(ARMS)) the exact success probability of every arm."""
    from scipy.special import expit

    base = np.array([d.logit for d in world.difficulties])[pools.difficulty]
    right = np.where(pools.correct == 1, 1.0, np.where(pools.correct == 0, -1.0, 0.0))
    sums = (world.correctness_logit * right + world.carrier_logit * pools.effect) @ _SHOWN.T
    scaled = np.array(world.integrator_scales)[None, :, None] * sums[:, None, :]
    logits = base[:, None, None] + scaled + world.pool_size_logit * _SHOWN.sum(axis=1)
    found: FloatArray = expit(np.round(logits, 12)).reshape(-1, len(ARMS))
    return found


def true_values(probability: FloatArray) -> FloatArray:
    """Return (n_units, 5) true trajectory values from the probabilities of all arms."""
    return probability[:, [FULL]] - probability[:, WITHOUT]


def success(codes: SmallIntArray) -> FloatArray:
    """Return success as 1.0 and 0.0 by the rule for effects: what is not graded is NaN."""
    return np.where(codes >= 0, codes, np.nan)


def unit_pools(world: World, pools: Pools) -> IntArray:
    """Return (n_units,) the pool of each unit."""
    return np.repeat(np.arange(len(pools)), len(world.integrator_scales))


def _draw(probability: FloatArray, world: World, rng: np.random.Generator) -> SmallIntArray:
    codes = (rng.random(probability.shape) < probability).astype(np.int8)
    if world.missing.total:
        rates = [getattr(world.missing, status) for status in STATUS[1:]]
        lost = np.searchsorted(np.cumsum(rates), rng.random(probability.shape), side="right")
        codes = np.where(lost < len(rates), -1 - lost, codes).astype(np.int8)
    return codes
