"""The benchmarks' own scorers, reimplemented from their published code, with their quirks.

* JEEBench `compute_metrics.py`: every capital A-D of the answer is a letter; partial credit of 0.25 a letter for a part
  of a multiple-correct key; numbers within 0.01 in double precision.
* SciBench `post_process.py`: the number after the last "=", within 5 % of the larger of the two; units are never
  compared; a power of ten in the unit counts only when the unit has more than that.
* LAB-Bench: the letter as its regular expression reads the inside of [ANSWER] tags.
* MaScQA has no published script: letters and closed ranges as in its paper; a plain number after rounding both to the
  fewer decimals, as in the public ScienceEval scorer.

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
        case "mascqa", "range":
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
    value = _float(answer)
    if value is None:
        return undecided(answer, "the official scorer cannot read it as a number")
    return Decision(abs(float(problem.reference) - value) <= 0.01, repr(value))


def _scibench(problem: Problem, answer: str) -> Decision:
    number, _, unit = problem.reference.translate(_MINUS).strip().partition(" ")
    gold = float(number.replace(",", ""))
    power = _POWER_UNIT.match(unwrapped("1 " + unit)[1:].strip()) if unit.strip() else None
    expands = power is not None and bool(power[2].strip())
    text = answer.rpartition("=")[2].replace("$", " ").translate(_MINUS).replace("{,}", "").replace(",", "").strip()
    if power is not None and expands:
        gold *= 10.0 ** int(power[1])
        if product := _PRODUCT.match(text):
            mantissa = _float(product[1])
            text = repr(mantissa * 10.0 ** int(product[2])) if mantissa is not None else text
    for piece in (text, text.split()[0] if text.split() else ""):
        value = _float(piece)
        if value is not None:
            return Decision(math.isclose(value, gold, rel_tol=0.05), repr(value))
    return Decision(False, unwrapped(answer))


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
    return Decision(round(float(given.value), places) == round(float(key[0].low), places), text)


def _float(text: str) -> float | None:
    try:
        value = float(text.translate(_MINUS).strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None
