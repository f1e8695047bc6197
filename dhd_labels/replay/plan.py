"""The replay plan of a problem: which arms, blocks and draws, in which order. Pure and deterministic."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from dhd_labels.config import RunConfig
from dhd_labels.records import POOL_SIZE, Arm, Replay

FULL_DRAWS = 2
"""Full-pool draws in a block (paper: two, so that identical-input disagreement can be measured)."""


def derive_seed(*parts: object) -> int:
    """Return a 31-bit sampling seed that depends on nothing but its parts."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def plan_replays(config: RunConfig, problem_id: str, pool_id: str, integrator: str) -> tuple[Replay, ...]:
    """Return the replays of one pool, in the order in which they are to be sent.

    First the unmatched arms (`alone`, then `only-i`), then the matched blocks. A block is two full draws and five
    removals, shuffled by a seed from (run seed, problem, block), so that cache and batch state cannot favour an arm;
    the place of a draw in that order is its `position`.
    """

    def replay(arm: Arm, block: int | None, draw: int, position: int | None) -> Replay:
        return Replay(problem_id, pool_id, arm, integrator, "original", block, draw, position)

    loose = [(Arm.alone(), draw) for draw in range(config.protocol.alone_draws)]
    loose += [(Arm.only(i), draw) for i in range(POOL_SIZE) for draw in range(config.protocol.only_draws)]
    planned = [replay(arm, None, draw, None) for arm, draw in loose]
    for block in range(config.protocol.blocks):
        arms = [(Arm.full(), draw) for draw in range(FULL_DRAWS)] + [(Arm.without(i), 0) for i in range(POOL_SIZE)]
        random.Random(derive_seed(config.seed, problem_id, "order", block)).shuffle(arms)
        planned += [replay(arm, block, draw, place) for place, (arm, draw) in enumerate(arms)]
    return tuple(planned)


def replay_seed(config: RunConfig, replay: Replay, attempt: int) -> int:
    """Return the sampling seed of a replay: from (problem, arm, block, draw), and the attempt when it is a retry."""
    retry = (attempt,) if attempt else ()
    return derive_seed(config.seed, replay.problem_id, replay.arm.name, replay.block, replay.draw, *retry)


def count_calls(config: RunConfig) -> Iterator[tuple[str, str, int]]:
    """Yield (role, arm, calls a problem) of a plan without retries."""
    protocol = config.protocol
    yield "recruiter", "", 1
    yield "hypothesizer", "", POOL_SIZE
    yield "integrator", "alone", protocol.alone_draws
    yield "integrator", "only i", POOL_SIZE * protocol.only_draws
    yield "integrator", "full", FULL_DRAWS * protocol.blocks
    yield "integrator", "without i", POOL_SIZE * protocol.blocks
