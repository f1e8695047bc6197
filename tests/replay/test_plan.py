from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support import EVERYTHING, MAIN_PASS, oracle, problem

from dhd_labels.config import load_config
from dhd_labels.protocol.roles import replay_ticket
from dhd_labels.records import Arm
from dhd_labels.replay.plan import (
    Studies,
    Target,
    call_of,
    choose_studies,
    count_calls,
    derive_seed,
    plan_replays,
    plan_shape,
    replay_seed,
    study_of,
)

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


draws = st.integers(0, 3)


@given(
    alone=draws, only=draws, prefix=draws, without=draws, share=st.booleans(),
    subsets=st.lists(st.sets(st.integers(0, 4)).map(sorted), max_size=3, unique_by=tuple),
)  # fmt: skip
def test_every_message_is_in_each_arm_exactly_as_its_name_says(
    alone: int, only: int, prefix: int, without: int, share: bool, subsets: list[list[int]]
) -> None:
    config = oracle(
        f"protocol.alone_draws={alone}", f"protocol.only_draws={only}", f"protocol.prefix_draws={prefix}",
        f"protocol.without_draws={without}", f"protocol.subsets={subsets}", f"protocol.share={share}",
        "protocol.blocks=1",
    )  # fmt: skip
    main = [r for r in plan_replays(config, "p", "pool", MODELS, Studies()) if study_of(r) == "main"]
    expected = Counter[tuple[str, tuple[int, ...]]]()
    expected["alone", ()] += alone
    for i in range(5):
        expected[f"only-{i}", (i,)] += only
    for k in range(1, 6):
        expected["full" if k == 5 else f"prefix-{k}", tuple(range(k))] += prefix
        if k > 1:
            for i in range(k):
                expected[f"without-{i}-of-{k}", tuple(s for s in range(k) if s != i)] += without
    for subset in subsets:
        expected[f"subset-{'.'.join(map(str, subset)) or 'none'}", tuple(subset)] += 1
    assert Counter((r.arm.name, r.arm.kept) for r in main) == +expected
    calls = {call_of(r) for r in main}
    if share:
        assert len(calls) == len({(r.arm.kept, r.draw) for r in main}), "one call for each set of messages and draw"
    else:
        assert len(calls) == len(main) == len({replay_seed(config, r, 0) for r in main})
    by_call = {call_of(r): r.shown for r in main}
    assert all(by_call[call_of(r)] == r.shown for r in main), "replays of one call show the same messages"
    assert len({replay_ticket(r) for r in main}) == len(calls)


def test_the_papers_main_pass_is_25_comparisons_of_19_message_sets() -> None:
    config = load_config("paper-oss")
    planned = [r for r in plan_shape(config, Studies(False)) if study_of(r) == "main"]
    assert len(planned) == 25 and len({call_of(r) for r in planned}) == 19 == len({r.shown for r in planned})
    apart = [r for r in plan_shape(oracle(*MAIN_PASS), Studies(False)) if study_of(r) == "main"]
    assert len({call_of(r) for r in apart}) == 25


def test_sensitivity_and_masking_have_calls_and_seeds_of_their_own() -> None:
    config = oracle(*EVERYTHING)
    targets = [Target("p", 1, None), Target("p", 4, None)]
    planned = plan_replays(config, "p", "pool", MODELS, Studies(True, True, True), targets)
    count = Counter(study_of(replay) for replay in planned)
    assert count == {"main": 25, "blocks": 35, "order": 21, "integrator": 21, "masking": 2 * 2 * 8}
    assert count_calls(planned) == {"integrator": 19 + 35 + 21 + 32, "other_integrator": 21}
    assert len({replay_ticket(r) for r in planned}) == len({call_of(r) for r in planned})
    seeds = {replay_seed(config, r, attempt) for r in planned for attempt in range(3)}
    assert len(seeds) == 3 * len({call_of(r) for r in planned})
    assert all(r.shown == tuple(reversed(r.arm.kept)) for r in planned if study_of(r) == "order")
    assert all(r.integrator == "n" for r in planned if study_of(r) == "integrator")
    for target in targets:
        for repeat in range(2):
            cells = [r for r in planned if r.mask and r.mask.target == target.slot and r.block == repeat]
            assert Counter(r.mask.condition for r in cells if r.mask) == {
                "full": 2, "repeat": 2, "removal": 1, "neutral": 1, "answer_masked": 1, "reasoning_masked": 1
            }  # fmt: skip
            assert [r.position for r in cells] == list(range(8))
            assert all((r.arm == Arm.without(target.slot)) == (r.mask.condition == "removal") for r in cells if r.mask)
    orders = {tuple(r.mask.condition for r in planned if r.mask and (r.mask.target, r.block) == at) for at in
              ((1, 0), (1, 1), (4, 0), (4, 1))}  # fmt: skip
    assert len(orders) > 1, "conditions are shuffled anew in each repeat"


@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 10), st.integers(0, 99))
def test_studies_are_nested_exact_in_number_and_stable(n: int, repeated: int, checked: int, seed: int) -> None:
    checked = min(checked, repeated)
    config = oracle(
        f"seed={seed}", f"protocol.repeat_problems={repeated}", f"sensitivity.order={{problems: {checked}, blocks: 1}}"
    )
    problems = [problem(problem_id=f"{name}:{i}", benchmark=name) for name in ("a", "b") for i in range(n)]
    chosen = choose_studies(config, problems)
    for name in ("a", "b"):
        mine = [chosen[p.problem_id] for p in problems if p.benchmark == name]
        assert sum(s.blocks for s in mine) == min(n, repeated) and sum(s.order for s in mine) == min(n, checked)
        assert all(s.blocks or not s.order for s in mine)
    assert choose_studies(config, problems[::-1]) == chosen
