"""One battery over every built-in selector, plus what each of them promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dhd_labels.errors import DhdError
from dhd_selectors import Selector, load_selector
from dhd_selectors.base import fit_selector, is_privileged, needs_labels, predict_values, requires
from dhd_selectors.baselines import DropWrong
from dhd_selectors.features import build_features
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.registry import BUILT_IN

NAMES = sorted(set(BUILT_IN) - {"transformer"})  # tests/neural has a battery for it


@pytest.fixture
def X(messages: pd.DataFrame) -> pd.DataFrame:
    return build_features(messages)


@pytest.fixture
def labels(messages: pd.DataFrame) -> pd.DataFrame:
    return messages[["proposal_correct", "proposal_status", "trajectory_value"]]


@pytest.fixture
def y(X: pd.DataFrame) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, 0.05, len(X))
    return 0.2 - 0.2 * X["hedges"].to_numpy() + noise


def fitted(name: str, X: pd.DataFrame, y: np.ndarray, labels: pd.DataFrame, **parameters: Any) -> Selector:
    selector = load_selector(name, random_state=0, n_jobs=1, **parameters)
    return fit_selector(selector, X, y, labels, np.ones(len(X)))


@pytest.mark.parametrize("name", NAMES)
def test_follows_the_conventions(name: str, X: pd.DataFrame, y: np.ndarray, labels: pd.DataFrame) -> None:
    selector = load_selector(name, random_state=3, n_jobs=1)
    assert isinstance(selector, Selector)
    assert clone(selector).get_params() == selector.get_params()
    assert not [attribute for attribute in vars(selector) if attribute.endswith("_")]
    before = selector.get_params()
    assert fit_selector(selector, X, y, labels, np.ones(len(X))) is selector
    assert selector.get_params() == before
    assert vars(selector)["n_features_in_"] == X.shape[1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", ["plain", "zero", "constant", "nulls", "one-row", "flat-features", "tiny"])
def test_predictions_are_finite_and_deterministic(
    name: str,
    case: str,
    X: pd.DataFrame,
    y: np.ndarray,
    labels: pd.DataFrame,
    capfd: pytest.CaptureFixture[str],
) -> None:
    rows = {"one-row": 1, "tiny": 4}.get(case, len(X))
    X, y, labels = X.iloc[:rows], y[:rows].copy(), labels.iloc[:rows]
    if case == "zero":
        y[:] = 0.0
    if case == "constant":
        y[:] = -0.2
    if case == "nulls":
        y[::2] = np.nan
    if case == "flat-features":
        X = X * 0.0
    values = [predict_values(fitted(name, X, y, labels), X, labels) for _ in range(2)]
    assert values[0].shape == (rows,)
    assert values[0].dtype == np.float64
    assert np.array_equal(values[0], values[1])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", NAMES)
def test_inputs_stay_as_they_were(name: str, X: pd.DataFrame, y: np.ndarray, labels: pd.DataFrame) -> None:
    kept = X.copy(), y.copy(), labels.copy()
    predict_values(fitted(name, X, y, labels), X, labels)
    pd.testing.assert_frame_equal(X, kept[0], check_exact=True)
    assert np.array_equal(y, kept[1])
    pd.testing.assert_frame_equal(labels, kept[2])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_the_declared_labels_arrives(
    name: str, X: pd.DataFrame, y: np.ndarray, labels: pd.DataFrame
) -> None:
    altered = labels.assign(trajectory_value=-1.0, proposal_status="altered")
    if "proposal_correct" not in requires(load_selector(name), fitting=True):
        altered["proposal_correct"] = ~altered["proposal_correct"]
    values = predict_values(fitted(name, X, y, labels), X, labels)
    assert np.array_equal(values, predict_values(fitted(name, X, y, altered), X, altered))


def test_marks() -> None:
    assert {name for name in NAMES if is_privileged(load_selector(name))} == {"drop-wrong"}
    assert {name for name in NAMES if needs_labels(load_selector(name))} == {"lgbm"}


def test_drop_wrong_marks_graded_wrong_messages_only(X: pd.DataFrame) -> None:
    correct = pd.DataFrame({"proposal_correct": pd.array([None, True, False, False], dtype="boolean")})
    assert DropWrong().predict_value(X.iloc[:4], correct).tolist() == [0.0, 0.0, -1.0, -1.0]
    objects = correct.astype(object).where(correct.notna(), None)
    assert DropWrong().predict_value(X.iloc[:4], objects).tolist() == [0.0, 0.0, -1.0, -1.0]
    with pytest.raises(DhdError, match="must have the column proposal_correct"):
        DropWrong().predict_value(X)


def test_lgbm_learns_and_does_not_depend_on_threads(messages: pd.DataFrame) -> None:
    X = pd.concat([build_features(messages)] * 4, ignore_index=True)
    y = 0.2 - 0.3 * (X["hedges"].to_numpy() > 0)
    one = LightGBMSelector(10, 0.5, n_jobs=1).fit(X, y)
    two = LightGBMSelector(10, 0.5, n_jobs=2).fit(X, y)
    assert np.array_equal(one.predict_value(X), two.predict_value(X))
    assert np.corrcoef(one.predict_value(X), y)[0, 1] > 0.95


def test_lgbm_uses_weights_and_ignores_rows_without_a_target(X: pd.DataFrame, y: np.ndarray) -> None:
    holes = y.copy()
    holes[::3] = np.nan
    known = np.isfinite(holes)
    weight = np.linspace(1.0, 5.0, len(y))
    with_holes = LightGBMSelector().fit(X, holes, sample_weight=weight)
    without = LightGBMSelector().fit(X[known], holes[known], sample_weight=weight[known])
    assert np.array_equal(with_holes.predict_value(X), without.predict_value(X))
    unweighted = LightGBMSelector().fit(X, holes)
    assert not np.array_equal(with_holes.predict_value(X), unweighted.predict_value(X))
    with pytest.raises(DhdError, match="at least one finite value"):
        LightGBMSelector().fit(X, np.full(len(X), np.nan))


class Faulty:
    """Returns what it is told to."""

    requires = ("trajectory_values",)

    def __init__(self, values: Any) -> None:
        self.values = values

    def predict_value(self, X: pd.DataFrame) -> Any:
        return self.values


def test_bad_selectors_are_named(X: pd.DataFrame, labels: pd.DataFrame) -> None:
    with pytest.raises(DhdError, match="Did you mean 'trajectory_value'"):
        requires(Faulty(None), fitting=True)  # type: ignore[arg-type]
    honest = type("Honest", (Faulty,), {"requires": ()})
    with pytest.raises(DhdError, match=r"Honest must return shape \(60,\), got \(2,\)"):
        predict_values(honest(np.zeros(2)), X, labels)
    with pytest.raises(DhdError, match="Honest must be finite, got 60 non-finite"):
        predict_values(honest(np.full(60, np.nan)), X, labels)
