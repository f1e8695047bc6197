"""Cross-fitting: every decision is made by a selector that saw no draw it is judged by.

A fold's selector is fitted, and its policy's thresholds tuned, on the fold's training part alone; the thresholds come
from predictions of a second, inner K-fold by problem. Decisions of pools whose fold could not be fitted are counted as
uncovered, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import clone

from dhd_labels.errors import DhdError
from dhd_selectors.actions import N_ACTIONS
from dhd_selectors.base import (
    FloatArray,
    IntArray,
    Selector,
    fit_selector,
    needs_labels,
    pinned_threshold,
    predict_values,
    refits_for_threshold,
    requires,
    selector_name,
)
from dhd_selectors.policy import NEVER, Policy, Thresholds
from training.data import LabelData
from training.estimands import N_FOLDS, Fold, problem_groups
from training.evidence import Evidence, Shuffle, shuffled

HOLDOUT_ABOVE = 200_000
"""Training messages above which one inner part tunes and the model of the other inner parts is kept. The threshold then
rests on 8,000 pools or more, so refitting for each inner part would cost five times as much and gain nothing."""
_INNER, _SHUFFLE = 1, 2  # streams of random numbers that must not be shared
_OUTCOMES = ("single_effect", "in_pool_effect", "trajectory_value", "ci_low", "ci_high", "n_blocks")
"""Privileged columns that are made from replays, so from the blocks that judge too."""
_HIDDEN = tuple(name for name in _OUTCOMES if name != "trajectory_value")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted selector and the thresholds that its policy uses."""

    selector: Selector
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class Decisions:
    """What was decided, one row for each pool and fold that judges it."""

    pool: IntArray
    """(n,) number of the pool."""
    action: IntArray
    """(n,) what is shown (see `dhd_selectors.actions`)."""
    fold: IntArray
    """(n,) number of the fold."""
    repeat: IntArray
    """(n,) number of the repeated split."""
    success: FloatArray
    """(n, 32) mean success of every action, by the draws that judge."""
    fits: tuple[Fitted | None, ...]
    """One entry a fold and repeat, None where nothing could be fitted."""
    uncovered: dict[str, int]
    """Pools that nothing was decided for, by reason; once for each fold that should have."""


def cross_fit(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    folds: Sequence[Fold],
    *,
    seed: int,
    repeat: int = 0,
    shuffle: Shuffle | None = None,
) -> Decisions:
    """Fit a fresh clone on each fold's training part and decide for its test part.

    Args:
        selector: unfitted prototype; it is cloned, never changed.
        policy: turns values into decisions.
        data: all pools.
        folds: folds of one split; no pool is judged twice by the same draws.
        seed: seed of the inner folds and of the shuffle.
        repeat: number of the split, for the decisions and the seed.
        shuffle: the placebo: shuffle the evidence of the training part first.

    Raises:
        DhdError: the selector fails, or predicts what it must not; the fold is named.
    """
    made, fits, uncovered = [], [], 0
    for number, fold in enumerate(folds):
        fold.check(data)
        fitted = fit_fold(selector, policy, data, fold, seed=(seed, repeat, number), shuffle=shuffle)
        fits.append(fitted)
        if fitted is None:
            uncovered += len(fold.test)
        else:
            made.append((number, decide(fitted, policy, data, fold)))
    _refuse_double(folds)
    pool = np.concatenate([_NONE, *(folds[number].test for number, _ in made)])
    return Decisions(
        pool=pool,
        action=np.concatenate([_NONE, *(action for _, action in made)]),
        fold=np.concatenate([_NONE, *(np.full(len(action), number) for number, action in made)]),
        repeat=np.full(len(pool), repeat),
        success=np.concatenate(
            [np.zeros((0, N_ACTIONS)), *(folds[number].judge.success[folds[number].test] for number, _ in made)]
        ),
        fits=tuple(fits),
        uncovered={"no_training_labels": uncovered} if uncovered else {},
    )


_NONE = np.zeros(0, dtype=np.int64)


def joined(decisions: Sequence[Decisions]) -> Decisions:
    """Return the decisions of repeated splits as one."""
    uncovered: dict[str, int] = {}
    for made in decisions:
        for reason, count in made.uncovered.items():
            uncovered[reason] = uncovered.get(reason, 0) + count
    return Decisions(
        np.concatenate([d.pool for d in decisions]),
        np.concatenate([d.action for d in decisions]),
        np.concatenate([d.fold for d in decisions]),
        np.concatenate([d.repeat for d in decisions]),
        np.concatenate([d.success for d in decisions]),
        tuple(fit for d in decisions for fit in d.fits),
        uncovered,
    )


def fit_fold(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    fold: Fold,
    *,
    seed: tuple[int, ...],
    shuffle: Shuffle | None = None,
) -> Fitted | None:
    """Fit a clone of the selector and tune the thresholds on the training part only.

    Returns:
        The fit, or None when the selector learns and the training part has no row that it may learn from.
    """
    learn = fold.learn
    if shuffle is not None:
        pools = fold.train[data.open_pools[fold.train]]  # what may not be trained on, no placebo learns from either
        learn = shuffled(learn, data, pools, shuffle, np.random.default_rng((*seed, _SHUFFLE)))
    part = _Part(selector, data, fold, learn)
    rows = part.rows(fold.train)
    if not len(part.fittable(rows)) and needs_labels(selector):
        return None
    pinned = pinned_threshold(selector)
    if pinned is not None:
        return Fitted(part.fit(rows), policy.pinned(pinned))
    return _fit_and_tune(part, policy, rows, (*seed, _INNER))


def decide(fitted: Fitted, policy: Policy, data: LabelData, fold: Fold) -> IntArray:
    """Return (n_test,) the action of each test pool of the fold."""
    rows, values = data.rows[fold.test].ravel(), values_of(fitted, data, fold)
    local = np.repeat(np.arange(len(fold.test)), data.rows.shape[1])
    return policy.choose(local, data.slot[rows], values, data.recorded[fold.test], fitted.thresholds)


def values_of(fitted: Fitted, data: LabelData, fold: Fold) -> FloatArray:
    """Return (5 n_test,) the predicted values of the fold's test messages, pool by pool and slot by slot."""
    return _Part(fitted.selector, data, fold, fold.learn).predict(fitted.selector, data.rows[fold.test].ravel())


@dataclass(frozen=True, slots=True)
class _Part:
    """Calls a selector with the rows of a fold, and names the fold when it fails."""

    selector: Selector
    data: LabelData
    fold: Fold
    learn: Evidence

    def rows(self, pools: IntArray) -> IntArray:
        """Return the rows of these pools that may be trained on, ascending."""
        rows = np.sort(self.data.rows[pools].ravel())
        return rows[self.data.trainable[rows]]

    def learnable(self, rows: IntArray) -> IntArray:
        """Return the rows with a target."""
        return rows[np.isfinite(self.learn.y[rows])]

    def fittable(self, rows: IntArray) -> IntArray:
        """Return the rows with a target and with all that the selector declares for fitting alone."""
        rows, columns = self.learnable(rows), list(getattr(self.selector, "requires_for_fit", ()))
        if not columns or any(column not in self.data.labels for column in columns):
            return rows
        return rows[self.data.labels.iloc[rows][columns].notna().all(axis=1).to_numpy(dtype=np.bool_)]

    def fit(self, rows: IntArray) -> Selector:
        """Return a clone that is fitted on the rows with a target."""
        rows = self.learnable(rows)
        weight = self.learn.weight[rows]
        weight = weight / weight.mean() if len(rows) else weight
        learns = getattr(self.selector, "learns", True)
        y = self.learn.y[rows] if learns else np.full(len(rows), np.nan)  # what says it learns nothing, cannot
        try:
            return fit_selector(
                clone(self.selector), self.data.X.iloc[rows], y, self._taught(rows), weight,
                self._texts(rows),
            )  # fmt: skip
        except (Exception, SystemExit) as error:
            raise self._named("fit", error) from error

    def predict(self, fitted: Selector, rows: IntArray) -> FloatArray:
        """Return (n_rows,) checked values."""
        try:
            return predict_values(fitted, self.data.X.iloc[rows], self._labels(rows), self._texts(rows))
        except (Exception, SystemExit) as error:
            raise self._named("predict_value", error) from error

    def _taught(self, rows: IntArray) -> pd.DataFrame:
        """Return the privileged columns for fitting; a placebo shuffles what only fitting needs too."""
        labels = self._labels(rows)
        if self.learn.source is None:
            return labels
        known_later = requires(self.selector, fitting=False)
        only_taught = [name for name in requires(self.selector, fitting=True) if name not in known_later]
        moved = self.data.labels.iloc[self.learn.source[rows]].assign(trajectory_value=self.learn.y[rows])
        hidden = () if self.fold.learn.shares_draws(self.fold.judge) else _HIDDEN
        return labels.assign(**{name: moved[name].array for name in only_taught if name not in hidden})

    def _labels(self, rows: IntArray) -> pd.DataFrame:
        """Return the privileged columns; where problems are on both sides, outcomes are those that are learned from."""
        labels = self.data.labels.iloc[rows]
        if self.fold.learn.shares_draws(self.fold.judge):
            return labels
        hidden = {name: np.nan for name in _OUTCOMES if name in labels.columns}
        return labels.assign(**hidden | {"trajectory_value": self.learn.y[rows]})

    def _texts(self, rows: IntArray) -> pd.DataFrame | None:
        return None if self.data.texts is None else self.data.texts.iloc[rows]

    def _named(self, method: str, error: BaseException) -> DhdError:
        if isinstance(error, DhdError):
            return DhdError(f"{error} (In {self.fold.name}.)")
        return DhdError(
            f"The {method!r} of {selector_name(self.selector)} must not fail, but in {self.fold.name} it raised "
            f"{type(error).__name__}: {error}"
        )


def _fit_and_tune(part: _Part, policy: Policy, rows: IntArray, seed: tuple[int, ...]) -> Fitted:
    """Fit, and tune on out-of-fold predictions; nothing is ever removed when there is a single problem."""
    everything, problem = rows, part.data.problem_code
    labelled = np.isin(problem[rows], problem[part.fittable(rows)])
    rows, problem = rows[labelled], problem[rows[labelled]]
    if len(np.unique(problem)) < 2:
        return Fitted(part.fit(everything), policy.pinned(NEVER))
    inner = problem_part(problem, seed)
    if len(rows) > HOLDOUT_ABOVE or not refits_for_threshold(part.selector):
        held_out = rows[inner == 0]
        fitted = part.fit(rows[inner != 0])
        return Fitted(fitted, _tune(part, policy, held_out, part.predict(fitted, held_out)))
    values = np.full(len(rows), np.nan)
    for number in range(int(inner.max()) + 1):
        test = inner == number
        values[test] = part.predict(part.fit(rows[~test]), rows[test])
    return Fitted(part.fit(rows), _tune(part, policy, rows, values))


def problem_part(problem: IntArray, seed: tuple[int, ...]) -> IntArray:
    """Return (n_rows,) the inner part of each row; rows of one problem share it."""
    names = [str(code) for code in np.unique(problem)]
    part_of = {name: n for n, group in enumerate(problem_groups(names, seed, N_FOLDS)) for name in group}
    _, inverse = np.unique(problem, return_inverse=True)
    return np.array([part_of[name] for name in names])[inverse]


def _tune(part: _Part, policy: Policy, rows: IntArray, values: FloatArray) -> Thresholds:
    data = part.data
    pools, local = np.unique(data.pool[rows], return_inverse=True)
    problem = data.problem_code[data.rows[pools, 0]]
    _, of_problem, count = np.unique(problem, return_inverse=True, return_counts=True)
    weight = 1.0 / count[of_problem]  # problems, not pools, count equally
    return policy.tune(local.astype(np.int64), data.slot[rows], values, part.learn.success[pools], weight)


def _refuse_double(folds: Sequence[Fold]) -> None:
    """Refuse folds of which two judge a pool by the same draws."""
    for number, fold in enumerate(folds):
        for other in folds[:number]:
            if fold.judge.shares_draws(other.judge) and np.intersect1d(fold.test, other.test).size:
                raise AssertionError(f"a pool is in the test part of two folds: {other.name} and {fold.name}")
