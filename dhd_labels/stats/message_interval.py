"""What a per-message interval from a few blocks is worth: its exact coverage, and how often it calls noise stable.

The interval is `labels.bootstrap_interval` and the call `labels.stability_of`. For known success rates with and without
the message there are few possible tallies of block effects, so both chances are sums over all of them; nothing is
drawn. Estimand: the trajectory value, full rate - removal rate. Unit: a message. Print these beside every
table of stable messages; claims rest on `exact_null`, `pooled` and intervals over problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, factorial, prod

import numpy as np

from dhd_labels.labels import bootstrap_interval, stability_of
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.repeatable import LETTERS, tallies


@dataclass(frozen=True, slots=True)
class MessageInterval:
    """Chances of the interval of one message.

    Attributes:
        coverage: that it contains the trajectory value.
        stable_helpful: that it is called stable helpful.
        stable_harmful: that it is called stable harmful.
    """

    coverage: float
    stable_helpful: float
    stable_harmful: float


def message_interval(n_blocks: int, full_rate: float, removal_rate: float) -> MessageInterval:
    """Return the chances for a message with these success rates, over independent blocks of independent draws.

    Args:
        n_blocks: complete blocks, 1 or more.
        full_rate: chance that a draw with the full pool succeeds.
        removal_rate: chance that a draw without the message succeeds; equal rates are the null.
    """
    for name, rate in (("full_rate", full_rate), ("removal_rate", removal_rate)):
        if not 0 <= rate <= 1:
            raise ValueError(f"The {name} must be in 0..1, got {rate}")
    letter = _letter_chances(full_rate, removal_rate)
    truth, found = full_rate - removal_rate, dict.fromkeys(("covered", "stable_helpful", "stable_harmful"), 0.0)
    for tally in tallies(n_blocks):
        ways = factorial(n_blocks) // prod(map(factorial, tally))
        chance = ways * prod(p**times for p, times in zip(letter, tally, strict=True))
        interval = bootstrap_interval(np.repeat(np.arange(LETTERS) / FULL_DRAWS - 1, tally).tolist())
        called = stability_of(interval, n_blocks)
        if called != "indeterminate":
            found[called] += chance
        if interval.low - 1e-9 <= truth <= interval.high + 1e-9:
            found["covered"] += chance
    return MessageInterval(found["covered"], found["stable_helpful"], found["stable_harmful"])


def _letter_chances(full_rate: float, removal_rate: float) -> list[float]:
    """Return the chances that twice a block's effect is -2, -1, 0, 1, 2."""
    chances = [0.0] * LETTERS
    for full in range(FULL_DRAWS + 1):
        chance = comb(FULL_DRAWS, full) * full_rate**full * (1 - full_rate) ** (FULL_DRAWS - full)
        chances[full] += chance * removal_rate
        chances[full + FULL_DRAWS] += chance * (1 - removal_rate)
    return chances
