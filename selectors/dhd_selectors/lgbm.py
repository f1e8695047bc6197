"""Gradient-boosted trees on top of a ridge regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_selectors.base import BoolArray, FloatArray
from dhd_selectors.linear import fit_ridge


class LightGBMSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Least squares on the trajectory value: a ridge regression, and a few small trees on what it leaves.

    Squared error on the value itself is sensitive to cost: it weighs a mistake by its size as well as its sign, and
    its optimum, the expected value, is what a policy needs. Targets are weighted by the blocks behind them.

    A trajectory value is a difference of a few draws. Its noise (standard deviation up to 0.27 at five blocks) is ten
    times what text can predict of it, so one shrunken weight for each feature is learned well long before any tree
    is. Trees add bends and interactions; the more messages, the more of them. Predictions are the same for any
    `n_jobs`.

    The shape (ridge first, about 30 stumps of four leaves at 10,000 messages) was chosen on seeds 1 to 4 of the
    simulated worlds `reasoning`, `correctness` and `mixed`, by true values.

    Args:
        n_estimators: number of trees; None takes one for every 2,000 messages, between 30 and 150.
        learning_rate: shrinkage of each tree.
        num_leaves: most leaves in a tree.
        min_data_in_leaf: fewest messages in a leaf; None takes a fiftieth of the messages, between 5 and 200.
        reg_lambda: L2 penalty on leaf values, in units of messages.
        random_state: seed of the column sampling.
        n_jobs: threads; None or 0 leaves the choice to LightGBM.

    Fitted attributes: `linear_` (`dhd_selectors.linear.Linear`), `booster_` (`lightgbm.Booster`); the prediction is the
    sum of both.
    """

    def __init__(
        self,
        n_estimators: int | None = None,
        learning_rate: float = 0.05,
        num_leaves: int = 4,
        min_data_in_leaf: int | None = None,
        reg_lambda: float = 50.0,
        random_state: int | None = 0,
        n_jobs: int | None = 1,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_data_in_leaf = min_data_in_leaf
        self.reg_lambda = reg_lambda
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Fit on the rows whose target is not NaN.

        Raises:
            DhdError: no row has a target.
        """
        import lightgbm

        target = np.asarray(y, dtype=np.float64)
        known = with_target(self, target)
        matrix = X.to_numpy(dtype=np.float64)
        if not known.all():  # a copy of a large matrix takes as long as some trees
            matrix, target = matrix[known], target[known]
        matrix = np.asfortranarray(matrix)  # one layout, as the last bit of a sum depends on it; that of taken rows
        weight = np.ones(len(target)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[known]
        self.linear_ = fit_ridge(matrix, target, weight)
        parameters = self._parameters(len(target))
        data = lightgbm.Dataset(
            matrix,
            target - self.linear_.predict(matrix),
            weight=weight,
            feature_name=[str(name) for name in X.columns],
            params=parameters,
        )
        trees = self.n_estimators or min(150, max(30, len(target) // 2000))
        self.booster_ = lightgbm.train(parameters, data, num_boost_round=trees)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) predicted trajectory values."""
        matrix = X.to_numpy(dtype=np.float64)
        trees = np.asarray(self.booster_.predict(matrix, num_threads=self.n_jobs or 0), dtype=np.float64)
        return self.linear_.predict(matrix) + trees

    def _parameters(self, n_messages: int) -> dict[str, Any]:
        return {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_data_in_leaf or min(200, max(5, n_messages // 50)),
            "min_data_in_bin": 1,
            "lambda_l2": self.reg_lambda,
            "feature_fraction": 0.7,
            "max_bin": 63,
            "seed": 0 if self.random_state is None else self.random_state,
            "boost_from_average": False,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.n_jobs or 0,
            "verbosity": -1,
        }


def with_target(selector: object, target: FloatArray) -> BoolArray:
    """Return (n_messages,) which rows have a finite target.

    Raises:
        DhdError: none has.
    """
    known: BoolArray = np.isfinite(target)
    if not known.any():
        raise DhdError(f"The 'y' of {type(selector).__name__}.fit must have at least one finite value, got none.")
    return known
