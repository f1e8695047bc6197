"""One string for the equal spellings of an expression, so that verdicts can be kept by answer."""

from __future__ import annotations

from dhd_labels.grading.evaluate import NotRationalError, TooLargeError, exact
from dhd_labels.grading.notation import Node, UnreadableError
from dhd_labels.grading.quantity import canonical_number

_COMMUTATIVE = {"add", "mul", "list", "set", "union"}
_MAX_BITS = 600
"""Larger numbers stay as they are written."""


def canonical_tree(node: Node) -> str:
    """Return a string in which numbers are reduced, and what may stand in any order is sorted."""
    if node.kind in ("sym", "num") and node.value is None:
        return node.name
    number = _number(node)
    if number is not None:
        return number
    if node.kind == "group":
        return canonical_tree(node.args[0])
    if node.kind in ("list", "set"):
        return "{" + ", ".join(sorted({canonical_tree(arg) for arg in node.args})) + "}"
    if node.kind == "tuple":
        return node.name[:1] + ", ".join(map(canonical_tree, node.args)) + node.name[1:]
    parts = [canonical_tree(arg) for arg in _flat(node, node.kind)]
    if node.kind in _COMMUTATIVE:
        parts.sort()
    return f"{node.kind}{':' if node.name and node.kind not in ('add', 'sub') else ''}" + (
        f"{node.name if node.kind not in ('add', 'sub') else ''}({', '.join(parts)})"
    )


def _number(node: Node) -> str | None:
    try:
        return canonical_number(exact(node, max_bits=_MAX_BITS))
    except (NotRationalError, UnreadableError, TooLargeError):
        return None


def _flat(node: Node, kind: str) -> list[Node]:
    """Return the terms of nested sums, the factors of nested products, else the arguments."""
    if kind not in ("add", "mul"):
        return list(node.args)
    inside = [arg.args[0] if arg.kind == "group" and arg.args[0].kind == kind else arg for arg in node.args]
    return [leaf for arg in inside for leaf in (_flat(arg, kind) if arg.kind == kind else [arg])]
