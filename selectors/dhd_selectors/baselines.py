"""Fixed rules to compare with. They learn nothing; those with a natural threshold pin it."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE
from dhd_selectors.base import FloatArray
from dhd_selectors.features import CONFIDENCE_RANK


class _Rule(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
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


class KeepAll(_Rule):
    """Give every message the value 0, so that the policy keeps the whole pool."""

    threshold: ClassVar[float | None] = 0.0

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) zeros."""
        return np.zeros(len(X))


class RandomRemoval(_Rule):
    """Choose at random, with the same probability for keeping all and for each of the five removals.

    Values are uniform on (0, 1), drawn row by row. All five are above the pinned threshold with probability 1/6.

    Args:
        random_state: seed of the values; the same rows get the same values again.
    """

    threshold: ClassVar[float | None] = 1.0 - (1.0 / (POOL_SIZE + 1)) ** (1.0 / POOL_SIZE)

    def __init__(self, random_state: int | None = 0) -> None:
        self.random_state = random_state

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) random values."""
        return np.random.default_rng(self.random_state).random(len(X))


class Consensus(_Rule):
    """Value a message by the share of the other messages that propose the same answer; none agrees with no answer."""

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) shares."""
        return _column(self, X, "answer_agreement")


class Confidence(_Rule):
    """Value a message by the level of confidence that it states: low 1, medium 2, high 3; unclear counts as medium."""

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) levels."""
        level = _column(self, X, "confidence_level")
        return np.where(level > 0, level, CONFIDENCE_RANK["medium"]).astype(np.float64)


class DropWrong(_Rule):
    """Remove the first message whose proposal is graded wrong, if there is one.

    The correctness-only comparator of protocol.md. It is privileged: it knows the verdicts. A wrong proposal
    gets the value -1 and any other 0, so the policy's rule for ties (lowest slot) finds the first. An unknown
    proposal is not a wrong one.
    """

    requires: ClassVar[tuple[str, ...]] = ("proposal_correct",)
    threshold: ClassVar[float | None] = 0.0

    def predict_value(self, X: pd.DataFrame, labels: pd.DataFrame | None = None) -> FloatArray:
        """Return (n_messages,) -1 for messages graded wrong and 0 for all others.

        Raises:
            DhdError: `labels` lacks `proposal_correct`.
        """
        return np.where(correctness(self, labels) == 0.0, -1.0, 0.0).astype(np.float64)


class Hindsight(_Rule):
    """Value a message by its recorded trajectory value: an upper bound, as no selector can know it.

    With values from other blocks of the same problem this is the paper's rule. An unknown value is 0: such a message
    stays.
    """

    requires: ClassVar[tuple[str, ...]] = ("trajectory_value",)
    threshold: ClassVar[float | None] = 0.0
    upper_bound: ClassVar[bool] = True

    def predict_value(self, X: pd.DataFrame, labels: pd.DataFrame | None = None) -> FloatArray:
        """Return (n_messages,) the recorded values.

        Raises:
            DhdError: `labels` lacks `trajectory_value`.
        """
        value = privileged(self, labels, "trajectory_value").to_numpy(dtype=np.float64, na_value=0.0)
        return np.nan_to_num(np.asarray(value, dtype=np.float64))


def privileged(selector: object, labels: pd.DataFrame | None, column: str) -> pd.Series:
    """Return a declared column of `labels`.

    Raises:
        DhdError: it is not there.
    """
    if labels is None or column not in labels.columns:
        raise DhdError(f"The 'labels' of {type(selector).__name__} must have the column {column}, got none.")
    return labels[column]


def correctness(selector: object, labels: pd.DataFrame | None) -> FloatArray:
    """Return (n_messages,) 1 for proposals graded right, 0 for wrong ones, NaN where no verdict is known."""
    verdict = privileged(selector, labels, "proposal_correct").astype("boolean")
    return np.asarray(verdict.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def _column(selector: object, X: pd.DataFrame, name: str) -> FloatArray:
    if name not in X.columns:
        raise DhdError(f"The X of {type(selector).__name__} must have the column {name}, got {X.shape[1]} others.")
    return X[name].to_numpy(dtype=np.float64)
