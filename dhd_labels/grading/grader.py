"""Who decides whether an answer is right: the rules, or an evaluator whose verdicts are in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dhd_labels.grading import rules
from dhd_labels.records import OutcomeStatus, Problem
from dhd_labels.text import clean


@dataclass(frozen=True, slots=True)
class Graded:
    """The verdict on an answer. `correct` and `score` are None exactly when `status` is not "graded".

    `answer` is the extracted answer on one line, as it was written; `canonical` names its class: answers that a rule
    knows to be equal share it, and every other answer is a class of its own. `graded_by` is the rule, or `evaluator`.
    `reason` says why there is no verdict, or what casts doubt on it.
    """

    status: OutcomeStatus
    reason: str | None
    answer: str
    correct: bool | None
    graded_by: str
    canonical: str = ""
    score: float | None = None


class Grader(Protocol):
    """Grades an extracted answer to a problem."""

    def __call__(self, problem: Problem, answer: str) -> Graded:
        """Return the verdict."""
        ...


def grade_by_rules(problem: Problem, answer: str, mode: rules.Mode = "strict") -> Graded:
    """Grade by the rule of the answer's declared type.

    A rule that fails on an answer fails for that answer alone: an operational outcome with the error as its reason,
    which the next reading of the store grades anew, without a call.
    """
    written = " ".join(clean(answer).split())
    try:
        verdict = _decide(problem, answer, mode)
    except Exception as error:
        reason = f"grader_error: {type(error).__name__}: {error}"
        return Graded("operational", reason, written, None, "rule", _as_written(written))
    status, reason_or_none = _outcome(verdict)
    # Only a decided answer has a canonical form that a rule vouches for; the words of another one may mean anything.
    canonical = f"{verdict.rule}: {verdict.canonical}" if status == "graded" else _as_written(written)
    return Graded(status, reason_or_none, written, verdict.correct, verdict.rule, canonical, verdict.score)


_decided: dict[tuple[object, ...], rules.Verdict] = {}
_MOST_KEPT = 500_000


def _decide(problem: Problem, answer: str, mode: rules.Mode) -> rules.Verdict:
    """Return a rule's verdict; one that was given before is not worked out again in this process."""
    key = (problem.benchmark, problem.problem_id, problem.answer_type, problem.reference, problem.choices, answer, mode)
    found = _decided.get(key)
    if found is None:
        if len(_decided) >= _MOST_KEPT:
            _decided.clear()
        found = _decided[key] = rules.grade(problem, answer, mode)
    return found


def _as_written(answer: str) -> str:
    return f"as written: {answer}"


def _outcome(verdict: rules.Verdict) -> tuple[OutcomeStatus, str | None]:
    """Return the status and reason of an outcome: what no rule could decide, or not in time, is undetermined."""
    if verdict.status == "timeout" or verdict.status == "gold_error":
        return "undetermined", f"{verdict.status}: {verdict.reason}"
    return verdict.status, verdict.reason
