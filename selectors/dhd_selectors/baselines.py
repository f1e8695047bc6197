"""Fixed rules to compare with. They learn nothing and pin the threshold at 0."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_selectors.base import FloatArray


class KeepAll(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Give every message the value 0, so that the policy keeps the whole pool."""

    threshold: ClassVar[float | None] = 0.0
    learns: ClassVar[bool] = False

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Learn nothing."""
        self.n_features_in_ = X.shape[1]
        return self

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) zeros."""
        return np.zeros(len(X))


class DropWrong(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Remove the first message whose proposal is graded wrong, if there is one.

    The correctness-only comparator of protocol.md. It is privileged: it knows the verdicts. A wrong proposal
    gets the value -1 and any other 0, so the policy's rule for ties (lowest slot) finds the first. An unknown
    proposal is not a wrong one.
    """

    requires: ClassVar[tuple[str, ...]] = ("proposal_correct",)
    threshold: ClassVar[float | None] = 0.0
    learns: ClassVar[bool] = False

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Learn nothing."""
        self.n_features_in_ = X.shape[1]
        return self

    def predict_value(self, X: pd.DataFrame, labels: pd.DataFrame | None = None) -> FloatArray:
        """Return (n_messages,) -1 for messages graded wrong and 0 for all others.

        Raises:
            DhdError: `labels` lacks `proposal_correct`.
        """
        if labels is None or "proposal_correct" not in labels.columns:
            raise DhdError("The 'labels' of DropWrong.predict_value must have the column proposal_correct, got none.")
        correct = labels["proposal_correct"].astype("boolean")
        wrong = (~correct).fillna(False).to_numpy(dtype=bool)
        return np.where(wrong, -1.0, 0.0)
