"""Values of trees at a point, to any number of digits; rational parts stay exact. Used in worker processes only."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import mpmath

from dhd_labels.grading import evaluate
from dhd_labels.grading.evaluate import NotRationalError, TooLargeError
from dhd_labels.grading.notation import Node, UnreadableError

TINY = mpmath.mpf(10) ** -28
"""Distance from a whole number that is rounding noise."""
_MAX_MAGNITUDE = 10**6
_ROUNDED_STEP = 5
_FUNCTIONS = {
    "abs": abs, "arcsin": mpmath.asin, "arccos": mpmath.acos, "arctan": mpmath.atan, "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "cot": mpmath.cot, "sec": mpmath.sec, "csc": mpmath.csc, "sinh": mpmath.sinh,
    "cosh": mpmath.cosh, "tanh": mpmath.tanh, "exp": mpmath.exp,
}  # fmt: skip


class Work:
    """What one comparison may still do, in steps of arithmetic, so that its end does not depend on the machine."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Take steps off.

        Raises:
            TooLargeError: there are none left.
        """
        self._left -= steps
        if self._left < 0:
            raise TooLargeError("more steps of arithmetic than one comparison may take")

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self._left < 0


def number(node: Node, point: Mapping[str, Fraction], digits: int, work: Work) -> Any:
    """Return the value of a scalar tree: an exact Fraction where possible, else an mpmath number of `digits` digits.

    Raises:
        UnreadableError: there is none at this point.
        TooLargeError: it is beyond the bounds, or `work` is spent.
    """
    with mpmath.workdps(digits):
        try:
            return _Number(point, work).value(node)
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, UnreadableError):
                raise
            raise UnreadableError(f"no value: {type(error).__name__}") from None


def rounded(value: Any) -> Any:
    """Return a value as an mpmath number of the current precision."""
    return mpmath.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


class _Number:
    """Values at one point. Rational parts stay exact."""

    def __init__(self, point: Mapping[str, Fraction], work: Work) -> None:
        self._point = dict(point)
        self._work = work
        self._terms = 0

    def value(self, node: Node) -> Any:
        if node.kind == "num":
            return node.value
        if node.kind == "sym":
            return self._symbol(node.name)
        if node.kind == "series":
            return self._series(node)
        values = [self.value(arg) for arg in node.args]
        self._work.spend(1)
        if all(isinstance(value, Fraction) for value in values):
            try:
                literal = tuple(Node("num", value=value) for value in values)
                return evaluate.exact(Node(node.kind, literal, node.name))
            except NotRationalError:
                pass
        self._work.spend(_ROUNDED_STEP)
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
            self._work.spend(1)
            self._point[index.name] = Fraction(number)
            term = self.value(body)
            if not (isinstance(total, Fraction) and isinstance(term, Fraction)):
                total, term = rounded(total), rounded(term)
            total = total + term if node.name == "sum" else total * term
            if isinstance(total, Fraction):
                evaluate.checked(total)
        self._point.pop(index.name, None)  # no term, no value
        if outer is not None:
            self._point[index.name] = outer
        return total

    def _apply(self, node: Node, values: list[Any]) -> Any:
        first, *rest = [rounded(value) for value in values]
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
    if name not in _FUNCTIONS:
        raise UnreadableError(f"no value of {name}")
    return _FUNCTIONS[name](first)


def _whole(name: str, value: Any) -> Fraction:
    """Return a floor or ceiling; a value at the edge of an integer is that integer."""
    if mpmath.im(value) or abs(value) > mpmath.mpf(10) ** 25:
        raise TooLargeError(f"the {name} of a large number")
    nearest = int(mpmath.nint(value))
    if abs(value - nearest) < TINY:
        return Fraction(nearest)
    return Fraction(int(mpmath.floor(value) if name == "floor" else mpmath.ceil(value)))
