"""The rule of mathematical expressions: equal strings, then exact arithmetic here, then digits in a worker process."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dhd_labels.grading.canonical import canonical_tree
from dhd_labels.grading.compare import Comparison, compare, exact_scalars
from dhd_labels.grading.decision import Decision, undecided
from dhd_labels.grading.dressing import plain, unwrapped
from dhd_labels.grading.evaluate import TooLargeError
from dhd_labels.grading.mathtext import read_math
from dhd_labels.grading.notation import Node, UnreadableError
from dhd_labels.grading.quantity import Tolerance, compare_quantities, read_quantity
from dhd_labels.grading.structure import structure
from dhd_labels.grading.units import NO_UNIT, Unit, read_unit
from dhd_labels.grading.workers import compare_in_worker

_LABELS = {
    "min": "min", "minimum": "min", "minimal": "min", "least": "min", "smallest": "min",
    "max": "max", "maximum": "max", "maximal": "max", "greatest": "max", "largest": "max",
}  # fmt: skip
_LABEL = re.compile(rf"\\?\b({'|'.join(_LABELS)})\b", re.IGNORECASE)
_LABEL_DRESS = re.compile(
    r"^[\s=:(]*(?:value\b)?\s*(?:is\b)?[\s=:]*|\(\s*\)|\b(?:the|value|is)\b|[\s=:]+$", re.IGNORECASE
)
_SEPARATOR = re.compile(r"[,;]\s+(?:and\b)?|[,;](?![0-9]{3})|\band\b")
_UNIT_TAIL = re.compile(
    r"\s*(\\(?:text|textrm|mathrm|rm|operatorname)\s*\{[^{}]*\}(?:\s*\^\s*\{?\s*-?[0-9]\s*\}?)?|(?<=[0-9)}\s])[A-Za-z]{2,}(?:\s*\^\s*\{?[0-9]\}?)?)\s*$"
)
_LETTER_TAIL = re.compile(r"(?<=[0-9)}\s])\s*([A-Za-z](?:\s*\^\s*\{?[0-9]\}?)?)\s*$")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Side:
    """An expression as text, and the unit that stood behind it."""

    text: str
    unit: Unit


def is_broken(text: str) -> bool:
    """Whether a reference cannot be an expression or a sentence: nothing in it, or its braces do not close."""
    depth = 0
    for found in _BRACES.findall(text):
        depth += (found == "{") - (found == "}")
        if depth < 0:
            return True
    return depth != 0 or not (any(character.isalnum() for character in text) or "\\{" in text)


def decide_expression(reference: str, answer: str) -> Decision:
    """Compare an answer with a reference; undetermined where the notation or the mathematics is out of reach."""
    if _spelling(reference) == _spelling(answer):
        return Decision(True, _canonical(answer))
    labels = [_labelled(text) for text in (reference, answer)]
    if labels[0] is not None and labels[1] is not None:
        return _decide_labelled(labels[0], labels[1], answer)
    gold, given = _side(reference), _side(answer)
    if gold.unit or given.unit:
        # Beside a unit, a single letter is more likely a unit than a symbol.
        gold, given = _side(reference, letters=True), _side(answer, letters=True)
    if gold.unit and given.unit and gold.unit != given.unit:
        return _decide_quantities(reference, answer)
    return _decide(gold.text, given.text)


def _decide_quantities(reference: str, answer: str) -> Decision:
    """Compare numbers in different units."""
    gold, given = read_quantity(reference), read_quantity(answer)
    found = compare_quantities(gold, given, Tolerance()) if gold and given else None
    if found is None or found.correct is None:
        return undecided(answer, "the units differ")
    return Decision(found.correct, found.canonical)


def _decide(gold: str, given: str) -> Decision:
    try:
        trees, thousands = _read_both(gold, given)
    except UnreadableError as error:
        return undecided(given, f"not readable as an expression: {error}")
    try:
        found: Comparison | str = compare(trees[0], trees[1], exact_scalars)
        reason: str | None = None
        if found == "unknown":
            found, reason = compare_in_worker(gold, given, thousands)
    except TooLargeError as error:
        found, reason = "timeout", str(error)
    except UnreadableError as error:
        return undecided(given, str(error))
    if found in ("equal", "unequal"):
        return Decision(found == "equal", canonical_tree(trees[1]))
    return undecided(given, reason or "neither equal nor different by the rules", timeout=found == "timeout")


def _read_both(gold: str, given: str) -> tuple[tuple[Node, Node], bool]:
    """Read both sides; "1,234" is one number unless the other side is a list."""
    trees = structure(read_math(gold)), structure(read_math(given))
    kinds = {tree.kind for tree in trees}
    if len(kinds) == 1 or not kinds & {"list", "set"}:
        return trees, True
    return (structure(read_math(gold, False)), structure(read_math(given, False))), False


def _canonical(text: str) -> str:
    try:
        return canonical_tree(structure(read_math(_side(text).text)))
    except UnreadableError:
        return _spelling(text)


def _spelling(text: str) -> str:
    """Return a text without the spaces that mean nothing; those between digits do."""
    return re.sub(r"\s+(?![0-9])|(?<![0-9])\s+", "", unwrapped(text))


def _side(text: str, letters: bool = False) -> _Side:
    """Split a unit off the end; a word that no unit is called by is a symbol, and so is a letter but with `letters`."""
    core = re.sub(r"^\s*dollar\s+|\s+dollar\s*$", "", plain(text))
    found = _UNIT_TAIL.search(core) or (_LETTER_TAIL.search(core) if letters else None)
    if found is None or not core[: found.start()].strip():
        return _Side(core, NO_UNIT)
    unit = read_unit(unwrapped(found[1]))
    if unit is None or not unit.factors or unit.nouns:
        return _Side(core, NO_UNIT)
    return _Side(core[: found.start()], unit)


def _labelled(text: str) -> dict[str, str] | None:
    """Read "minimum 3, maximum 7" and the like; None unless every part has a label of its own."""
    found: dict[str, str] = {}
    core = unwrapped(text)
    if len(core) > 300 or not _LABEL.search(core):
        return None
    for part in filter(str.strip, _SEPARATOR.split(core)):
        labels = _LABEL.findall(part)
        if len(labels) != 1 or (label := _LABELS[labels[0].casefold()]) in found:
            return None
        rest = _LABEL.sub(" ", part)
        for _ in range(3):
            rest = _LABEL_DRESS.sub(" ", rest).strip()
        found[label] = rest
    return found if len(found) > 1 else None


def _decide_labelled(gold: dict[str, str], given: dict[str, str], answer: str) -> Decision:
    if set(gold) != set(given):
        return undecided(answer, "other labels than the reference")
    found = {label: _decide(value, given[label]) for label, value in sorted(gold.items())}
    canonical = ", ".join(f"{label} = {decision.canonical}" for label, decision in found.items())
    verdicts = [decision.correct for decision in found.values()]
    if False in verdicts:
        return Decision(False, canonical)
    return undecided(answer, "not every labelled value is decided") if None in verdicts else Decision(True, canonical)
