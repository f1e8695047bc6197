"""What an answer is as a whole: a value, a list, a set, a tuple or interval, named values, an equation, a function.

`structure` turns the relations of a tree ("x = 5", "0 < r \\le 1", "f(x) = 2x") into these, and sums with a plus-minus
sign into the list of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dhd_labels.grading.canonical import canonical_tree
from dhd_labels.grading.evaluate import NotRationalError, TooLargeError, exact
from dhd_labels.grading.notation import Node, UnreadableError

INTEGER_NAMES = frozenset("nmklNMKjpq")
"""Symbols that stand for whole numbers by convention."""
CONSTANTS = (r"\pi", "e", "i", r"\infty")
_INFINITE = Node("sym", name=r"\infty")
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def structure(node: Node) -> Node:
    """Return the tree with its top level made one of the kinds below, in place of relations.

    Kinds: a scalar kind; `list` and `set` (order is free); `tuple` (name: its brackets); `union`; `where` (name: a
    symbol; one value or interval of it); `named` (values of several symbols); `equation` (left minus right is zero);
    `function` (variable, body); `not_equal`; `order` (an inequality that is no interval).

    Raises:
        UnreadableError: a relation of another shape.
    """
    if node.kind == "list":
        return _list([structure(arg) for arg in node.args], node.name)
    if node.kind == "set":
        return Node("set", tuple(_spread([structure(arg) for arg in node.args])))
    if node.kind == "tuple" and any(inside.kind == "pm" for inside in walk(node)):
        return _both_signs(node, lambda one: Node("tuple", tuple(structure(arg) for arg in one.args), node.name))
    if node.kind in ("union", "tuple"):
        return Node(node.kind, tuple(structure(arg) for arg in node.args), node.name)
    if node.kind == "group":
        return structure(node.args[0])
    if node.kind == "relation":
        return _relation(node)
    return _signs(node)


def symbols(node: Node) -> frozenset[str]:
    """Return the free symbols of a tree; constants and bound indices are none."""
    if node.kind == "sym":
        return frozenset() if node.name in CONSTANTS else frozenset({node.name})
    found: frozenset[str] = frozenset().union(*(symbols(arg) for arg in node.args))
    return found - {node.args[0].name} if node.kind in ("series", "function") else found


def walk(node: Node) -> Iterator[Node]:
    """Yield a tree's nodes."""
    yield node
    for arg in node.args:
        yield from walk(arg)


def renamed(node: Node, old: str, new: str) -> Node:
    """Return a tree with one symbol renamed."""
    if node.kind == "sym" and node.name == old:
        return Node("sym", name=new)
    return Node(node.kind, tuple(renamed(arg, old, new) for arg in node.args), node.name, node.value)


def _list(items: list[Node], joint: str = "") -> Node:
    items = _spread(items)
    names = [item.name for item in items]
    if joint != "or" and len(names) > len(set(names)) and any(_is_range(item) for item in items):
        raise UnreadableError("conditions on one symbol that hold together or in turn")
    if any(item.kind != "where" for item in items) or len(set(names)) == 1:
        return Node(
            "list", tuple(_value_of(item) if len(set(names)) == 1 and item.kind == "where" else item for item in items)
        )
    if len(set(names)) < len(names):
        raise UnreadableError("values of several symbols in turn")
    return Node("named", tuple(sorted(items, key=lambda item: item.name)))


def _spread(items: list[Node]) -> list[Node]:
    """Put the values that a plus-minus sign means among the other items: "0, \\pm 1" is three values."""
    named = {item.name for item in items if item.kind == "where"}
    spread: list[Node] = []
    for item in items:
        value = item.args[0] if item.kind == "where" and len(named) == 1 else item
        if value.kind != "list":
            spread.append(item)
        else:
            spread += [Node("where", (v,), item.name) for v in value.args] if value is not item else value.args
    return spread


def _is_range(item: Node) -> bool:
    return item.kind == "where" and item.args[0].kind in ("tuple", "union")


def _value_of(item: Node) -> Node:
    return item.args[0]


def _relation(node: Node) -> Node:
    signs = node.name.split()
    first = node.args[0]
    if signs[0] == "in" and len(signs) == 1 and first.kind == "sym":
        return Node("where", (structure(node.args[1]),), first.name)
    if set(signs) <= {"=", "~"}:
        return _equalities(node, signs)
    if signs == ["!="]:
        return Node("not_equal", (_only(first), _only(node.args[1])))
    if set(signs) <= set(_FLIPPED):
        return _inequality(node, signs)
    raise UnreadableError(f"the relation {node.name!r}")


def _equalities(node: Node, signs: list[str]) -> Node:
    """Read "x = value", "value ~ rounded value", "x = sum = value", an equation or a function."""
    sides = list(node.args)
    if "~" in signs:
        cut = signs.index("~")
        # What is left of the sign is exact; a lone symbol is not what was asked for.
        lone = cut == 0 and sides[0].kind == "sym"
        sides = sides[: cut + 1] if not lone else [sides[0], sides[-1]]
    if len(sides) == 1:
        return structure(sides[0])
    first, last = sides[0], sides[-1]
    if first.kind == "sym" and first.name not in CONSTANTS:
        value = structure(last)
        return Node("equation", (first, last)) if first.name in symbols(last) else Node("where", (value,), first.name)
    if first.kind == last.kind == "tuple" and len(sides) == 2:
        return _coordinates(first, last)
    if first.kind == "apply":
        return _application(first, last)
    if not any(symbols(side) for side in sides):
        if _is_false(first, last):
            raise UnreadableError("an equation between different numbers")
        return structure(last)
    if len(sides) == 2:
        return Node("equation", (_only(first), _only(last)))
    raise UnreadableError("a chain of equations")


def _application(first: Node, last: Node) -> Node:
    """Read "f(x) = body" as a function, and "f(2) = 4" as a value by the name of "f(2)"."""
    if len(first.args) == 1 and first.args[0].kind == "sym" and symbols(first.args[0]):
        return Node("function", (first.args[0], _only(last)), first.name)
    if symbols(first):
        return Node("equation", (_only(first), _only(last)))
    return Node("where", (structure(last),), f"{first.name}({', '.join(map(canonical_tree, first.args))})")


def _is_false(one: Node, other: Node) -> bool:
    try:
        return exact(one) != exact(other)
    except (NotRationalError, TooLargeError):
        return False


def _coordinates(names: Node, values: Node) -> Node:
    """Read "(x, y) = (1, 2)" as named values."""
    distinct = {name.name for name in names.args if name.kind == "sym"}
    if not len(distinct) == len(names.args) == len(values.args):
        raise UnreadableError("an equation of tuples")
    pairs = zip(names.args, structure(values).args, strict=True)
    return _list([Node("where", (value,), name.name) for name, value in pairs])


def _inequality(node: Node, signs: list[str]) -> Node:
    """Read an inequality in one symbol as an interval of it."""
    sides = node.args
    lone = [i for i, side in enumerate(sides) if side.kind == "sym" and side.name not in CONSTANTS]
    others = frozenset().union(*(symbols(side) for i, side in enumerate(sides) if i not in lone))
    if len(lone) != 1 or sides[lone[0]].name in others or len(sides) > 3 or (len(sides) == 3 and lone != [1]):
        if len(sides) == 2:
            return Node("order", (_only(sides[0]), _only(sides[1])), signs[0])
        raise UnreadableError("an inequality that is no interval")
    name = sides[lone[0]].name
    if len(sides) == 3:
        if {sign[0] for sign in signs} != {signs[0][0]}:
            raise UnreadableError("an inequality in two directions")
        low, high = (0, 2) if signs[0][0] == "<" else (2, 0)
        inner = signs if low == 0 else [_FLIPPED[signs[1]], _FLIPPED[signs[0]]]
        return _interval(name, _only(sides[low]), _only(sides[high]), inner[0] == "<=", inner[1] == "<=")
    sign = signs[0] if lone == [0] else _FLIPPED[signs[0]]
    bound = _only(sides[1 - lone[0]])
    if sign.startswith(">"):
        return _interval(name, bound, _INFINITE, sign == ">=", False)
    return _interval(name, Node("neg", (_INFINITE,)), bound, False, sign == "<=")


def _interval(name: str, low: Node, high: Node, closed_low: bool, closed_high: bool) -> Node:
    brackets = ("[" if closed_low else "(") + ("]" if closed_high else ")")
    return Node("where", (Node("tuple", (low, high), brackets),), name)


def _only(node: Node) -> Node:
    """Return a scalar side of a relation."""
    found = structure(node)
    if found.kind in ("list", "set", "tuple", "union", "where", "named", "equation", "function", "order", "not_equal"):
        raise UnreadableError(f"a {found.kind} inside of a relation")
    return found


def _signs(node: Node) -> Node:
    """Return a scalar, or the list of the two scalars that a plus-minus sign means."""
    inner = {inside.kind for inside in walk(node)}
    if inner & {"relation", "list", "set", "tuple", "union"}:
        raise UnreadableError("a list or relation inside of an expression")
    if "pm" not in inner:
        return _degrees(node)
    return _both_signs(node, _degrees)


def _both_signs(node: Node, read: Callable[[Node], Node]) -> Node:
    """Return the list of the two readings of a tree with a plus-minus sign, or one of each that go together.

    Raises:
        UnreadableError: there are more, which may be chosen together or each for itself.
    """
    signs = [inside.name for inside in walk(node) if inside.kind == "pm"]
    if len(signs) > len(set(signs)):
        raise UnreadableError("several plus-minus signs")
    return Node("list", tuple(read(_choose(node, plus)) for plus in (r"\pm", r"\mp")))


def _degrees(node: Node) -> Node:
    """Take degree signs to the top: an angle is `degree` of a number. Inside of functions they stay."""
    if any(inside.kind in ("add", "sub") and _mixes(inside) for inside in walk(node)):
        raise UnreadableError("degrees and radians in one sum")
    bare = _without_degrees(node)
    return node if bare == node else Node("degree", (bare,))


def _mixes(node: Node) -> bool:
    """Whether one term of a sum is in degrees and the other has a pi."""
    marked = [any(inside.kind == "degree" for inside in walk(arg)) for arg in node.args]
    turns = [any(inside.name == CONSTANTS[0] for inside in walk(arg)) for arg in node.args]
    return marked[0] != marked[1] and turns[marked[0]]


def _without_degrees(node: Node) -> Node:
    if node.kind in ("call", "series"):
        return node
    if node.kind == "degree":
        return _without_degrees(node.args[0])
    return Node(node.kind, tuple(map(_without_degrees, node.args)), node.name, node.value)


def _choose(node: Node, plus: str) -> Node:
    args = tuple(_choose(arg, plus) for arg in node.args)
    if node.kind != "pm":
        return Node(node.kind, args, node.name, node.value)
    return Node("add" if node.name == plus else "sub", args, "+" if node.name == plus else "-")
