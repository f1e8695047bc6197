from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support import oracle

from dhd_labels.protocol.roles import replay_ticket
from dhd_labels.records import Arm
from dhd_labels.replay.plan import Studies, count_calls, derive_seed, plan_replays, replay_seed

MODELS = {"integrator": "m", "other_integrator": "n"}


@given(blocks=st.integers(1, 8), alone=st.integers(1, 4), only=st.integers(1, 3), seed=st.integers(0, 10**6))
def test_plan_holds_every_arm_exactly_as_often_as_asked(blocks: int, alone: int, only: int, seed: int) -> None:
    config = oracle(
        f"protocol.blocks={blocks}", f"protocol.alone_draws={alone}", f"protocol.only_draws={only}", f"seed={seed}"
    )
    planned = plan_replays(config, "p", "pool", MODELS, Studies())
    assert planned == plan_replays(config, "p", "pool", MODELS, Studies())
    counts = Counter(replay.arm.name for replay in planned)
    assert counts["alone"] == alone and counts["full"] == 2 * blocks
    assert all(counts[Arm.only(i).name] == only and counts[Arm.without(i).name] == blocks for i in range(5))
    assert count_calls(planned) == {"integrator": len(planned)}
    tickets = {replay_ticket(replay) for replay in planned}
    seeds = {replay_seed(config, replay, 0) for replay in planned}
    assert len(tickets) == len(seeds) == len(planned)
    for block in range(blocks):
        inside = [replay for replay in planned if replay.block == block]
        assert [replay.position for replay in inside] == list(range(7))
    assert all(replay.position is None for replay in planned if replay.block is None)


def test_arm_order_is_shuffled_inside_blocks_and_differs_between_them() -> None:
    config = oracle("protocol.blocks=30")
    planned = plan_replays(config, "p", "pool", MODELS, Studies())
    orders = {tuple(r.arm.name for r in planned if r.block == block) for block in range(30)}
    assert len(orders) > 25
    first = Counter(r.arm.name for r in planned if r.position == 0)
    assert len(first) >= 5


def test_seeds_depend_on_problem_arm_block_draw_attempt_and_nothing_else() -> None:
    config = oracle()
    one, two = (plan_replays(config, "p", pool, MODELS, Studies())[10] for pool in ("pool-a", "pool-b"))
    assert replay_seed(config, one, 0) == replay_seed(config, two, 0) != replay_seed(config, one, 1)
    assert replay_seed(oracle("seed=9"), one, 0) != replay_seed(config, one, 0)
    assert 0 <= derive_seed("x") < 2**31
