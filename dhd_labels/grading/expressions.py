"""The rule of mathematical expressions: equal strings, then exact arithmetic here, then digits in a worker process."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from dhd_labels.grading.canonical import canonical_tree
from dhd_labels.grading.compare import Comparison, compare, exact_scalars
from dhd_labels.grading.decision import Decision, undecided
from dhd_labels.grading.dressing import plain, unwrapped
from dhd_labels.grading.evaluate import TooLargeError
from dhd_labels.grading.mathtext import read_math
from dhd_labels.grading.notation import Node, UnreadableError
from dhd_labels.grading.quantity import Tolerance, compare_quantities, read_quantity
from dhd_labels.grading.structure import structure
from dhd_labels.grading.units import NO_UNIT, RADIAN, Unit, factor, read_unit
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
# Units of answers in mathematics, by their names; what else a word could mean to a registry of units is left alone.
_UNITS = {
    "meter", "centimeter", "millimeter", "kilometer", "inch", "foot", "yard", "mile", "gram", "kilogram", "milligram",
    "pound", "second", "minute", "hour", "day", "week", "month", "year", "liter", "milliliter", "radian", "dollar",
    "cent",
}  # fmt: skip
_SLIP = Fraction(1, 10**9)
"""Relative error of a conversion factor."""
_POWER = r"(?:\s*\^\s*\{?\s*-?[0-9]\s*\}?)?"
_FONT_TAIL = re.compile(rf"(\\(?:text|textrm|mathrm|rm|operatorname)\s*\{{[^{{}}]*\}}{_POWER})\s*$")
_WORD_TAIL = re.compile(rf"(?<=[0-9)}}\s])(?<=\s)([A-Za-z]{{2,}}{_POWER})\s*$")
_GLUED_TAIL = re.compile(rf"(?<=[0-9)}}\s])\s*([A-Za-z]+{_POWER})\s*$")
_LOOSE_TAIL = re.compile(r"(?:\s|(\\(?:text|mathrm|rm)\s*\{))\s*([A-Za-z]{1,3})\s*(\}?)\s*$")
_PERCENT = re.compile(
    r"(?:\\(?:text|textrm|mathrm|rm)\s*\{\s*(?:percent|per cent)\s*\}|(?<=\s)(?:percent|per cent))\s*$"
)
_DEGREES = re.compile(
    r"(?:\\(?:text|textrm|mathrm|rm)\s*\{\s*(?:degrees?|deg)\s*\}|(?<=[0-9)}\s])(?:degrees?|deg))\s*$"
)
_DEGREE_SIGN = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|°")
_TEMPERATURE = re.compile(rf"(?:{_DEGREE_SIGN.pattern})\s*(?:\\(?:text|textrm|mathrm|rm)\s*\{{)?\s*[CF](?![A-Za-z])")
_PERCENT_SIGN = re.compile(r"\\?%")
_MONEY = re.compile(r"^\s*dollar\s+|\s+dollar\s*$")
# A name, as of "x = 5 cm", is no symbol of the value; constants and commands of layout are none either.
_NAME = re.compile(r"(?:[A-Za-z]|\\[a-z]+)(?:_\{?\w+\}?)?\s*(?=[=<>]|\\(?:[lg]eq?|in|approx)(?![a-z]))")
_NO_SYMBOL = re.compile(
    r"\\(?:frac|sqrt|pi|cdot|times|leq?|geq?|in|approx|pm|mp|circ|infty|cup|left|right|%|\{|\})(?![A-Za-z])|\b(?:and|or)\b"
)
_NUMERAL = re.compile(r"(?:[A-Za-z]\s*=)?[-+0-9.,/\s]*(?:\\frac\s*(?:\{\d+\}\s*\{\d+\}|\d\d))?\s*$")
_CAPITALS = re.compile(r"(?<![A-Za-z\\])[A-Z]{2,}(?![A-Za-z])")
DOLLAR = Unit((("dollar", 1),))
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Side:
    """An expression as text, the unit that stood behind it, and the text with it if the unit may be symbols."""

    text: str
    unit: Unit
    doubtful: str = ""

    @property
    def is_angle(self) -> bool:
        """Whether a degree sign is in it."""
        return bool(_DEGREE_SIGN.search(self.text))

    @property
    def has_mark(self) -> bool:
        """Whether a sign of its own, of degrees or percent, says what it measures."""
        return self.is_angle or bool(_PERCENT_SIGN.search(self.text))


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
    if any(_TEMPERATURE.search(side.text) for side in (gold, given)):
        return undecided(answer, "a temperature")
    # Beside a unit, letters are more likely a unit than symbols.
    if gold.unit and not given.unit:
        given = _side(answer, glued=True)
    elif given.unit and not gold.unit:
        gold = _side(reference, glued=True)
    if any(_has_symbols(one.text) and other.doubtful for one, other in ((gold, given), (given, gold))):
        gold, given = (
            _Side(side.doubtful or side.text, NO_UNIT if side.doubtful else side.unit) for side in (gold, given)
        )
    found = _decide_sides(gold, given, reference, answer)
    if found.correct is None:
        return found
    if found.correct and any(_CAPITALS.search(side.text) for side in (gold, given)):
        return undecided(answer, "capital letters side by side may be a name")
    symbols = [side.doubtful or side.text for side in (gold, given)]
    if not found.correct and symbols != [gold.text, given.text] and _decide(*symbols).correct is not False:
        return undecided(answer, "a unit or a product of symbols")
    return found


def _decide_sides(gold: _Side, given: _Side, reference: str, answer: str) -> Decision:
    if not gold.unit and not given.unit:
        return _decide_bare(gold, given)
    if gold.unit.factors == given.unit.factors:
        return _decide(gold.text, given.text)
    if gold.unit and given.unit:
        return _decide_quantities(gold, given, reference, answer)
    marked, bare = (gold, given) if gold.unit else (given, gold)
    if bare.is_angle and marked.unit == RADIAN:
        sides = [_in_radians(side) for side in (gold, given)]
        return _decide(sides[0], sides[1])
    if bare.has_mark:
        return undecided(answer, "the units differ")
    found = _decide(gold.text, given.text)
    if marked.unit == RADIAN and r"\pi" not in bare.text:
        return undecided(answer, "an angle in degrees or radians")
    if found.correct is False and (_has_symbols(bare.text) or _may_be_converted(marked.text, marked.unit, bare.text)):
        return undecided(answer, "a unit on one side only")
    return found


def _decide_bare(gold: _Side, given: _Side) -> Decision:
    """Compare expressions without units; a percent sign and a loose letter on one side only leave doubt."""
    found = _decide(gold.text, given.text)
    if found.correct is not False:
        return found
    for one, other in ((gold, given), (given, gold)):
        percent = "" if _PERCENT_SIGN.search(other.text) else _PERCENT_SIGN.sub("", one.text)
        loose, unit = _without_loose_unit(one.text)
        glued = _GLUED_TAIL.search(one.text)
        word = one.text[: glued.start()] if glued and len(glued[1]) > 1 and _side(one.text, glued=True).unit else ""
        same = any(less and _decide(less, other.text).correct for less in {percent, loose, word} - {one.text})
        if same or _may_be_converted(loose, unit, other.text):
            return undecided(given.text, "a unit on one side only")
    return found


def _decide_quantities(gold: _Side, given: _Side, reference: str, answer: str) -> Decision:
    """Compare numbers in different units; the same number in powers of one unit may be a slip."""
    one, other = read_quantity(reference), read_quantity(answer)
    found = compare_quantities(one, other, Tolerance()) if one and other else None
    if found is None or found.correct is None:
        return undecided(answer, "the units differ")
    bases = [{name for name, _ in side.unit.factors} for side in (gold, given)]
    if not found.correct and bases[0] == bases[1] and _decide(gold.text, given.text).correct is not False:
        return undecided(answer, "powers of the same unit")
    return Decision(found.correct, found.canonical)


def _in_radians(side: _Side) -> str:
    bare = _DEGREE_SIGN.sub(" ", side.text)
    return rf"({bare})\cdot\frac{{\pi}}{{180}}" if bare != side.text else side.text


def _may_be_converted(text: str, unit: Unit, other: str) -> bool:
    """Whether a number without a unit is one with a unit after a change of the unit."""
    one, bare = read_quantity(text), read_quantity(other)
    if one is None or bare is None or len(unit.factors) != 1:
        return False
    power = unit.factors[0][1]
    factors = [factor(unit, Unit(((name, power),))) for name in sorted(_UNITS)]
    return any(f and abs(one.value * Fraction(f) - bare.value) <= _SLIP * abs(bare.value) for f in factors)


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
    """Read both sides; "1,234" is one number unless the other side is a list or tuple."""
    trees = structure(read_math(gold)), structure(read_math(given))
    kinds = {tree.kind for tree in trees}
    if len(kinds) == 1 or not kinds & {"list", "set", "tuple"}:
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


def _side(text: str, glued: bool = False) -> _Side:
    """Split a unit off the end of a value without symbols.

    A unit is in a font, or a word after a space behind a number; with `glued` also letters right behind one.
    """
    core = plain(text)
    money = _MONEY.sub("", core)
    if money != core:
        return _Side(money, DOLLAR)
    core = _PERCENT.sub(r"\\%", core) if not _PERCENT_SIGN.search(core) else core
    core = _DEGREES.sub(r"^\\circ", core)
    fonts = _FONT_TAIL.search(core)
    found = fonts or _WORD_TAIL.search(core) or (_GLUED_TAIL.search(core) if glued else None)
    if found is None or not core[: found.start()].strip():
        return _Side(core, NO_UNIT)
    rest, name = core[: found.start()], unwrapped(found[1])
    unit = read_unit(name)
    if unit is None or not unit.factors or unit.nouns or not {name for name, _ in unit.factors} <= _UNITS:
        return _Side(core, NO_UNIT)
    letters = sum(map(str.isalpha, name))
    if _has_symbols(rest) or (letters == 1 and not glued and "^" not in name):
        return _Side(core, NO_UNIT)
    if fonts:
        return _Side(rest, unit)
    # Four letters and more are a word, fewer may be a product of symbols.
    plain_number = letters > 3 or _NUMERAL.fullmatch(rest) is not None
    return _Side(rest, unit, core if letters <= 3 else "") if plain_number else _Side(core, NO_UNIT)


def _has_symbols(text: str) -> bool:
    """Whether a letter stands for something in a value: not those of names, constants and layout."""
    rest = _NO_SYMBOL.sub(" ", _NAME.sub(" ", text))
    return any(character.isalpha() for character in rest)


def _without_loose_unit(text: str) -> tuple[str, Unit]:
    """Split off letters at the end, set apart, that could be any unit."""
    found = _LOOSE_TAIL.search(text)
    rest = text[: found.start()].strip() if found else ""
    if not found or not rest or bool(found[1]) != bool(found[3]):
        return text, NO_UNIT
    unit = read_unit(found[2])
    if found[2] == "e" and "text" not in (found[1] or "text"):
        return text, NO_UNIT
    set_apart = found[1] or rest.endswith(")") or not _has_symbols(rest)
    return (rest, unit) if set_apart and unit is not None and unit.factors else (text, NO_UNIT)


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
