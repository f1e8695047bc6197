"""Numbers as answers give them, with or without a unit: read exactly, compared within a benchmark's tolerance."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction

from dhd_labels.grading.dressing import unwrapped
from dhd_labels.grading.mathtext import read_math
from dhd_labels.grading.notation import UnreadableError
from dhd_labels.grading.rough import rough
from dhd_labels.grading.units import (
    NO_UNIT,
    RADIAN,
    Unit,
    conversions,
    convert,
    factor,
    is_ambiguous,
    is_offset,
    read_unit,
)

MAX_LENGTH = 300
"""Characters of a number with its unit; longer texts are no numbers."""
_MAX_DIGITS, _MAX_EXPONENT, _MAX_BITS = 200, 400, 1400
_NUMERAL = re.compile(
    r"(?P<sign>[+-]?)\s*(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?:[eE](?P<e>[+-]?[0-9]+)(?![0-9A-Za-z]))?"
    r"(?:\s*(?:\\times|\\cdot|\*|x|\s)\s*10\s*\^\s*(?P<power>[+-]?[0-9]+|\{\s*[+-]?\s*[0-9]+\s*\}|\(\s*[+-]?[0-9]+\s*\)))?"
)
_MULTIPLES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_MULTIPLE = re.compile(rf"\s*({'|'.join(_MULTIPLES)})\b", re.IGNORECASE)
_LEAD = re.compile(
    r"\s*(?:(?:the\s+)?(?:final\s+)?answer\s*(?:is\b|:)|about\b|approximately\b|approx\.?(?![a-z])|roughly\b|around\b"
    r"|\\approx(?![a-z])|\\sim(?:eq)?(?![a-z])|≈|~|:)\s*",
    re.IGNORECASE,
)
_REASON = re.compile(r"[\s,;(]+(?:because|since|due to)\b.*", re.IGNORECASE | re.DOTALL)
_DOUBT = re.compile(r"\b(?:not|isn't|never|if|unless|when|because|than|or|and|cannot|wrong)\b|n't", re.IGNORECASE)
_SEVERAL = re.compile(r",\s|;")
_UNEQUAL = re.compile(r"<|>|\\(?:leq?|geq?|lt|gt|neq?|pm|mp|leqslant|geqslant)(?![a-z])|!=")
_DECIMAL = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
# "2.52(3)" has an uncertainty and "0.5 (50%)" says a number twice; neither is a product.
_BRACKETED = re.compile(rf"(?<![\w.^}}]){_DECIMAL}\s*\(\s*[+-]?[0-9.,]+\s*(?:\\?%)?\s*\)(?!\s*\^)")
# "1.25-1.35 GPa" is a range, unless an operator follows.
_SPAN = re.compile(rf"\s*({_DECIMAL})(\s*-\s*)({_DECIMAL})(?![0-9.])\s*(?=$|\\?%|[A-Za-z(µμΩÅ°]|\\times\s*10\s*\^)")
_WORD = r"[A-Za-z]{2,}"
_LETTER = (
    r"(?:\\?(?!(?:sin|cos|tan|cot|sec|csc|log|ln|lg|exp|sqrt|frac|int|sum|prod|lim|times|cdot|max|min|pi|a?rc[a-z]*)(?![a-z]))"
    r"[A-Za-zΑ-Ωα-ω]+|\\(?:bar|vec|hat|dot|tilde|overline)\s*\{[^{}]*\}|\[[^\[\]]*\])"
)
_INDEX = (
    r"(?:\s*(?:_\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\?[A-Za-z0-9]+)"
    r"|\^\s*\{?\s*(?:\\(?:circ|prime|theta|ominus)|\*|°)\s*\}?|'))*"
)
# A name of one value: "x", "\Delta H^\circ", "f(2)", "|v|", "the number of moles n".
_NAMED = re.compile(
    rf"(?:{_WORD}[\s,:]+)*(?:\\(?:angle|triangle|Delta|delta)|[∠ΔΛ])?{_INDEX}\s*"
    rf"(?:\|\s*{_LETTER}{_INDEX}\s*\||{_LETTER}{_INDEX})\s*(?:\([^()]*\))?"
)
_ROUNDED, _COARSE = Fraction(1, 50), Fraction(1, 5)
_EQUALS = re.compile(r"(=|\\approx(?![a-z])|\\simeq(?![a-z]))")
_CUT = re.compile(r"(?<=[0-9)}\s])(?=[A-Za-z\\%°^{ΩµÅ/])")
_ROUNDING, _NEAR = Fraction(1, 10**9), Fraction(1, 200)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit. `rounded`: the number is a closed form in double precision, good to 9 digits."""

    value: Fraction
    unit: Unit = NO_UNIT
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an answer may be from the reference: absolute, or relative to the reference. A bound is inside."""

    absolute: Fraction = Fraction(0)
    relative: Fraction = Fraction(0)

    def accepts(self, gold: Fraction, given: Fraction, rounded: bool = False) -> bool:
        """Whether a value is close enough; at a reference of 0 a relative tolerance is none."""
        allowed = max(self.absolute, self.relative * abs(gold))
        if rounded:
            allowed += _ROUNDING * max(abs(gold), abs(given))
        return abs(gold - given) <= allowed


@dataclass(frozen=True, slots=True)
class NumberVerdict:
    """`correct` is None when undecided, and `reason` then says why; `canonical` has the reference's unit."""

    correct: bool | None
    canonical: str
    reason: str | None = None


@functools.lru_cache(20_000)
def read_quantity(text: str, allow_charge: bool = False) -> Quantity | None:
    """Read one number with an optional unit ("x = 3.5 \\times 10^{4}~km", "70 million km", "\\frac{1}{17}\\,\\Omega").

    Args:
        text: the answer.
        allow_charge: whether "2 e" is two elementary charges; it is 2 times 2.718... otherwise.

    Returns:
        The quantity, or None when the text is not one number: several values, an uncertainty, an inequality, prose.
    """
    if len(text) > MAX_LENGTH:
        return None
    text = _REASON.sub("", unwrapped(text))
    if _UNEQUAL.search(text) or any(text.count(one) != text.count(other) for one, other in ("()", "{}", "[]")):
        return None
    side = _final_side(_without_lead(text), allow_charge)
    if side is None or _BRACKETED.search(side) or _is_span(_without_lead(side)):
        return None
    return _value_and_unit(_without_lead(side), allow_charge)


def canonical_number(quantity: Quantity | Fraction) -> str:
    """Return a decimal without trailing zeros, a fraction where no decimal is exact, or 12 digits of a closed form."""
    value = quantity.value if isinstance(quantity, Quantity) else quantity
    if isinstance(quantity, Quantity) and quantity.rounded:
        return _decimal(Context(prec=12).create_decimal(Decimal(value.numerator) / Decimal(value.denominator)))
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = Context(prec=2 * (_MAX_DIGITS + _MAX_EXPONENT))
    return _decimal(digits.divide(Decimal(value.numerator), Decimal(value.denominator)))


def compare_quantities(
    gold: Quantity, given: Quantity, tolerance: Tolerance, words: Collection[str] = (), dimensionless: bool = False
) -> NumberVerdict:
    """Compare two quantities.

    A number without a unit is read in the reference's unit (a percent also as a fraction).

    Args:
        gold: the reference.
        given: the answer.
        tolerance: how far it may be off.
        words: what may follow the number besides the reference's nouns (words of the question).
        dimensionless: whether a reference without a unit has no dimension; else its unit is just not written, and any
            unit is allowed after an equal number.
    """
    strange = [noun for noun in given.unit.nouns if noun not in gold.unit.nouns and noun not in words]
    if not gold.unit.factors:
        strange += [word for word in given.unit.odd if word.casefold() not in words]
    if strange:
        return NumberVerdict(None, "", f"the unit {strange[0][:20]!r} is not known")
    rounded = gold.rounded or given.rounded
    if not gold.unit.factors:
        found = _against_bare(gold, given, tolerance, rounded)
        dimension = dimensionless and given.value and given.unit.factors and factor(given.unit, NO_UNIT) is None
        return NumberVerdict(None, "", "the reference has no unit") if found.correct and dimension else found
    if not given.unit.factors:
        return _without_unit(gold, given, tolerance, rounded)
    return _in_units(gold, given, tolerance, rounded)


def _in_units(gold: Quantity, given: Quantity, tolerance: Tolerance, rounded: bool) -> NumberVerdict:
    """Compare two quantities that both have units."""
    values, is_open = conversions(given.value, given.unit, gold.unit)
    if not values:
        return _of_other_dimension(gold, given)
    value = values[0]
    scaled = given.unit.factors != gold.unit.factors
    correct = tolerance.accepts(gold.value, value, rounded or scaled)
    if is_open and any(tolerance.accepts(gold.value, other, rounded=True) for other in values):
        return NumberVerdict(None, "", "a rate of turns or of angles")
    if not correct and (doubt := _doubt(gold, given, value, tolerance)):
        return NumberVerdict(None, "", doubt)
    return NumberVerdict(correct, _with_unit(Quantity(value, gold.unit, rounded or scaled)))


def _of_other_dimension(gold: Quantity, given: Quantity) -> NumberVerdict:
    """Call a unit of another dimension wrong only if it cannot have been meant as the reference's."""
    if is_ambiguous(gold.unit) or is_ambiguous(given.unit):
        return NumberVerdict(None, "", "a pound is a mass or a force")
    readings = [(one, other) for one in _readings(gold.unit) for other in _readings(given.unit)]
    if (
        gold.unit.is_vague
        or given.unit.is_vague
        or any(conversions(given.value, other, one)[0] for one, other in readings)
    ):
        return NumberVerdict(None, "", f"the unit '{given.unit}' has another dimension as it is read")
    return NumberVerdict(False, f"{canonical_number(given)} {given.unit}")


def _readings(unit: Unit) -> list[Unit]:
    return [Unit(factors) for factors in (unit.factors, *unit.others)]


def _doubt(gold: Quantity, given: Quantity, value: Fraction, tolerance: Tolerance) -> str | None:
    """Return why a value that is off in the reference's unit may still be right."""
    for one in _readings(gold.unit):
        for other in _readings(given.unit):
            values, _ = conversions(given.value, other, one)
            if any(tolerance.accepts(gold.value, found, rounded=True) for found in values):
                return "the unit has several readings"
    if is_offset(gold.unit) != is_offset(given.unit):
        if tolerance.accepts(gold.value, given.value):
            return "a temperature or a difference of temperatures"
        if abs(gold.value - value) <= 1:
            return "a temperature that is rounded in another unit"
    times = factor(given.unit, gold.unit) if not is_offset(gold.unit) and not is_offset(given.unit) else None
    if times and not tolerance.relative and not _is_decimal(times):
        near = Tolerance(relative=_NEAR).accepts(gold.value, value)
        return "a conversion that is rounded" if near else None
    return None


def _is_decimal(times: float) -> bool:
    """Whether a factor between units is a power of ten."""
    power = math.log10(times)
    return abs(power - round(power)) < 1e-9


def _with_unit(quantity: Quantity) -> str:
    return f"{canonical_number(quantity)} {quantity.unit}".strip()


def _against_bare(gold: Quantity, given: Quantity, tolerance: Tolerance, rounded: bool) -> NumberVerdict:
    """Compare with a reference that has no unit."""
    value = given.value
    if given.unit.is_percent:
        fraction = Quantity(value / 100, rounded=given.rounded)
        if not tolerance.accepts(gold.value, fraction.value, rounded) and tolerance.accepts(gold.value, value, rounded):
            return NumberVerdict(None, "", "the reference may be a fraction or in percent")
        return NumberVerdict(tolerance.accepts(gold.value, fraction.value, rounded), canonical_number(fraction))
    correct = tolerance.accepts(gold.value, value, rounded)
    if not correct and given.unit.factors and _is_power_of_ten(gold.value, given, tolerance):
        return NumberVerdict(None, "", "the reference has no unit, and its value may be in another one")
    return NumberVerdict(correct, canonical_number(given))


def scaled(given: Quantity) -> Iterator[Quantity]:
    """Yield a quantity with its value times any power of ten but one, as other prefixes would have it."""
    for power in (*range(-30, 0), *range(1, 31)) if given.value else ():
        yield replace(given, value=given.value * Fraction(10) ** power)


def _is_power_of_ten(gold: Fraction, given: Quantity, tolerance: Tolerance) -> bool:
    return bool(gold) and any(tolerance.accepts(gold, other.value) for other in scaled(given))


def _without_unit(gold: Quantity, given: Quantity, tolerance: Tolerance, rounded: bool) -> NumberVerdict:
    """Compare a number that came without a unit: it is in the reference's, or an angle "\\pi/2" in radians."""
    value = given.value
    if gold.unit.is_percent and not tolerance.accepts(gold.value, value, rounded):
        in_percent = value * 100
        if tolerance.accepts(gold.value, in_percent, rounded):
            value = in_percent
    if gold.unit.is_degree and not tolerance.accepts(gold.value, value, rounded):
        in_degrees = convert(value, RADIAN, gold.unit) or value
        if tolerance.accepts(gold.value, in_degrees, rounded=True):
            if not given.rounded:
                return NumberVerdict(None, "", "the angle may be in radians")
            value = in_degrees
    correct = tolerance.accepts(gold.value, value, rounded)
    return NumberVerdict(correct, _with_unit(Quantity(value, gold.unit, given.rounded)))


def _without_lead(text: str) -> str:
    while found := _LEAD.match(text):
        text = text[found.end() :]
    return text.strip()


def _is_span(text: str) -> bool:
    """Whether a text is a range: a dash between two numbers that ascend, or between two decimals without blanks."""
    found = _SPAN.match(text)
    if found is None:
        return False
    return Fraction(found[1]) < Fraction(found[3]) or (found[2] == "-" and "." in found[1] and "." in found[3])


def _final_side(text: str, allow_charge: bool) -> str | None:
    """Return the side of an equation that holds the value: the last, or the exact one before a rounded one.

    None when the last side is no value of what stands before it: "2x = 10" is about 2x, "3 \\times 4 = 10" is false.
    """
    sides, signs = _sides(text)
    if len(sides) == 1:
        return text
    if any(_DOUBT.search(side) or _SEVERAL.search(side) for side in sides[:-1]):
        return None
    if len(sides) == 2 and _NAMED.fullmatch(sides[1]) and (turned := _value_and_unit(sides[0], allow_charge)):
        return sides[0] if not turned.unit.nouns else None
    last = _value_and_unit(_without_lead(sides[-1]), allow_charge)
    if last is None:
        return None
    named = not sides[0] or _NAMED.fullmatch(sides[0]) is not None
    for side in sides[1 if named else 0 : -1]:
        value = _value_and_unit(side, allow_charge)
        if (not named and value is None) or (value is not None and not _agree(value, last, set(signs) != {"="})):
            return None
    rounding = next((i for i, sign in enumerate(signs) if sign != "="), None)
    if rounding is not None and _value_and_unit(sides[rounding], False):
        return sides[rounding]
    return sides[-1]


def _sides(text: str) -> tuple[list[str], list[str]]:
    """Return the sides of an equation and the signs between them; "P(X=2)" has none."""
    sides, signs, start = [], [], 0
    for found in _EQUALS.finditer(text):
        before = text[: found.start()]
        if before.count("(") == before.count(")") and before.count("{") == before.count("}"):
            sides.append(text[start : found.start()].strip())
            signs.append(found[0])
            start = found.end()
    return [*sides, text[start:].strip()], signs


def _agree(one: Quantity, other: Quantity, rounds: bool) -> bool:
    """Whether two sides of an equation may be one value, rounded; the unit may stand on one of them only."""
    value: Fraction | None = one.value
    if one.unit.factors and other.unit.factors:
        value = convert(one.value, one.unit, other.unit)
    elif one.unit.is_percent or other.unit.is_percent:
        value = one.value * (100 if other.unit.is_percent else Fraction(1, 100))
    return value is not None and Tolerance(relative=_COARSE if rounds else _ROUNDED).accepts(other.value, value)


def _value_and_unit(text: str, allow_charge: bool) -> Quantity | None:
    money = re.match(r"([+-]?)\s*dollar\s+", text)
    if money:
        text = f"{money[1]}{text[money.end() :]}"
    found = _numeral(text, allow_charge) or _closed_form(text, allow_charge)
    if found is None or not money:
        return found
    dollar = read_unit("dollar") or NO_UNIT
    unit = Unit(dollar.factors, found.unit.nouns)
    return Quantity(found.value, unit, found.rounded) if not found.unit.factors else None


def _numeral(text: str, allow_charge: bool) -> Quantity | None:
    found = _NUMERAL.match(text)
    if found is None or len(found["digits"]) > _MAX_DIGITS:
        return None
    exponent = int(found["e"] or 0) + int(re.sub(r"[{}()\s]", "", found["power"] or "0"))
    if abs(exponent) > _MAX_EXPONENT:
        return None
    rest = text[found.end() :]
    if multiple := _MULTIPLE.match(rest):
        exponent += _MULTIPLES[multiple[1].casefold()]
        rest = rest[multiple.end() :]
    unit = _unit(rest, allow_charge)
    if unit is None:
        return None
    digits = Fraction(found["digits"].replace(",", "").rstrip(".") or "0")
    return Quantity((-digits if found["sign"] == "-" else digits) * Fraction(10) ** exponent, unit)


def _unit(text: str, allow_charge: bool) -> Unit | None:
    unit = read_unit(text.strip())
    charge = unit is not None and ("elementary_charge", 1) in unit.factors
    return None if charge and not allow_charge else unit


def _closed_form(text: str, allow_charge: bool) -> Quantity | None:
    """Read the longest beginning that is a constant expression, if what follows it is a unit."""
    cuts = [len(text), *reversed([cut.start() for cut in _CUT.finditer(text)])]
    for cut in cuts[:24]:
        unit = _unit(text[cut:], allow_charge)
        if unit is None or not text[:cut].strip():
            continue
        try:
            value = rough(read_math(text[:cut]))
        except UnreadableError:
            continue
        if value is not None and Fraction(value).numerator.bit_length() <= _MAX_BITS:
            return Quantity(Fraction(value), unit, isinstance(value, float))
    return None


def _decimal(value: Decimal) -> str:
    return format(value.normalize(Context(prec=2 * (_MAX_DIGITS + _MAX_EXPONENT))), "f") if value else "0"
