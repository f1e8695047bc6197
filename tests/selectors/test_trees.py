"""No text reaches LightGBM's parser, which can crash the process, before its trees were checked."""

from __future__ import annotations

import re
from pathlib import Path

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_selectors import load_selector
from dhd_selectors.saving import state
from dhd_selectors.saving.trees import check_trees


def model(n_trees: int, **parameters: object) -> str:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    given_ = {"verbosity": -1, "num_leaves": 5, "num_threads": 1, "deterministic": True} | parameters
    data = lightgbm.Dataset(X, X[:, 0] - X[:, 1] ** 2, params=given_)
    return str(lightgbm.train(given_, data, num_boost_round=n_trees).model_to_string())


TEXT = model(3)


@pytest.mark.parametrize("n_trees", [1, 3])
@pytest.mark.parametrize("smallest_leaf", [5, 150])
def test_what_lightgbm_writes_passes(n_trees: int, smallest_leaf: int) -> None:
    text = model(n_trees, min_data_in_leaf=smallest_leaf)
    check_trees(text.encode(), 4)
    assert ("num_leaves=1\n" in text) == (smallest_leaf == 150)
    with pytest.raises(ValueError, match="must have 5 features, got 4"):
        check_trees(text.encode(), 5)


@given(st.integers(0, TEXT.index("end of parameters")))
def test_every_cut_is_refused(length: int) -> None:
    with pytest.raises((ValueError, KeyError)):
        check_trees(TEXT[:length].encode())


def first(name: str, value: str) -> str:
    """The text with the first value of the first tree's field changed, and its size with it."""
    old = re.search(rf"^{name}=(\S+)", TEXT, re.MULTILINE)
    assert old is not None
    changed = TEXT[: old.start(1)] + value + TEXT[old.end(1) :]
    size = re.search(r"^tree_sizes=(\d+)", TEXT, re.MULTILINE)
    assert size is not None
    return changed.replace(size[0], f"tree_sizes={int(size[1]) + len(value) - len(old[1])}", 1)


CHANGES = {
    "a feature that there is not": first("split_feature", "77"),
    "a negative feature": first("split_feature", "-1"),
    "a child outside": first("left_child", "55"),
    "a circle": first("left_child", "0"),
    "a leaf outside": first("right_child", "-44"),
    "more leaves than values": first("num_leaves", "9"),
    "no leaf": first("num_leaves", "0"),
    "a huge tree": first("num_leaves", "2000000000"),
    "categories": first("num_cat", "3"),
    "no number": first("threshold", "abc"),
    "a size that lies": TEXT.replace("tree_sizes=", "tree_sizes=9", 1),
    "several classes": TEXT.replace("num_class=1", "num_class=3", 1),
    "nothing": "",
}


@pytest.mark.parametrize("change", CHANGES)
def test_trees_that_point_outside_of_themselves_are_refused(change: str, tmp_path: Path) -> None:
    assert CHANGES[change] != TEXT
    with pytest.raises((ValueError, KeyError)):
        check_trees(CHANGES[change].encode())
    (tmp_path / "booster_.txt").write_text(CHANGES[change])
    (tmp_path / "state.json").write_text(
        '{"parameters": {}, "fitted": {"booster_": {"__kind__": "booster", "value": "booster_.txt"}}}'
    )
    with pytest.raises(DhdError, match="The state of LightGBMSelector in .* cannot be read"):
        state.load_selector_of(type(load_selector("lgbm")), tmp_path)
