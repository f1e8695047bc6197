"""Group K-fold by problem: every decision is made by a selector that saw no outcome of that problem.

All pools of a problem (every actor, integrator and order) are in one fold. A fold's selector is fitted, and
its policy threshold tuned, on the fold's training problems alone; the threshold comes from a second, inner
K-fold inside them. Decisions of pools whose fold could not be fitted stay uncovered and are counted, never
guessed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import clone

from dhd_labels.errors import NothingMadeError
from dhd_selectors.base import (
    BoolArray,
    FloatArray,
    IntArray,
    Selector,
    fit_selector,
    needs_labels,
    pinned_threshold,
    predict_values,
)
from dhd_selectors.policy import NEVER, Policy
from training.data import LabelData, action_of

N_FOLDS = 5
UNCOVERED = -1
_INNER, _SHUFFLE = 1, 2  # streams of random numbers that must not be shared


@dataclass(frozen=True, slots=True)
class Fold:
    """Problem ids to fit on and to decide for; disjoint."""

    train: frozenset[str]
    test: frozenset[str]

    def __post_init__(self) -> None:
        if self.train & self.test:
            raise AssertionError(f"problems {sorted(self.train & self.test)[:3]} are in both parts of a fold")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted selector and the threshold that its policy uses."""

    selector: Selector
    threshold: float


@dataclass(frozen=True, slots=True)
class Decisions:
    """Actions of all pools, made out of fold.

    `actions` is (n_pools,): an index into `training.data.ARMS`, or `UNCOVERED`. `fits` holds one entry a
    fold, None where no training row had a label.
    """

    actions: IntArray
    fits: tuple[Fitted | None, ...]


def problem_folds(problems: Iterable[str], seed: int | tuple[int, ...], n_folds: int = N_FOLDS) -> tuple[Fold, ...]:
    """Deal shuffled problems into min(n_folds, n_problems) folds whose sizes differ by at most one.

    Args:
        problems: problem ids, repeated or not; their order does not matter.
        seed: seed of the shuffle.
        n_folds: most folds wanted.

    Raises:
        NothingMadeError: there are fewer than two problems.
    """
    known = sorted(set(problems))
    if len(known) < 2:
        raise NothingMadeError(
            f"Cross-fitting must have 2 problems or more, got {len(known)}: a selector is judged on problems "
            "that it has not seen. Label more."
        )
    shuffled = np.random.default_rng(seed).permutation(len(known))
    k = min(n_folds, len(known))
    parts = [frozenset(known[i] for i in shuffled[fold::k]) for fold in range(k)]
    return tuple(Fold(frozenset(known) - part, part) for part in parts)


def cross_fit(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    folds: Iterable[Fold],
    *,
    seed: int,
    shuffle_targets: bool = False,
) -> Decisions:
    """Fit a fresh clone on each fold's training problems and decide for its test problems.

    Args:
        selector: unfitted prototype; it is cloned, never changed.
        policy: turns values into decisions.
        data: all pools.
        folds: disjoint test parts; pools in none of them stay `UNCOVERED`.
        seed: seed of the inner folds and of the shuffle.
        shuffle_targets: the placebo: permute the targets across the training messages first.
    """
    actions = np.full(data.n_pools, UNCOVERED, dtype=np.int64)
    fits = []
    for number, fold in enumerate(folds):
        fitted = fit_fold(selector, policy, data, fold.train, seed=(seed, number), shuffle_targets=shuffle_targets)
        fits.append(fitted)
        if fitted is not None:
            pools, decided = decide(fitted, policy, data, fold.test)
            if (actions[pools] != UNCOVERED).any():
                raise AssertionError("a problem is in the test part of two folds")
            actions[pools] = decided
    return Decisions(actions, tuple(fits))


def fit_fold(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    problems: frozenset[str],
    *,
    seed: tuple[int, ...],
    shuffle_targets: bool = False,
) -> Fitted | None:
    """Fit a clone of the selector and tune the threshold on these problems only.

    Returns:
        The fit, or None when the selector learns and none of the problems has a row that it may learn from.
    """
    rows = np.flatnonzero(_of_problems(data, problems) & data.trainable & np.isfinite(data.y))
    if not len(rows) and needs_labels(selector):
        return None
    targets = np.random.default_rng((*seed, _SHUFFLE)).permutation(rows) if shuffle_targets else rows
    fitted = _fit(selector, data, rows, targets)
    threshold = pinned_threshold(selector)
    if threshold is None:
        threshold = _tune(selector, policy, data, rows, targets, seed=(*seed, _INNER))
    return Fitted(fitted, threshold)


def decide(fitted: Fitted, policy: Policy, data: LabelData, problems: frozenset[str]) -> tuple[IntArray, IntArray]:
    """Return (pools, actions) for all pools of these problems, both (n_pools_of_them,)."""
    rows = np.flatnonzero(_of_problems(data, problems))
    values = predict_values(fitted.selector, data.X.iloc[rows], data.labels.iloc[rows])
    pools, local = np.unique(data.pool[rows], return_inverse=True)
    removed = policy.choose(local.astype(np.int64), data.slot[rows], values, fitted.threshold)
    return pools, action_of(removed)


def _fit(selector: Selector, data: LabelData, rows: IntArray, targets: IntArray) -> Selector:
    """Fit on the features of `rows` with the targets (and their weights) of `targets`, row by row."""
    weight = data.weight[targets] / data.weight[targets].mean() if len(targets) else data.weight[targets]
    return fit_selector(clone(selector), data.X.iloc[rows], data.y[targets], data.labels.iloc[rows], weight)


def _tune(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    rows: IntArray,
    targets: IntArray,
    *,
    seed: tuple[int, ...],
) -> float:
    """Return the threshold that gains most on out-of-fold predictions; `NEVER` with a single problem."""
    problem = data.problem.to_numpy()[rows]
    if len(set(problem)) < 2:
        return NEVER
    values = np.full(len(rows), np.nan)
    for fold in problem_folds(problem, seed):
        test = np.isin(problem, list(fold.test))
        inner = _fit(selector, data, rows[~test], targets[~test])
        values[test] = predict_values(inner, data.X.iloc[rows[test]], data.labels.iloc[rows[test]])
    pools, local = np.unique(data.pool[rows], return_inverse=True)
    return policy.tune(
        local.astype(np.int64),
        data.slot[rows],
        values,
        data.removal_gain[targets],
        _equal_problems(data, pools),
    )


def _equal_problems(data: LabelData, pools: IntArray) -> FloatArray:
    """Return the weight of each pool with which problems, not pools, count equally."""
    problem: pd.Series = data.pool_problem.iloc[pools]
    return 1.0 / problem.map(problem.value_counts()).to_numpy(dtype=np.float64)


def _of_problems(data: LabelData, problems: frozenset[str]) -> BoolArray:
    return data.problem.isin(problems).to_numpy(dtype=np.bool_)
