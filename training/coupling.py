"""How much wider an interval must be because folds learn from one another's outcomes.

A fold decides by what the other folds' draws say, and its own draws help to decide for them. Noise that makes a
message look harmful in one fold has it removed in the others, and where that noise agrees by chance all folds gain
together. The gain stays unbiased, but its variance is larger than the spread of problems shows.

How much larger is known for the policy that either acts in all pools of a fold or in none, by the sign of what acting
gained in its training part, where nothing can be learned. Let D_k be what acting gains in fold k, independent normal
with mean 0 and a variance in proportion to its size n_k. The gain is theta = sum over k of D_k [sum of D_l, l in
train_k, > 0]. Its parts have variance n_k / 2, and Gaussian integration by parts gives for two folds that learn from
each other

    E[theta_k theta_l] = n_k n_l / (2 pi sqrt(m_k m_l - o^2)),

with m the size of a training part and o what two of them share. For K equal folds the variance is 1 + (K - 1) / (pi
sqrt(2 K - 3)) times the naive one: 1.48 for five, 1 for a single fit. Policies that choose among more options come
near 2, those that need evidence before they act rarely act. `make calibration` measures what the intervals then
cover, for every selector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dhd_selectors.base import FloatArray
from training.estimands import Fold


def coupling(folds: Sequence[Fold], n_pools: int) -> float:
    """Return the variance of an all-or-nothing policy's gain over the naive variance, at least 1.

    Args:
        folds: folds of one split. With repeated splits the ratio hardly changes.
        n_pools: pools of the data set.
    """
    train, test = _units(folds, n_pools)
    m, n = train.sum(axis=1), test.sum(axis=1)
    learned = test @ train.T  # [k, l]: how much of fold k is learned from by fold l
    shared = train @ train.T
    both = learned * learned.T
    room = np.outer(m, m) - shared**2
    np.fill_diagonal(both, 0.0)
    covariance = np.divide(both, 2 * np.pi * np.sqrt(np.maximum(room, 0.0)), out=np.zeros_like(both), where=room > 0)
    return float(1.0 + covariance.sum() / (n.sum() / 2))


def _units(folds: Sequence[Fold], n_pools: int) -> tuple[FloatArray, FloatArray]:
    """Return (n_folds, n_units) what each fold learns from and what it judges: pools, or blocks."""
    by_block = all(fold.learn.blocks is not None and fold.judge.blocks is not None for fold in folds)
    if by_block:
        parts = [(fold.learn.blocks, fold.judge.blocks) for fold in folds]
        return tuple(np.array([part[side] for part in parts], dtype=np.float64) for side in (0, 1))  # type: ignore[return-value]
    train, test = np.zeros((len(folds), n_pools)), np.zeros((len(folds), n_pools))
    for number, fold in enumerate(folds):
        train[number, fold.train] = 1.0
        test[number, fold.test] = 1.0
    return train, test
