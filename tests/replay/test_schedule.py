"""The order in which a problem's calls are sent: shared prefixes together, matched blocks as the plan shuffled them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from support import EVERYTHING, MAIN_PASS, oracle

from dhd_labels.config import RunConfig
from dhd_labels.records import Replay
from dhd_labels.replay.plan import Studies, Target, call_of, plan_replays
from dhd_labels.replay.schedule import is_free, merged, sending_order

MODELS = {"integrator": "m", "other_integrator": "n"}


def planned(config: RunConfig) -> tuple[Replay, ...]:
    studies, targets = Studies(order=True, integrator=True), [Target("p", 2, None)]
    return plan_replays(config, "p", "pool", MODELS, studies, targets)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


@pytest.mark.parametrize("settings", [EVERYTHING, (*MAIN_PASS, "protocol.only_draws=3", "protocol.subsets=[[1,3]]")])
def test_every_call_is_sent_once(settings: tuple[str, ...]) -> None:
    replays = planned(oracle(*settings))
    sent = [call_of(replay) for replay in sending_order(replays)]
    assert len(set(sent)) == len(sent) and set(sent) == {call_of(replay) for replay in replays}


@pytest.mark.parametrize("share", [True, False])
def test_unmatched_arms_compute_every_shared_prefix_once_with_room_for_one_prompt(share: bool) -> None:
    """A cache that holds the last prompt alone is enough, and the longest prompt comes first."""
    free = [r for r in sending_order(planned(oracle(*MAIN_PASS, f"protocol.share={share}"))) if is_free(r)]
    assert free[0].shown == (0, 1, 2, 3, 4)
    prompts = [replay.shown for replay in free]
    computed = len(prompts[0]) + sum(len(now) - common(last, now) for last, now in itertools.pairwise(prompts))
    tree = {prompt[:size] for prompt in prompts for size in range(1, len(prompt) + 1)}
    assert computed == len(tree)
    in_plan_order = [r.shown for r in planned(oracle(*MAIN_PASS)) if is_free(r)]
    worse = sum(len(now) - common(last, now) for last, now in itertools.pairwise(in_plan_order))
    assert worse > computed, "the order of the plan would compute more"


def test_the_arms_of_a_block_stay_in_their_shuffled_order() -> None:
    config = oracle(*EVERYTHING)
    replays = planned(config)
    sent = sending_order(replays)
    bound = [replay for replay in sent if not is_free(replay)]
    assert bound == [replay for replay in replays if not is_free(replay)]
    blocks = [r for r in bound if r.mask is None and r.order == "original" and r.role == "integrator"]
    orders = []
    for block, group in itertools.groupby(blocks, key=lambda replay: replay.block):
        inside = list(group)
        assert [replay.position for replay in inside] == list(range(7)), block
        orders.append([replay.arm.name for replay in inside])
    assert len({tuple(order) for order in orders}) == len(orders) == 5, "every block has an order of its own"
    assert sent.index(blocks[0]) > max(sent.index(replay) for replay in sent if is_free(replay))


def test_only_unmatched_draws_of_one_prompt_are_merged() -> None:
    config = oracle(*EVERYTHING, "protocol.alone_draws=4", "protocol.only_draws=2", "protocol.share=false")
    groups = list(merged(sending_order(planned(config))))
    assert sum(map(len, groups)) == len(sending_order(planned(config)))
    several = [group for group in groups if len(group) > 1]
    assert all(is_free(replay) for group in several for replay in group)
    assert all(len({replay.shown for replay in group}) == 1 for group in groups)
    shown = [group[0].shown for group in groups if is_free(group[0])]
    assert len(set(shown)) == len(shown), "no prompt is left in two requests"
    assert {len(group) for group in several if not group[0].shown} == {4}
    # only-0 twice, and prefix-1 and without-1-of-2, which show the same message
    assert {len(group) for group in several if group[0].shown == (0,)} == {4}
