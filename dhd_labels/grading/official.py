"""The benchmarks' own scorers, reimplemented from their published code, with their quirks.

* JEEBench `compute_metrics.py`: every capital A-D of the answer is a letter; partial credit of 0.25 a letter for a part
  of a multiple-correct key; numbers within 0.01 in double precision.
* SciBench `post_process.py`: the number after the last "=", within 5 % of the larger of the two; units are never
  compared; a power of ten in the unit counts when the unit has more than that. A unit that is only a power leaves the
  bare mantissa; there the whole number is taken as well, since our question does not show the power.
* LAB-Bench: the letter as its regular expression reads the inside of [ANSWER] tags.
* MaScQA has no published script: letters and closed ranges as in its paper; a plain number after rounding both to the
  fewer decimals, as in the public ScienceEval scorer.

A scorer that cannot read its reference is undecided, and none of them raises.

Omni-MATH-2 is scored by a judge model only, so there the strict rule stands.
"""

from __future__ import annotations

import math
import re

from dhd_labels.grading.decision import Decision, undecided
from dhd_labels.grading.dressing import unwrapped
from dhd_labels.grading.options import tagged
from dhd_labels.grading.quantity import canonical_number, read_quantity
from dhd_labels.grading.ranges import read_ranges
from dhd_labels.records import Problem

_MINUS = str.maketrans("\u2212", "-")
_POWER_UNIT = re.compile(r"10\s*\^\s*\{?\s*([+-]?[0-9]{1,3})\s*\}?(.*)", re.DOTALL)
_EXPONENT = re.compile(r"([+-]?[0-9.]+)[eE]([+-]?[0-9]{1,3})")
_PRODUCT = re.compile(r"\s*([+-]?[0-9.]+)\s*(?:\\times|\*)\s*10\s*\^\s*\{?\s*([+-]?[0-9]{1,3})\s*\}?")
_LAB_LETTER = re.compile(r"\s*([A-Z])\s*(?:\.\s.*)?\s*", re.DOTALL)


def decide_officially(problem: Problem, answer: str) -> Decision | None:
    """Decide by the benchmark's own scorer; None where it has none for this answer type."""
    match problem.benchmark, problem.answer_type:
        case "jeebench", "choice" | "choices":
            return _jee_letters(problem, answer)
        case "jeebench", "integer" | "number":
            return _jee_number(problem, answer)
        case "scibench", "quantity" | "number":
            return _scibench(problem, answer)
        case "lab-bench", "choice":
            return _lab_letter(problem, answer)
        case "mascqa", "range" | "number" | "integer":
            return _mascqa_number(problem, answer)
    return None


def _jee_letters(problem: Problem, answer: str) -> Decision:
    given, key = (set(re.findall("[ABCD]", text)) for text in (answer, problem.reference))
    canonical = "".join(sorted(given))
    if given == key:
        return Decision(True, canonical)
    part = problem.answer_type == "choices" and given <= key
    return Decision(False, canonical, partial=0.25 * len(given) if part else None)


def _jee_number(problem: Problem, answer: str) -> Decision:
    value, gold = _float(answer), _float(problem.reference)
    if gold is None:
        return _unreadable(problem, answer)
    if value is None:
        return undecided(answer, "the official scorer cannot read it as a number")
    return Decision(abs(gold - value) <= 0.01, repr(value))


def _scibench(problem: Problem, answer: str) -> Decision:
    number, power, unit = _scibench_reference(problem)
    mantissa = _float(number)
    whole = _float(f"{number}e{power}") if mantissa is not None else None
    if mantissa is None or whole is None:
        return _unreadable(problem, answer)
    text = answer.rpartition("=")[2].replace("$", " ").translate(_MINUS).replace("{,}", "").replace(",", "").strip()
    first = text.split()[0] if text.split() else ""
    product = _PRODUCT.match(text) if power else None
    expanded = f"{product[1]}e{product[2]}" if product else text
    # A bare mantissa counts where nothing but a power stands for the unit.
    tries = [(expanded, whole), ("" if product else first, whole)]
    tries += [(text, mantissa), (first, mantissa)] if not unit else []
    read = [(value, gold) for piece, gold in tries if (value := _float(piece)) is not None]
    if not read:
        return Decision(False, unwrapped(answer))
    accepted = [value for value, gold in read if math.isclose(value, gold, rel_tol=0.05)]
    return Decision(bool(accepted), repr(accepted[0] if accepted else read[0][0]))


def _scibench_reference(problem: Problem) -> tuple[str, int, str]:
    """Return number, power of ten and rest of the unit, from the fields as published or from the reference."""
    number, _, unit = problem.reference.translate(_MINUS).strip().partition(" ")
    if "answer_number" in problem.metadata:
        number = str(problem.metadata["answer_number"]).translate(_MINUS).strip()
        unit = str(problem.metadata.get("unit") or "")
    number = number.replace("{,}", "").replace(",", "")
    if found := _POWER_UNIT.match(unwrapped("1 " + unit)[1:].strip() if unit.strip() else ""):
        return number, int(found[1]), found[2].strip()
    # The normal form of a reference: "3.52e-19 J".
    if found := _EXPONENT.fullmatch(number):
        return found[1], int(found[2]), unit.strip()
    return number, 0, unit.strip()


def _unreadable(problem: Problem, answer: str) -> Decision:
    return undecided(answer, f"the official scorer cannot read the reference {problem.reference[:60]!r}")


def _lab_letter(problem: Problem, answer: str) -> Decision:
    found = _LAB_LETTER.fullmatch(tagged(answer) or answer)
    letter = found[1] if found else ""
    return Decision(letter == problem.reference.strip().upper(), letter or unwrapped(answer))


def _mascqa_number(problem: Problem, answer: str) -> Decision | None:
    """Round a plain number as ScienceEval does; ranges are as in strict mode."""
    key = read_ranges(problem.reference)
    given = read_quantity(answer)
    if key is None or given is None or len(key) != 1 or not re.fullmatch(r"\s*[-+]?[0-9.]+\s*", problem.reference):
        return None
    text = canonical_number(given)
    places = min(len(part.strip().partition(".")[2]) for part in (problem.reference, text)) if "/" not in text else 0
    try:
        same = round(float(given.value), places) == round(float(key[0].low), places)
    except OverflowError:
        # A double holds no such number, and the reference may be the same one.
        same = given.value == key[0].low
    return Decision(same, text)


def _float(text: str) -> float | None:
    try:
        value = float(text.translate(_MINUS).strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None
