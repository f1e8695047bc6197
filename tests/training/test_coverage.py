"""How often interval and p-value err about a cross-fitted gain, with selectors that fit in no time."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from dhd_labels.simulate.worlds import scenario
from dhd_selectors.actions import FULL
from dhd_selectors.policy import RemoveWorst
from tests.bench.calibration.cheap import cheap_world
from training.coupling import coupling
from training.crossfit import Decisions, cross_fit
from training.estimands import make_folds
from training.gain import Gain, estimate, paired
from training.references import chosen

COLUMNS = ["slot", "hedges", "answer_agreement", "confidence_level"]
PROBLEMS, WORLDS = 60, 60
SLACK = 3 * np.sqrt(0.05 * 0.95 / WORLDS)


class Line(BaseEstimator):  # type: ignore[misc]
    """Least squares on a few columns."""

    def fit(self, X: pd.DataFrame, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Line:
        self.coef_ = np.linalg.lstsq(self._design(X), y, rcond=None)[0]
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        return np.asarray(self._design(X) @ self.coef_)

    @staticmethod
    def _design(X: pd.DataFrame) -> np.ndarray:
        return np.column_stack([np.ones(len(X)), X[COLUMNS].to_numpy()])


class PinnedLine(Line):
    """Acts below 0, whatever the training part says of acting."""

    threshold: ClassVar[float] = 0.0


@cache
def decided(selector: type[Line], folds: int) -> list[tuple[Decisions, pd.Series, float]]:
    """Decisions in worlds where no message matters, made by the first folds alone; problems, and the coupling."""
    found = []
    for seed in range(WORLDS):
        data = cheap_world(scenario("null"), PROBLEMS, 5, 500 + seed).data
        data = dataclasses.replace(data, X=data.X[COLUMNS])
        used = make_folds(data, "unseen-problem", 0).folds[:folds]
        decisions = cross_fit(selector(), RemoveWorst(caution=0.0), data, used, seed=seed)
        found.append((decisions, data.pool_problem, coupling(used, data.n_pools)))
    return found


def gains(selector: type[Line], folds: int, *, coupled: bool = True) -> list[Gain]:
    found = [
        gain_of(decisions, problem, factor if coupled else 1.0, seed)
        for seed, (decisions, problem, factor) in enumerate(decided(selector, folds))
    ]
    assert np.mean([row.gain != 0.0 for row in found]) > 0.7, "the policy must act for rates to mean anything"
    return found


def gain_of(decisions: Decisions, problem: pd.Series, factor: float, seed: int) -> Gain:
    success = decisions.success
    differences = paired(chosen(success, decisions.action), success[:, FULL], problem.iloc[decisions.pool], "keep-all")
    return estimate(differences, "keep-all", np.random.default_rng(seed), factor)


def missed(found: list[Gain]) -> float:
    return float(np.mean([row.ci_low is None or not row.ci_low <= 0.0 <= (row.ci_high or 0.0) for row in found]))


@pytest.mark.parametrize("selector", [Line, PinnedLine])
def test_a_cross_fitted_null_is_unbiased_and_covered(selector: type[Line]) -> None:
    found = gains(selector, 5)
    values = np.array([row.gain for row in found], dtype=float)
    assert values.mean() == pytest.approx(0.0, abs=3 * values.std() / np.sqrt(WORLDS))
    assert missed(found) <= 0.05 + SLACK
    assert np.mean([row.p_value <= 0.05 for row in found if row.p_value is not None]) <= 0.05 + SLACK


def test_folds_are_coupled() -> None:
    """Without the factor the spread of problems is too small: the squared error is larger than it says."""
    found = gains(Line, 5, coupled=False)
    half = np.array([((row.ci_high or 0.0) - (row.ci_low or 0.0)) / 2 for row in found])
    squared = np.array([row.gain or 0.0 for row in found]) ** 2
    assert squared.mean() / ((half / 2.05) ** 2).mean() > 1.1


def test_a_single_fit_that_is_judged_on_other_problems_needs_no_factor() -> None:
    found = gains(PinnedLine, 1)
    assert missed(found) <= 0.05 + SLACK
    assert {row.coupling for row in found} == {1.0}
