"""Outcomes of blocks with known success rates, and what screening would have kept of them."""

from __future__ import annotations

import numpy as np

from dhd_labels.stats.allocation import next_blocks
from dhd_labels.stats.blocks import Blocks


def near_deterministic(
    rng: np.random.Generator, n: int, share: float, noise: float = 0.01, effect: float = 0.92
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, 7) success rates like the paper's, and which problems need their message in slot 0.

    Problems are nearly always solved, or nearly never. In a share of them one message makes the difference.
    """
    base = np.where(rng.random(n) < 0.8, 1 - noise, noise)
    needed = rng.random(n) < share
    base[needed] = 1 - noise
    rates = np.repeat(base[:, None], 7, axis=1)
    rates[needed, 2] -= effect
    return rates, needed


def noisy(rng: np.random.Generator, n: int, share: float, effect: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """Return rates of a world in which most blocks are mixed, whether a message matters or not."""
    rates = np.repeat(rng.uniform(0.75, 0.95, (n, 1)), 7, axis=1)
    needed = rng.random(n) < share
    rates[needed, 2] = np.maximum(0.02, rates[needed, 2] - effect)
    return rates, needed


def drawn(rng: np.random.Generator, rates: np.ndarray, n_blocks: int) -> Blocks:
    """Return all blocks of all problems."""
    return Blocks.of(rng.random((len(rates), n_blocks, 7)) < rates[:, None, :])


def screened(whole: Blocks, max_blocks: int, budget: int | None = None, screen_blocks: int = 1) -> Blocks:
    """Return the blocks that screening would have made, asked again until it wants no more."""
    counts = whole.counts.reshape(whole.n_pools, -1).tolist()
    left = len(whole.pool) if budget is None else budget
    have = [0] * whole.n_pools
    while True:
        so_far = [c[:h] for c, h in zip(counts, have, strict=True)]
        more = next_blocks(so_far, left, max_blocks, screen_blocks)
        if not any(more):
            return whole.where(whole.number < np.array(have)[whole.pool])
        have = [h + m for h, m in zip(have, more, strict=True)]
        left -= sum(more)
