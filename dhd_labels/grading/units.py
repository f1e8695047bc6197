"""Units of measurement as they are written in answers: read into a product of names, converted by pint.

A word that pint does not know is a noun ("electrons", "photons"): it counts things and has no dimension.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, islice, pairwise, product
from typing import Any

# Spellings that pint does not know; long names are also tried in lower case.
_ALIASES = {
    "KJ": "kJ", "kPA": "kPa", "KPa": "kPa", "Kg": "kg", "KG": "kg", "Km": "km", "AU": "astronomical_unit",
    "Torr": "torr", "yrs": "year", "hrs": "hour", "mins": "minute", "secs": "second", "lbs": "pound", "USD": "dollar",
    "deg": "degree", "pct": "percent", "Da": "dalton", "cc": "cm^3", "mph": "mile/hour", "fps": "foot/second",
    "rev": "revolution", "revs": "revolution", "rps": "revolution/second", "KW": "kW", "KN": "kN", "KV": "kV",
    "KHz": "kHz", "KeV": "keV", "ev": "eV", "kev": "keV", "kj": "kJ", "kw": "kW", "Mpa": "MPa", "kpa": "kPa",
    "Ohm": "ohm", "Ohms": "ohm", "gm": "gram", "gms": "gram", "kgs": "kg", "kms": "km",
    "cms": "cm", "mms": "mm", "mols": "mol", "rads": "radian", "y": "year", "Gs": "gauss",
}  # fmt: skip
# What pint reads as a unit although it counts things in answers, or is a word.
_NOUNS = {"particle", "particles", "molecule", "molecules", "count", "counts", "bit", "bits", "dot", "dots", "bp", "x",
          "dB", "dozen", "point", "points", "at", "as", "a", "am", "an", "us", "hand", "hands", "pins", "unit",
          "units"}  # fmt: skip
# Symbols that are also written without a space between them ("JK^{-1}"); any others would turn words into units.
_GLUED = {"J", "kJ", "K", "N", "kN", "mN", "m", "cm", "mm", "kg", "g", "s", "ms", "mol", "L", "W", "kW", "V", "C", "A",
          "Pa", "T", "rad"}  # fmt: skip
# Units that answers are written in, by pint's names, and their prefixes. Anything else may be a misread word.
_COMMON = frozenset(
    [
        "meter",
        "gram",
        "second",
        "mole",
        "liter",
        "joule",
        "newton",
        "watt",
        "pascal",
        "volt",
        "ampere",
        "coulomb",
        "kelvin",
        "hertz",
        "tesla",
        "farad",
        "henry",
        "ohm",
        "calorie",
        "bar",
        "electron_volt",
        "siemens",
        "molar",
        "gauss",
        "weber",
        "becquerel",
        "angstrom",
        "debye",
        "dalton",
        "parsec",
        "minute",
        "hour",
        "day",
        "week",
        "month",
        "year",
        "degree",
        "radian",
        "steradian",
        "inch",
        "foot",
        "yard",
        "mile",
        "pound",
        "ounce",
        "slug",
        "gallon",
        "quart",
        "ton",
        "metric_ton",
        "degree_Celsius",
        "degree_Fahrenheit",
        "percent",
        "dollar",
        "cent",
        "revolution",
        "turn",
        "revolutions_per_minute",
        "torr",
        "standard_atmosphere",
        "millimeter_Hg",
        "meter_Hg",
        "astronomical_unit",
        "light_year",
        "foot_pound",
        "horsepower",
        "pound_force_per_square_inch",
        "unified_atomic_mass_unit",
        "elementary_charge",
        "hectare",
        "pound_force",
        "dyne",
        "erg",
        "micron",
        "knot",
        "molal",
        "curie",
    ]
)
_PREFIXES = ("kilo", "centi", "deci", "milli", "micro", "nano", "pico", "femto", "mega", "giga", "tera")
# Units that stand for another dimension as well: a mass for a molar mass, an energy for a wave number, t for T.
_VAGUE = ("dalton", "unified_atomic_mass_unit", "electron_volt", "siemens", "metric_ton", "molar", "molal", "pound")
# What a symbol that stands alone may also mean.
_ALONE = {"C": "degree_Celsius", "F": "degree_Fahrenheit", "m": "molar"}
# In a product a temperature is a difference.
_STEPS = {"degree_Celsius": "kelvin", "degree_Fahrenheit": "degree_Rankine"}
_MAX_TEMPERATURE = 10**100
_TURNS: dict[str, tuple[tuple[str, int], ...]] = {
    "revolution": (), "turn": (), "revolutions_per_minute": (("minute", -1),),
}  # fmt: skip
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
_MICRO = re.compile(r"(?:\\mu|\\micro|µ|μ)\s*(?=[A-Za-zΩ])")
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_DANGLING = re.compile(r"^\s*-|(?:[-*/^_]|\\cdot|\\times)\s*$")
_MAX_UNIT, _MAX_READINGS = 80, 12


Factors = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Unit:
    """A product of powers of pint names, and the nouns that stood with them. Empty: no unit was written.

    `others`: further readings of the same text ("ms" is a millisecond, or a metre times a second).
    `odd`: words that are units by their letters only, which may be something else.
    """

    factors: Factors = ()
    nouns: tuple[str, ...] = ()
    others: tuple[Factors, ...] = field(default=(), compare=False)
    odd: tuple[str, ...] = field(default=(), compare=False)

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
    def is_vague(self) -> bool:
        """Whether a dimension other than the wanted one does not make the unit wrong."""
        return bool(self.odd) or any(name.endswith(_VAGUE) for name, _ in self.factors)

    @property
    def prefixed(self) -> frozenset[str]:
        """The factors that have a metric prefix."""
        return frozenset(name for name, _ in self.factors if name.startswith(_PREFIXES) and name not in _COMMON)

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
    text = _MICRO.sub(" µ", re.sub(r"([mkMGnpµμ])\s+(?=Ω)", r" \1", text))
    text = re.sub(r"\bper[\s-]*cent\b", " percent ", text)
    text = re.sub(
        r"\bdeg(?:rees?)?\.?\s*(?:(C)(?:elsius|entigrade)?|(F)(?:ahrenheit)?)\b", _temperature, text, flags=re.I
    )
    text = _DEGREE.sub(_degree, text)
    text = re.sub(r"\b(?:foot|ft)[\s-]*(?:lbs?|pounds?)\b", " foot_pound ", text)
    text = re.sub(r"\\alpha|\\beta|\\gamma|[αβγ](?![a-zµμΩ])", " ray_", text)
    return _product(_TOKEN.findall(re.sub(r"\bper\b", "/", text)))


def _temperature(found: re.Match[str]) -> str:
    return " degC " if found[1] else " degF "


def _degree(found: re.Match[str]) -> str:
    # A degree that is written to the symbol before it belongs to it: "J/g°C".
    joined = found.string[: found.start()][-1:].isalpha() and found[0][0] in "°\\^"
    return f"{'*' if joined else ' '}deg{found[1]} " if found[1] in ("C", "F") else " deg "


@dataclass(slots=True)
class _Symbol:
    """A symbol of a product: its readings, its exponent, and how it stands to a slash.

    `sign` is -1 directly below a slash. `below` is "strong" or "weak" when the symbol is joined by a dot, or by a
    space, to one below a slash: then the slash may be meant for it as well.
    """

    readings: tuple[Factors, ...]
    sign: int
    below: str
    exponent: int = 1


def _product(pieces: list[str]) -> Unit | None:
    """Read factors; a slash inverts the next factor, or the bracket after it."""
    symbols: list[_Symbol] = []
    nouns: list[str] = []
    odd: list[str] = []
    sign, depth_sign, last, under, join = 1, 1, False, "", "weak"
    for before, piece in pairwise(["", *pieces]):
        if piece in ("(", ")"):
            depth_sign, sign, under = (sign, 1, "") if piece == "(" else (1, 1, "")
        elif piece == "/":
            sign = -1
        elif _NAME.fullmatch(piece) or piece == "%":
            readings = _readings("percent" if piece == "%" else piece)
            direct, direction, sign = sign == -1, sign * depth_sign, 1
            last = bool(readings)
            if not readings:
                nouns.append(_singular(piece))
                continue
            odd += [piece] if not _is_common(readings[0]) else []
            under = "strong" if direct else ("weak" if under and join == "weak" else under)
            symbols.append(_Symbol(readings, direction, "" if direct or depth_sign == -1 else under))
            join = "weak"
        elif exponent := _EXPONENT.search(piece):
            glued = piece.startswith("^") or bool(_NAME.fullmatch(before))
            if abs(int(exponent[0])) > 12 or not glued or (not last and not nouns):
                return None
            if last:
                symbols[-1].exponent = int(exponent[0])
        elif piece.strip(" \t\r\n*,;{}-") and piece not in ("\\cdot", "\\times"):
            return None
        elif piece.strip(" \t\r\n,;{}"):
            join = "strong"
    found = _all_readings(symbols)
    return Unit(found[0], tuple(sorted(set(nouns))), found[1:], tuple(odd))


def _all_readings(symbols: list[_Symbol]) -> tuple[Factors, ...]:
    """Return the factors of all readings: by the usual meaning of "J/mol·K", J/(mol·K), first."""
    found: dict[Factors, None] = {}
    for below in (("strong",), (), ("strong", "weak")):
        for chosen in islice(product(*(symbol.readings for symbol in symbols)), _MAX_READINGS):
            found[_multiplied(symbols, chosen, below)] = None
    if len(symbols) == 1 and symbols[0].exponent == symbols[0].sign == 1:
        (reading, *_) = symbols[0].readings
        found |= {((_ALONE[key], 1),): None for key in _ALONE if reading == ((_full(key), 1),)}
    return tuple(found)


def _multiplied(symbols: list[_Symbol], chosen: tuple[Factors, ...], below: tuple[str, ...]) -> Factors:
    powers: dict[str, int] = {}
    for symbol, reading in zip(symbols, chosen, strict=True):
        # Who writes a negative exponent does not mean the slash before it.
        sign = -1 if symbol.below in below and symbol.exponent > 0 else symbol.sign
        # An exponent applies to the last symbol of a glued run ("JK^-1").
        for place, (name, power) in enumerate(reading, start=1):
            times = symbol.exponent if place == len(reading) else 1
            powers[name] = powers.get(name, 0) + power * sign * times
    factors = tuple(sorted((name, power) for name, power in powers.items() if power))
    if len(factors) > 1 or (factors and factors[0][1] != 1):
        factors = tuple(sorted((_STEPS.get(name, name), power) for name, power in factors))
    return factors


def _singular(word: str) -> str:
    word = word.casefold()
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


@lru_cache(maxsize=4096)
def _readings(name: str) -> tuple[Factors, ...]:
    """Return what a unit word may mean, the usual meaning first, also of glued symbols ("JK"); none for a noun."""
    if name in _NOUNS:
        return ()
    alias = _ALIASES.get(name, name)
    found: list[Factors] = []
    if parts := re.fullmatch(r"(\w+)([/^])(\w+)", alias):
        slash = parts[2] == "/"
        found.append(((_full(parts[1]), 1), (_full(parts[3]), -1)) if slash else ((_full(parts[1]), int(parts[3])),))
    elif whole := _known(alias) or (_known(alias.casefold()) if len(alias) > 3 else None):
        found.append(((whole, 1),))
    split = [tuple((_full(part), 1) for part in parts) for parts in (*_split(name, 2), *_split(name, 3))]
    # A word that is a unit by its letters only gives way to symbols: pint has "Nm" as something else.
    usual = bool(found) and (name in _ALIASES or _is_common(found[0]))
    return tuple(dict.fromkeys([*found, *split] if usual or not split else split))


def _split(name: str, count: int) -> Iterator[tuple[str, ...]]:
    """Yield the ways to read a run of letters as so many symbols."""
    for cuts in combinations(range(1, len(name)) if len(name) <= 8 else (), count - 1):
        parts = tuple(name[start:end] for start, end in pairwise((0, *cuts, len(name))))
        if set(parts) <= _GLUED:
            yield parts


def _is_common(reading: Factors) -> bool:
    return all(
        name in _COMMON or any(name == prefix + unit for prefix in _PREFIXES for unit in _COMMON if name.endswith(unit))
        for name, _ in reading
    )


def unit_names(text: str) -> set[str]:
    """Return the pint names of all units that a text mentions."""
    words = _NAME.findall(_MICRO.sub(" µ", text))
    return {name for word in words for reading in _readings(word)[:1] for name, _ in reading}


def _known(name: str) -> str | None:
    """Return pint's own name of a unit; not for a plural of a short symbol, which would read "cats" as a unit."""
    found = _registry().parse_unit_name(name)
    if not found:
        return None
    prefix, unit, _ = min(found, key=lambda parts: len(parts[0]))
    # Pint's SI_gauss is the unit of the Gaussian system, whose dimension is another.
    unit = "SI_gauss" if unit == "gauss" else unit
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
    registry.define("SI_gauss = 1e-4 * tesla")
    registry.define("dollar = [currency]")
    registry.define("cent = 0.01 * dollar")
    return registry


@lru_cache(maxsize=4096)
def factor(given: Unit, wanted: Unit) -> float | None:
    """Return what a value in `given` is multiplied by to be in `wanted`, or None when the dimensions differ."""
    if given.factors == wanted.factors:
        return 1.0
    return _magnitude(1, given, wanted) or None


def convert(value: Fraction, given: Unit, wanted: Unit) -> Fraction | None:
    """Return a value in another unit (temperatures with their offset), or None when the dimensions differ."""
    if given.factors == wanted.factors:
        return value
    if is_offset(given) or is_offset(wanted):
        found = _magnitude(float(value), given, wanted) if abs(value) < _MAX_TEMPERATURE else None
        return None if found is None else Fraction(found).limit_denominator(10**9)
    times = factor(given, wanted)
    return None if times is None else value * Fraction(repr(times))


def conversions(value: Fraction, given: Unit, wanted: Unit) -> tuple[list[Fraction], bool]:
    """Return a value in another unit by every convention that applies, and whether which one is open.

    A turn is an angle beside radians and a count beside hertz; a hertz is a count of turns or none of angles.
    """
    plain = convert(value, given, wanted)
    one, other = _rotation(given), _rotation(wanted)
    if plain is None or not {"turn", "hertz"} & (one | other) or one == other:
        return ([] if plain is None else [plain]), False
    counted = convert(value, _counted(given), _counted(wanted))
    by_count = [] if counted is None else [counted]
    if "angle" not in one | other and "turn" in one | other:
        # "120 rpm" is 2 Hz; beside a bare s^-1 it may be an angular frequency.
        sure = {"turn", "hertz"} <= one | other
        return (by_count, False) if sure else ([*by_count, plain], True)
    if "hertz" in one | other and "angle" in one | other:
        tau = Fraction(repr(2 * math.pi))
        return [plain, plain * tau if "hertz" in one else plain / tau], True
    return [plain], False


def _rotation(unit: Unit) -> set[str]:
    """Return which of turn, hertz and angle a unit has."""
    names = [name for name, _ in unit.factors]
    found = {"turn"} if any(name in _TURNS for name in names) else set()
    found |= {"hertz"} if any(name.endswith("hertz") for name in names) else set()
    return found | ({"angle"} if any(name.endswith(("radian", "degree")) for name in names) else set())


def _counted(unit: Unit) -> Unit:
    """Return a unit with turns as mere counts."""
    powers: dict[str, int] = {}
    for name, power in unit.factors:
        for part, times in _TURNS.get(name, ((name, 1),)):
            powers[part] = powers.get(part, 0) + power * times
    return Unit(tuple(sorted((name, power) for name, power in powers.items() if power)))


def is_offset(unit: Unit) -> bool:
    """Whether the unit is a temperature scale whose zero is not absolute zero."""
    return unit.factors in ((("degree_Celsius", 1),), (("degree_Fahrenheit", 1),))


def is_ambiguous(unit: Unit) -> bool:
    """Whether the unit has a pound, which is a mass or a force."""
    return any("pound" in name and name != "foot_pound" for name, _ in unit.factors)


def _magnitude(value: float, given: Unit, wanted: Unit) -> float | None:
    from pint import PintError

    try:
        one, other = (_pint_unit(unit) for unit in (given, wanted))
        if one.dimensionality != other.dimensionality:
            return None
        found = float(_registry().Quantity(value, one).to(other).magnitude)
    except (PintError, ArithmeticError):
        # A scale without a product, such as the neper, or a factor that no double holds.
        return None
    return found if math.isfinite(found) else None


def _pint_unit(unit: Unit) -> Any:
    registry = _registry()
    product: Any = registry.Unit("dimensionless")
    for name, power in unit.factors:
        product = product * registry.Unit(name) ** power
    return product
