"""From predicted values to the messages that are shown.

| policy | decisions |
|---|---|
| `remove-worst` | keep all, or remove the message with the lowest value |
| `remove-up-to-M` | keep all, or remove up to M messages; values add up |
| `or-alone` | `remove-worst`, or show nothing where the mean value of the pool is low |
| `keep-best` | keep all, or show only the message with the highest value |

A policy acts where predicted value is below a threshold, and the threshold is tuned on training problems only, from
predictions that were made out of fold. It only ever chooses among the subsets that are recorded for a pool. Ties go to
keeping all first, then to fewer removed messages, then to the lowest slot.

A threshold is chosen by what it gained minus `CAUTION` standard errors of that gain: the best of many thresholds looks
good by chance alone, and where nothing can be learned the right answer is to keep all.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.records import POOL_SIZE
from dhd_selectors.actions import ALONE, FULL, REMOVALS, SINGLES
from dhd_selectors.base import BoolArray, FloatArray, IntArray

NEVER = float("-inf")
"""The threshold under which a policy never acts."""
CAUTION = 1.0
"""Standard errors by which the gain of a threshold has to beat that of keeping all."""
Thresholds = tuple[float, ...]
"""What a policy tunes: one number, or one for each of its steps."""
_NO_GAIN = 1e-12  # sums of fractions that cancel exactly on paper do not in floating point
_MOST_CUTS = 256


class Policy(Protocol):
    """Tunes thresholds and makes one decision a pool. Pools are numbered 0..n_pools-1 in `pools`.

    Arrays: `pools`, `slots`, `values` are (n_messages,); `success` and `recorded` are (n_pools, 32) by action;
    decisions are (n_pools,) actions (see `dhd_selectors.actions`).
    """

    def pinned(self, threshold: float) -> Thresholds:
        """Return the thresholds of a selector that pins its own."""
        ...

    def tune(
        self, pools: IntArray, slots: IntArray, values: FloatArray, success: FloatArray, pool_weight: FloatArray
    ) -> Thresholds:
        """Return the thresholds that gained the most over keeping all, `NEVER` where none is believable.

        Args:
            pools: number of each message's pool.
            slots: slot of each message.
            values: out-of-fold predictions.
            success: mean success of each subset; NaN when unknown.
            pool_weight: (n_pools,) weight of each pool in the mean.
        """
        ...

    def choose(
        self, pools: IntArray, slots: IntArray, values: FloatArray, recorded: BoolArray, thresholds: Thresholds
    ) -> IntArray:
        """Return the action of each pool. `FULL` is always open to it; others only where `recorded`."""
        ...


@dataclass(frozen=True, slots=True)
class RemoveWorst:
    """Keep all, or remove the message with the lowest predicted value."""

    caution: float = CAUTION

    def pinned(self, threshold: float) -> Thresholds:
        """Return the threshold for the lowest value."""
        return (threshold,)

    def tune(
        self, pools: IntArray, slots: IntArray, values: FloatArray, success: FloatArray, pool_weight: FloatArray
    ) -> Thresholds:
        """Return the threshold of the lowest value, halfway between two values that the selector tells apart.

        Equal values for all messages therefore remove nothing, rather than the lowest slot of every pool.
        """
        lowest, action = self._worst(by_slot(pools, slots, values, len(success)), np.isfinite(success))
        gain = _taken(success, action) - success[:, FULL]
        return (best_cut(lowest, gain, pool_weight, np.unique(values), self.caution),)

    def choose(
        self, pools: IntArray, slots: IntArray, values: FloatArray, recorded: BoolArray, thresholds: Thresholds
    ) -> IntArray:
        """Remove the lowest value where it is strictly below the threshold."""
        lowest, action = self._worst(by_slot(pools, slots, values, len(recorded)), recorded)
        return np.where(lowest < thresholds[0], action, FULL)

    @staticmethod
    def _worst(values: FloatArray, recorded: BoolArray) -> tuple[FloatArray, IntArray]:
        """Return (n_pools,) the lowest value whose removal is recorded (inf without one), and that removal."""
        open_to_it = recorded[:, REMOVALS] & np.isfinite(values)
        masked = np.where(open_to_it, values, np.inf)
        worst = masked.argmin(axis=1)
        return masked[np.arange(len(masked)), worst], np.asarray(REMOVALS)[worst]


@dataclass(frozen=True, slots=True)
class RemoveUpTo:
    """Keep all, or remove the recorded set of up to `most` messages whose values lie furthest below the threshold.

    Values add up: removing the set R is worth the sum over R of (threshold - value).
    """

    most: int
    caution: float = CAUTION

    def pinned(self, threshold: float) -> Thresholds:
        """Return the threshold for each value."""
        return (threshold,)

    def tune(
        self, pools: IntArray, slots: IntArray, values: FloatArray, success: FloatArray, pool_weight: FloatArray
    ) -> Thresholds:
        """Return the best of up to 256 thresholds between the distinct values."""
        table, known = by_slot(pools, slots, values, len(success)), np.isfinite(success)
        best, threshold = _NO_GAIN, NEVER
        for cut in _cuts(np.unique(values)):
            gain = _taken(success, self._choose(table, known, cut)) - success[:, FULL]
            earned = _believed(np.where(np.isfinite(gain), gain, 0.0) * pool_weight, self.caution)
            if earned > best:
                best, threshold = earned, float(cut)
        return (threshold,)

    def choose(
        self, pools: IntArray, slots: IntArray, values: FloatArray, recorded: BoolArray, thresholds: Thresholds
    ) -> IntArray:
        """Remove the set that is worth the most, where that is more than nothing."""
        return self._choose(by_slot(pools, slots, values, len(recorded)), recorded, thresholds[0])

    def _choose(self, values: FloatArray, recorded: BoolArray, threshold: float) -> IntArray:
        best, action = np.zeros(len(values)), np.full(len(values), FULL)
        if threshold == NEVER:
            return action
        for size in range(1, self.most + 1):
            for removed in itertools.combinations(range(POOL_SIZE), size):
                kept = FULL ^ sum(1 << slot for slot in removed)
                worth = (threshold - values[:, removed]).sum(axis=1)
                better = recorded[:, kept] & (worth > best)  # a missing slot is NaN and never better
                best, action = np.where(better, worth, best), np.where(better, kept, action)
        return action


@dataclass(frozen=True, slots=True)
class OrAlone:
    """As `remove-worst`, but show nothing where the mean value of the pool is below a second threshold."""

    caution: float = CAUTION

    def pinned(self, threshold: float) -> Thresholds:
        """Return one threshold for the lowest and for the mean value."""
        return (threshold, threshold)

    def tune(
        self, pools: IntArray, slots: IntArray, values: FloatArray, success: FloatArray, pool_weight: FloatArray
    ) -> Thresholds:
        """Tune removing first, and then going alone against what removing does."""
        removing = RemoveWorst(self.caution)
        first = removing.tune(pools, slots, values, success, pool_weight)
        otherwise = removing.choose(pools, slots, values, np.isfinite(success), first)
        mean = _mean(by_slot(pools, slots, values, len(success)))
        gain = success[:, ALONE] - _taken(success, otherwise)
        return (*first, best_cut(mean, gain, pool_weight, _levels(mean), self.caution))

    def choose(
        self, pools: IntArray, slots: IntArray, values: FloatArray, recorded: BoolArray, thresholds: Thresholds
    ) -> IntArray:
        """Show nothing where the mean is strictly below the second threshold, else remove by the first."""
        otherwise = RemoveWorst().choose(pools, slots, values, recorded, thresholds[:1])
        alone = recorded[:, ALONE] & (_mean(by_slot(pools, slots, values, len(recorded))) < thresholds[1])
        return np.where(alone, ALONE, otherwise)


@dataclass(frozen=True, slots=True)
class KeepBest:
    """Keep all, or show only the message with the highest value where the mean of the others is low."""

    caution: float = CAUTION

    def pinned(self, threshold: float) -> Thresholds:
        """Return the threshold for the mean of the others."""
        return (threshold,)

    def tune(
        self, pools: IntArray, slots: IntArray, values: FloatArray, success: FloatArray, pool_weight: FloatArray
    ) -> Thresholds:
        """Return the threshold of the mean of all values but the highest."""
        others, action = self._best(by_slot(pools, slots, values, len(success)), np.isfinite(success))
        gain = _taken(success, action) - success[:, FULL]
        return (best_cut(others, gain, pool_weight, _levels(others), self.caution),)

    def choose(
        self, pools: IntArray, slots: IntArray, values: FloatArray, recorded: BoolArray, thresholds: Thresholds
    ) -> IntArray:
        """Show only the best message where the mean of the others is strictly below the threshold."""
        others, action = self._best(by_slot(pools, slots, values, len(recorded)), recorded)
        return np.where(others < thresholds[0], action, FULL)

    @staticmethod
    def _best(values: FloatArray, recorded: BoolArray) -> tuple[FloatArray, IntArray]:
        """Return (n_pools,) the mean of the others (inf where nothing is recorded), and showing only the best."""
        open_to_it = recorded[:, SINGLES] & np.isfinite(values)
        best = np.where(open_to_it, values, -np.inf).argmax(axis=1)
        rest = values.copy()
        rest[np.arange(len(rest)), best] = np.nan
        return np.where(open_to_it.any(axis=1), _mean(rest), np.inf), np.asarray(SINGLES)[best]


POLICY_NAMES = ("remove-worst", "remove-up-to-2", "or-alone", "keep-best")
"""Policies by name; any number from 1 to 5 may stand in `remove-up-to-2`."""


def load_policy(name: str) -> Policy:
    """Return the policy of that name.

    Raises:
        DhdError: the name is unknown.
    """
    if (found := re.fullmatch(r"remove-up-to-([1-9]\d*)", name)) is not None:
        if not 1 <= int(found[1]) <= POOL_SIZE:
            raise DhdError(f"The number of {name!r} must be between 1 and {POOL_SIZE}, got {found[1]}.")
        return RemoveWorst() if found[1] == "1" else RemoveUpTo(int(found[1]))
    fixed: dict[str, Policy] = {"remove-worst": RemoveWorst(), "or-alone": OrAlone(), "keep-best": KeepBest()}
    if name not in fixed:
        raise DhdError(f"The policy {name!r} is not known. {did_you_mean(name, POLICY_NAMES)}")
    return fixed[name]


def by_slot(pools: IntArray, slots: IntArray, values: FloatArray, n_pools: int) -> FloatArray:
    """Return (n_pools, 5) the values by slot; NaN where a pool has no such message."""
    table = np.full((n_pools, POOL_SIZE), np.nan)
    table[pools, slots] = values
    return table


def best_cut(
    statistic: FloatArray, gain: FloatArray, weight: FloatArray, levels: FloatArray, caution: float = CAUTION
) -> float:
    """Return the threshold whose pools (those with a lower statistic) gained the most, or `NEVER`.

    Args:
        statistic: (n_pools,) what is compared with the threshold.
        gain: (n_pools,) what acting gained; NaN when unknown, such pools do not count.
        weight: (n_pools,) weight of each pool.
        levels: ascending distinct values that the statistic can have; a threshold lies halfway between two.
        caution: standard errors that are taken off the gain.
    """
    known = np.flatnonzero(np.isfinite(gain) & np.isfinite(statistic))
    order = known[np.argsort(statistic[known], kind="stable")]
    if not len(order) or not len(levels):
        return NEVER
    ranked, earned = statistic[order], gain[order] * weight[order]
    believed = np.cumsum(earned) - caution * np.sqrt(np.cumsum(earned**2))
    # A cut may only follow the last of equal values, and needs a larger value somewhere above it.
    allowed = np.append(ranked[1:] > ranked[:-1], True) & (ranked < levels[-1])
    believed = np.where(allowed, believed, NEVER)
    if believed.max() <= _NO_GAIN:
        return NEVER
    low = ranked[int(np.argmax(believed))]
    return _between(low, levels[np.searchsorted(levels, low, side="right")])


def _levels(statistic: FloatArray) -> FloatArray:
    """Return the distinct values of a statistic of pools, and one above them, so that all pools can be below a cut.

    Where all pools are alike there is none above them: what tells no pool from another says nothing.
    """
    levels = np.unique(statistic[np.isfinite(statistic)])
    return levels if len(levels) < 2 else np.append(levels, 2 * levels[-1] - levels[-2])


def _between(low: float, high: float) -> float:
    middle = low + (high - low) / 2
    return float(middle if middle > low else high)


def _cuts(levels: FloatArray) -> list[float]:
    """Return up to `_MOST_CUTS` thresholds between levels, ascending."""
    places = np.unique(np.linspace(0, len(levels) - 2, min(_MOST_CUTS, max(len(levels) - 1, 0))).astype(int))
    return [_between(levels[place], levels[place + 1]) for place in places]


def _believed(earned: FloatArray, caution: float) -> float:
    return float(earned.sum() - caution * np.sqrt((earned**2).sum()))


def _taken(success: FloatArray, action: IntArray) -> FloatArray:
    taken: FloatArray = success[np.arange(len(success)), action]
    return taken


def _mean(values: FloatArray) -> FloatArray:
    """Return the mean of the known values of each row, inf without any."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.inf)
