"""Check the text of a LightGBM model before LightGBM reads it: its parser trusts what it is given and can crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_OF_SPLITS = ("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child")
_OF_SPLITS_TOO = ("internal_value", "internal_weight", "internal_count")
_OF_LEAVES = ("leaf_value", "leaf_weight", "leaf_count")


def check_trees(content: bytes, n_features: int | None = None) -> None:
    """Refuse a model whose trees are cut short or point outside of themselves.

    Args:
        content: the file of `lightgbm.Booster.save_model`; numerical splits and constant leaves only.
        n_features: columns of the matrices that it will be given, where they are known.

    Raises:
        ValueError: what is wrong with it.
    """
    text = content.decode("latin-1")  # one character a byte, as the sizes of trees are in bytes
    start = text.find("Tree=0\n")
    header = _fields(text[: start if start >= 0 else text.find("end of trees")])
    for key, value in (("num_class", "1"), ("num_tree_per_iteration", "1")):
        if header.get(key) != value:
            raise ValueError(f"{key} must be {value}, got {header.get(key)!r}")
    features = int(header["max_feature_idx"]) + 1
    if n_features is not None and features != n_features:
        raise ValueError(f"it must have {n_features} features, got {features}")
    place = max(start, 0)
    for number, size in enumerate(int(size) for size in header["tree_sizes"].split()):
        tree = text[place : place + size]
        if size <= 0 or len(tree) < size or not tree.startswith(f"Tree={number}\n"):
            raise ValueError(f"tree {number} must have {size} bytes")
        _check_tree(_fields(tree), number, features)
        place += size
    rest = text[place:] if start >= 0 else text[text.find("end of trees") :]
    if not rest.startswith("end of trees\n") or "\nend of parameters\n" not in rest or "\nTree=" in rest:
        raise ValueError("it must go on to the end of its parameters")


def _check_tree(tree: Mapping[str, str], number: int, features: int) -> None:
    leaves = int(tree["num_leaves"])
    splits = leaves - 1
    if leaves < 1 or tree["num_cat"] != "0" or tree.get("is_linear", "0") != "0":
        raise ValueError(f"tree {number} must have leaves, no categories and no linear leaves")
    lengths = {**dict.fromkeys((*_OF_SPLITS, *_OF_SPLITS_TOO), splits), **dict.fromkeys(_OF_LEAVES, leaves)}
    if leaves == 1:  # a constant, whose weight and count may be left out
        lengths = {"leaf_value": 1}
    for name, length in lengths.items():
        if len(list(map(float, tree[name].split()))) != length:
            raise ValueError(f"the {name} of tree {number} must have {length} values")
    if leaves > 1:
        _check_shape(tree, number, splits, features)


def _check_shape(tree: Mapping[str, str], number: int, splits: int, features: int) -> None:
    """Every split and leaf hangs on exactly one earlier split, so that every walk ends in a leaf."""
    if not all(0 <= int(feature) < features for feature in tree["split_feature"].split()):
        raise ValueError(f"the splits of tree {number} must be on its {features} features")
    children = [[int(child) for child in tree[side].split()] for side in ("left_child", "right_child")]
    below = sorted(child for side in children for child in side)
    if below != [*range(-splits - 1, 0), *range(1, splits)]:
        raise ValueError(f"the splits and leaves of tree {number} must be below one split each")
    if any(0 <= child <= split for side in children for split, child in enumerate(side)):
        raise ValueError(f"the splits of tree {number} must be below earlier ones")


def _fields(text: str) -> dict[str, str]:
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals:
            yield key, value
