"""Closed forms in double precision, for answers that are compared within a tolerance ("4-\\sqrt{10}" for 0.83)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dhd_labels.grading.evaluate import NotRationalError, TooLargeError, exact
from dhd_labels.grading.notation import Node, UnreadableError

_CONSTANTS = {r"\pi": math.pi, "e": math.e}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sin": math.sin, "cos": math.cos, "tan": math.tan, "arcsin": math.asin, "arccos": math.acos, "arctan": math.atan,
    "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "exp": math.exp,
    "ln": math.log, "lg": math.log10, "abs": abs,
}  # fmt: skip


def rough(node: Node) -> Fraction | float | None:
    """Return the real value of a constant tree: exact where rational, else a float; None if it has none."""
    try:
        return exact(node)
    except NotRationalError:
        pass
    except (UnreadableError, TooLargeError):
        return None
    try:
        value = _value(node)
    except (ValueError, ArithmeticError, NotRationalError, UnreadableError, TooLargeError):
        return None
    return value if math.isfinite(value) else None


def _value(node: Node) -> float:
    if node.kind == "sym" and node.name in _CONSTANTS:
        return _CONSTANTS[node.name]
    if node.kind in ("num", "factorial", "binomial", "series"):
        return float(exact(node))
    values = [_value(arg) for arg in node.args]
    match node.kind:
        case "group":
            return values[0]
        case "degree":
            return math.radians(values[0])
        case "neg":
            return -values[0]
        case "add":
            return values[0] + values[1]
        case "sub":
            return values[0] - values[1]
        case "mul":
            return values[0] * values[1]
        case "div":
            return values[0] / values[1]
        case "pow":
            return _real_power(values[0], values[1])
        case "root":
            return _real_power(values[0], 1 / values[1])
    if node.kind == "call" and node.name == "log" and len(values) == 2:
        return math.log(values[0], values[1])
    if node.kind == "call" and node.name in _FUNCTIONS:
        return _FUNCTIONS[node.name](values[0])
    raise UnreadableError(f"no value of {node.name or node.kind}")


def _real_power(base: float, exponent: float) -> float:
    if base < 0 and exponent != int(exponent):
        raise UnreadableError("a root of a negative number")
    return math.pow(base, exponent)
