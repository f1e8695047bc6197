"""Units of measurement as they are written in answers: read into a product of names, converted by pint.

A word that pint does not know is a noun ("electrons", "photons"): it counts things and has no dimension.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

# Spellings that pint does not know; long names are also tried in lower case.
_ALIASES = {
    "KJ": "kJ", "kPA": "kPa", "KPa": "kPa", "Kg": "kg", "KG": "kg", "Km": "km", "AU": "astronomical_unit",
    "Torr": "torr", "yrs": "year", "hrs": "hour", "mins": "minute", "secs": "second", "lbs": "pound", "USD": "dollar",
    "deg": "degree", "pct": "percent", "Da": "dalton", "cc": "cm^3", "mph": "mile/hour",
}  # fmt: skip
# What pint reads as a unit although it counts things in answers, or is a word.
_NOUNS = {"particle", "particles", "molecule", "molecules", "count", "counts", "bit", "bits", "dot", "dots", "bp", "x",
          "dB", "dozen", "point", "points", "at", "as", "a", "am", "an", "us", "hand", "hands", "pins"}  # fmt: skip
# Symbols that are also written without a space between them ("JK^{-1}"); any others would turn words into units.
_GLUED = {"J", "kJ", "K", "N", "m", "kg", "s", "mol", "W", "V", "C", "A", "Pa"}
_CONSTANTS = {"speed_of_light", "standard_gravity", "zeta", "vacuum_permittivity", "vacuum_permeability", "pi", "ln10"}
_NAME = re.compile(r"[A-Za-zµμΩÅ_]+")
_TOKEN = re.compile(
    r"[A-Za-zµμΩÅ_]+|%|\^\s*\{?\s*\(?\s*[+-]?[0-9]+\s*\)?\s*\}?|-?[0-9]+|/|\(|\)|[\s*,;{}-]+|\\cdot\b|\\times\b|."
)
_EXPONENT = re.compile(r"[+-]?[0-9]+")
_DEGREE = re.compile(
    r"(?:\{\s*\}\s*)?(?:\^\s*\{?\s*\\circ\s*\}?|\{\s*\\circ\s*\}|°|\\degree)\s*\}?\s*([CF](?![A-Za-z])|[NSEW](?![A-Za-z]))?"
)
_HAT = re.compile(r"\\(?:hat|vec|mathbf)\s*\{[^{}]*(?:\{[^{}]*\})?[^{}]*\}|\\hat\s*\\?[a-z]+")
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_DANGLING = re.compile(r"^\s*-|(?:[-*/^_]|\\cdot|\\times)\s*$")
_MAX_UNIT = 80


@dataclass(frozen=True, slots=True)
class Unit:
    """A product of powers of pint names, and the nouns that stood with them. Empty: no unit was written."""

    factors: tuple[tuple[str, int], ...] = ()
    nouns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.factors or self.nouns)

    def __str__(self) -> str:
        names = [name if power == 1 else f"{name}^{power}" for name, power in self.factors]
        return " ".join([*names, *(self.nouns if not names else ())])

    @property
    def is_percent(self) -> bool:
        """Whether the unit is a percent sign and nothing else."""
        return self.factors == (("percent", 1),)

    @property
    def is_degree(self) -> bool:
        """Whether the unit is a degree of arc."""
        return self.factors == (("degree", 1),)


NO_UNIT = Unit()
RADIAN = Unit((("radian", 1),))


@lru_cache(maxsize=4096)
def read_unit(text: str) -> Unit | None:
    """Read a unit without fonts ("kJ mol^{-1}", "m/s^2", "10" is none); None if the text is no unit or noun."""
    if len(text) > _MAX_UNIT or _DANGLING.search(text):
        return None
    text = (
        _HAT.sub(" ", text).replace("\\%", "%").replace("\\Omega", " Ω ").replace("\\AA", " Å ").replace("\\ell", "L")
    )
    text = re.sub(r"^\s*1\s*/", "/", _FRACTION.sub(r"(\1)/(\2)", text))
    text = re.sub(r"\\mathring\{\s*A\s*\}", " Å ", text)
    text = re.sub(r"(?:\\mu|\\micro|µ|μ)\s*(?=[A-Za-zΩ])", " µ", re.sub(r"([mkMGnpµμ])\s+(?=Ω)", r" \1", text))
    text = _DEGREE.sub(lambda m: f" deg{m[1]} " if m[1] in ("C", "F") else " deg ", text)
    text = re.sub(r"\b(?:foot|ft)[\s-]*(?:lbs?|pounds?)\b", " foot_pound ", text)
    text = re.sub(r"\\alpha|\\beta|\\gamma|[αβγ](?![a-zµμΩ])", " ray_", text)
    return _product(_TOKEN.findall(re.sub(r"\bper\b", "/", text)))


def _product(pieces: list[str]) -> Unit | None:
    """Read factors; a slash inverts the next factor, or the bracket after it."""
    powers: dict[str, int] = {}
    nouns: list[str] = []
    sign, depth_sign, last = 1, 1, [("", 0)]
    for before, piece in pairwise(["", *pieces]):
        if piece in ("(", ")"):
            depth_sign, sign = (sign, 1) if piece == "(" else (1, 1)
        elif piece == "/":
            sign = -1
        elif _NAME.fullmatch(piece) or piece == "%":
            found = _resolve("percent" if piece == "%" else piece)
            sign, direction = 1, sign * depth_sign
            if found is None:
                nouns.append(_singular(piece))
                last = [("", 0)]
                continue
            last = [(name, power * direction) for name, power in found]
            for name, power in last:
                powers[name] = powers.get(name, 0) + power
        elif exponent := _EXPONENT.search(piece):
            glued = piece.startswith("^") or bool(_NAME.fullmatch(before))
            if abs(int(exponent[0])) > 12 or not glued or (last == [("", 0)] and not nouns):
                return None
            # The last name was counted once; an exponent applies to the last symbol of a glued run ("JK^-1").
            name, power = last[-1]
            if name:
                powers[name] += power * (int(exponent[0]) - 1)
        elif piece.strip(" \t\r\n*,;{}-") and piece not in ("\\cdot", "\\times"):
            return None
    factors = tuple(sorted((name, power) for name, power in powers.items() if power))
    if len(factors) > 1 or (factors and factors[0][1] != 1):
        factors = tuple(sorted(("kelvin" if name == "degree_Celsius" else name, power) for name, power in factors))
    return Unit(factors, tuple(sorted(set(nouns))))


def _singular(word: str) -> str:
    word = word.casefold()
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


@lru_cache(maxsize=4096)
def _resolve(name: str) -> tuple[tuple[str, int], ...] | None:
    """Return the pint names of a unit word, split when symbols are glued ("JK"); None for a noun."""
    if name in _NOUNS:
        return None
    alias = _ALIASES.get(name, name)
    if found := re.fullmatch(r"(\w+)([/^])(\w+)", alias):
        return ((_full(found[1]), 1), (_full(found[3]), -1)) if found[2] == "/" else ((_full(found[1]), int(found[3])),)
    if whole := _known(alias) or (_known(alias.casefold()) if len(alias) > 3 else None):
        return ((whole, 1),)
    for cut in range(1, len(alias) if len(alias) <= 4 else 0):
        left, right = _known(alias[:cut]), _known(alias[cut:])
        if left and right and {alias[:cut], alias[cut:]} <= _GLUED:
            return ((left, 1), (right, 1))
    return None


def _known(name: str) -> str | None:
    """Return pint's own name of a unit; not for a plural of a short symbol, which would read "cats" as a unit."""
    found = _registry().parse_unit_name(name)
    if not found:
        return None
    prefix, unit, _ = min(found, key=lambda parts: len(parts[0]))
    constant = unit.endswith("_constant") or unit in _CONSTANTS
    # "cats" is no plural of a centi-unit.
    plural = name.endswith("s") and len(name) <= 4 and prefix and (prefix, unit) in _prefixed(name[:-1])
    return None if constant or plural else str(prefix + unit)


def _prefixed(name: str) -> set[tuple[str, str]]:
    return {(prefix, unit) for prefix, unit, _ in _registry().parse_unit_name(name)}


def _full(name: str) -> str:
    return _known(name) or name


@cache
def _registry() -> Any:
    import pint

    registry: Any = pint.UnitRegistry(cache_folder=None)
    registry.define("dollar = [currency]")
    registry.define("cent = 0.01 * dollar")
    return registry


@lru_cache(maxsize=4096)
def factor(given: Unit, wanted: Unit) -> float | None:
    """Return what a value in `given` is multiplied by to be in `wanted`, or None when the dimensions differ."""
    if given.factors == wanted.factors:
        return 1.0
    registry = _registry()
    one, other = (_pint_unit(unit) for unit in (given, wanted))
    if one.dimensionality != other.dimensionality:
        return None
    return float(registry.Quantity(1, one).to(other).magnitude)


def convert(value: Fraction, given: Unit, wanted: Unit) -> Fraction | None:
    """Return a value in another unit (temperatures with their offset), or None when the dimensions differ."""
    if given.factors == wanted.factors:
        return value
    if is_offset(given) or is_offset(wanted):
        one, other = (_pint_unit(unit) for unit in (given, wanted))
        if one.dimensionality != other.dimensionality:
            return None
        return Fraction(float(_registry().Quantity(float(value), one).to(other).magnitude)).limit_denominator(10**9)
    times = factor(given, wanted)
    return None if times is None else value * Fraction(repr(times))


def is_offset(unit: Unit) -> bool:
    """Whether the unit is a temperature scale whose zero is not absolute zero."""
    return unit.factors in ((("degree_Celsius", 1),), (("degree_Fahrenheit", 1),))


def is_ambiguous(unit: Unit) -> bool:
    """Whether the unit has a pound, which is a mass or a force."""
    return any("pound" in name and name != "foot_pound" for name, _ in unit.factors)


def _pint_unit(unit: Unit) -> Any:
    registry = _registry()
    product: Any = registry.Unit("dimensionless")
    for name, power in unit.factors:
        product = product * registry.Unit(name) ** power
    return product
