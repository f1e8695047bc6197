"""A linear head on frozen states: weighted ridge regression, its penalty chosen by group cross-validation.

It costs no pass through the model beyond the one that made the states, and fine-tuning starts from it ("linear
probing, then fine-tuning", Kumar et al. 2022, arXiv:2202.10054), so few labels are not spent on finding a direction
that the pretrained states already have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dhd_selectors.base import FloatArray, IntArray

PENALTIES = (*(10.0**power for power in (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0)), float("inf"))
"""Penalties in units of (messages x columns) / 100; the last one predicts the mean for all."""
_PARTS = 5


@dataclass(frozen=True, slots=True)
class Probe:
    """value = offset + ((columns - center) / scale) @ coef."""

    center: FloatArray
    scale: FloatArray
    coef: FloatArray
    offset: float
    penalty: float

    def predict(self, columns: FloatArray) -> FloatArray:
        """Return (n_rows,) values."""
        values: FloatArray = self.offset + ((columns - self.center) / self.scale) @ self.coef
        return values


def fit_probe(
    columns: FloatArray, y: FloatArray, weight: FloatArray, groups: IntArray, rng: np.random.Generator
) -> Probe:
    """Fit with the penalty whose weighted squared error is smallest on groups that were left out.

    Args:
        columns: (n_rows, n_columns) states and features.
        y: (n_rows,) finite targets.
        weight: (n_rows,) positive weights.
        groups: (n_rows,) problem of each row; a group is never on both sides.
        rng: deals the groups into parts.
    """
    part = group_parts(groups, _PARTS, rng)
    errors = np.zeros(len(PENALTIES))
    for number in range(int(part.max()) + 1 if part.max() > 0 else 0):
        test = part == number
        for place, probe in enumerate(_fits(columns[~test], y[~test], weight[~test], PENALTIES)):
            errors[place] += weight[test] @ (y[test] - probe.predict(columns[test])) ** 2
    # Without a second group nothing can be told from chance, and all errors are 0: take the mean.
    best = int(len(errors) - 1 - np.argmin(errors[::-1]))
    return next(iter(_fits(columns, y, weight, PENALTIES[best : best + 1])))


def group_parts(groups: IntArray, n_parts: int, rng: np.random.Generator) -> IntArray:
    """Return (n_rows,) the part of each row: min(n_parts, n_groups) parts, whole groups."""
    _, code = np.unique(groups, return_inverse=True)
    n_groups = int(code.max()) + 1
    part = np.empty(n_groups, dtype=np.int64)
    part[rng.permutation(n_groups)] = np.arange(n_groups) % min(n_parts, n_groups)
    return part[code]


def _fits(columns: FloatArray, y: FloatArray, weight: FloatArray, penalties: tuple[float, ...]) -> list[Probe]:
    """Return one fit a penalty, from a single eigendecomposition of the smaller Gram matrix."""
    share = weight / weight.sum()
    center, offset = share @ columns, float(share @ y)
    deviation = np.sqrt(share @ (columns - center) ** 2)
    scale = np.where(deviation > 1e-9, deviation, np.inf)  # a constant column says nothing
    root = np.sqrt(weight / weight.mean())[:, None]
    scaled, target = (columns - center) / scale * root, (y - offset) * root[:, 0]
    dual = len(scaled) < scaled.shape[1]
    values, vectors = np.linalg.eigh(scaled @ scaled.T if dual else scaled.T @ scaled)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ (target if dual else scaled.T @ target)
    made = []
    for penalty in penalties:
        if np.isinf(penalty):
            coef = np.zeros(scaled.shape[1])
        else:
            solved = vectors @ (projected / (values + penalty * scaled.shape[0] * scaled.shape[1] / 100))
            coef = scaled.T @ solved if dual else solved
        made.append(Probe(center, scale, coef, offset, penalty))
    return made
