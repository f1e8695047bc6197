"""Folds by problem, no leak from held-out problems, and cross-fitted gains on worlds with a known answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from dhd_labels.errors import NothingMadeError
from dhd_selectors import load_selector
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.policy import NEVER, RemoveWorst
from training.crossfit import UNCOVERED, Fold, cross_fit, fit_fold, problem_folds
from training.data import LabelData
from training.gain import estimate, paired_differences

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


@pytest.mark.parametrize(("n", "expected"), [(2, 2), (3, 3), (5, 5), (7, 5), (53, 5)])
def test_folds_partition_the_problems(n: int, expected: int) -> None:
    problems = [f"p{i}" for i in range(n)]
    folds = problem_folds(problems * 3, seed=1)
    assert len(folds) == expected
    assert sorted(p for fold in folds for p in fold.test) == sorted(problems)
    assert all(fold.test and fold.train and fold.train | fold.test == set(problems) for fold in folds)
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


def test_folds_depend_on_the_seed_and_nothing_else() -> None:
    problems = [f"p{i}" for i in range(30)]
    assert problem_folds(problems, 1) == problem_folds(problems[::-1], 1)
    assert problem_folds(problems, 1) != problem_folds(problems, 2)


def test_bad_folds_are_refused() -> None:
    with pytest.raises(NothingMadeError, match="2 problems or more, got 1"):
        problem_folds(["p"], 0)
    with pytest.raises(AssertionError, match="both parts"):
        Fold(frozenset("ab"), frozenset("bc"))


def test_all_pools_of_a_problem_share_a_fold(kit: Any) -> None:
    world = kit.simulate(10, 0)
    both = [pd.concat([f, f.assign(integrator="j")], ignore_index=True) for f in (world.messages, world.replays)]
    data = dataclasses.replace(world, messages=both[0], replays=both[1]).data
    assert data.n_pools == 20
    for fold in problem_folds(data.pool_problem, 0):
        assert data.pool_problem.isin(fold.test).sum() == 2 * len(fold.test)


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
    decisions = cross_fit(NeverSeen(), POLICY, data, problem_folds(data.pool_problem, 0), seed=0)
    assert (decisions.actions != UNCOVERED).all()


@pytest.mark.parametrize("shuffle_targets", [False, True])
def test_held_out_outcomes_change_nothing(kit: Any, shuffle_targets: bool) -> None:
    data = kit.simulate(15, 0, value=hedges_hurt).data
    selector = LightGBMSelector(n_estimators=20)
    folds = problem_folds(data.pool_problem, 0)
    for fold in folds[:2]:
        fits = [
            cross_fit(selector, POLICY, d, [fold], seed=3, shuffle_targets=shuffle_targets)
            for d in (data, altered(data, fold.test))
        ]
        models = [fit.fits[0].selector.booster_.model_to_string() for fit in fits]  # type: ignore[union-attr]
        assert models[0] == models[1]
        assert fits[0].fits[0].threshold == fits[1].fits[0].threshold  # type: ignore[union-attr]
        assert np.array_equal(fits[0].actions, fits[1].actions)
        in_training = cross_fit(selector, POLICY, altered(data, fold.train), [fold], seed=3)
        assert in_training.fits[0].selector.booster_.model_to_string() != models[0]  # type: ignore[union-attr]


def test_rows_that_may_not_be_trained_on_change_nothing(kit: Any) -> None:
    data = kit.simulate(12, 0, value=hedges_hurt).data
    banned = frozenset(f"p{n:04d}" for n in range(4))
    data = dataclasses.replace(data, trainable=~data.problem.isin(banned).to_numpy())
    everyone = frozenset(data.pool_problem)
    models = []
    for version in (data, altered(data, banned)):
        fitted = fit_fold(LightGBMSelector(n_estimators=20), POLICY, version, everyone, seed=(0,))
        models.append((fitted.selector.booster_.model_to_string(), fitted.threshold))  # type: ignore[union-attr]
    assert models[0] == models[1]
    decisions = cross_fit(Truth(), POLICY, with_truth(data, np.zeros((12, 5))), problem_folds(everyone, 0), seed=0)
    assert (decisions.actions != UNCOVERED).all()  # such rows may be scored


@pytest.mark.parametrize("selector", [Truth(), TunedTruth()])
def test_the_best_policy_earns_its_known_gain(kit: Any, selector: Truth) -> None:
    errors = []
    for seed in range(12):
        world = kit.simulate(40, seed, value=hedges_hurt, n_blocks=3)
        data = with_truth(world.data, world.value)
        decisions = cross_fit(selector, POLICY, data, problem_folds(data.pool_problem, seed), seed=seed)
        gain = paired_differences(data, decisions.actions, "keep-all").values.mean()
        errors.append(gain - np.maximum(0.0, -world.value.min(axis=1)).mean())
    assert np.mean(errors) == pytest.approx(0.0, abs=3 * np.std(errors) / np.sqrt(12))


def test_lgbm_finds_most_of_a_gain_that_the_text_shows(kit: Any) -> None:
    world = kit.simulate(120, 0, value=hedges_hurt)
    data = world.data
    decisions = cross_fit(
        load_selector("lgbm", n_estimators=60), POLICY, data, problem_folds(data.pool_problem, 0), seed=0
    )
    gain = paired_differences(data, decisions.actions, "keep-all").values.mean()
    attainable = np.maximum(0.0, -world.value.min(axis=1)).mean()
    assert gain > 0.6 * attainable


def null_worlds(kit: Any, n_problems: int, n_worlds: int) -> Iterator[tuple[int, LabelData]]:
    """Worlds in which no message matters, sharing one cheap X."""
    template = kit.simulate(n_problems, 0).data
    X = template.X[["slot", "hedges", "answer_agreement", "answer_is_minority"]]
    for seed in range(n_worlds):
        rng = np.random.default_rng(seed)
        success = rng.binomial(5, rng.uniform(0.2, 0.8, (n_problems, 1)), (n_problems, 7)) / 5
        y = (success[:, :1] - success[:, 1:6]).ravel()
        yield seed, dataclasses.replace(template, X=X, success=success, y=y)


def null_rates(
    selector: Ridge, worlds: Iterator[tuple[int, LabelData]], *, n_folds: int
) -> tuple[float, float, list[float]]:
    """Return how often the interval covers 0, how often p <= 0.05, and the gains, of a policy that acts."""
    covered, rejected, gains = [], [], []
    for seed, data in worlds:
        folds = problem_folds(data.pool_problem, 0, max(2, n_folds))[:n_folds]
        actions = cross_fit(selector, POLICY, data, folds, seed=seed).actions
        row = estimate(paired_differences(data, actions, "keep-all").values, "keep-all", np.random.default_rng(seed))
        covered.append(row.ci_low <= 0.0 <= row.ci_high)
        rejected.append(row.p_value <= 0.05)
        gains.append(row.gain)
    assert np.mean(np.array(gains) != 0.0) > 0.7, "the policy must act for the rates to mean anything"
    return float(np.mean(covered)), float(np.mean(rejected)), gains


def test_a_held_out_null_interval_covers_at_its_rate(kit: Any) -> None:
    """Fitted once, judged on other problems (as `--test` does): nominal."""
    covered, rejected, _ = null_rates(PinnedRidge(), null_worlds(kit, 100, 200), n_folds=1)
    assert 0.91 <= covered <= 0.99
    assert rejected <= 0.08


def test_a_cross_fitted_null_is_unbiased_and_nearly_covers(kit: Any) -> None:
    """Every fold's decisions depend on the other folds' outcomes: a little below nominal, as `gain` states."""
    covered, _, gains = null_rates(Ridge(), null_worlds(kit, 50, 60), n_folds=5)
    assert np.mean(gains) == pytest.approx(0.0, abs=3 * np.std(gains) / np.sqrt(60))
    assert covered >= 0.8


def test_uncovered_pools_stay_uncovered(kit: Any) -> None:
    data = kit.simulate(6, 0).data
    only_one = dataclasses.replace(data, y=np.where(data.problem == "p0002", data.y, np.nan))
    decisions = cross_fit(LightGBMSelector(5), POLICY, only_one, problem_folds(data.pool_problem, 0), seed=0)
    own = only_one.pool_problem == "p0002"
    assert (decisions.actions[own] == UNCOVERED).all()
    assert any(fit is None for fit in decisions.fits)
    thresholds = [fit.threshold for fit in decisions.fits if fit is not None]
    assert set(thresholds) == {NEVER}  # one labelled problem is too few to tune on


def test_a_problem_in_two_test_folds_is_refused(kit: Any) -> None:
    data = kit.simulate(4, 0).data
    fold = problem_folds(data.pool_problem, 0)[0]
    with pytest.raises(AssertionError, match="two folds"):
        cross_fit(load_selector("keep-all"), POLICY, data, [fold, fold], seed=0)


def test_the_placebo_shuffles_targets_with_their_outcomes(kit: Any) -> None:
    data = kit.simulate(80, 0, value=hedges_hurt).data
    folds = problem_folds(data.pool_problem, 0)
    gains = {}
    for shuffle in (False, True):
        actions = cross_fit(Ridge(), POLICY, data, folds, seed=0, shuffle_targets=shuffle).actions
        gains[shuffle] = paired_differences(data, actions, "keep-all").values.mean()
    assert gains[False] > 0.08
    assert abs(gains[True]) < 0.05
