"""A small world whose success probabilities are known: the oracle behind the `oracle` preset and many tests.

Problem n has a hidden card number (its reference), five clues (messages), and a success probability for every set of
visible clues. In the `exact` world every probability is 0 or 1, so every label follows without sampling.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dhd_labels.records import POOL_SIZE, Arm, Problem

N_PROBLEMS = 50
BENCHMARK = "oracle"
_NUMBER = re.compile(r"card number (\d+)\b")
_CLUE = re.compile(r"\[clue (\d+)-(\d)\]")
_HEADER = re.compile(r"^Message \d+, from ", re.MULTILINE)
_READER = re.compile(r"Reader (\d)")
_ANSWER = re.compile(r"^Proposed answer: -?\d+$", re.MULTILINE)
_JUDGED = re.compile(r"^(Reference|Submitted) answer: (.*)$", re.MULTILINE)
_ANSWER_SHARE = 0.4
"""Share of a clue's pull that its answer carries; its reasoning carries the rest."""
_LAST = 1.25
"""Weight of the clue that is shown last."""
_REMEMBERED = 4096
"""Values kept of each kind: enough for the problems that are worked on side by side, in a world of any size."""


@dataclass(frozen=True, slots=True)
class Clue:
    """One message of the world: its own answer, whether that is right (None: it proposes none), its pull on success."""

    answer: str
    correct: bool | None
    pull: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What a prompt shows of one clue."""

    slot: int
    answer: bool
    reasoning: bool


@dataclass(frozen=True, slots=True)
class World:
    """Known truth for every (problem, visible clues, order). `solver` is another integrator of the same clues."""

    kind: Literal["stochastic", "exact"]
    seed: int = 0
    solver: int = 0

    @functools.lru_cache(_REMEMBERED)  # noqa: B019 - a few small worlds live in a process
    def reference(self, number: int) -> str:
        """Return the hidden number of a card."""
        return str(self._generator(number, "reference").integers(100, 1000))

    @functools.lru_cache(_REMEMBERED)  # noqa: B019
    def clues(self, number: int) -> tuple[Clue, ...]:
        """Return the five clues of a problem."""
        rng = self._generator(number, "clues")
        right = int(self.reference(number))
        clues = []
        for slot in range(POOL_SIZE):
            correct = [True, False, None][int(rng.choice(3, p=[0.5, 0.45, 0.05]))]
            answer = {True: str(right), False: str(right + 1 + slot), None: ""}[correct]
            lean = 0.1 if correct else -0.1
            pull = float(rng.choice([-0.35, 0.0, 0.35], p=[0.25 - lean, 0.5, 0.25 + lean]))
            clues.append(Clue(answer, correct, pull))
        return tuple(clues)

    def success_probability(self, number: int, shown: tuple[int, ...]) -> float:
        """Return the probability that the integrator is right when it is shown these clues, whole, in this order."""
        clues = self.clues(number)
        return self.success_seeing(number, tuple(Seen(slot, bool(clues[slot].answer), True) for slot in shown))

    @functools.lru_cache(_REMEMBERED)  # noqa: B019
    def success_seeing(self, number: int, seen: tuple[Seen, ...]) -> float:
        """Return that probability when parts of the clues are masked."""
        rng = self._generator(number, f"success{self.solver or ''}")
        base = float(rng.uniform(0.15, 0.85))
        if self.kind == "stochastic":
            pulls = [self._pull(number, part) for part in seen]
            if pulls:
                pulls[-1] *= _LAST
            return min(0.98, max(0.02, base + sum(pulls)))
        # One clue's reasoning may unlock the card, another's answer may mislead, and whichever is shown later decides.
        # Numbers past the pool mean "no such clue".
        unlocks, misleads = int(rng.integers(0, POOL_SIZE + 2)), int(rng.integers(0, 2 * POOL_SIZE))
        right = base > 0.5
        for part in seen:
            if part.slot == unlocks and part.reasoning:
                right = True
            answers = bool(self.clues(number)[part.slot].answer)
            if part.slot == misleads and (part.answer if answers else part.reasoning):
                right = False
        return float(right)

    def _pull(self, number: int, part: Seen) -> float:
        clue = self.clues(number)[part.slot]
        strength = 1.0 if not self.solver else float(self._generator(number, f"solver{self.solver}").uniform(0.2, 1.2))
        share = _ANSWER_SHARE if clue.answer else 0.0
        return clue.pull * strength * (share * part.answer + (1 - share) * part.reasoning)

    def trajectory_value(self, number: int, slot: int, *, reverse: bool = False) -> float:
        """Return the true trajectory value: success of the full pool minus success without the message."""
        step = -1 if reverse else 1
        full = self.success_probability(number, Arm.full().kept[::step])
        return full - self.success_probability(number, Arm.without(slot).kept[::step])

    def problems(self, count: int = N_PROBLEMS) -> tuple[Problem, ...]:
        """Return the first problems of the world, which has as many as are asked for."""
        return tuple(
            Problem(
                problem_id=problem_id(number),
                benchmark=BENCHMARK,
                question=f"Which number is written on card number {number}?",
                reference=self.reference(number),
                answer_type="integer",
                choices=(),
                license="apache-2.0",
                train_allowed=True,
                commercial_use=True,
            )
            for number in range(count)
        )

    def _generator(self, number: int, purpose: str) -> np.random.Generator:
        digest = hashlib.sha256(f"{self.kind}/{self.seed}/{number}/{purpose}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def problem_id(number: int) -> str:
    """Return the id of the problem about a card."""
    return f"oracle:{number:03d}"


def card_number(text: str) -> int:
    """Return which card a prompt is about."""
    found = _NUMBER.search(text)
    if found is None:
        raise ValueError("The prompt of the oracle world must name a 'card number', got none: use benchmark 'oracle'")
    return int(found.group(1))


def clue_mark(number: int, slot: int) -> str:
    """Return the mark by which a rendered message can be recognised in a prompt."""
    return f"[clue {number}-{slot}]"


def visible_clues(text: str) -> tuple[int, ...]:
    """Return the slots of the clues that a prompt shows, ascending."""
    return tuple(sorted({int(slot) for _, slot in _CLUE.findall(text)}))


def seen_clues(text: str) -> tuple[Seen, ...]:
    """Return what a prompt of the standard integrator shows of each clue, in the order in which it shows them.

    A message without any content left (neutral replacement) is not seen.
    """
    seen = []
    for block in _HEADER.split(text)[1:]:
        marks, reader = _CLUE.search(block), _READER.search(block)
        if marks or reader:
            slot = int(marks.group(2) if marks else reader.group(1))  # type: ignore[union-attr]
            seen.append(Seen(slot, bool(_ANSWER.search(block)), bool(marks)))
    return tuple(seen)


def judge(text: str) -> str:
    """Return what the evaluator of this world says to a prompt with two answers: the truth, briefly."""
    answers = dict(_JUDGED.findall(text))
    return f"I compared both numbers.\nCorrectness: {int(answers['Reference'] == answers['Submitted'])}"
