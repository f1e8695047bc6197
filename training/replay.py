"""Score a policy on subsets that nobody recorded, by asking the run's integrator for them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dhd_labels.errors import DhdError
from dhd_labels.records import Outcome
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.subsets import pools_of, replay_subsets
from dhd_selectors.actions import action_of, slots_of
from dhd_selectors.base import BoolArray, Selector
from dhd_selectors.policy import Policy
from training.crossfit import cross_fit
from training.data import LabelData
from training.estimands import Folds


def with_replays(
    directory: RunDirectory, selector: Selector, policy: Policy, data: LabelData, splits: Sequence[Folds], seed: int
) -> tuple[LabelData, list[Folds]]:
    """Return data and folds in which every subset that the selector's policy chooses is recorded.

    The policy may choose any subset of the run's own pools. What it learns from stays as it was, so that the subsets
    which are asked for are those that it chooses afterwards too; only what judges knows the new outcomes.

    Args:
        directory: the run; pools of the data that are not in it keep to their recorded subsets.
        selector: unfitted prototype.
        policy: turns values into decisions.
        data: all pools.
        splits: whom to fit on and whom to decide for, once for each repeat.
        seed: seed of the cross-fit.

    Raises:
        DhdError: none of the pools is the run's, it cannot be gone on with, or the selector fails.
    """
    places = {pool_id: int(place) for place, pool_id in zip(*_owned(directory, data), strict=True)}
    if not places:
        raise DhdError(
            f"The run of --replay must be one that the labels were built from, but none of their {data.n_pools} pools "
            f"is in {directory.path} with its integrator {directory.integrator!r}. "
            "Name that run, or leave --replay out."
        )
    open_to_all = data.recorded.copy()
    open_to_all[list(places.values())] = True
    free = dataclasses.replace(data, recorded=open_to_all)
    chosen = np.zeros_like(data.recorded)
    for repeat, split in enumerate(splits):
        made = cross_fit(selector, policy, free, split.folds, seed=seed, repeat=repeat)
        chosen[made.pool, made.action] = True
    new = chosen & ~data.recorded
    wanted = {pool: [slots_of(int(a)) for a in np.flatnonzero(new[place])] for pool, place in places.items()}
    wanted = {pool: sets for pool, sets in wanted.items() if sets}
    if not wanted:
        note = "--replay: every subset that was chosen is recorded, so nothing was asked"
        return dataclasses.replace(data, notes=(*data.notes, note)), list(splits)
    outcomes, tally = replay_subsets(directory, wanted)
    note = (
        f"--replay: {int(new.sum())} chosen subsets of {len(wanted)} pools were not recorded; {tally.made} calls made"
    )
    filled = dataclasses.replace(data, recorded=data.recorded | new, notes=(*data.notes, note))
    return _judged_by(filled, list(splits), outcomes, places)


def _owned(directory: RunDirectory, data: LabelData) -> tuple[list[int], list[str]]:
    """Return places and ids of the pools that the run's integrator saw in their original order."""
    pools, known = data.pools, pools_of(directory)
    own: BoolArray = (
        pools["pool_id"].isin(list(known))
        & (pools["integrator"] == directory.integrator)
        & (pools["order"] == "original")
    ).to_numpy(dtype=np.bool_)
    return np.flatnonzero(own).tolist(), pools["pool_id"][own].tolist()


def _judged_by(
    data: LabelData, splits: list[Folds], outcomes: Sequence[Outcome], places: dict[str, int]
) -> tuple[LabelData, list[Folds]]:
    """Return the data and the folds with the mean success of the new draws, by the rule for accuracy."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for outcome in outcomes:
        cell = found[places[outcome.replay.pool_id], action_of(outcome.replay.arm.kept)]
        if outcome.status in ("graded", "no_answer"):
            cell.append(float(bool(outcome.correct)))
    new = {cell: float(np.mean(values)) for cell, values in found.items() if values}
    success = data.success.copy()
    for (pool, action), mean in new.items():
        success[pool, action] = mean
    judged = []
    for split in splits:
        folds = []
        for fold in split.folds:
            by = fold.judge.success.copy()
            for (pool, action), mean in new.items():
                by[pool, action] = mean
            folds.append(dataclasses.replace(fold, judge=dataclasses.replace(fold.judge, success=by)))
        judged.append(dataclasses.replace(split, folds=tuple(folds)))
    return dataclasses.replace(data, success=success), judged
