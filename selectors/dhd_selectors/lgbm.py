"""Gradient-boosted trees on the trajectory value."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_selectors.base import FloatArray


class LightGBMSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Least-squares boosting with small, shrunken trees.

    A trajectory value is a difference of a few draws, so its noise (standard deviation up to 0.27 at five
    blocks) is larger than most effects: the trees are shallow and their leaves large. Predictions are the
    same for any `n_jobs`.

    Args:
        n_estimators: number of trees.
        learning_rate: shrinkage of each tree.
        num_leaves: most leaves in a tree.
        min_data_in_leaf: fewest messages in a leaf; None takes a twentieth of the messages, between 5 and 50.
        reg_lambda: L2 penalty on leaf values, in units of messages.
        random_state: seed of the column sampling.
        n_jobs: threads; None or 0 leaves the choice to LightGBM.
    """

    def __init__(
        self,
        n_estimators: int = 150,
        learning_rate: float = 0.04,
        num_leaves: int = 8,
        min_data_in_leaf: int | None = None,
        reg_lambda: float = 5.0,
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
        known = np.isfinite(target)
        if not known.any():
            raise DhdError("The 'y' of LightGBMSelector.fit must have at least one finite value, got none.")
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[known]
        parameters = self._parameters(int(known.sum()))
        data = lightgbm.Dataset(
            X.to_numpy(dtype=np.float64)[known],
            target[known],
            weight=weight,
            feature_name=[str(name) for name in X.columns],
            params=parameters,
        )
        self.booster_ = lightgbm.train(parameters, data, num_boost_round=self.n_estimators)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) predicted trajectory values."""
        threads = self.n_jobs or 0
        return np.asarray(self.booster_.predict(X.to_numpy(dtype=np.float64), num_threads=threads), dtype=np.float64)

    def _parameters(self, n_messages: int) -> dict[str, Any]:
        smallest_leaf = self.min_data_in_leaf or min(50, max(5, n_messages // 20))
        return {
            "objective": "regression",
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": smallest_leaf,
            "min_data_in_bin": 1,
            "lambda_l2": self.reg_lambda,
            "feature_fraction": 0.7,
            "max_bin": 63,
            "seed": 0 if self.random_state is None else self.random_state,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.n_jobs or 0,
            "verbosity": -1,
        }
