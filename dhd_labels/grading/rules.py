"""One grading rule an answer type, exact arithmetic only.

Rules of this version: `integer` and `number` (decimals compared exactly; a trailing unit in words is allowed) and
`choice` (an option letter, alone or followed by its option text). A text that a rule cannot read is `undetermined`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from dhd_labels.records import Problem

GRADER = "rule-1"
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mathit|operatorname)\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[+-]?\.\d+)\s*(.*)", re.DOTALL)
_UNIT = re.compile(r"(?:[%°]|[^\W\d_][^\d=+*<>]{0,30})?")
_LETTER = re.compile(r"\(?\[?([A-Za-z])\)?\]?\s*(?:[.:)\-]\s*(.*))?", re.DOTALL)
_MAX_DIGITS = 60


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
    canonical = _RULES[problem.answer_type]
    expected = canonical(problem.reference, problem.choices)
    if expected is None:
        raise ValueError(
            f"The reference of problem {problem.problem_id!r} must be readable as {problem.answer_type!r}, "
            f"got {problem.reference!r}"
        )
    given = canonical(answer, problem.choices)
    if given is None:
        reason = f"not readable as {problem.answer_type}"
        return Verdict("undetermined", None, answer.strip(), problem.answer_type, reason)
    return Verdict("graded", given == expected, given, problem.answer_type)


def _plain(text: str) -> str:
    """Strip LaTeX and markdown dressing that does not change a value."""
    text = unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("{,}", ",")
    for _ in range(3):
        text = _WRAPPER.sub(r" \1 ", text)
    text = re.sub(r"\\[,;! ]|\\left|\\right", " ", text).replace("\\%", "%").replace("\\$", "$")
    return text.replace("$", " ").strip(" \t\r\n*`").rstrip(".")


def _canonical_number(text: str, _choices: tuple[str, ...]) -> str | None:
    """Return a number without trailing zeros ("3.50 km" -> "3.5"), or None if the text is not one number."""
    value = _plain(text.rpartition("=")[2])
    found = _NUMBER.fullmatch(value)
    if found is None or len(found.group(1)) > _MAX_DIGITS or not _UNIT.fullmatch(found.group(2).strip()):
        return None
    number = Decimal(found.group(1).replace(",", "")).normalize()
    return format(number + 0, "f") if number else "0"


def _canonical_choice(text: str, choices: tuple[str, ...]) -> str | None:
    """Return an option letter, given as a letter, as "B. text" or as the text of exactly one option."""
    value = _plain(text)
    named = [chr(65 + i) for i, choice in enumerate(choices) if _squash(choice) == _squash(value)]
    if len(named) == 1:
        return named[0]
    found = _LETTER.fullmatch(value)
    if found is None:
        return None
    letter, rest = found.group(1).upper(), _squash(found.group(2) or "")
    if ord(letter) - 65 >= len(choices):
        return None
    # A letter that is followed by the text of another option contradicts itself.
    others = {_squash(choice) for i, choice in enumerate(choices) if chr(65 + i) != letter}
    return None if rest in others else letter


def _squash(text: str) -> str:
    return " ".join(text.casefold().split())


_RULES: dict[str, Callable[[str, tuple[str, ...]], str | None]] = {
    "integer": _canonical_number,
    "number": _canonical_number,
    "choice": _canonical_choice,
}
