"""Outcomes to labels: effects, trajectory values with intervals, stability, cells. Pure.

Estimands (all are success WITH the message minus success WITHOUT it, so positive is helpful):

* single-message effect of message i: `only i` minus `alone`;
* in-pool effect of i at K=5: one `full` draw minus one `without i` draw of the same matched pair;
* trajectory value of i: mean over complete matched blocks of (mean of the two full draws) - (draw without i).

Under screened allocation the first blocks decide whether a problem gets further ones. Values, intervals and stability
come from the further blocks alone, since the deciding ones are more mixed than chance where a problem went on. The
single-draw effect comes from unmatched draws or the deciding blocks, which every problem has.

A label belongs to (message, pool, order, integrator). Outcomes that were not graded are missing, never neutral or
wrong; `outcomes.no_answer: incorrect` is the one documented exception.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dhd_labels.grading.extract import boxed_answers, is_refusal
from dhd_labels.grading.grader import Graded, Grader
from dhd_labels.records import Arm, Message, MessageLabel, Outcome, Pool, Problem, Stability
from dhd_labels.replay.plan import FULL_DRAWS

NoAnswer = Literal["missing", "incorrect"]
COVERAGE = 0.95
NO_BLOCK = "no complete block"
STOPPED = "stopped after screening"
UNDECIDED = "it is not decided yet whether blocks follow the screening"
"""Why a message has no trajectory value."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The verdict on a message's own answer. `correct` is None unless `status` is "graded".

    `graded` is the whole verdict, None for a message that proposes no answer.
    """

    status: str
    correct: bool | None
    graded: Graded | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """A trajectory value with the ends of its 95 % bootstrap interval over blocks."""

    mean: float
    low: float
    high: float


def success(outcome: Outcome, no_answer: NoAnswer) -> float | None:
    """Return 1.0 or 0.0, or None when the outcome is missing."""
    if outcome.status == "no_answer" and no_answer == "incorrect":
        return 0.0
    return None if outcome.correct is None else float(outcome.correct)


def label_pool(
    pool: Pool, proposals: Sequence[Proposal], outcomes: Iterable[Outcome], no_answer: NoAnswer,
    screen_blocks: int = 0, why_none: str = NO_BLOCK,
) -> list[MessageLabel]:  # fmt: skip
    """Return one label a message of the pool, in slot order.

    Args:
        pool: the messages.
        proposals: the verdict on each message's own answer, in slot order.
        outcomes: the unmasked replays of this pool with one integrator and one message order.
        no_answer: whether an answer that is missing is a failure of the integrator.
        screen_blocks: the first blocks, that decided how many more there are; 0 under fixed allocation.
        why_none: the reason of a missing trajectory value.
    """
    draws = {
        (o.replay.arm.name, o.replay.block, o.replay.draw): success(o, no_answer) for o in outcomes
    }  # joined by (arm, block, draw), never by list position
    return [_label(pool, slot, proposal, draws, screen_blocks, why_none) for slot, proposal in enumerate(proposals)]


Draws = Mapping[tuple[str, int | None, int], float | None]


def _label(pool: Pool, slot: int, verdict: Proposal, draws: Draws, screen_blocks: int, why_none: str) -> MessageLabel:
    status, correct = verdict.status, verdict.correct
    single, why_no_single = _single_effect(draws, slot)
    pairs = _single_draw_pairs(draws, slot, screen_blocks)
    effect = sum(pairs) / len(pairs) if pairs else None
    blocks = block_effects(draws, slot, screen_blocks)
    value = bootstrap_interval(blocks) if blocks else None
    stability = stability_of(value, len(blocks))
    proposal = None if correct is None else ("correct" if correct else "wrong")
    return MessageLabel(
        pool_id=pool.pool_id,
        slot=slot,
        proposal_status=status,
        proposal_correct=correct,
        single_effect=single,
        single_effect_reason=why_no_single,
        in_pool_effect=effect,
        in_pool_effect_reason=None if pairs else "no graded pair of a full draw and a removal draw",
        trajectory_value=value.mean if value else None,
        trajectory_value_reason=None if value else why_none,
        ci_low=value.low if value else None,
        ci_high=value.high if value else None,
        n_blocks=len(blocks),
        screen_blocks=screen_blocks,
        stability=stability,
        cell=f"{proposal}_{direction(pairs[0])}" if proposal and pairs else None,
        stable_cell=f"{proposal}_{stability[7:]}" if proposal and stability != "indeterminate" else None,
    )


def proposed_answer(message: Message) -> str | None:
    """Return a message's own answer, unboxed, or None when it proposes none."""
    boxes = boxed_answers(message.proposed_answer)
    answer = boxes[-1] if boxes else message.proposed_answer.strip()
    return None if not answer or is_refusal(answer) else answer


def grade_proposal(problem: Problem, message: Message, grader: Grader) -> Proposal:
    """Return the verdict on a message's own answer. Unknown is a third state, never wrong."""
    answer = proposed_answer(message)
    if answer is None:
        return Proposal("no_answer", None)
    verdict = grader(problem, answer)
    return Proposal(verdict.status, verdict.correct, verdict)


def direction(effect: float) -> str:
    """Name the sign of an effect."""
    return "helpful" if effect > 0 else "harmful" if effect < 0 else "neutral"


def _single_effect(draws: Draws, slot: int) -> tuple[float | None, str | None]:
    """Return mean success of `only i` minus mean success of `alone` over graded draws, or None and the reason."""
    means = []
    for arm in (Arm.only(slot), Arm.alone()):
        graded = [value for (name, _, _), value in draws.items() if name == arm.name and value is not None]
        if not graded:
            return None, f"no graded draw of {arm.name}"
        means.append(sum(graded) / len(graded))
    return means[0] - means[1], None


def _single_draw_pairs(draws: Draws, slot: int, screen_blocks: int) -> list[float]:
    """Return one-draw-against-one effects: unmatched draws when the run has any, else draw 0 of each block.

    Under screened allocation only the blocks that every problem has count.
    """
    without = Arm.without(slot).name
    places = sorted({(-1 if block is None else block, draw) for name, block, draw in draws if name == without})
    pairs = []
    for place, draw in places:
        block = None if place == -1 else place
        if screen_blocks and place >= screen_blocks:
            continue
        full, removed = draws.get((Arm.full().name, block, draw)), draws.get((without, block, draw))
        if full is not None and removed is not None:
            pairs.append((block, full - removed))
    unmatched = [effect for block, effect in pairs if block is None]
    return unmatched or [effect for _, effect in pairs]


def block_effects(draws: Draws, slot: int, first: int = 0) -> list[float]:
    """Return (mean of both full draws) - (draw without the message) for every complete block from `first` on."""
    without = Arm.without(slot).name
    effects = []
    for block in sorted({block for _, block, _ in draws if block is not None and block >= first}):
        full = [draws.get((Arm.full().name, block, draw)) for draw in range(FULL_DRAWS)]
        removed = draws.get((without, block, 0))
        if removed is not None and all(value is not None for value in full):
            effects.append(sum(value for value in full if value is not None) / FULL_DRAWS - removed)
    return effects


def bootstrap_interval(effects: Sequence[float]) -> Interval:
    """Return the mean of block effects and the exact 95 % bootstrap interval of that mean.

    All B^B resamples of the B blocks are taken at once by convolving the distribution of one draw B times (effects are
    multiples of 1/2, so sums live on a small grid). Quantile rule: the lower end is the smallest value v with
    P(mean <= v) >= 0.025, the upper end the largest v with P(mean >= v) >= 0.025; so mirrored effects give a mirrored
    interval. Five blocks cover badly: the interval describes, claims rest on problem-clustered tests.

    Args:
        effects: one effect a block, each a multiple of 1/FULL_DRAWS in [-1, 1]; at least one.
    """
    return _interval(tuple(sorted(effects)))


@functools.lru_cache(100_000)
def _interval(effects: tuple[float, ...]) -> Interval:
    """Return the interval of effects in any order; few blocks have few different ones."""
    steps = np.rint(np.asarray(effects) * FULL_DRAWS).astype(int)
    one = np.bincount(steps + FULL_DRAWS, minlength=2 * FULL_DRAWS + 1) / len(steps)
    total = np.ones(1)
    for _ in range(len(steps)):
        total = np.convolve(total, one)
    means = (np.arange(len(total)) / len(steps) - FULL_DRAWS) / FULL_DRAWS
    tail = (1 - COVERAGE) / 2 - 1e-12
    low = means[np.argmax(np.cumsum(total) >= tail)]
    high = means[::-1][np.argmax(np.cumsum(total[::-1]) >= tail)]
    return Interval(float(np.mean(effects)), float(low), float(high))


def stability_of(value: Interval | None, n_blocks: int) -> Stability:
    """Classify by the interval's side of 0. One block can never be stable."""
    if value is None or n_blocks < 2:
        return "indeterminate"
    if value.low > 0:
        return "stable_helpful"
    return "stable_harmful" if value.high < 0 else "indeterminate"


def identical_input_disagreement(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    """Count blocks whose two full draws, the same input twice, disagree; return (disagreeing, compared)."""
    full: dict[int, list[bool | None]] = {}
    for outcome in outcomes:
        if outcome.replay.block is not None and outcome.replay.arm.name == Arm.full().name:
            full.setdefault(outcome.replay.block, []).append(outcome.correct)
    pairs = [pair for pair in full.values() if len(pair) == FULL_DRAWS and None not in pair]
    return sum(a != b for a, b in pairs), len(pairs)


def identical_texts(outcomes: Iterable[Outcome]) -> tuple[int, int]:
    """Count blocks whose two full draws are the same text to the last character; return (identical, compared)."""
    full: dict[int, list[str]] = {}
    for outcome in outcomes:
        if outcome.replay.block is not None and outcome.replay.arm.name == Arm.full().name and outcome.text_digest:
            full.setdefault(outcome.replay.block, []).append(outcome.text_digest)
    pairs = [pair for pair in full.values() if len(pair) == FULL_DRAWS]
    return sum(a == b for a, b in pairs), len(pairs)


CELLS = tuple(
    f"{proposal}_{effect}"
    for proposal, effect in itertools.product(("correct", "wrong"), ("helpful", "neutral", "harmful"))
)
"""The six cells: proposal correctness x direction of the effect."""
