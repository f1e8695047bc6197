"""No leak from what judges, and cross-fitted gains on worlds with a known answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_selectors import load_selector
from dhd_selectors.actions import FULL, N_ACTIONS, REMOVALS
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.policy import NEVER, RemoveWorst
from training import crossfit
from training.crossfit import Decisions, cross_fit, fit_fold, joined
from training.data import LabelData
from training.estimands import Fold, make_folds
from training.evidence import all_evidence

POLICY = RemoveWorst()


class Truth(BaseEstimator):
    """Predicts the true value, which the test put into X."""

    learns = False
    threshold = 0.0

    def fit(self, X: pd.DataFrame, y: np.ndarray, *, labels: Any = None, sample_weight: Any = None) -> Self:
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        return X["truth"].to_numpy()


class TunedTruth(Truth):
    """The same, with a threshold that has to be tuned."""

    threshold = None


class Ridge(BaseEstimator):
    """Least squares with a small penalty: a cheap selector that learns from the features."""

    def fit(self, X: pd.DataFrame, y: np.ndarray, *, labels: Any = None, sample_weight: Any = None) -> Self:
        A = self._design(X)
        self.coef_ = np.linalg.solve(A.T @ A + 0.1 * np.eye(A.shape[1]), A.T @ y)
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        return self._design(X) @ self.coef_

    def _design(self, X: pd.DataFrame) -> np.ndarray:
        return np.column_stack([np.ones(len(X)), X.to_numpy()])


class PinnedRidge(Ridge):
    """The same, removing whatever it predicts to be harmful."""

    threshold = 0.0


class NeverSeen(BaseEstimator):
    """Refuses to predict for a problem that it was fitted on; X carries the problem's number."""

    def fit(self, X: pd.DataFrame, y: np.ndarray, *, labels: Any = None, sample_weight: Any = None) -> Self:
        self.problems_ = set(X["problem"])
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        assert not self.problems_ & set(X["problem"])
        return X["slot"].to_numpy()


def hedges_hurt(_: np.random.Generator, hedges: np.ndarray) -> np.ndarray:
    return 0.15 - 0.35 * hedges


def with_truth(data: LabelData, value: np.ndarray) -> LabelData:
    return dataclasses.replace(data, X=data.X.assign(truth=value.ravel()))


def folds_of(data: LabelData, seed: int = 0, n_folds: int = 5) -> tuple[Fold, ...]:
    return make_folds(data, "unseen-problem", seed, n_folds=n_folds).folds


def gain_of(decisions: Decisions) -> float:
    """Mean success over keeping all, one pool a problem."""
    chosen = decisions.success[np.arange(len(decisions.pool)), decisions.action]
    return float((chosen - decisions.success[:, FULL]).mean())


def problems_of(data: LabelData, pools: np.ndarray) -> frozenset[str]:
    return frozenset(data.pool_problem.iloc[pools])


def altered(data: LabelData, problems: frozenset[str]) -> LabelData:
    """Change every outcome, label and verdict of these problems."""
    rows = data.problem.isin(problems).to_numpy()
    labels = data.labels.copy()
    labels.loc[rows, "proposal_correct"] = ~labels.loc[rows, "proposal_correct"]
    success = data.success.copy()
    pools = data.pool_problem.isin(problems).to_numpy()
    success[pools] = 1.0 - success[pools]
    y = np.where(rows, -data.y, data.y)
    weight = np.where(rows, 99.0, data.weight)
    return dataclasses.replace(data, labels=labels, success=success, y=y, weight=weight)


def test_no_prediction_is_ever_made_for_a_fitted_problem(kit: Any) -> None:
    """Neither for the decisions nor for the threshold."""
    data = kit.simulate(12, 0).data
    data = dataclasses.replace(data, X=data.X.assign(problem=pd.factorize(data.problem)[0]))
    decisions = cross_fit(NeverSeen(), POLICY, data, folds_of(data), seed=0)
    assert sorted(decisions.pool) == list(range(12))
    assert decisions.uncovered == {}


@pytest.mark.parametrize("shuffle", [None, "within-problem", "across-problems"])
@pytest.mark.parametrize("above", [10**9, 1])
def test_held_out_outcomes_change_nothing(kit: Any, shuffle: Any, above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a bit of the model, the thresholds and the decisions; whether inner folds or one held-out part tune."""
    monkeypatch.setattr(crossfit, "HOLDOUT_ABOVE", above)
    data = kit.simulate(15, 0, value=hedges_hurt).data
    selector = LightGBMSelector(n_estimators=5)

    def fit(changed: LabelData, number: int) -> Any:
        decisions = cross_fit(
            selector, POLICY, changed, folds_of(changed)[number : number + 1], seed=3, shuffle=shuffle
        )
        return decisions.fits[0].selector.booster_.model_to_string(), decisions.fits[0].thresholds, decisions.action  # type: ignore[union-attr]

    for number, fold in enumerate(folds_of(data)[:1]):
        ours, theirs = fit(data, number), fit(altered(data, problems_of(data, fold.test)), number)
        assert ours[:2] == theirs[:2]
        assert np.array_equal(ours[2], theirs[2])
        assert fit(altered(data, problems_of(data, fold.train)), number)[0] != ours[0]


def test_rows_that_may_not_be_trained_on_change_nothing(kit: Any) -> None:
    data = kit.simulate(12, 0, value=hedges_hurt).data
    banned = frozenset(f"p{n:04d}" for n in range(4))
    data = dataclasses.replace(data, trainable=~data.problem.isin(banned).to_numpy())
    models = []
    for version in (data, altered(data, banned)):
        evidence = all_evidence(version)
        fold = Fold(np.arange(12), np.arange(12), evidence, evidence)
        fitted = fit_fold(LightGBMSelector(n_estimators=20), POLICY, version, fold, seed=(0,))
        models.append((fitted.selector.booster_.model_to_string(), fitted.thresholds))  # type: ignore[union-attr]
    assert models[0] == models[1]
    decisions = cross_fit(Truth(), POLICY, with_truth(data, np.zeros((12, 5))), folds_of(data), seed=0)
    assert len(decisions.pool) == 12  # such rows may be scored


@pytest.mark.parametrize("selector", [Truth(), TunedTruth()])
def test_the_best_policy_earns_its_known_gain(kit: Any, selector: Truth) -> None:
    errors = []
    for seed in range(12):
        world = kit.simulate(40, seed, value=hedges_hurt, n_blocks=3)
        data = with_truth(world.data, world.value)
        decisions = cross_fit(selector, POLICY, data, folds_of(data, seed), seed=seed)
        gain = gain_of(decisions)
        errors.append(gain - np.maximum(0.0, -world.value.min(axis=1)).mean())
    assert np.mean(errors) == pytest.approx(0.0, abs=3 * np.std(errors) / np.sqrt(12))


def test_lgbm_finds_most_of_a_gain_that_the_text_shows(kit: Any) -> None:
    world = kit.simulate(120, 0, value=hedges_hurt)
    data = world.data
    decisions = cross_fit(load_selector("lgbm", n_estimators=60), POLICY, data, folds_of(data), seed=0)
    gain = gain_of(decisions)
    attainable = np.maximum(0.0, -world.value.min(axis=1)).mean()
    assert gain > 0.6 * attainable


def null_worlds(kit: Any, n_problems: int, n_worlds: int) -> Iterator[tuple[int, LabelData]]:
    """Worlds in which no message matters, sharing one cheap X."""
    template = kit.simulate(n_problems, 0).data
    X = template.X[["slot", "hedges", "answer_agreement", "answer_is_minority"]]
    for seed in range(n_worlds):
        rng = np.random.default_rng(seed)
        success = rng.binomial(5, rng.uniform(0.2, 0.8, (n_problems, 1)), (n_problems, N_ACTIONS)) / 5
        y = (success[:, [FULL]] - success[:, REMOVALS]).ravel()
        yield seed, dataclasses.replace(template, X=X, success=success, y=y)


def test_a_cross_fitted_null_is_unbiased(kit: Any) -> None:
    gains = []
    for seed, data in null_worlds(kit, 50, 60):
        gains.append(gain_of(cross_fit(Ridge(), RemoveWorst(caution=0.0), data, folds_of(data), seed=seed)))
    assert np.mean(np.array(gains) != 0.0) > 0.7, "the policy must act for the mean to mean anything"
    assert np.mean(gains) == pytest.approx(0.0, abs=3 * np.std(gains) / np.sqrt(60))


def test_pools_of_a_fold_without_labels_are_counted(kit: Any) -> None:
    data = kit.simulate(6, 0).data
    only_one = dataclasses.replace(data, y=np.where(data.problem == "p0002", data.y, np.nan))
    decisions = cross_fit(LightGBMSelector(5), POLICY, only_one, folds_of(only_one), seed=0)
    own = int(np.flatnonzero(only_one.pool_problem == "p0002")[0])
    missing = set(range(6)) - set(decisions.pool)
    assert own in missing
    assert decisions.uncovered == {"no_training_labels": len(missing)}
    assert sum(fit is None for fit in decisions.fits) == 1
    thresholds = [fit.thresholds for fit in decisions.fits if fit is not None]
    assert set(thresholds) == {(NEVER,)}  # one labelled problem is too few to tune on
    nothing = dataclasses.replace(data, y=np.full_like(data.y, np.nan))
    assert len(cross_fit(LightGBMSelector(5), POLICY, nothing, folds_of(nothing), seed=0).pool) == 0


def test_a_fold_without_any_block_is_decided_and_never_nan(kit: Any) -> None:
    """Its pools get a decision; their outcome stays unknown, for the comparison to count."""
    data = kit.simulate(15, 0, value=hedges_hurt).data
    fold = folds_of(data)[0]
    success = data.success.copy()
    success[fold.test] = np.nan
    y = np.where(np.isin(data.pool, fold.test), np.nan, data.y)
    data = dataclasses.replace(data, success=success, y=y)
    decisions = cross_fit(LightGBMSelector(5), POLICY, data, folds_of(data), seed=0)
    assert sorted(decisions.pool) == list(range(15))
    assert np.isnan(decisions.success).all(axis=1).sum() == len(fold.test)


def test_all_effects_zero_keeps_all(kit: Any) -> None:
    data = kit.simulate(15, 0).data
    flat = dataclasses.replace(data, y=np.zeros_like(data.y), success=np.full_like(data.success, 0.5))
    for selector in (load_selector("lgbm", n_estimators=5), Ridge()):
        assert (cross_fit(selector, POLICY, flat, folds_of(flat), seed=0).action == FULL).all()


def test_a_pool_that_is_judged_twice_is_refused(kit: Any) -> None:
    data = kit.simulate(4, 0).data
    fold = folds_of(data)[0]
    with pytest.raises(AssertionError, match="two folds"):
        cross_fit(load_selector("keep-all"), POLICY, data, [fold, fold], seed=0)


def test_repeated_splits_are_joined(kit: Any) -> None:
    data = kit.simulate(9, 0, value=hedges_hurt).data
    made = joined([cross_fit(Ridge(), POLICY, data, folds_of(data, r), seed=0, repeat=r) for r in range(3)])
    assert len(made.pool) == len(made.success) == len(made.action) == 27
    assert np.bincount(made.repeat).tolist() == [9, 9, 9]
    assert len(made.fits) == 15
    assert all(sorted(made.pool[made.repeat == r]) == list(range(9)) for r in range(3))


class Failing(Ridge):
    """Fails in a stated way."""

    def __init__(self, how: str = "") -> None:
        self.how = how

    def fit(self, X: pd.DataFrame, y: np.ndarray, *, labels: Any = None, sample_weight: Any = None) -> Self:
        if self.how == "fit":
            raise ZeroDivisionError("nothing to divide")
        if self.how == "exit":
            raise SystemExit(0)
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        if self.how == "predict":
            raise KeyError("a column")
        return np.full(len(X) + (self.how == "shape"), np.nan if self.how == "nan" else 0.0)


@pytest.mark.parametrize("threshold", ["low", float("nan"), [0.0]])
def test_a_threshold_that_is_no_number_is_refused(kit: Any, threshold: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Failing, "threshold", threshold, raising=False)
    data = kit.simulate(6, 0).data
    with pytest.raises(DhdError, match="'threshold' of Failing must be a number, or None"):
        cross_fit(Failing(), POLICY, data, folds_of(data), seed=0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("fit", "'fit' of Failing must not fail, but in fold 1 of 5 it raised ZeroDivisionError: nothing to divide"),
        ("exit", "'fit' of Failing must not fail, but in fold 1 of 5 it raised SystemExit"),
        ("predict", "'predict_value' of Failing must not fail, but in fold 1 of 5 it raised KeyError"),
        ("nan", r"must be finite, got .* non-finite .*In fold 1 of 5"),
        ("shape", r"must return shape .*In fold 1 of 5"),
    ],
)
def test_a_failing_selector_is_named_with_its_fold(kit: Any, how: str, message: str) -> None:
    data = kit.simulate(6, 0).data
    with pytest.raises(DhdError, match=message):
        cross_fit(Failing(how), POLICY, data, folds_of(data), seed=0)


@pytest.mark.parametrize("shuffle", ["within-problem", "across-problems"])
def test_the_placebos_shuffle_targets_with_their_outcomes(kit: Any, shuffle: Any) -> None:
    data = kit.simulate(80, 0, value=hedges_hurt).data
    gains = {}
    for how in (None, shuffle):
        decisions = cross_fit(Ridge(), POLICY, data, folds_of(data), seed=0, shuffle=how)
        gains[how] = gain_of(decisions)
    assert gains[None] > 0.08
    assert abs(gains[shuffle]) < 0.05


def test_a_selector_that_says_it_learns_nothing_gets_no_target(kit: Any) -> None:
    """It has no placebo and its folds count as uncoupled, so it must not learn in secret."""

    class Sly(BaseEstimator):  # type: ignore[misc]
        learns = False
        threshold = 0.0

        def fit(self, X: Any, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Sly:
            self.y_ = y
            return self

        def predict_value(self, X: Any) -> Any:
            return np.zeros(len(X))

    data = kit.simulate(10, 0).data
    fitted = fit_fold(Sly(), RemoveWorst(), data, make_folds(data, "unseen-problem", 0).folds[0], seed=(0,))
    assert fitted is not None
    seen: Any = fitted.selector
    assert len(seen.y_) == 40 and np.isnan(seen.y_).all()
