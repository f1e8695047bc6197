"""One battery over every built-in selector, plus what each of them promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dhd_labels.errors import DhdError
from dhd_selectors import Selector, load_selector
from dhd_selectors.base import (
    POOL_COLUMN,
    PRIVILEGED_COLUMNS,
    TEXT_COLUMNS,
    fit_selector,
    is_privileged,
    is_upper_bound,
    needs_labels,
    pinned_threshold,
    predict_values,
    requires,
)
from dhd_selectors.baselines import Confidence, Consensus, DropWrong, Hindsight, RandomRemoval
from dhd_selectors.correctness import LearnedCorrect, OracleCorrect
from dhd_selectors.features import build_features
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.linear import PENALTIES, fit_ridge, fit_scale
from dhd_selectors.logistic import LogisticSelector
from dhd_selectors.registry import BUILT_IN

NAMES = sorted(set(BUILT_IN) - {"transformer"})  # tests/neural has a battery for it


@pytest.fixture
def X(messages: pd.DataFrame) -> pd.DataFrame:
    return build_features(messages)


@pytest.fixture
def labels(messages: pd.DataFrame) -> pd.DataFrame:
    right = messages["proposal_correct"].groupby(messages["pool_id"]).transform("sum")
    return messages[["proposal_correct", "proposal_status", "trajectory_value"]].assign(pool_right=right)


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
    declared = requires(load_selector(name), fitting=True)
    altered = labels.copy()
    for column in labels.columns.difference(list(declared)):
        altered[column] = labels[column].to_numpy()[::-1]
    values = predict_values(fitted(name, X, y, labels), X, labels)
    assert np.array_equal(values, predict_values(fitted(name, X, y, altered), X, altered))
    decides = predict_values(fitted(name, X, y, labels), X, altered.drop(columns=altered.columns.difference(declared)))
    assert np.array_equal(values, decides)


def test_marks() -> None:
    made = {name: load_selector(name) for name in NAMES if name != "transformer"}
    assert {n for n, s in made.items() if is_privileged(s)} == {"drop-wrong", "oracle-correct", "hindsight"}
    assert {n for n, s in made.items() if is_upper_bound(s)} == {"hindsight"}
    pinned = {"keep-all", "random", "drop-wrong", "hindsight"}
    assert {n for n, s in made.items() if not needs_labels(s)} == pinned
    assert {n for n, s in made.items() if pinned_threshold(s) is not None} == pinned
    assert requires(LearnedCorrect(), fitting=True) == ("proposal_correct",)
    assert set(OracleCorrect.requires) | set(Hindsight.requires) <= set(PRIVILEGED_COLUMNS)


def test_random_keeps_all_as_often_as_it_removes_any_one() -> None:
    values = RandomRemoval(1).predict_value(pd.DataFrame(index=range(50_000))).reshape(-1, 5)
    removed = np.where(values.min(axis=1) < RandomRemoval.threshold, values.argmin(axis=1), 5)
    share = np.bincount(removed, minlength=6) / len(removed)
    assert np.abs(share - 1 / 6).max() < 4 * np.sqrt(5 / 36 / len(removed))
    other = RandomRemoval(2).predict_value(pd.DataFrame(index=range(50_000)))
    assert not np.array_equal(values.ravel(), other)


def test_consensus_and_confidence_read_their_column(X: pd.DataFrame) -> None:
    assert np.array_equal(Consensus().predict_value(X), X["answer_agreement"])
    level = X["confidence_level"].to_numpy()
    assert np.array_equal(Confidence().predict_value(X), np.where(level == 0, 2.0, level))
    assert (level == 0).any()
    with pytest.raises(DhdError, match="must have the column answer_agreement"):
        Consensus().predict_value(X.drop(columns="answer_agreement"))


def test_hindsight_is_the_recorded_value_and_keeps_what_is_unknown(X: pd.DataFrame) -> None:
    recorded = pd.DataFrame({"trajectory_value": [0.2, -0.4, np.nan]})
    assert Hindsight().predict_value(X.iloc[:3], recorded).tolist() == [0.2, -0.4, 0.0]
    with pytest.raises(DhdError, match="Hindsight must have the column trajectory_value"):
        Hindsight().predict_value(X.iloc[:3])


def test_oracle_correct_averages_by_verdict_and_pool_and_shrinks_what_is_rare(X: pd.DataFrame) -> None:
    n = 2000
    rng = np.random.default_rng(0)
    correct = pd.array(rng.random(n) < 0.5, dtype="boolean")
    correct[:200] = pd.NA
    labels = pd.DataFrame({"proposal_correct": correct, "pool_right": rng.integers(0, 2, n)})
    right = labels["proposal_correct"].fillna(False).to_numpy(bool)
    y = np.where(labels["proposal_correct"].isna(), 0.0, np.where(right, 0.3, -0.1 - 0.2 * labels["pool_right"]))
    X = pd.DataFrame(index=range(n))
    oracle = OracleCorrect().fit(X, y, labels=labels)
    values = oracle.predict_value(X, labels)
    assert np.abs(values - y).max() < 0.03
    unseen = pd.DataFrame({"proposal_correct": [True, None], "pool_right": [5, 5]})
    assert oracle.predict_value(X.iloc[:2], unseen).tolist() == pytest.approx([0.3, 0.0], abs=0.01)
    one = OracleCorrect().fit(X.iloc[-1:], np.array([0.5]), labels=labels.iloc[-1:])
    assert np.abs(one.predict_value(X, labels)).max() < 0.1
    with pytest.raises(DhdError, match="OracleCorrect must have the column proposal_correct"):
        oracle.predict_value(X)


def test_learned_correct_learns_verdicts_and_leaves_out_unknown_ones(
    X: pd.DataFrame, y: np.ndarray, labels: pd.DataFrame
) -> None:
    verdict = (X["hedges"].to_numpy() < X["hedges"].median()).astype(object)
    verdict[::3] = None
    known = np.array([v is not None for v in verdict])
    frame = labels.assign(proposal_correct=pd.array(verdict, dtype="boolean"))
    values = LearnedCorrect().fit(X, y, labels=frame[["proposal_correct"]]).predict_value(X)
    assert np.corrcoef(values[known], verdict[known].astype(float))[0, 1] > 0.7
    same = LearnedCorrect().fit(X[known], -y[known], labels=frame[["proposal_correct"]][known]).predict_value(X)
    assert np.array_equal(values, same)
    with pytest.raises(DhdError, match="must be known for at least one message"):
        LearnedCorrect().fit(X, y, labels=frame.assign(proposal_correct=pd.NA)[["proposal_correct"]])


@pytest.mark.parametrize("name", [n for n in NAMES if needs_labels(load_selector(n)) and load_selector(n).get_params()])
def test_no_finite_target_is_a_clear_error(name: str, X: pd.DataFrame, labels: pd.DataFrame) -> None:
    unknown = labels.assign(proposal_correct=pd.array([None] * len(X), dtype="boolean"))
    with pytest.raises(DhdError, match="at least one"):
        fitted(name, X, np.full(len(X), np.nan), unknown)


def test_logistic_follows_the_sign_and_weighs_by_size(X: pd.DataFrame) -> None:
    X = pd.concat([X] * 10, ignore_index=True)
    harmful = X["hedges"].to_numpy() > X["hedges"].median()
    y = np.where(harmful, -0.3, 0.1)
    values = LogisticSelector().fit(X, y).predict_value(X)
    assert np.corrcoef(values, y)[0, 1] > 0.9
    # Nothing to go by but the sizes: few large losses outweigh many small gains.
    flat = X * 0.0
    mixed = np.where(np.arange(len(X)) % 4 == 0, -0.9, 0.1)
    assert LogisticSelector().fit(flat, mixed).predict_value(flat) == pytest.approx(mixed.mean(), abs=0.02)


@pytest.mark.parametrize("y", [0.3, 0.0, -0.2])
def test_logistic_without_both_signs_is_the_mean(X: pd.DataFrame, y: float) -> None:
    target = np.where(np.arange(len(X)) % 2, y, 0.0)
    assert LogisticSelector().fit(X, target).predict_value(X) == pytest.approx(np.full(len(X), target.mean()))


def test_logistic_reads_words_when_asked(X: pd.DataFrame, messages: pd.DataFrame) -> None:
    many = pd.concat([messages] * 4, ignore_index=True).assign(question="", pool=0)
    many["key_idea"] = ["derive it" if n % 2 else "recall it" for n in range(len(many))]
    texts = many[[*TEXT_COLUMNS]].astype(object).where(lambda t: t.notna(), "").assign(**{POOL_COLUMN: 0})
    numbers = pd.concat([X] * 4, ignore_index=True)
    y = np.where(np.arange(len(many)) % 2, 0.3, -0.3)
    assert LogisticSelector(text=True).uses_text and not LogisticSelector().uses_text
    seen = pd.concat([numbers, texts], axis=1)
    values = LogisticSelector(text=True).fit(seen, y).predict_value(seen)
    assert (np.sign(values) == np.sign(y)).all()
    withheld = seen.assign(**dict.fromkeys(TEXT_COLUMNS, ""))
    assert np.isfinite(LogisticSelector(text=True).fit(withheld, y).predict_value(withheld)).all()


def test_ridge_equals_its_closed_form_and_cuts_what_is_far(X: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(300, 6)) * [1, 10, 0.1, 1, 1, 0] + 5
    matrix[:, 4] = matrix[:, 3] * 2  # collinear
    y, weight = matrix[:, 0] - 0.3 * matrix[:, 1] + rng.normal(size=300), rng.uniform(1, 3, 300)
    matrix[:3, 1] += 100.0  # beyond the limit, so that the mean of what is left is not 0
    model = fit_ridge(matrix, y, weight)
    assert np.corrcoef(model.predict(matrix), y)[0, 1] > 0.6
    scaled = np.column_stack([np.ones(300), fit_scale(matrix, weight)(matrix)])
    root = np.sqrt(weight / weight.sum())[:, None]
    distances = []
    for penalty in PENALTIES:
        ridge = np.diag([0.0] + [penalty] * 6)
        beta = np.linalg.solve((scaled * root).T @ (scaled * root) + ridge, (scaled * root).T @ (y * root[:, 0]))
        distances.append(np.abs(scaled @ beta - model.predict(matrix)).max())
    assert min(distances) < 1e-8
    far = matrix[:1].copy()
    far[0, 1] = 1e9
    assert abs(model.predict(far)[0] - model.predict(matrix[:1])[0]) < 50
    noise = fit_ridge(matrix, rng.normal(size=300), np.ones(300))
    assert np.std(noise.predict(matrix)) < 0.3


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
