"""Exact values of trees: rational arithmetic with bounds on size, so that no answer can make a number explode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from dhd_labels.grading.notation import Node, UnreadableError

MAX_BITS = 200_000
"""Size of an exact number; 2006! has 19,000 bits."""
_BUDGET = 20
"""Sum of the sizes of all numbers of one evaluation, in multiples of the largest size."""
MAX_FACTORIAL = 10_000
MAX_TERMS = 20_000


class TooLargeError(Exception):
    """A value beyond the bounds of exact or numeric arithmetic; the message says which."""


class NotRationalError(Exception):
    """A tree whose value is not a rational number by rational arithmetic alone."""


def exact(node: Node, values: Mapping[str, Fraction] | None = None, max_bits: int = MAX_BITS) -> Fraction:
    """Return the rational value of a tree.

    Args:
        node: a scalar tree.
        values: numbers for its symbols.
        max_bits: size of the largest number that may occur.

    Raises:
        NotRationalError: it has other symbols, roots, degrees or transcendental functions.
        UnreadableError: it has no value (division by zero, a factorial of a fraction).
        TooLargeError: a number would be larger than `max_bits`, or all together would take long.
    """
    return _Exact(values or {}, max_bits).value(node)


def power(base: Fraction, exponent: Fraction, max_bits: int = MAX_BITS) -> Fraction:
    """Return an exact integer power within bounds."""
    if exponent.denominator != 1:
        raise NotRationalError("a root")
    if base == 0 and exponent <= 0:
        raise UnreadableError("zero to a power that is not positive")
    if abs(base) == 1:
        return base if exponent.numerator % 2 else Fraction(1)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > max_bits:
        raise TooLargeError("a power that is too large to compute")
    return base ** int(exponent)


def factorial(of: Fraction, max_bits: int = MAX_BITS) -> Fraction:
    """Return an exact factorial within bounds."""
    if of.denominator != 1 or of < 0:
        raise UnreadableError("a factorial of something else than a natural number")
    if of > MAX_FACTORIAL or int(of) * int(of).bit_length() > max_bits:
        raise TooLargeError(f"a factorial of more than {MAX_FACTORIAL}")
    return Fraction(math.factorial(int(of)))


def binomial(upper: Fraction, lower: Fraction, max_bits: int = MAX_BITS) -> Fraction:
    """Return an exact binomial coefficient within bounds."""
    if upper.denominator != 1 or lower.denominator != 1 or upper < 0:
        raise UnreadableError("a binomial coefficient of something else than natural numbers")
    if upper > min(MAX_FACTORIAL, max_bits):
        raise TooLargeError(f"a binomial coefficient of more than {MAX_FACTORIAL}")
    return Fraction(math.comb(int(upper), int(lower)) if lower >= 0 else 0)


def integer_call(name: str, values: list[Fraction]) -> Fraction:
    """Return the value of a function that is exact on rationals; NotRationalError for any other function."""
    if name in ("floor", "ceil", "abs"):
        whole = math.floor(values[0]) if name == "floor" else math.ceil(values[0])
        return abs(values[0]) if name == "abs" else Fraction(whole)
    if name in ("min", "max"):
        return min(values) if name == "min" else max(values)
    if name in ("gcd", "lcm"):
        if any(v.denominator != 1 for v in values):
            raise UnreadableError(f"the {name} of a fraction")
        return Fraction((math.gcd if name == "gcd" else math.lcm)(*map(int, values)))
    raise NotRationalError(name)


class _Exact:
    def __init__(self, values: Mapping[str, Fraction], max_bits: int) -> None:
        self._values = dict(values)
        self._max_bits = max_bits
        self._left = _BUDGET * max_bits + 64 * MAX_TERMS
        self._terms = 0

    def value(self, node: Node) -> Fraction:
        if node.kind == "num" and node.value is not None:
            return node.value
        if node.kind == "sym":
            if node.name not in self._values:
                raise NotRationalError(node.name)
            return self._values[node.name]
        if node.kind == "series":
            return self._series(node)
        return self._checked(self._apply(node, [self.value(arg) for arg in node.args]))

    def _checked(self, value: Fraction) -> Fraction:
        bits = value.numerator.bit_length() + value.denominator.bit_length()
        self._left -= bits
        if self._left < 0:
            raise TooLargeError("long arithmetic with large numbers")
        return checked(value, self._max_bits)

    def _apply(self, node: Node, values: list[Fraction]) -> Fraction:
        match node.kind:
            case "group":
                return values[0]
            case "neg":
                return -values[0]
            case "add":
                return values[0] + values[1]
            case "sub":
                return values[0] - values[1]
            case "mul":
                return values[0] * values[1]
            case "div":
                if values[1] == 0:
                    raise UnreadableError("a division by zero")
                return values[0] / values[1]
            case "pow":
                return power(values[0], values[1], self._max_bits)
            case "root":
                return _root(*values)
            case "factorial":
                return factorial(values[0], self._max_bits)
            case "binomial":
                return binomial(values[0], values[1], self._max_bits)
            case "call":
                return integer_call(node.name, values)
        raise NotRationalError(node.kind)

    def _series(self, node: Node) -> Fraction:
        index, start, stop, body = node.args
        first, last = self.value(start), self.value(stop)
        total = Fraction(node.name == "prod")
        outer = self._values.get(index.name)
        for number in bounded_range(first, last):
            self._terms += 1
            if self._terms > MAX_TERMS:
                raise TooLargeError(f"a series of more than {MAX_TERMS} terms")
            self._values[index.name] = Fraction(number)
            term = self.value(body)
            total = self._checked(total + term if node.name == "sum" else total * term)
        if outer is None:
            self._values.pop(index.name, None)
        else:
            self._values[index.name] = outer
        return total


def bounded_range(first: Fraction, last: Fraction) -> range:
    """Return the integers of a series."""
    if first.denominator != 1 or last.denominator != 1:
        raise UnreadableError("a series between fractions")
    if last - first > MAX_TERMS:
        raise TooLargeError(f"a series of more than {MAX_TERMS} terms")
    return range(int(first), int(last) + 1)


def _root(of: Fraction, degree: Fraction) -> Fraction:
    """Return an exact square root of a perfect square."""
    if degree != 2 or of < 0:
        raise NotRationalError("a root")
    top, bottom = math.isqrt(of.numerator), math.isqrt(of.denominator)
    if top * top != of.numerator or bottom * bottom != of.denominator:
        raise NotRationalError("a root")
    return Fraction(top, bottom)


def checked(value: Fraction, max_bits: int = MAX_BITS) -> Fraction:
    """Return the value if it is within bounds."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > max_bits:
        raise TooLargeError("a number that is too large to compute")
    return value
