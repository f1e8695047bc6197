"""Policies to compare with, each on the same folds, pools and draws as the selector.

| reference | what it shows | who could know it |
|---|---|---|
| `keep-all` | all five messages | anybody |
| `drop-wrong` | all but the first wrong message, if one is wrong | privileged: it knows the verdicts |
| `learned-correct` | what the same policy does with predictions of being right, fitted on the same folds | anybody |
| `oracle-correct` | what the same policy does with the verdicts themselves | privileged |
| `alone` | nothing (K = 0) | anybody |
| `best-fixed` | nothing or everything, whichever was better in the training part of the fold | anybody |
| `random` | keep all or remove one, each recorded one as likely: the exact mean, nothing is drawn | anybody |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dhd_selectors.actions import ALONE, FULL, N_ACTIONS, REMOVALS
from dhd_selectors.base import FloatArray, Selector, needs_labels
from dhd_selectors.policy import Policy, RemoveWorst
from dhd_selectors.registry import load_selector
from training.crossfit import Decisions, cross_fit, joined
from training.data import LabelData
from training.estimands import Fold, Folds
from training.evidence import Evidence, Shuffle, with_other_draws
from training.outcomes import IN_BLOCKS

REFERENCES = ("keep-all", "drop-wrong", "learned-correct", "oracle-correct", "alone", "best-fixed", "random")
PRIVILEGED_REFERENCES = frozenset({"drop-wrong", "oracle-correct"})
"""References that know the verdicts; tables mark them."""


@dataclass(frozen=True, slots=True)
class Study:
    """What is measured, on what, and how: everything that a cross-fit needs besides the selector."""

    policy: Policy
    data: LabelData
    splits: Sequence[Folds]
    seed: int
    jobs: int = 1

    def decide(self, selector: Selector, *, policy: Policy | None = None, shuffle: Shuffle | None = None) -> Decisions:
        """Return the cross-fitted decisions of a selector in every repeated split."""
        return joined(
            [
                cross_fit(
                    selector, policy or self.policy, self.data, split.folds, seed=self.seed, repeat=n, shuffle=shuffle
                )
                for n, split in enumerate(self.splits)
            ]
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """Success of a reference at each decision of the selector, (n,), and whether it was learned from outcomes."""

    name: str
    success: FloatArray
    learned: bool


def references(study: Study, decisions: Decisions) -> tuple[Reference, ...]:
    """Return all references, aligned with the rows of the decisions."""
    found = []
    for name in REFERENCES:
        success, learned = _MAKERS[name](study, decisions)
        found.append(Reference(name, success, learned))
    return tuple(found)


def judged(study: Study, decisions: Decisions) -> FloatArray:
    """Return (n, 32) the success of every action at each decision; subsets outside blocks by all of their draws."""
    success = decisions.success.copy()
    of_blocks = np.isin(np.arange(N_ACTIONS), IN_BLOCKS)
    return np.where(np.isnan(success) & ~of_blocks, study.data.success[decisions.pool], success)


def chosen(success: FloatArray, action: np.ndarray) -> FloatArray:
    """Return (n,) the success of one action a row."""
    taken: FloatArray = success[np.arange(len(success)), action]
    return taken


_Made = tuple[FloatArray, bool]


def _fixed(action: int) -> Callable[[Study, Decisions], _Made]:
    return lambda study, decisions: (judged(study, decisions)[:, action], False)


def _selector(name: str) -> Callable[[Study, Decisions], _Made]:
    def make(study: Study, decisions: Decisions) -> _Made:
        selector = load_selector(name, random_state=study.seed, n_jobs=study.jobs)
        if name == "learned-correct" and not study.data.labels["proposal_correct"].notna().any():
            return np.full(len(decisions.pool), np.nan), True  # without verdicts nobody can learn who is right
        policy = RemoveWorst() if name == "drop-wrong" else study.policy  # the paper's rule removes one message
        return success_of_other(study, decisions, study.decide(selector, policy=policy)), needs_labels(selector)

    return make


def success_of_other(study: Study, decisions: Decisions, other: Decisions) -> FloatArray:
    """Return (n,) the success of what other decisions chose for the same pool, fold and repeat, or NaN."""
    n_folds = 1 + max((len(split.folds) for split in study.splits), default=0)

    def keys(made: Decisions) -> np.ndarray:
        return np.asarray((made.repeat * n_folds + made.fold) * study.data.n_pools + made.pool)

    order = np.argsort(keys(other))
    ranked = keys(other)[order]
    place = np.searchsorted(ranked, keys(decisions))
    inside = np.minimum(place, max(len(ranked) - 1, 0))
    if not len(ranked):
        return np.full(len(decisions.pool), np.nan)
    same = ranked[inside] == keys(decisions)
    action = np.where(same, other.action[order][inside], FULL)
    return np.where(same, chosen(judged(study, decisions), action), np.nan)


def _best_fixed(study: Study, decisions: Decisions) -> _Made:
    success = judged(study, decisions)
    found = np.full(len(success), np.nan)
    for repeat, split in enumerate(study.splits):
        for number, fold in enumerate(split.folds):
            rows = (decisions.repeat == repeat) & (decisions.fold == number)
            found[rows] = success[rows, best_fixed_action(study.data, fold)]
    return found, True


def best_fixed_action(data: LabelData, fold: Fold) -> int:
    """Return `ALONE` or `FULL`: the higher mean success over the problems of the training part; ties keep all.

    Problems that may not be trained on do not count.
    """
    learn: Evidence = fold.learn if fold.learn.blocks is None else with_other_draws(data, fold.learn)
    train = fold.train[data.open_pools[fold.train]]
    gain = learn.success[train, ALONE] - learn.success[train, FULL]
    known = np.isfinite(gain)
    if not known.any():
        return FULL
    _, problem, pools = np.unique(
        data.problem_code[data.rows[train[known], 0]], return_inverse=True, return_counts=True
    )
    return ALONE if float((gain[known] / pools[problem]).sum()) > 0.0 else FULL


def _random(study: Study, decisions: Decisions) -> _Made:
    six = decisions.success[:, [FULL, *REMOVALS]]
    known = np.isfinite(six)
    mean = np.where(known, six, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.where(known.any(axis=1), mean, np.nan), False


_MAKERS: dict[str, Callable[[Study, Decisions], _Made]] = {
    "keep-all": _fixed(FULL),
    "drop-wrong": _selector("drop-wrong"),
    "learned-correct": _selector("learned-correct"),
    "oracle-correct": _selector("oracle-correct"),
    "alone": _fixed(ALONE),
    "best-fixed": _best_fixed,
    "random": _random,
}
