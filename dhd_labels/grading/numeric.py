"""Compare scalar trees by value: exactly where rational, else to many digits. Runs in worker processes only.

Two expressions are unequal when they differ at a point, and equal when they agree at every one of dozens of points to
40 digits (constants: to 180 digits), and to more where large and small numbers meet. Points and precision are fixed, so
the verdict is the same everywhere.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Literal

import mpmath

from dhd_labels.grading import compare
from dhd_labels.grading.evaluate import TooLargeError
from dhd_labels.grading.notation import Node, UnreadableError
from dhd_labels.grading.structure import INTEGER_NAMES, symbols, walk
from dhd_labels.grading.values import TINY, Work, number, rounded

Comparison = Literal["equal", "unequal", "unknown"]

MAX_STEPS = 400_000
"""Steps of arithmetic for one answer, 1 to 2 s of a slow core; rounded ones count several times."""

_DIGITS = 60
_NOISE = 20
"""Digits at the end of a value that rounding may spoil."""
_MAX_EXTRA = 8000
_ENOUGH = 8
_PATIENCE = 3
_INTEGER_KINDS = {"series", "factorial", "binomial"}
_LARGE = (37, 50, 64, 97, 100, 128, 211, 365, 499, 1000, 1009, 2026, 4096, 1_000_003, 10**9 + 7)


class Scalars:
    """Comparison of scalars within a bound on the work that all comparisons of one answer may take together."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._work = Work(steps)

    def compare(self, one: Node, other: Node) -> Comparison:
        """Compare two scalar trees.

        Raises:
            TooLargeError: a value is beyond the bounds, or the work is.
            UnreadableError: a tree has no value.
        """
        # "log" without a base is natural to some and decimal to others: the verdict must be the same in both.
        bases = (Node("sym", name="e"), Node("num", value=Fraction(10)))
        trees = dict.fromkeys((_with_base(one, base), _with_base(other, base)) for base in bases)
        found = {self._compare(*pair) for pair in trees}
        return found.pop() if len(found) == 1 else "unknown"

    def _compare(self, one: Node, other: Node) -> Comparison:
        names = sorted(symbols(one) | symbols(other))
        extra = self._extra_digits(one, other)
        if extra > _MAX_EXTRA:
            exact = compare.exact_scalars(one, other)
            if exact != "unknown":
                return exact
            raise TooLargeError("numbers that need too many digits")
        found = self._functions(one, other, names, extra) if names else self._constants(one, other, extra)
        # Symbols that differ may be another naming, unless there are more of them.
        if found == "unequal" and symbols(one) != symbols(other) and len(symbols(one)) == len(symbols(other)):
            return "unknown"
        return found

    def _number(self, node: Node, point: Mapping[str, Fraction], digits: int) -> Any:
        return number(node, point, digits, self._work)

    def _extra_digits(self, *trees: Node) -> int:
        """Return the digits by which constants inside of the trees reach out: 300 for 1 + 10^{-300}."""
        reach = 0
        for node in dict.fromkeys(inside for tree in trees for inside in walk(tree) if not symbols(inside)):
            try:
                value = self._number(node, {}, 15)
            except UnreadableError:
                continue
            reach = max(reach, _reach(value))
        return reach * 3 // 10

    def _constants(self, one: Node, other: Node, extra: int) -> Comparison:
        few_digits, many_digits = _DIGITS + extra, 4 * _DIGITS + extra
        few = [self._number(node, {}, few_digits) for node in (one, other)]
        if all(isinstance(value, Fraction) for value in few):
            return "equal" if few[0] == few[1] else "unequal"
        many = [self._number(node, {}, many_digits) for node in (one, other)]
        with mpmath.workdps(many_digits):
            zero = [_vanishes(a, b, few_digits) for a, b in zip(few, many, strict=True)]
            if any(zero):
                return "equal" if all(zero) else "unequal"
            digits = _common_digits(*many)
        if digits >= many_digits - _DIGITS:
            return "equal"
        return "unequal" if digits <= few_digits - _NOISE else "unknown"

    def _functions(self, one: Node, other: Node, names: list[str], extra: int) -> Comparison:
        """Compare at integer points, and at real ones unless an expression has no meaning there."""
        kinds = {n.kind for tree in (one, other) for n in walk(tree)}
        calls = {n.name for tree in (one, other) for n in walk(tree) if n.kind == "call"}
        only_integers = bool(kinds & _INTEGER_KINDS or calls & {"gcd", "lcm"})
        integers = self._agree(one, other, _integer_points(names), extra)
        if integers is False:
            return "unequal"
        if only_integers:
            return "equal" if integers else "unknown"
        positive = self._agree(one, other, _real_points(names, 1), extra)
        negative = self._agree(one, other, _real_points(names, -1), extra)
        if positive and negative is not False:
            return "equal"
        if integers and calls & {"floor", "ceil"} and set(names) <= INTEGER_NAMES:
            return "equal"
        # Equal for whole or for positive numbers only: what the symbols stand for decides.
        return "unequal" if integers is None and positive is False else "unknown"

    def _agree(self, one: Node, other: Node, points: Iterator[Mapping[str, Fraction]], extra: int) -> bool | None:
        """Return whether two trees agree at all points where both have a value; None with too few of them."""
        seen, too_large = 0, 0
        for point in points:
            try:
                agree = self._agree_at(one, other, point, _DIGITS + extra)
            except UnreadableError:
                continue
            except TooLargeError:
                too_large += 1
                if self._work.is_spent:
                    raise
                if too_large > _PATIENCE:  # points grow: the next ones would be too large as well
                    break
                continue
            if agree is False:
                return False
            seen += agree is True
        return True if seen >= _ENOUGH else None

    def _agree_at(self, one: Node, other: Node, point: Mapping[str, Fraction], digits: int) -> bool | None:
        """Return whether two trees agree at a point; None when both are too small there to tell from noise."""
        values = [self._number(tree, point, digits) for tree in (one, other)]
        if all(isinstance(value, Fraction) for value in values):
            return bool(values[0] == values[1])
        with mpmath.workdps(digits):
            if max(abs(rounded(value)) for value in values) < TINY:
                return None
            common = _common_digits(*values)
        if common >= digits - _NOISE:
            return True
        # Terms that cancel leave noise, which goes away with more digits; a difference stays.
        values = [self._number(tree, point, 3 * digits) for tree in (one, other)]
        with mpmath.workdps(3 * digits):
            return _common_digits(*values) >= common + digits


def _with_base(node: Node, base: Node) -> Node:
    args = tuple(_with_base(arg, base) for arg in node.args)
    baseless = node.kind == "call" and node.name == "log" and len(args) == 1
    return Node(node.kind, (*args, base) if baseless else args, node.name, node.value)


def _vanishes(few: Any, many: Any, digits: int) -> bool:
    """Whether a value is zero: exactly, or rounding noise that shrinks with the precision."""
    if isinstance(few, Fraction):
        return few == 0
    small = mpmath.mpf(10) ** (_NOISE - digits)
    return bool(many == 0 or (abs(few) < small and (few == 0 or abs(many) < small * abs(few))))


def _reach(value: Any) -> int:
    """Return the size of a value in bits, large or small."""
    if isinstance(value, Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length())
    # The magnitude of zero is infinite, and zero is rounding noise here.
    return abs(int(mpmath.mag(value))) if value else 0


def _common_digits(one: Any, other: Any) -> float:
    """Return how many leading digits two values share."""
    one, other = rounded(one), rounded(other)
    gap, size = abs(one - other), max(abs(one), abs(other))
    if gap == 0:
        return float("inf")
    return float(mpmath.log10(size / gap))


def _integer_points(names: list[str]) -> Iterator[dict[str, Fraction]]:
    if len(names) == 1:
        for number in itertools.chain(range(1, 41), _LARGE):
            yield {names[0]: Fraction(number)}
        return
    generator = random.Random(20)
    for _ in range(60):
        yield {name: Fraction(generator.randint(1, 24)) for name in names}


def _real_points(names: list[str], sign: int) -> Iterator[dict[str, Fraction]]:
    generator = random.Random(21)
    for _ in range(14):
        yield {name: Fraction(sign * generator.randint(11, 4999), 1009) for name in names}
