"""Draw the pools of a world: what is hidden (difficulty, verdicts, tones, effects) and what a selector can see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.worlds import CONFIDENCE, CUES, WORDING_SLOTS, FloatArray, World

IntArray = npt.NDArray[np.int64]
SmallIntArray = npt.NDArray[np.int8]
BoolArray = npt.NDArray[np.bool_]

NO_ANSWER = 0
"""The answer of a message that proposes none; all others have four digits."""
_LOWEST, _HIGHEST = 1000, 10_000


@dataclass(frozen=True, slots=True)
class Pools:
    """n_pools pools of five messages, problem by problem; a problem's actors follow each other.

    Attributes:
        difficulty: (n_pools,) index into `World.difficulties`.
        reference: (n_pools,) the right answer.
        popular_error: (n_pools,) the wrong answer that several messages may share.
        answer: (n_pools, 5) proposed answers, `NO_ANSWER` for none.
        correct: (n_pools, 5) 1 right, 0 wrong, -1 no answer.
        tone: (n_pools, 5) whether an effect of the message would be helpful.
        effect: (n_pools, 5) the effect that it carries: 1 helpful, -1 harmful, 0 none.
        cues: (n_pools, 5, n_cues) values of `CUES`.
        words: (n_pools, 5, WORDING_SLOTS) whether a word is of the helpful list.
        confidence: (n_pools, 5) 0 low, 1 medium, 2 high.
    """

    difficulty: IntArray
    reference: IntArray
    popular_error: IntArray
    answer: IntArray
    correct: SmallIntArray
    tone: BoolArray
    effect: SmallIntArray
    cues: SmallIntArray
    words: BoolArray
    confidence: SmallIntArray

    def __len__(self) -> int:
        return len(self.difficulty)


def draw_pools(world: World, n_problems: int, rng: np.random.Generator) -> Pools:
    """Draw n_problems x `world.actors` pools."""
    share = [d.probability for d in world.difficulties]
    difficulty = rng.choice(len(share), size=n_problems, p=share)
    pair = rng.integers(_LOWEST, _HIGHEST, (n_problems, 2))
    pair[:, 1] = other_number(pair[:, 0], rng)
    difficulty, reference, popular = (
        np.repeat(part, world.actors) for part in (difficulty.astype(np.int64), pair[:, 0], pair[:, 1])
    )
    shape = (len(difficulty), POOL_SIZE)
    right = np.array([d.right for d in world.difficulties])[difficulty]
    correct = np.where(rng.random(shape) < right[:, None], 1, 0).astype(np.int8)
    correct[rng.random(shape) < world.no_proposal] = -1
    tone = rng.random(shape) < 0.5
    effect = np.where(rng.random(shape) < world.carrier_share, np.where(tone, 1, -1), 0).astype(np.int8)
    return Pools(
        difficulty=difficulty,
        reference=reference,
        popular_error=popular,
        answer=_answers(world, reference, popular, correct, rng),
        correct=correct,
        tone=tone,
        effect=effect,
        cues=np.stack([_pick(world.cue_probabilities(cue), tone, rng) for cue in CUES], axis=-1),
        words=(rng.random((*shape, WORDING_SLOTS)) < world.wording) == tone[:, :, None],
        confidence=_pick(np.array([CONFIDENCE[c] for c in (0, 1, -1)]), correct, rng),
    )


def other_number(number: IntArray, rng: np.random.Generator) -> IntArray:
    """Return an answer that is not `number`, uniform over all others; same shape."""
    drawn = rng.integers(_LOWEST, _HIGHEST - 1, number.shape)
    return drawn + (drawn >= number)


def _answers(
    world: World, reference: IntArray, popular: IntArray, correct: SmallIntArray, rng: np.random.Generator
) -> IntArray:
    """Return (n_pools, 5) answers; which of the numbers is right or popular cannot be told from their size."""
    numbers = np.column_stack([reference, popular, rng.integers(_LOWEST, _HIGHEST, correct.shape)])
    while len(clash := np.flatnonzero((np.diff(np.sort(numbers, axis=1)) == 0).any(axis=1))):
        numbers[clash, 2:] = rng.integers(_LOWEST, _HIGHEST, (len(clash), POOL_SIZE))
    shared = rng.random(correct.shape) < world.same_error
    wrong = np.where(shared, popular[:, None], numbers[:, 2:])
    return np.where(correct == 1, reference[:, None], np.where(correct == 0, wrong, NO_ANSWER))


def _pick(probabilities: FloatArray, row: npt.NDArray[np.int8] | BoolArray, rng: np.random.Generator) -> SmallIntArray:
    """Draw one value for each entry of `row`, from that row of the table (-1 is the last row)."""
    bounds = np.cumsum(probabilities, axis=1)[row.astype(np.int64)][..., :-1]
    picked: SmallIntArray = (rng.random(row.shape)[..., None] >= bounds).sum(axis=-1).astype(np.int8)
    return picked
