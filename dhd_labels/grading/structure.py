"""What an answer is as a whole: a value, a list, a set, a tuple or interval, named values, an equation, a function.

`structure` turns the relations of a tree ("x = 5", "0 < r \\le 1", "f(x) = 2x") into these, and sums with a plus-minus
sign into the list of their values.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        return _list([structure(arg) for arg in node.args])
    if node.kind in ("set", "union", "tuple"):
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


def _list(items: list[Node]) -> Node:
    names = [item.name for item in items]
    if any(item.kind != "where" for item in items) or len(set(names)) == 1:
        return Node(
            "list", tuple(_value_of(item) if len(set(names)) == 1 and item.kind == "where" else item for item in items)
        )
    if len(set(names)) < len(names):
        return Node("list", tuple(items))
    return Node("named", tuple(sorted(items, key=lambda item: item.name)))


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
    if first.kind == "apply" and len(first.args) == 1 and first.args[0].kind == "sym":
        return Node("function", (first.args[0], _only(last)), first.name)
    if not any(symbols(side) for side in sides):
        return structure(last)
    if len(sides) == 2:
        return Node("equation", (_only(first), _only(last)))
    raise UnreadableError("a chain of equations")


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
    return Node("list", tuple(_degrees(_choose(node, plus)) for plus in (r"\pm", r"\mp")))


def _degrees(node: Node) -> Node:
    """Take degree signs to the top: an angle is `degree` of a number. Inside of functions they stay."""
    bare = _without_degrees(node)
    return node if bare == node else Node("degree", (bare,))


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
