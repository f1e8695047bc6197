"""Least squares with a penalty that the data choose: the part of a selector that is a weighted sum of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from dhd_selectors.base import FloatArray

PENALTIES: FloatArray = np.geomspace(1e-4, 1e3, 57)
"""Penalties that are tried, for features of variance one and the mean squared error."""
LIMIT = 4.0
"""Standard deviations beyond which a feature counts as that far: one very long message must not decide."""
_ROWS = 1 << 16
_CONSTANT = 1e-9


@dataclass(frozen=True, slots=True)
class Scale:
    """Standardises features: (x - center) * factor, cut at `LIMIT`; a constant feature becomes 0.

    `center` and `factor` are (n_features,).
    """

    center: FloatArray
    factor: FloatArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return (n, n_features) standardised features."""
        scaled = (X - self.center) * self.factor
        return np.clip(scaled, -LIMIT, LIMIT, out=scaled)


@dataclass(frozen=True, slots=True)
class Linear:
    """intercept + coefficients of standardised features."""

    scale: Scale
    coefficients: FloatArray
    intercept: float

    def predict(self, X: FloatArray) -> FloatArray:
        """Return (n,) predictions for X, (n, n_features)."""
        parts = [self.scale(X[rows]) @ self.coefficients for rows in _chunks(len(X))]
        return np.concatenate(parts) + self.intercept if parts else np.zeros(0)


def fit_scale(X: FloatArray, weight: FloatArray) -> Scale:
    """Return the weighted means and the inverse standard deviations of the features, (n, n_features) with n > 0."""
    center = weight @ X / weight.sum()
    square = np.zeros(X.shape[1])
    for rows in _chunks(len(X)):
        square += weight[rows] @ (X[rows] - center) ** 2
    deviation = np.sqrt(square / weight.sum())
    constant = deviation <= _CONSTANT * np.maximum(1.0, np.abs(center))
    return Scale(center, np.divide(1.0, deviation, out=np.zeros_like(deviation), where=~constant))


def fit_ridge(X: FloatArray, y: FloatArray, weight: FloatArray) -> Linear:
    """Return weighted ridge regression with the penalty that minimises generalised cross-validation.

    Generalised cross-validation needs no folds and no random numbers (Golub, Heath & Wahba 1979): one pass over the
    data for the products of the features, then one eigendecomposition.

    Args:
        X: (n, n_features), n > 0.
        y: (n,) finite targets.
        weight: (n,) positive weights.
    """
    # One thread: for so few features others only wait, and sums that several threads add up differ in their last bit.
    with threadpool_limits(limits=1, user_api="blas"):
        return _fit_ridge(X, y, weight)


def _fit_ridge(X: FloatArray, y: FloatArray, weight: FloatArray) -> Linear:
    scale, share = fit_scale(X, weight), weight / weight.sum()
    d = X.shape[1]
    mean, products, with_target = np.zeros(d), np.zeros((d, d)), np.zeros(d)
    target = float(share @ y)
    for rows in _chunks(len(X)):
        scaled = scale(X[rows])
        weighted = scaled * share[rows, None]
        mean += weighted.sum(axis=0)
        products += weighted.T @ scaled
        with_target += weighted.T @ (y[rows] - target)
    values, vectors = np.linalg.eigh(products - np.outer(mean, mean))
    values = np.maximum(values, 0.0)
    turned = vectors.T @ with_target
    penalty = _penalty(values, turned, float(share @ (y - target) ** 2), 1.0 / float(share @ share))
    coefficients = vectors @ (turned / (values + penalty))
    return Linear(scale, coefficients, target - float(mean @ coefficients))


def _penalty(values: FloatArray, turned: FloatArray, variance: float, n: float) -> float:
    """Return the penalty with the least generalised cross-validation error, the largest among equal ones.

    Args:
        values: (n_features,) eigenvalues of the features' covariance.
        turned: (n_features,) covariance with the target, in the basis of the eigenvectors.
        variance: that of the target.
        n: number of messages that the weights are worth.
    """
    shrunk = values[:, None] + PENALTIES
    freedom = 1.0 + (values[:, None] / shrunk).sum(axis=0)
    explained = (turned[:, None] ** 2 * (values[:, None] + 2 * PENALTIES) / shrunk**2).sum(axis=0)
    error = np.where(freedom < n, (variance - explained) / np.maximum(1.0 - freedom / n, 1e-12) ** 2, np.inf)
    least = error.min()
    return float(PENALTIES[np.flatnonzero(error <= least + 1e-12 * abs(least))[-1]])


def _chunks(n: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, n, _ROWS))
