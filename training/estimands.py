"""Folds: what is learned from, and what is decided for, under each of the four estimands.

| estimand | training part | test part |
|---|---|---|
| `unseen-problem` | all other problems | a fifth of the problems |
| `unseen-benchmark` | all other benchmarks | one benchmark |
| `unseen-integrator` | other integrators on other problems | one integrator on a fifth of the problems |
| `same-problem` | the other matched blocks of every problem | one matched block of every problem |

All pools of a problem (every actor, integrator and order) are in one fold, and so are problems with the same question.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError, NothingMadeError
from dhd_selectors.base import BoolArray, IntArray
from training.data import LabelData
from training.evidence import Evidence, all_evidence, of_blocks

ESTIMANDS = ("unseen-problem", "unseen-benchmark", "unseen-integrator", "same-problem")
N_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Fold:
    """Pools to learn from and pools to decide for, (n,) numbers each, with the evidence for either."""

    train: IntArray
    test: IntArray
    learn: Evidence
    judge: Evidence
    name: str = "fold"

    def check(self, data: LabelData) -> None:
        """Refuse a fold that decides for what it has learned from.

        Raises:
            AssertionError: a part is empty, or a problem is in both parts and so is one of its draws.
        """
        if not len(self.train) or not len(self.test):
            raise AssertionError(f"the {self.name} has an empty part: {len(self.train)} and {len(self.test)} pools")
        if self.learn.shares_draws(self.judge):
            both = set(data.pool_group.iloc[self.train]) & set(data.pool_group.iloc[self.test])
            if both:
                raise AssertionError(f"problems {sorted(both)[:3]} are in both parts of the {self.name}")


@dataclass(frozen=True, slots=True)
class Folds:
    """The folds of one split of the data, and what a reader has to know about them."""

    folds: tuple[Fold, ...]
    notes: tuple[str, ...] = ()


def make_folds(
    data: LabelData, estimand: str, seed: int | tuple[int, ...], *, n_folds: int = N_FOLDS, test: bool = False
) -> Folds:
    """Return the checked folds of an estimand.

    Args:
        data: all pools.
        estimand: one of `ESTIMANDS`.
        seed: seed of the split, where it is random.
        n_folds: most folds by problem.
        test: learn from all splits but `test` and decide for `test` only.

    Raises:
        DhdError: the estimand is unknown, or has no test split.
        NothingMadeError: there are too few problems, benchmarks, integrators or blocks.
    """
    made = {
        "unseen-problem": lambda: _unseen_problem(data, seed, n_folds, test),
        "unseen-benchmark": lambda: _unseen_benchmark(data, test),
        "unseen-integrator": lambda: _unseen_integrator(data, seed, n_folds, test),
        "same-problem": lambda: _same_problem(data, test),
    }
    folds = made[estimand]()
    for fold in folds.folds:
        fold.check(data)
    return folds


def problem_groups(
    problems: Iterable[str], seed: int | tuple[int, ...], n_folds: int = N_FOLDS
) -> list[frozenset[str]]:
    """Deal shuffled problems into min(n_folds, n_problems) groups whose sizes differ by at most one.

    Args:
        problems: problem ids, repeated or not; their order does not matter.
        seed: seed of the shuffle.
        n_folds: most groups wanted.

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
    return [frozenset(known[i] for i in shuffled[fold::k]) for fold in range(k)]


def _unseen_problem(data: LabelData, seed: int | tuple[int, ...], n_folds: int, test: bool) -> Folds:
    evidence = all_evidence(data)
    if test:
        allowed, held_out = _splits(data, test)
        return _non_empty([_fold(data, allowed, held_out, evidence, "test split")], "test splits")
    groups = problem_groups(data.pool_group, seed, n_folds)
    folds = []
    for number, group in enumerate(groups):
        held_out = _in(data.pool_group, group)
        folds.append(_fold(data, ~held_out, held_out, evidence, f"fold {number + 1} of {len(groups)}"))
    return Folds(tuple(folds), _fewer(len(groups), n_folds, "problems"))


def _unseen_benchmark(data: LabelData, test: bool) -> Folds:
    names = _several(data.pools["benchmark"], "benchmark")
    allowed, judged = _splits(data, test)
    folds = []
    for name in names:
        own = _in(data.pools["benchmark"], [name])
        unseen = ~_in(data.pool_group, data.pool_group[own])
        folds.append(_fold(data, unseen & allowed, own & judged, all_evidence(data), f"benchmark {name}"))
    return _non_empty(folds, "benchmarks")


def _unseen_integrator(data: LabelData, seed: int | tuple[int, ...], n_folds: int, test: bool) -> Folds:
    names = _several(data.pools["integrator"], "integrator")
    allowed, judged = _splits(data, test)
    groups = [frozenset(data.pool_group)] if test else problem_groups(data.pool_group, seed, n_folds)
    folds = []
    for name in names:
        own = _in(data.pools["integrator"], [name])
        for number, group in enumerate(groups):
            of_group = _in(data.pool_group, group)
            held_out = own & of_group & judged
            unseen = ~own & (allowed if test else ~of_group)
            label = f"integrator {name}, fold {number + 1} of {len(groups)}"
            folds.append(_fold(data, unseen, held_out, all_evidence(data), label))
    found = _non_empty(folds, "integrator folds")
    return Folds(found.folds, (*found.notes, *(() if test else _fewer(len(groups), n_folds, "problems"))))


def _same_problem(data: LabelData, test: bool) -> Folds:
    if test:
        raise DhdError(
            "The estimand 'same-problem' judges blocks of problems that it has learned from: --test is for the "
            "estimands of unseen problems."
        )
    pool = data.blocks.pool
    first = np.searchsorted(pool, np.arange(data.n_pools))
    turn = np.arange(len(pool)) - first[pool]  # blocks are sorted by pool
    several = data.blocks.per_pool >= 2
    if not several.any():
        raise NothingMadeError(
            "The estimand 'same-problem' must have a problem with 2 complete matched blocks or more, got none: one "
            "block chooses, another one judges. Run more blocks."
        )
    folds = []
    usable = several[pool]
    for number in range(int(turn[usable].max()) + 1):
        held_out = usable & (turn == number)
        test_pools = np.unique(pool[held_out])
        learn = of_blocks(data, usable & (turn != number))
        folds.append(Fold(np.flatnonzero(several), test_pools, learn, of_blocks(data, held_out), f"block {number + 1}"))
    left_out = int((~several).sum())
    notes = (f"{left_out} pools have fewer than 2 complete blocks and take no part",) if left_out else ()
    return Folds(tuple(folds), notes)


def _fold(data: LabelData, train: BoolArray, test: BoolArray, evidence: Evidence, name: str) -> Fold:
    return Fold(np.flatnonzero(train), np.flatnonzero(test), evidence, evidence, name)


def _splits(data: LabelData, test: bool) -> tuple[BoolArray, BoolArray]:
    """Return which pools may be learned from and which may be decided for."""
    if not test:
        everything = np.ones(data.n_pools, dtype=np.bool_)
        return everything, everything
    held_out = _test_split(data)
    return ~_in(data.pool_group, data.pool_group[held_out]), held_out


def _test_split(data: LabelData) -> BoolArray:
    held_out = _in(data.pools["split"], ["test"])
    if not held_out.any():
        raise NothingMadeError("The test split holds no messages. Label more problems.")
    if held_out.all():
        raise NothingMadeError("Only the test split holds messages, so there is nothing to learn from.")
    return held_out


def _several(values: pd.Series, what: str) -> list[str]:
    names = sorted(set(values))
    if len(names) < 2:
        raise NothingMadeError(
            f"The estimand 'unseen-{what}' must have 2 {what}s or more, got {len(names)} ({', '.join(names)}): one is "
            "held out, the others are learned from."
        )
    return names


def _non_empty(folds: list[Fold], what: str) -> Folds:
    kept = tuple(fold for fold in folds if len(fold.train) and len(fold.test))
    if not kept:
        raise NothingMadeError(f"None of the {len(folds)} {what} leaves problems both to learn from and to decide for.")
    left_out = [fold.name for fold in folds if not (len(fold.train) and len(fold.test))]
    notes = (f"{len(left_out)} of {len(folds)} {what} are empty: {', '.join(left_out[:5])}",) if left_out else ()
    return Folds(kept, notes)


def _fewer(found: int, wanted: int, what: str) -> tuple[str, ...]:
    return (f"{found} folds, as there are only {found} {what}",) if found < wanted else ()


def _in(values: pd.Series, wanted: Iterable[str]) -> BoolArray:
    return values.isin(list(wanted)).to_numpy(dtype=np.bool_)
