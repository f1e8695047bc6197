"""What a selector is, and how one is called so that it sees no more than it declares."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import pandas as pd

from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.records import CONTENT_FIELDS

if TYPE_CHECKING:
    from pathlib import Path

    from dhd_selectors.saving import DecisionRule

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

POOL_KEYS = ("pool_id", "integrator", "order")
"""The unit of a decision: labels belong to a pool under one integrator and one order."""

PRIVILEGED_COLUMNS = (
    "proposal_status",
    "proposal_correct",
    "pool_right",
    "single_effect",
    "in_pool_effect",
    "trajectory_value",
    "ci_low",
    "ci_high",
    "n_blocks",
)
"""Columns that a selector may get in `labels`, and only after it has declared them.
`pool_right` is the number of messages in the pool that are graded right."""

TEXT_COLUMNS = (
    "question",
    "answer_type",
    "role_name",
    "proposed_answer",
    *CONTENT_FIELDS,
    "confidence_text",
)
"""Text columns of X for selectors with `uses_text`; "" where a text is missing or withheld."""
POOL_COLUMN = "pool"
"""The column of X that is equal for messages of one pool, for selectors with `uses_text`."""


class _Loads(type(Protocol)):  # type: ignore[misc]
    """Gives `Selector` its loader, which is no part of what a selector has to have."""

    def from_pretrained(cls, source: str | Path, *, selector: str | type | None = None) -> DecisionRule:
        """Load a saved selector, with its policy and thresholds; see `DecisionRule.from_pretrained`."""
        from dhd_selectors.saving import DecisionRule

        return DecisionRule.from_pretrained(source, selector=selector)


@runtime_checkable
class Selector(Protocol, metaclass=_Loads):
    """A scikit-learn style estimator of trajectory values.

    The constructor stores its parameters and does nothing else; `fit` validates and returns self; fitted
    state ends in an underscore; `sklearn.base.clone` works. Selectors with a `random_state` or `n_jobs`
    parameter get the run's.

    Optional class attributes (absent means the default):

    * `requires: tuple[str, ...] = ()`: privileged columns that both `fit` and `predict_value` need. They
      arrive as `labels=`, a frame with exactly these columns. Such a selector is marked as privileged in
      every table.
    * `requires_for_fit: tuple[str, ...] = ()`: columns that only `fit` needs (the selector stays
      unprivileged).
    * `threshold: float | None = None`: pins the policy's threshold instead of tuning it on the training
      folds.
    * `learns: bool = True`: False for fixed rules, whose `fit` gets NaN for every target. With a pinned threshold they
      need no training labels.
    * `uses_text: bool = False`: X also has the columns `TEXT_COLUMNS` (object, never missing) and `pool` (int64).
    * `refit_for_threshold: bool = True`: False where a fit is costly: one inner part then tunes the threshold, and the
      model of the others is kept, in place of five more fits.
    * `upper_bound: bool = False`: it knows what no selector could know; tables mark it as an upper bound.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""
        ...

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Learn from messages.

        Args:
            X: (n_messages, n_features) the columns of `dhd_selectors.features.FEATURES`, all float64 and
                finite.
            y: (n_messages,) trajectory values as fractions in [-1, 1]; NaN where a message has none.
            labels: (n_messages, ...) the declared privileged columns, or None when none are declared.
            sample_weight: (n_messages,) positive weights, or None for equal ones.
        """
        ...

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) predicted trajectory values, all finite.

        A selector that declares `requires` takes a second argument, `labels`.
        """
        ...


def selector_name(selector: Selector) -> str:
    """Return the class name, for messages to people."""
    return str(type(selector).__name__)


def requires(selector: Selector, *, fitting: bool) -> tuple[str, ...]:
    """Return the privileged columns that a selector declares for fitting or for predicting.

    Raises:
        DhdError: a declared column is none of `PRIVILEGED_COLUMNS`.
    """
    columns: tuple[str, ...] = tuple(getattr(selector, "requires", ()))
    if fitting:
        columns += tuple(c for c in getattr(selector, "requires_for_fit", ()) if c not in columns)
    for column in columns:
        if column not in PRIVILEGED_COLUMNS:
            raise DhdError(
                f"The 'requires' of {selector_name(selector)} must name privileged columns, got {column!r}. "
                + did_you_mean(column, PRIVILEGED_COLUMNS)
            )
    return columns


def is_privileged(selector: Selector) -> bool:
    """Return whether the selector needs to know, when it decides, what no integrator could know."""
    return bool(requires(selector, fitting=False))


def needs_labels(selector: Selector) -> bool:
    """Return whether training labels fit the selector or tune its policy."""
    return bool(getattr(selector, "learns", True)) or pinned_threshold(selector) is None


def pinned_threshold(selector: Selector) -> float | None:
    """Return the threshold that the selector pins, or None when the policy has to tune it.

    Raises:
        DhdError: the threshold is no number.
    """
    threshold = getattr(selector, "threshold", None)
    if threshold is None:
        return None
    if isinstance(threshold, str) or not hasattr(threshold, "__float__") or math.isnan(threshold):
        raise DhdError(
            f"The 'threshold' of {selector_name(selector)} must be a number, or None to have it tuned, got "
            f"{threshold!r}."
        )
    return float(threshold)


def uses_text(selector: Selector) -> bool:
    """Return whether the selector reads texts beside the features."""
    return bool(getattr(selector, "uses_text", False))


def refits_for_threshold(selector: Selector) -> bool:
    """Return whether the threshold is tuned on predictions of fits of its own, and not on one part held out."""
    return bool(getattr(selector, "refit_for_threshold", True))


def is_upper_bound(selector: Selector) -> bool:
    """Return whether the selector knows what no selector could know."""
    return bool(getattr(selector, "upper_bound", False))


def visible(selector: Selector, X: pd.DataFrame, texts: pd.DataFrame | None) -> pd.DataFrame:
    """Return the X of this selector: the features, and the texts if it reads them.

    Raises:
        DhdError: it reads texts and there are none.
    """
    if not uses_text(selector):
        return X
    if texts is None:
        raise DhdError(f"The selector {selector_name(selector)} reads texts, but got only features.")
    return pd.concat([X, texts[[*TEXT_COLUMNS, POOL_COLUMN]]], axis=1)


def fit_selector(
    selector: Selector,
    X: pd.DataFrame,
    y: FloatArray,
    labels: pd.DataFrame,
    sample_weight: FloatArray,
    texts: pd.DataFrame | None = None,
) -> Selector:
    """Fit a selector in place; of `labels` and `texts` it gets only the columns that it declares."""
    columns = requires(selector, fitting=True)
    declared = labels[list(columns)] if columns else None
    return selector.fit(visible(selector, X, texts), y, labels=declared, sample_weight=sample_weight)


def predict_values(
    selector: Selector, X: pd.DataFrame, labels: pd.DataFrame, texts: pd.DataFrame | None = None
) -> FloatArray:
    """Return checked predictions, (n_messages,); the selector gets only the columns that it declares.

    Raises:
        DhdError: the predictions have the wrong shape or are not finite.
    """
    X = visible(selector, X, texts)
    columns = requires(selector, fitting=False)
    predict: Any = selector.predict_value
    values = np.asarray(predict(X, labels=labels[list(columns)]) if columns else predict(X), dtype=np.float64)
    if values.shape != (len(X),):
        raise DhdError(
            f"The 'predict_value' of {selector_name(selector)} must return shape ({len(X)},), got {values.shape}."
        )
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise DhdError(
            f"The 'predict_value' of {selector_name(selector)} must be finite, got {bad} non-finite value(s) "
            f"of {len(X)}."
        )
    return values
