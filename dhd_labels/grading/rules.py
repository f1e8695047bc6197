"""Verdicts on answers: one rule an answer type, chosen by the type that the problem declares, never guessed.

Two modes. `strict`: the benchmark's numeric tolerance, units must agree, no partial credit. `official`: the benchmark's
own scorer, with partial credit where it gives it. What a rule cannot decide is undetermined, never wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dhd_labels.grading import options
from dhd_labels.grading.decision import MAX_ANSWER, Decision, undecided
from dhd_labels.grading.dressing import squash, unwrapped
from dhd_labels.grading.expressions import decide_expression, is_broken
from dhd_labels.grading.extract import extract_answer
from dhd_labels.grading.official import decide_officially
from dhd_labels.grading.quantity import (
    Quantity,
    Tolerance,
    canonical_number,
    compare_quantities,
    read_quantity,
    scaled,
)
from dhd_labels.grading.ranges import Interval, read_ranges
from dhd_labels.grading.units import unit_names
from dhd_labels.records import Problem

Mode = Literal["strict", "official"]
Status = Literal["graded", "no_answer", "undetermined", "timeout", "gold_error"]

TOLERANCES = {"jeebench": Tolerance(absolute=Fraction(1, 100)), "scibench": Tolerance(relative=Fraction(1, 20))}
"""Of numbers and quantities, by benchmark; elsewhere numbers are compared exactly."""
# Words that change a number or take it back; no question makes units of them.
_NO_UNITS = {
    "half",
    "third",
    "hundred",
    "thousand",
    "million",
    "dozen",
    "not",
    "and",
    "times",
    "percent",
    "plus_",
    "wrong",
}
_CHARGES = {("elementary_charge", 1), ("coulomb", 1)}
_PERCENT = re.compile(r"%|\bper\s*cent", re.IGNORECASE)
_TRUTH = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one answer. `correct` and `score` are None exactly when `status` is not "graded".

    `canonical` is the form in which equal answers are equal strings; `rule` names what decided.
    """

    status: Status
    correct: bool | None
    score: float | None
    rule: str
    canonical: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """How to read a reference (None: it cannot be read) and how to decide an answer against it."""

    read: Callable[[Problem], Any]
    decide: Callable[[Any, str, Problem], Decision]


def grade(problem: Problem, answer: str, mode: Mode = "strict") -> Verdict:
    """Grade an extracted answer against the problem's reference.

    A reference that cannot be read by the rule of its type is `gold_error`, whatever the answer.
    """
    return grade_by(problem.answer_type, problem, answer, mode)


def grade_by(name: str, problem: Problem, answer: str, mode: Mode = "strict") -> Verdict:
    """Grade by a named rule (`RULES`): the answer types, and `option_text` for an option's text without its letter."""
    rule = RULES[name]
    gold = rule.read(problem) if len(problem.reference) <= MAX_ANSWER else None
    if gold is None:
        reason = f"the reference {problem.reference[:60]!r} cannot be read as {name}"
        return Verdict("gold_error", None, None, name, "", reason)
    text = _unboxed(answer).strip()
    if not text:
        return Verdict("no_answer", None, None, name, "", "the answer is blank")
    if len(text) > MAX_ANSWER:
        return _verdict(name, undecided(text, f"longer than {MAX_ANSWER} characters"))
    if mode == "official" and (official := decide_officially(problem, text)) is not None:
        return _verdict(f"official:{problem.benchmark}", official)
    return _verdict(name, rule.decide(gold, text, problem))


def _verdict(rule: str, decision: Decision) -> Verdict:
    status: Status = "timeout" if decision.timeout else "undetermined" if decision.correct is None else "graded"
    return Verdict(status, decision.correct, decision.score, rule, decision.canonical, decision.reason)


def _unboxed(answer: str) -> str:
    """Return what the boxes of an answer hold, if it has any."""
    if "\\boxed" not in answer and "\\fbox" not in answer:
        return answer
    return extract_answer(answer).answer or ""


# Options.


def _read_choice(problem: Problem) -> str | None:
    letter = problem.reference.strip().upper()
    if len(letter) != 1 or not "A" <= letter <= "Z":
        return None
    return letter if not problem.choices or ord(letter) - 65 < len(problem.choices) else None


def _read_letters(problem: Problem) -> frozenset[str] | None:
    """Read a key of one or more letters: "ACD", "A,C", "B; D", "C OR D"."""
    text = re.sub(r"\b(?:or|and)\b|[\s,;]", "", problem.reference, flags=re.IGNORECASE).upper()
    limit = len(problem.choices) or 26
    known = all(0 <= ord(letter) - 65 < limit for letter in text)
    return frozenset(text) if text and known and len(set(text)) == len(text) <= 10 else None


def _named(text: str, problem: Problem) -> options.Letters | None:
    """Return the letters that an answer names, also by the text of exactly one option."""
    found = options.read_letters(text)
    count = len(problem.choices)
    if not count:
        return found
    single = found is not None and len(found.letters) == 1 and ord(found.letters[0]) - 65 < count
    if found is not None and single:
        own = problem.choices[ord(found.letters[0]) - 65]
        other = options.option_of_text(found.text, problem.choices) if found.text else None
        # A letter that is followed by the text of another option contradicts itself.
        return None if other not in (None, found.letters[0]) and not options.same_text(own, found.text) else found
    by_text = options.option_of_text(text, problem.choices)
    return options.Letters((by_text,)) if by_text else found


def _decide_choice(gold: frozenset[str] | str, text: str, problem: Problem) -> Decision:
    found = _named(text, problem)
    if found is None:
        if options.is_refusal(text):
            return Decision(False, squash(text))
        return undecided(text, "it names no option")
    if len(found.letters) > 1:
        # Naming several is no answer to a single choice, unless the key itself leaves them open.
        return Decision(found.alternatives and set(found.letters) <= set(gold) and len(gold) > 1, str(found))
    return Decision(found.letters[0] in gold, str(found))


def _decide_choices(gold: frozenset[str], text: str, problem: Problem) -> Decision:
    found = _named(text, problem)
    if found is None and options.is_refusal(text):
        return Decision(False, squash(text))
    if found is None or found.alternatives:
        return undecided(text, "it names alternatives" if found else "it names no option")
    return Decision(frozenset(found.letters) == gold, str(found))


def _decide_option_text(gold: str, text: str, problem: Problem) -> Decision:
    same = options.same_text(gold, text)
    return (
        undecided(text, "not comparable as text, numbers or residues") if same is None else Decision(same, squash(text))
    )


# Numbers.


def _read_number(problem: Problem) -> Quantity | None:
    found = read_quantity(problem.reference, allow_charge=True)
    return None if found is None or (problem.answer_type == "integer" and found.value.denominator != 1) else found


def _decide_number(gold: Quantity, text: str, problem: Problem) -> Decision:
    given = read_quantity(text, allow_charge=bool(_CHARGES & set(gold.unit.factors)))
    if given is None:
        return _same_words(text, problem) or undecided(text, f"not readable as {problem.answer_type}")
    tolerance = TOLERANCES.get(problem.benchmark, Tolerance())
    words = _words(problem) if not gold.unit else ()
    # SciBench leaves the unit blank only where there is none; elsewhere it may just not be written.
    dimensionless = problem.answer_type == "quantity" or problem.benchmark == "scibench"
    found = compare_quantities(gold, given, tolerance, words, dimensionless)
    doubt = _doubt_of_unit(given, problem) if found.correct and not gold.unit else None
    if found.correct is None or doubt:
        return _same_words(text, problem) or undecided(text, doubt or found.reason or "")
    return Decision(found.correct, found.canonical)


def _doubt_of_unit(given: Quantity, problem: Problem) -> str | None:
    """Return why a number may be another one than a reference without a unit: "1.3 GPa", if nobody asked for GPa.

    Without a question there is nothing to doubt it by, and the number decides.
    """
    if (
        problem.question.strip()
        and given.unit.prefixed
        and given.unit.prefixed - unit_names(unwrapped(problem.question))
    ):
        return "the reference has no unit, and its value may be in another one"
    return None


def _same_words(text: str, problem: Problem) -> Decision | None:
    # Case counts: "2 M" is not "2 m".
    one, other = (" ".join(unwrapped(either).split()) for either in (text, problem.reference))
    return Decision(True, squash(text)) if one == other else None


def _words(problem: Problem) -> set[str]:
    """Return the words of the question, which may follow a number ("7 apples"), in the form that nouns have."""
    words = {word.casefold() for word in re.findall(r"[^\W\d_]{3,}", problem.question)} - _NO_UNITS
    return words | {word[:-1] for word in words if word.endswith("s") and len(word) > 3}


def _read_range(problem: Problem) -> tuple[Interval, ...] | None:
    return read_ranges(problem.reference)


def _decide_range(gold: tuple[Interval, ...], text: str, problem: Problem) -> Decision:
    given = read_quantity(text)
    strange = sorted({*given.unit.nouns, *map(str.casefold, given.unit.odd)} - _words(problem)) if given else []
    if given is None or strange:
        reason = f"the unit {strange[0][:20]!r} is not known" if strange else "not readable as one number"
        return _same_words(text, problem) or undecided(text, reason)
    correct = any(interval.holds(given) for interval in gold)
    if given.unit.is_percent and not _PERCENT.search(problem.question):
        fraction = Quantity(given.value / 100, rounded=given.rounded)
        if correct or any(interval.holds(fraction) for interval in gold):
            return undecided(text, "the reference may be a fraction or in percent")
    if correct and (doubt := _doubt_of_unit(given, problem)):
        return undecided(text, doubt)
    if (
        not correct
        and given.unit.factors
        and any(interval.holds(other) for interval in gold for other in scaled(given))
    ):
        return undecided(text, "the reference has no unit, and its value may be in another one")
    return Decision(correct, canonical_number(given))


# Expressions and words.


def _read_expression(problem: Problem) -> str | None:
    reference = _unboxed(problem.reference).strip()
    return None if not reference or is_broken(reference) else reference


def _read_text(problem: Problem) -> str | None:
    return _unboxed(problem.reference).strip() or None


def _decide_text(gold: str, text: str, problem: Problem) -> Decision:
    one, other = squash(gold), squash(text)
    if one == other:
        return Decision(True, other)
    if one in _TRUTH and other in _TRUTH:
        return Decision(_TRUTH[one] == _TRUTH[other], other)
    return undecided(text, "other words than the reference")


RULES: dict[str, Rule] = {
    "choice": Rule(_read_choice, _decide_choice),
    "choices": Rule(_read_letters, _decide_choices),
    "choice_any": Rule(_read_letters, _decide_choice),
    "option_text": Rule(_read_text, _decide_option_text),
    "integer": Rule(_read_number, _decide_number),
    "number": Rule(_read_number, _decide_number),
    "quantity": Rule(_read_number, _decide_number),
    "range": Rule(_read_range, _decide_range),
    "expression": Rule(_read_expression, lambda gold, text, _: decide_expression(gold, text)),
    "text": Rule(_read_text, _decide_text),
}
