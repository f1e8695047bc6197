"""One grading rule an answer type, exact arithmetic only.

Rules of this version: `integer` and `number` (decimals compared exactly; a unit after the number must be that of the
reference or a word of the question) and `choice` (an option letter, alone or followed by its option text). A text that
a rule cannot read is `undetermined`, and so is a number before any word that may change it ("5 million", "2x").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context
from typing import Literal

from dhd_labels.records import Problem

GRADER = "rule-1"
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname)\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[+-]?\.\d+)\s*(.*)", re.DOTALL)
_NO_UNITS = {"half", "third", "hundred", "thousand", "million", "dozen", "or", "and", "not", "times", "percent"}
"""Words that change a number or take it back; none of them is a unit, even where a question has them."""
_LETTER = re.compile(r"\(?\[?([A-Za-z])\)?\]?\s*(?:[.:)\-]\s*(.*))?", re.DOTALL)
_MAX_DIGITS = 60
_EXACT = Context(prec=2 * _MAX_DIGITS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one answer. `canonical` is the form in which equal answers are equal strings."""

    status: Literal["graded", "undetermined"]
    correct: bool | None
    canonical: str
    rule: str
    reason: str | None = None


def grade(problem: Problem, answer: str) -> Verdict:
    """Grade an extracted answer against the problem's reference.

    Raises:
        ValueError: the reference itself cannot be read by the rule of its declared type; checked when problems are
            read, so that no call is paid for it.
    """
    expected = _reference(problem)
    if expected is None:
        raise ValueError(
            f"The reference of problem {problem.problem_id!r} must be readable as {problem.answer_type!r}, "
            f"got {problem.reference!r}"
        )
    given = _RULES[problem.answer_type](answer, problem)
    if given is None:
        reason = f"not readable as {problem.answer_type}"
        return Verdict("undetermined", None, answer.strip(), problem.answer_type, reason)
    return Verdict("graded", given == expected, given, problem.answer_type)


def _reference(problem: Problem) -> str | None:
    """Return the canonical form of the reference; that of a choice is a letter and nothing else."""
    if problem.answer_type == "choice":
        letter = problem.reference.strip().upper()
        return letter if len(letter) == 1 and 0 <= ord(letter) - 65 < len(problem.choices) else None
    return _canonical_number(problem.reference, problem)


def _plain(text: str) -> str:
    """Strip LaTeX and markdown dressing that does not change a value."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("{,}", ",")
    for _ in range(3):
        text = _WRAPPER.sub(r" \1 ", text)
    text = re.sub(r"\\[,;! ]|\\left|\\right", " ", text).replace("\\%", "%").replace("\\$", "$")
    return text.replace("$", " ").strip(" \t\r\n*`").rstrip(".")


def _canonical_number(text: str, problem: Problem) -> str | None:
    """Return a number without trailing zeros ("3.50 km" -> "3.5"), or None if the text is not one number."""
    left, _, right = text.rpartition("=")
    if re.search(r"\b(?:not|isn't)\s*$", left, re.IGNORECASE):
        return None
    found = _NUMBER.fullmatch(_plain(right))
    if found is None or len(found.group(1)) > _MAX_DIGITS:
        return None
    unit = found.group(2).strip()
    if unit and unit.casefold() not in _units(problem):
        return None
    number = _EXACT.create_decimal(found.group(1).replace(",", "")).normalize(_EXACT)
    return format(number, "f") if number else "0"


def _units(problem: Problem) -> set[str]:
    """Return what may follow a number: the unit of the reference if it has one, else the words of the question."""
    reference = _NUMBER.fullmatch(_plain(problem.reference))
    if reference and reference.group(2).strip():
        return {reference.group(2).strip().casefold()}
    return {word.casefold() for word in re.findall(r"[^\W\d_]+", problem.question)} - _NO_UNITS


def _canonical_choice(text: str, problem: Problem) -> str | None:
    """Return an option letter, given as a letter, as "B. text" or as the text of exactly one option."""
    value, choices = _plain(text), problem.choices
    found = _LETTER.fullmatch(value)
    if found is None:
        named = [chr(65 + i) for i, choice in enumerate(choices) if _squash(choice) == _squash(value)]
        return named[0] if len(named) == 1 else None
    letter, rest = found.group(1).upper(), _squash(found.group(2) or "")
    if ord(letter) - 65 >= len(choices):
        return None
    # A letter that is followed by the text of another option contradicts itself.
    others = {_squash(choice) for i, choice in enumerate(choices) if chr(65 + i) != letter}
    return None if rest in others else letter


def _squash(text: str) -> str:
    return " ".join(text.casefold().split())


_RULES: dict[str, Callable[[str, Problem], str | None]] = {
    "integer": _canonical_number,
    "number": _canonical_number,
    "choice": _canonical_choice,
}
