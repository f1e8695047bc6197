"""Who decides whether an answer is right: the rules, or an evaluator whose verdicts are in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dhd_labels.grading import rules
from dhd_labels.records import OutcomeStatus, Problem


@dataclass(frozen=True, slots=True)
class Graded:
    """The verdict on an answer. `correct` is None exactly when `status` is not "graded"; `reason` then says why.

    `answer` is canonical: equal answers are equal strings. `graded_by` is the rule, or `evaluator`.
    """

    status: OutcomeStatus
    reason: str | None
    answer: str
    correct: bool | None
    graded_by: str


class Grader(Protocol):
    """Grades an extracted answer to a problem."""

    def __call__(self, problem: Problem, answer: str) -> Graded:
        """Return the verdict."""
        ...


def grade_by_rules(problem: Problem, answer: str) -> Graded:
    """Grade by the rule of the answer's declared type.

    A rule that fails on an answer fails for that answer alone: an operational outcome with the error as its reason,
    which the next reading of the store grades anew, without a call.
    """
    try:
        verdict = rules.grade(problem, answer)
    except Exception as error:
        return Graded("operational", f"grader_error: {type(error).__name__}: {error}", answer.strip(), None, "rule")
    return Graded(verdict.status, verdict.reason, verdict.canonical, verdict.correct, verdict.rule)
