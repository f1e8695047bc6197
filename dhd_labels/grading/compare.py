"""Compare structured answers: lists and sets in any order, tuples and intervals in theirs, equations up to a factor.

Scalars are compared by the function that is passed in: exact arithmetic in this process, `numeric` in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from dhd_labels.grading.evaluate import NotRationalError, TooLargeError, exact
from dhd_labels.grading.notation import Node, UnreadableError
from dhd_labels.grading.structure import CONSTANTS, INTEGER_NAMES, renamed, symbols, walk

Comparison = Literal["equal", "unequal", "unknown"]
Scalars = Callable[[Node, Node], Comparison]

_WRAPPED = ("where", "named", "equation", "function", "not_equal", "order")
_NEAR = Fraction(1, 100)
"""Radians by which an angle in degrees may be the rounded form of one in radians."""
_STRUCTURES = ("list", "set", "tuple", "union", *_WRAPPED)


def exact_scalars(one: Node, other: Node) -> Comparison:
    """Compare rational scalars; `unknown` when one is not rational.

    Raises:
        TooLargeError: a value is beyond the bounds of exact arithmetic.
        UnreadableError: a tree has no value.
    """
    try:
        return "equal" if exact(one) == exact(other) else "unequal"
    except NotRationalError:
        return "unknown"


def compare(gold: Node, given: Node, scalars: Scalars) -> Comparison:
    """Compare two structures (`structure.structure`)."""
    return _Comparer(scalars).compare(gold, given)


class _Comparer:
    def __init__(self, scalars: Scalars) -> None:
        self._scalars = scalars

    def compare(self, one: Node, other: Node) -> Comparison:
        if one == other:
            return "equal"
        kinds = {one.kind, other.kind}
        if not kinds & set(_STRUCTURES):
            return self._values(one, other)
        if kinds & {"equation", "not_equal", "order", "function"}:
            return self._relations(one, other)
        if kinds & {"where", "named"}:
            return self._names(one, other)
        if kinds <= {"list", "set"}:
            return self._unordered(one.args, other.args)
        if kinds == {"tuple"}:
            return self._ordered(one, other)
        if kinds == {"union"}:
            return self._unordered(one.args, other.args)
        if kinds == {"union", "list"}:
            return "equal" if self._unordered(one.args, other.args) == "equal" else "unknown"
        if kinds == {"tuple", "list"}:
            return "unequal" if self._unordered(one.args, other.args) == "unequal" else "unknown"
        # A set is no pair, a list no single value; a set of one value is that value to some.
        single = [node for node in (one, other) if self._is_single(node)]
        return "unknown" if single or "union" in kinds else "unequal"

    # Values.

    def _values(self, one: Node, other: Node) -> Comparison:
        if any(node.kind == "apply" for tree in (one, other) for node in walk(tree)):
            return "unknown"  # a function that is not known here
        infinite = [_infinity(node) for node in (one, other)]
        if any(infinite):
            return "equal" if infinite[0] == infinite[1] else "unequal"
        found = self._angles(one, other)
        lone = [node.kind == "sym" and bool(symbols(node)) for node in (one, other)]
        if found == "unequal" and any(lone) and not (symbols(one) and symbols(other)):
            return "unknown"  # a letter that the problem may have defined
        if found == "unequal" and (symbols(one) ^ symbols(other)) & {r"\phi", r"\varphi"}:
            return "unknown"  # perhaps the golden ratio
        if found == "unequal" and (_rounds_to(one, other) or _rounds_to(other, one)):
            return "unknown"
        return found

    def _angles(self, one: Node, other: Node) -> Comparison:
        """Compare values; a degree sign at the top may be left out, or the angle be given in radians."""
        if one.kind == other.kind == "degree":
            return self._scalars(one.args[0], other.args[0])
        if "degree" not in (one.kind, other.kind):
            return self._scalars(one, other)
        marked, bare = (one, other) if one.kind == "degree" else (other, one)
        turns = any(node.name == r"\pi" for node in walk(bare))
        found = self._scalars(marked.args[0], bare)
        if found == "equal":
            return "unknown" if turns else found  # "\\pi" is half a turn, "\\pi^\\circ" is 3 degrees
        half_turn = Node("num", value=Fraction(180))
        in_radians = Node("mul", (marked.args[0], Node("div", (Node("sym", name=r"\pi"), half_turn))))
        if turns:
            found = self._scalars(in_radians, bare)
            return "unknown" if found == "unequal" and symbols(bare) else found
        arc = any(node.kind == "call" and node.name.startswith("arc") for node in walk(bare))
        near = found == "unequal" and (
            _rounds_to(bare, in_radians) or abs(_roughly(bare) - _roughly(in_radians)) < _NEAR
        )
        return "unknown" if arc or near else found

    # Collections.

    def _unordered(self, one: Sequence[Node], other: Sequence[Node]) -> Comparison:
        """Match elements in any order."""
        left, right = self._distinct(one), self._distinct(other)
        if left is None or right is None:
            return "unknown"
        if len(left) != len(right):
            return "unequal"
        table = [[self.compare(a, b) for b in right] for a in left]
        rows = [*table, *zip(*table, strict=True)]
        if all("equal" in row for row in rows):
            # Roots may be listed with their multiplicity or without; only the reader knows.
            return "equal" if self._counts(left, one) == self._counts(left, other) else "unknown"
        return "unequal" if any(set(row) == {"unequal"} for row in rows) else "unknown"

    def _is_single(self, node: Node) -> bool:
        return node.kind in ("set", "list") and len(self._distinct(node.args) or ()) == 1

    def _counts(self, values: Sequence[Node], items: Sequence[Node]) -> list[int]:
        return [sum(self.compare(value, item) == "equal" for item in items) for value in values]

    def _distinct(self, items: Sequence[Node]) -> list[Node] | None:
        kept: list[Node] = []
        for item in items[:40]:
            if not any(self.compare(item, other) == "equal" for other in kept):
                kept.append(item)
        return kept if len(items) <= 40 else None

    def _ordered(self, one: Node, other: Node) -> Comparison:
        if len(one.args) != len(other.args):
            return "unequal"
        if one.name != other.name:
            return "unknown" if "<>" in (one.name, other.name) else "unequal"
        return _all([self.compare(a, b) for a, b in zip(one.args, other.args, strict=True)])

    # Names and relations.

    def _names(self, one: Node, other: Node) -> Comparison:
        if one.kind == other.kind == "named":
            if [item.name for item in one.args] != [item.name for item in other.args]:
                return "unknown"
            return _all([self.compare(a, b) for a, b in zip(one.args, other.args, strict=True)])
        if one.kind == other.kind == "where":
            return self._same_or_renamed(one, other)
        named, rest = (one, other) if one.kind in ("where", "named") else (other, one)
        if named.kind == "where":
            found = self.compare(named.args[0], rest)
            # "(1, 2)" may be a pair where "1 < x < 2" is none.
            return "unknown" if found == "equal" and named is other and _may_be_pair(rest) else found
        values = tuple(item.args[0] for item in named.args)
        if rest.kind == "tuple":
            return self._ordered(Node("tuple", values, rest.name), rest)
        if any(value.kind == "list" for value in values):
            return "unknown"
        # Values without names may belong to the names in any way.
        return "unequal" if rest.kind == "list" and self._unordered(values, rest.args) == "unequal" else "unknown"

    def _same_or_renamed(self, one: Node, other: Node) -> Comparison:
        if one.name == other.name:
            found = self.compare(one.args[0], other.args[0])
            whole = one.name in INTEGER_NAMES and found == "unequal"
            return "unknown" if whole and _whole_ends(one.args[0]) == _whole_ends(other.args[0]) else found
        if symbols(one.args[0]) or symbols(other.args[0]):
            return self._relations(_equation(one) or one, _equation(other) or other)
        found = self.compare(one.args[0], other.args[0])
        return "unknown" if found == "equal" or "(" in one.name + other.name else found

    def _relations(self, one: Node, other: Node) -> Comparison:
        if one.kind == other.kind == "function":
            return self._functions(one, other)
        if one.kind == other.kind and one.kind in ("not_equal", "order"):
            return self._same_relation(one, other)
        left, right = _equation(one), _equation(other)
        if left is not None and right is not None:
            return self._equations(left, right)
        kinds = {one.kind, other.kind}
        if "function" in kinds:
            function, rest = (one, other) if one.kind == "function" else (other, one)
            same = symbols(rest) == symbols(function.args[1])
            return self.compare(function.args[1], rest) if same and rest.kind not in _STRUCTURES else "unknown"
        # "n != 5" is neither "n = 5" nor "n > 5".
        return "unequal" if "not_equal" in kinds and "where" in kinds else "unknown"

    def _functions(self, one: Node, other: Node) -> Comparison:
        """Compare bodies after giving both one variable; functions and further parameters must have the same names."""
        variable = one.args[0].name
        if variable in symbols(other.args[1]) and other.args[0].name != variable:
            return "unknown"
        body = renamed(other.args[1], other.args[0].name, variable)
        found = self.compare(one.args[1], body) if symbols(body) == symbols(one.args[1]) else "unknown"
        return "unknown" if found == "equal" and one.name != other.name else found

    def _same_relation(self, one: Node, other: Node) -> Comparison:
        pairs = [(one.args, other.args)]
        if one.kind == "not_equal":
            pairs.append((one.args, other.args[::-1]))
        elif one.name != other.name:
            return "unknown"
        equal = any(_all([self.compare(a, b) for a, b in zip(*pair, strict=True)]) == "equal" for pair in pairs)
        if equal:
            return "equal"
        lone = one.args[0] == other.args[0] and one.args[0].kind == "sym"
        return self.compare(one.args[1], other.args[1]) if lone else "unknown"

    def _equations(self, one: Node, other: Node) -> Comparison:
        """Two equations are one when their differences of sides have a constant ratio; decided for linear ones."""
        if symbols(one) != symbols(other):
            return "unknown"
        found = self._proportional(one, other)
        if found == "unequal" and not (_is_linear(one) and _is_linear(other)):
            return "unknown"
        return found

    def _proportional(self, one: Node, other: Node) -> Comparison:
        left, right = (Node("sub", node.args) for node in (one, other))
        point = {name: Fraction(7 * i + 3, 5 + i) for i, name in enumerate(sorted(symbols(one)))}
        try:
            at_left, at_right = exact(left, point), exact(right, point)
        except NotRationalError:
            return "unknown"
        if not at_left or not at_right:
            return "unknown"
        scaled = [Node("mul", (node, Node("num", value=by))) for node, by in ((left, at_right), (right, at_left))]
        return self._scalars(scaled[0], scaled[1])


def _all(found: Sequence[Comparison]) -> Comparison:
    if "unequal" in found:
        return "unequal"
    return "unknown" if "unknown" in found else "equal"


def _equation(node: Node) -> Node | None:
    """Return an equation, also of a named value ("y = 2x"); None for anything else."""
    if node.kind == "where" and node.args[0].kind not in _STRUCTURES:
        return Node("equation", (Node("sym", name=node.name), node.args[0]))
    return node if node.kind == "equation" else None


def _is_linear(node: Node) -> bool:
    """Whether an equation is written as a linear one: no products of symbols, no powers or functions of them."""
    for inside in walk(node):
        with_symbols = sum(bool(symbols(arg)) for arg in inside.args)
        nonlinear = inside.kind in ("pow", "root", "call", "apply", "factorial", "binomial", "series")
        if (nonlinear and with_symbols) or (inside.kind == "mul" and with_symbols > 1):
            return False
        if inside.kind == "div" and symbols(inside.args[1]):
            return False
    return True


def _whole_ends(node: Node) -> tuple[Fraction | str, ...]:
    """Return the whole numbers that an interval begins and ends with: those of "k > 1" and "k >= 2" are the same."""
    if node.kind != "tuple" or len(node.args) != 2:
        return (repr(node),)
    ends: list[Fraction | str] = []
    for end, bracket in zip(node.args, node.name, strict=True):
        inward = {"(": 1, ")": -1}.get(bracket, 0)
        try:
            value = exact(end)
        except (NotRationalError, UnreadableError, TooLargeError):
            ends.append(f"{end!r}{bracket}")
        else:
            ends.append(value + inward if value.denominator == 1 else value)
    return tuple(ends)


def _may_be_pair(node: Node) -> bool:
    """Whether round brackets hold two finite values: an open interval, or a pair."""
    return node.kind == "tuple" and node.name == "()" and not any(map(_infinity, node.args))


def _infinity(node: Node) -> str:
    """Return the sign of an infinite value, or nothing."""
    if node.kind == "neg" and _infinity(node.args[0]):
        return "-" if _infinity(node.args[0]) == "+" else "+"
    return "+" if node.kind == "sym" and node.name == CONSTANTS[3] else ""


def _rounds_to(decimal: Node, value: Node) -> bool:
    """Whether a decimal of three or more figures looks like the rounded form of a value that is no decimal."""
    sign, literal = (-1, decimal.args[0]) if decimal.kind == "neg" else (1, decimal)
    figures = literal.name.replace(".", "").lstrip("0")
    if literal.kind != "num" or literal.value is None or "." not in literal.name or len(figures) < 3:
        return False
    if any(n.kind == "num" and "." in n.name for n in walk(value)) or symbols(value):
        return False
    half = Fraction(1, 10 ** len(literal.name.partition(".")[2]))
    return abs(sign * literal.value - _roughly(value)) <= half


def _roughly(value: Node) -> Fraction:
    """Return a value to double precision, or a number that nothing rounds to."""
    from dhd_labels.grading.rough import rough

    found = rough(value)
    return Fraction(-(10**300)) if found is None else Fraction(found)
