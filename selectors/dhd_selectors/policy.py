"""From predicted values to an arm.

`remove-worst`: keep all messages, or remove the one with the lowest predicted value when that value is below
a threshold. The threshold is tuned on training problems only, from predictions that were made out of fold.
Ties go to keeping all first, then to the lowest slot.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dhd_labels.errors import DhdError, did_you_mean
from dhd_selectors.base import FloatArray, IntArray

KEEP_ALL = -1
"""The decision to remove nothing, where another decision is the slot to remove."""
NEVER = float("-inf")
"""The threshold under which nothing is ever removed."""


class Policy(Protocol):
    """Tunes a threshold and makes one decision a pool. Pools are numbered 0..n_pools-1 in `pools`."""

    def tune(
        self,
        pools: IntArray,
        slots: IntArray,
        values: FloatArray,
        removal_gain: FloatArray,
        pool_weight: FloatArray,
    ) -> float:
        """Return the threshold with the largest weighted gain."""
        ...

    def choose(self, pools: IntArray, slots: IntArray, values: FloatArray, threshold: float) -> IntArray:
        """Return (n_pools,) the slot to remove, or `KEEP_ALL`."""
        ...


class RemoveWorst:
    """Keep all, or remove the message with the lowest predicted value."""

    def tune(
        self,
        pools: IntArray,
        slots: IntArray,
        values: FloatArray,
        removal_gain: FloatArray,
        pool_weight: FloatArray,
    ) -> float:
        """Return the threshold whose removals gained the most; `NEVER` unless some gain is above 0.

        A threshold lies halfway between two values that the selector tells apart. Equal values for all
        messages therefore remove nothing, rather than the lowest slot of every pool.

        Args:
            pools: (n_messages,) number of each message's pool.
            slots: (n_messages,) slot of each message.
            values: (n_messages,) out-of-fold predictions.
            removal_gain: (n_messages,) success without the message minus success of the full pool; NaN when
                unknown.
            pool_weight: (n_pools,) weight of each pool in the mean.
        """
        worst = worst_rows(pools, slots, values)
        worst = worst[np.isfinite(removal_gain[worst])]
        worst = worst[np.argsort(values[worst], kind="stable")]
        ranked = values[worst]
        total = np.cumsum(removal_gain[worst] * pool_weight[pools[worst]])
        distinct = np.unique(values)
        # A cut may only follow the last of equal values, and needs a larger value somewhere above it.
        allowed = np.append(ranked[1:] > ranked[:-1], True)[: len(ranked)] & (ranked < distinct[-1:].max(initial=NEVER))
        total = np.where(allowed, total, NEVER)
        if not len(total) or total.max() <= _NO_GAIN:
            return NEVER
        low = ranked[int(np.argmax(total))]
        high = distinct[np.searchsorted(distinct, low, side="right")]
        middle = low + (high - low) / 2
        return float(middle if middle > low else high)

    def choose(self, pools: IntArray, slots: IntArray, values: FloatArray, threshold: float) -> IntArray:
        """Return (n_pools,) the slot of the lowest value where that is strictly below the threshold."""
        worst = worst_rows(pools, slots, values)
        return np.where(values[worst] < threshold, slots[worst], KEEP_ALL).astype(np.int64)


_NO_GAIN = 1e-12  # sums of fractions that cancel exactly on paper do not in floating point

POLICIES: dict[str, Policy] = {"remove-worst": RemoveWorst()}


def load_policy(name: str) -> Policy:
    """Return the policy of that name.

    Raises:
        DhdError: the name is unknown.
    """
    if name not in POLICIES:
        raise DhdError(f"The policy {name!r} is not known. {did_you_mean(name, POLICIES)}")
    return POLICIES[name]


def worst_rows(pools: IntArray, slots: IntArray, values: FloatArray) -> IntArray:
    """Return (n_pools,) the row of each pool's lowest value; the lowest slot among equal ones."""
    order = np.lexsort((slots, values, pools))
    _, first = np.unique(pools[order], return_index=True)
    return order[first].astype(np.int64)
