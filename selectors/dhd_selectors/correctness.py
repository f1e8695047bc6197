"""What correctness alone can do: learned from what is visible, and known for certain."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE
from dhd_selectors.base import FloatArray, IntArray
from dhd_selectors.baselines import correctness, privileged
from dhd_selectors.lgbm import LightGBMSelector, with_target

PRIOR = 20.0
"""Messages of value 0 that an average is mixed with."""


class LearnedCorrect(LightGBMSelector):
    """The learner of `lgbm`, with the correctness of the proposal as its target.

    The comparator that shows whether trajectory values teach more than verdicts do. It needs verdicts to be fitted and
    none to decide; messages without a verdict are left out of the fit. The value is a least-squares estimate of the
    probability to be right; its threshold is tuned like any other.
    """

    requires_for_fit: ClassVar[tuple[str, ...]] = ("proposal_correct",)

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Fit on the messages with a verdict; `y` and its weights play no part.

        Raises:
            DhdError: no message has a verdict, or `labels` lacks them.
        """
        correct = correctness(self, labels)
        if not np.isfinite(correct).any():
            raise DhdError(
                "The 'proposal_correct' of LearnedCorrect.fit must be known for at least one message, got none."
            )
        return super().fit(X, correct)


class OracleCorrect(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The best rule that knows which proposals are right, and nothing else. It is privileged.

    The value is the training mean of the trajectory values of messages with the same verdict (right, wrong, unknown)
    in pools with as many right messages, mixed with the mean of that verdict over all pools, which is mixed with 0.

    Fitted attribute: `means_` (3, 6), by verdict and right messages of the pool.
    """

    requires: ClassVar[tuple[str, ...]] = ("proposal_correct", "pool_right")

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Average the rows whose target is not NaN.

        Raises:
            DhdError: no row has a target, or `labels` lacks a column.
        """
        target = np.asarray(y, dtype=np.float64)
        known = with_target(self, target)
        weight = np.ones(len(target)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        cell, shape = self._cell(labels)[known], (3, POOL_SIZE + 1)
        n = np.bincount(cell, weight[known], shape[0] * shape[1]).reshape(shape)
        total = np.bincount(cell, weight[known] * target[known], shape[0] * shape[1]).reshape(shape)
        of_verdict = total.sum(axis=1, keepdims=True) / (n.sum(axis=1, keepdims=True) + PRIOR)
        self.means_: FloatArray = (total + PRIOR * of_verdict) / (n + PRIOR)
        self.n_features_in_ = X.shape[1]
        return self

    def predict_value(self, X: pd.DataFrame, labels: pd.DataFrame | None = None) -> FloatArray:
        """Return (n_messages,) the mean of each message's cell.

        Raises:
            DhdError: `labels` lacks a column.
        """
        return self.means_.ravel()[self._cell(labels)]

    def _cell(self, labels: pd.DataFrame | None) -> IntArray:
        correct = correctness(self, labels)
        right = privileged(self, labels, "pool_right").to_numpy(dtype=np.float64)
        verdict = np.where(np.isnan(correct), 2, correct).astype(np.int64)
        cell: IntArray = verdict * (POOL_SIZE + 1) + np.clip(right, 0, POOL_SIZE).astype(np.int64)
        return cell
