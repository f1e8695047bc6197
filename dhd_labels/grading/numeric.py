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

from dhd_labels.grading import compare, evaluate
from dhd_labels.grading.evaluate import NotRationalError, TooLargeError
from dhd_labels.grading.notation import Node, UnreadableError
from dhd_labels.grading.structure import INTEGER_NAMES, symbols, walk

Comparison = Literal["equal", "unequal", "unknown"]

_DIGITS = 60
_NOISE = 20
"""Digits at the end of a value that rounding may spoil."""
_MAX_EXTRA = 8000
_TINY = mpmath.mpf(10) ** -28
_MAX_MAGNITUDE = 10**6
_ENOUGH = 8
_PATIENCE = 3
_INTEGER_KINDS = {"series", "factorial", "binomial"}
_LARGE = (37, 50, 64, 97, 100, 128, 211, 365, 499, 1000, 1009, 2026, 4096, 1_000_003, 10**9 + 7)


def compare_scalars(one: Node, other: Node) -> Comparison:
    """Compare two scalar trees.

    Raises:
        TooLargeError: a value is beyond the bounds.
        UnreadableError: a tree has no value.
    """
    # "log" without a base is natural to some and decimal to others: the verdict must be the same in both.
    bases = (Node("sym", name="e"), Node("num", value=Fraction(10)))
    trees = {(_with_base(one, base), _with_base(other, base)) for base in bases}
    found = {_compare(*pair) for pair in trees}
    return found.pop() if len(found) == 1 else "unknown"


def _with_base(node: Node, base: Node) -> Node:
    args = tuple(_with_base(arg, base) for arg in node.args)
    baseless = node.kind == "call" and node.name == "log" and len(args) == 1
    return Node(node.kind, (*args, base) if baseless else args, node.name, node.value)


def _compare(one: Node, other: Node) -> Comparison:
    names = sorted(symbols(one) | symbols(other))
    extra = _extra_digits(one, other)
    if extra > _MAX_EXTRA:
        exact = compare.exact_scalars(one, other)
        if exact != "unknown":
            return exact
        raise TooLargeError("numbers that need too many digits")
    found = _compare_functions(one, other, names, extra) if names else _compare_constants(one, other, extra)
    # Symbols that differ may be another naming, unless there are more of them.
    if found == "unequal" and symbols(one) != symbols(other) and len(symbols(one)) == len(symbols(other)):
        return "unknown"
    return found


def _compare_constants(one: Node, other: Node, extra: int) -> Comparison:
    few_digits, many_digits = _DIGITS + extra, 4 * _DIGITS + extra
    few = [_number(node, {}, few_digits) for node in (one, other)]
    if all(isinstance(value, Fraction) for value in few):
        return "equal" if few[0] == few[1] else "unequal"
    many = [_number(node, {}, many_digits) for node in (one, other)]
    with mpmath.workdps(many_digits):
        zero = [_vanishes(a, b, few_digits) for a, b in zip(few, many, strict=True)]
        if any(zero):
            return "equal" if all(zero) else "unequal"
        digits = _common_digits(*many)
    if digits >= many_digits - _DIGITS:
        return "equal"
    return "unequal" if digits <= few_digits - _NOISE else "unknown"


def _vanishes(few: Any, many: Any, digits: int) -> bool:
    """Whether a value is zero: exactly, or rounding noise that shrinks with the precision."""
    if isinstance(few, Fraction):
        return few == 0
    small = mpmath.mpf(10) ** (_NOISE - digits)
    return bool(many == 0 or (abs(few) < small and (few == 0 or abs(many) < small * abs(few))))


def _extra_digits(*trees: Node) -> int:
    """Return the digits by which constants inside of the trees reach out: 300 for 1 + 10^{-300}."""
    reach = 0
    for node in {inside for tree in trees for inside in walk(tree) if not symbols(inside)}:
        try:
            value = _number(node, {}, 15)
        except UnreadableError:
            continue
        bits = [value.numerator.bit_length(), value.denominator.bit_length()] if isinstance(value, Fraction) else []
        # mpmath.mag is infinite for zero, which is rounding noise here.
        size = max(bits) if bits else abs(mpmath.mag(value)) if value else 0
        reach = max(reach, int(size))
    return reach * 3 // 10


def _common_digits(one: Any, other: Any) -> float:
    """Return how many leading digits two values share."""
    one, other = _real(one), _real(other)
    gap, size = abs(one - other), max(abs(one), abs(other))
    if gap == 0:
        return float("inf")
    return float(mpmath.log10(size / gap))


def _compare_functions(one: Node, other: Node, names: list[str], extra: int) -> Comparison:
    """Compare at integer points, and at real ones unless an expression has no meaning there."""
    kinds = {n.kind for tree in (one, other) for n in walk(tree)}
    calls = {n.name for tree in (one, other) for n in walk(tree) if n.kind == "call"}
    only_integers = bool(kinds & _INTEGER_KINDS or calls & {"gcd", "lcm"})
    integers = _agreement(one, other, _integer_points(names), extra)
    if integers is False:
        return "unequal"
    if only_integers:
        return "equal" if integers else "unknown"
    positive = _agreement(one, other, _real_points(names, 1), extra)
    negative = _agreement(one, other, _real_points(names, -1), extra)
    if positive and negative is not False:
        return "equal"
    if integers and calls & {"floor", "ceil"} and set(names) <= INTEGER_NAMES:
        return "equal"
    # Equal for whole or for positive numbers only: what the symbols stand for decides.
    return "unequal" if integers is None and positive is False else "unknown"


def _agreement(one: Node, other: Node, points: Iterator[Mapping[str, Fraction]], extra: int) -> bool | None:
    """Return whether two trees agree at all points where both have a value; None with too few of them."""
    seen, too_large, digits = 0, 0, _DIGITS + extra
    for point in points:
        try:
            values = [_number(tree, point, digits) for tree in (one, other)]
        except UnreadableError:
            continue
        except TooLargeError:
            too_large += 1
            if too_large > _PATIENCE:  # points grow: the next ones would be too large as well
                break
            continue
        exact = all(isinstance(value, Fraction) for value in values)
        if exact and values[0] != values[1]:
            return False
        if not exact:
            with mpmath.workdps(digits):
                if max(abs(_real(value)) for value in values) < _TINY:
                    continue
                if _common_digits(*values) < digits - _NOISE:
                    return False
        seen += 1
    return True if seen >= _ENOUGH else None


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


def _number(node: Node, point: Mapping[str, Fraction], digits: int) -> Any:
    """Return an exact Fraction where possible, else an mpmath number of `digits` digits."""
    with mpmath.workdps(digits):
        try:
            return _Number(point).value(node)
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, UnreadableError):
                raise
            raise UnreadableError(f"no value: {type(error).__name__}") from None


def _real(value: Any) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


class _Number:
    """Values at one point. Rational parts stay exact."""

    def __init__(self, point: Mapping[str, Fraction]) -> None:
        self._point = dict(point)
        self._terms = 0

    def value(self, node: Node) -> Any:
        if node.kind == "num":
            return node.value
        if node.kind == "sym":
            return self._symbol(node.name)
        if node.kind == "series":
            return self._series(node)
        values = [self.value(arg) for arg in node.args]
        if all(isinstance(value, Fraction) for value in values):
            try:
                literal = tuple(Node("num", value=value) for value in values)
                return evaluate.exact(Node(node.kind, literal, node.name))
            except NotRationalError:
                pass
        return _finite(self._apply(node, values))

    def _symbol(self, name: str) -> Any:
        if name in self._point:
            return self._point[name]
        constants = {r"\pi": mpmath.pi, "e": mpmath.e, "i": mpmath.mpc(0, 1)}
        if name not in constants:
            raise UnreadableError(f"no value of {name}")
        return +constants[name]

    def _series(self, node: Node) -> Any:
        index, start, stop, body = node.args
        first, last = self.value(start), self.value(stop)
        if not isinstance(first, Fraction) or not isinstance(last, Fraction):
            raise UnreadableError("a series between irrational numbers")
        outer = self._point.get(index.name)
        total: Any = Fraction(node.name == "prod")
        for number in evaluate.bounded_range(first, last):
            self._terms += 1
            if self._terms > evaluate.MAX_TERMS:
                raise TooLargeError(f"a series of more than {evaluate.MAX_TERMS} terms")
            self._point[index.name] = Fraction(number)
            term = self.value(body)
            both = (
                (total, term)
                if isinstance(total, Fraction) and isinstance(term, Fraction)
                else (_real(total), _real(term))
            )
            total = both[0] + both[1] if node.name == "sum" else both[0] * both[1]
            if isinstance(total, Fraction):
                evaluate.checked(total)
        self._point.pop(index.name)
        if outer is not None:
            self._point[index.name] = outer
        return total

    def _apply(self, node: Node, values: list[Any]) -> Any:
        first, *rest = [_real(value) for value in values]
        match node.kind:
            case "group":
                return first
            case "degree":
                return first * mpmath.pi / 180
            case "neg":
                return -first
            case "add":
                return first + rest[0]
            case "sub":
                return first - rest[0]
            case "mul":
                return first * rest[0]
            case "div":
                return first / rest[0]
            case "pow":
                return _power(first, rest[0])
            case "root":
                return _nth_root(first, rest[0])
            case "call":
                return _call(node.name, [first, *rest])
        raise UnreadableError(f"no value of {node.kind}")


def _finite(value: Any) -> Any:
    if not mpmath.isfinite(value):
        raise UnreadableError("no finite value")
    return value


def _power(base: Any, exponent: Any) -> Any:
    if base != 0 and abs(mpmath.log(abs(base))) * abs(exponent) > _MAX_MAGNITUDE:
        raise TooLargeError("a power of more than 400,000 digits")
    return mpmath.power(base, exponent)


def _nth_root(of: Any, degree: Any) -> Any:
    if degree != int(degree) or not 2 <= degree <= 1000:
        raise UnreadableError("the degree of a root")
    if mpmath.im(of) == 0 and of < 0 and int(degree) % 2:
        return -mpmath.root(-of, int(degree))
    return mpmath.root(of, int(degree))


def _call(name: str, values: list[Any]) -> Any:
    first = values[0]
    if name in ("floor", "ceil"):
        return _whole(name, first)
    if name in ("min", "max"):
        if any(mpmath.im(value) for value in values):
            raise UnreadableError(f"the {name} of complex numbers")
        return (min if name == "min" else max)(values)
    if name in ("log", "ln", "lg"):
        base = values[1] if len(values) > 1 else mpmath.mpf(10) if name == "lg" else mpmath.e
        return mpmath.log(first) / mpmath.log(base)
    if abs(first) > _MAX_MAGNITUDE:
        raise TooLargeError(f"the {name} of a large number")
    functions = {"abs": abs, "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan}
    function = functions.get(name) or getattr(mpmath, name, None) if name in _FUNCTIONS else None
    if function is None:
        raise UnreadableError(f"no value of {name}")
    return function(first)


_FUNCTIONS = {
    "abs",
    "arcsin",
    "arccos",
    "arctan",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "sinh",
    "cosh",
    "tanh",
    "exp",
}


def _whole(name: str, value: Any) -> Fraction:
    """Return a floor or ceiling; a value at the edge of an integer is that integer."""
    if mpmath.im(value) or abs(value) > mpmath.mpf(10) ** 25:
        raise TooLargeError(f"the {name} of a large number")
    nearest = int(mpmath.nint(value))
    if abs(value - nearest) < _TINY:
        return Fraction(nearest)
    return Fraction(int(mpmath.floor(value) if name == "floor" else mpmath.ceil(value)))
