"""Logistic regression on the sign of the trajectory value."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.records import CONTENT_FIELDS
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS, FloatArray
from dhd_selectors.lgbm import with_target
from dhd_selectors.linear import fit_scale

INVERSE_PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Inverse penalties that are tried."""
_PARTS = 3


class LogisticSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Penalised logistic regression: is a message helpful or harmful, weighted by how much.

    A message counts with the size of its trajectory value, so one without an effect counts nothing. The predicted
    value is (2 P(helpful) - 1) times the mean size.

    Args:
        inverse_penalty: inverse strength of the L2 penalty on standardised features (`C` of scikit-learn), for weights
            with mean one. None takes the best of `INVERSE_PENALTIES` by the likelihood of held-out thirds. These are
            consecutive rows, so that the messages of a pool stay together.
        text: whether the words of the content are features too (TF-IDF of words and pairs of words; the vocabulary is
            learned in `fit`). X then needs the columns `TEXT_COLUMNS`.
        max_terms: most terms of the vocabulary.
        random_state: seed for solvers that draw; kept for the conventions.
    """

    def __init__(
        self,
        inverse_penalty: float | None = None,
        text: bool = False,
        max_terms: int = 5000,
        random_state: int | None = 0,
    ) -> None:
        self.inverse_penalty = inverse_penalty
        self.text = text
        self.max_terms = max_terms
        self.random_state = random_state

    @property
    def uses_text(self) -> bool:
        """Return whether X needs the text columns."""
        return self.text

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Fit on the rows whose target is neither NaN nor 0; without both signs every value is the mean.

        Raises:
            DhdError: no row has a target.
        """
        target = np.asarray(y, dtype=np.float64)
        known = with_target(self, target)
        weight = np.ones(len(target)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.size_ = float(np.average(np.abs(target[known]), weights=weight[known]))
        self.mean_ = float(np.average(target[known], weights=weight[known]))
        self.n_features_in_ = X.shape[1]
        moving = known & (target != 0.0)
        self.model_: Any = None
        if len(np.unique(target[moving] > 0)) == 2:
            self._prepare(X[moving])
            cost = weight[moving] * np.abs(target[moving])
            self.model_ = self._fit(self._matrix(X[moving]), target[moving] > 0, cost / cost.mean())
        return self

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) predicted trajectory values."""
        if self.model_ is None or not len(X):
            return np.full(len(X), self.mean_)
        helpful = self.model_.predict_proba(self._matrix(X))[:, 1]
        return np.asarray((2.0 * helpful - 1.0) * self.size_, dtype=np.float64)

    def _prepare(self, X: pd.DataFrame) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        numbers = self._numbers(X)
        self.scale_ = fit_scale(numbers, np.ones(len(numbers)))
        self.words_: Any = None
        if self.text:
            words = TfidfVectorizer(ngram_range=(1, 2), min_df=5, max_features=self.max_terms, sublinear_tf=True)
            try:
                self.words_ = words.fit(_content(X))
            except ValueError:  # no term is in five messages, as where all texts are withheld
                self.words_ = None

    def _matrix(self, X: pd.DataFrame) -> Any:
        from scipy import sparse

        numbers = self.scale_(self._numbers(X))
        if self.words_ is None:
            return numbers
        terms = self.words_.transform(_content(X))
        # Rows of TF-IDF have length one. This gives a term the spread of a standardised feature.
        return sparse.hstack([sparse.csr_array(numbers), terms * np.sqrt(terms.shape[1])], format="csr")

    def _fit(self, matrix: Any, helpful: Any, weight: FloatArray) -> Any:
        if self.inverse_penalty is not None:
            return _regression(self.inverse_penalty).fit(matrix, helpful, weight)
        part = np.arange(len(weight)) * _PARTS // len(weight)
        scores = [
            sum(_held_out(c, matrix, helpful, weight, part == k) for k in range(_PARTS)) for c in INVERSE_PENALTIES
        ]
        return _regression(INVERSE_PENALTIES[int(np.argmax(scores))]).fit(matrix, helpful, weight)

    @staticmethod
    def _numbers(X: pd.DataFrame) -> FloatArray:
        return X[[name for name in X.columns if name not in (*TEXT_COLUMNS, POOL_COLUMN)]].to_numpy(dtype=np.float64)


def _regression(inverse_penalty: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=inverse_penalty, max_iter=1000)


def _held_out(inverse_penalty: float, matrix: Any, helpful: Any, weight: FloatArray, test: Any) -> float:
    """Return the weighted log-likelihood of a part by the fit on the others; 0 where these lack a sign."""
    if not test.any() or len(np.unique(helpful[~test])) < 2:
        return 0.0
    odds = (
        _regression(inverse_penalty).fit(matrix[~test], helpful[~test], weight[~test]).decision_function(matrix[test])
    )
    return float(-weight[test] @ np.logaddexp(0.0, np.where(helpful[test], -odds, odds)))


def _content(X: pd.DataFrame) -> list[str]:
    return ["\n".join(fields) for fields in zip(*(X[name] for name in CONTENT_FIELDS), strict=True)]
