"""Plans: counts against the arithmetic of the protocol, tokens against the prompts that are really sent."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import EVERYTHING, oracle

from dhd_labels.config import RunConfig, load_config
from dhd_labels.errors import DhdError
from dhd_labels.protocol.roles import replay_call
from dhd_labels.replay.estimate import _measure, _Shape, _StandIn, _text, allot, plan_run
from dhd_labels.replay.plan import Studies, plan_shape
from dhd_labels.replay.problems import load_problems
from dhd_labels.replay.run import run
from dhd_labels.replay.run_plan import CHARACTERS_A_TOKEN, RunPlan
from tests.bench.campaign import campaign
from tests.replay.test_run import Spy


def calls(plan: RunPlan) -> dict[str, int]:
    return {role.role: role.calls for role in plan.roles}


@pytest.mark.parametrize(("preset", "masked", "swapped"), [("paper-oss", 0, 0), ("paper-gemma", 880, 2100)])
def test_the_papers_campaigns_have_the_counts_of_the_protocol(preset: str, masked: int, swapped: int) -> None:
    plan = plan_run(load_config(preset))
    problems = 4181 + 515 + 580 + 741 + 649
    assert plan.problems == problems == 6666 and plan.estimated
    studies = {s.study: (s.units, s.comparisons, s.calls) for s in plan.studies}
    assert studies["main"] == (problems, 25 * problems, 19 * problems)
    assert studies["blocks"] == (5 * 200, 5 * 200 * 5 * 7, 5 * 200 * 5 * 7)
    assert studies["order"] == (100, 100 * 3 * 7, 100 * 3 * 7)
    assert studies.get("integrator", (0, 0, 0))[2] == swapped
    assert studies.get("masking", (0, 0, 0))[2] == masked
    integrator = 19 * problems + 35_000 + 2100 + masked
    counted = calls(plan)
    assert counted["recruiter"] == problems and counted["hypothesizer"] == 5 * problems
    assert counted["integrator"] == integrator and counted.get("other_integrator", 0) == swapped
    assert counted["evaluator"] == integrator + swapped + 5 * problems
    assert plan.calls == sum(counted.values()) + 3 * 20 * (2 if swapped else 1)


def test_estimated_tokens_are_those_of_the_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With messages as long as expected, the plan's tokens are those of a run, shared calls counted once."""
    spy = Spy(monkeypatch)
    config = oracle(*EVERYTHING, "masking=null", "benchmark.size=5")
    run(config, tmp_path)
    sent: dict[str, int] = {}
    for request in spy.seen:
        kind = request.turns[0].content.splitlines()[0].strip("# ").lower()
        sent[kind] = sent.get(kind, 0) + sum(len(turn.content) + 1 for turn in request.turns)
    plan = {role.role: role for role in plan_run(load_like(config, 60)).roles}
    planned = plan["integrator"].prompt_tokens + plan["other_integrator"].prompt_tokens
    assert planned * CHARACTERS_A_TOKEN == pytest.approx(sent["integrator"], rel=0.15)
    assert plan["recruiter"].prompt_tokens * CHARACTERS_A_TOKEN == pytest.approx(sent["recruiter"], rel=0.02)
    for role in plan.values():
        assert role.prompt_tokens_computed <= role.prompt_tokens <= role.prompt_tokens_unshared


def load_like(config: RunConfig, message_tokens: int) -> RunConfig:
    return config.model_copy(update={"plan": config.plan.model_copy(update={"message_tokens": message_tokens})})


def test_shared_prefixes_are_counted_as_a_trie_of_the_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lower bound on computed characters equals the trie of the rendered prompts."""
    spy = Spy(monkeypatch)
    config = oracle(*EVERYTHING, "masking=null", "benchmark.size=2", "grading=rules", "roles.evaluator=null",
        "sensitivity.integrator=null", "roles.other_integrator=null")  # fmt: skip
    run(config, tmp_path)
    bound = 0
    prompts: dict[str, set[str]] = {}
    for request in spy.seen:
        text = "\n".join(turn.content for turn in request.turns)
        if text.startswith("# Integrator"):
            prompts.setdefault(request.affinity, set()).add(text)
    for found in prompts.values():
        ordered = sorted(found)
        common = [0] + [len(_prefix(a, b)) for a, b in itertools.pairwise(ordered)]
        bound += sum(len(text) - shared for text, shared in zip(ordered, common, strict=True))
    plan = {role.role: role for role in plan_run(load_like(config, 60)).roles}
    assert plan["integrator"].prompt_tokens_computed * CHARACTERS_A_TOKEN == pytest.approx(bound, rel=0.15)


def _prefix(one: str, other: str) -> str:
    size = 0
    while size < min(len(one), len(other)) and one[size] == other[size]:
        size += 1
    return one[:size]


def test_prices_make_a_cost() -> None:
    cheap = "plan.prices={world: {input: 1.0, output: 10.0}}"
    roles = plan_run(oracle(cheap)).roles
    assert all(r.cost == pytest.approx((r.prompt_tokens + 10 * r.output_tokens) / 1e6) for r in roles) and plan_run(
        oracle(cheap)
    ).cost == pytest.approx(sum(r.cost or 0 for r in roles))
    cached = plan_run(oracle("plan.prices={world: {input: 1.0, cached: 0.0, output: 0}}")).roles
    assert all(r.cost == pytest.approx(r.prompt_tokens_computed / 1e6) for r in cached)
    assert plan_run(oracle()).cost is None


def test_the_whole_campaign_is_planned_from_files_that_are_read(tmp_path: Path) -> None:
    plan = plan_run(campaign(tmp_path))
    assert plan.problems == 6666 and not plan.estimated
    assert plan.excluded == {"not_json": 5}
    studies = {s.study: s.calls for s in plan.studies}
    assert studies == {"main": 19 * 6666, "blocks": 35_000, "order": 2100, "integrator": 2100, "masking": 880}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.one_of(st.none(), st.integers(1, 50)))
def test_a_limit_is_shared_out_in_turn(sizes: list[int], limit: int | None) -> None:
    counts = allot(sizes, limit)
    assert sum(counts) == min(sum(sizes), limit if limit is not None else sum(sizes))
    assert all(count <= size for count, size in zip(counts, sizes, strict=True))
    free = [count for count, size in zip(counts, sizes, strict=True) if count < size]
    assert not free or max(counts) - min(free) <= 1 or max(free) - min(free) <= 1


def test_a_limited_plan_counts_what_a_limited_run_calls(tmp_path: Path) -> None:
    config = oracle(*EVERYTHING, "masking=null", "grading=rules", "roles.evaluator=null", "protocol.repeat_problems=9")
    planned = {role.role: role.calls for role in plan_run(config, 4).roles}
    report = run(config, tmp_path, limit=4)
    store = report.directory.open_store()
    made: dict[str, int] = {}
    for row in store.totals():
        made[row["role"]] = made.get(row["role"], 0) + row["calls"]
    store.close()
    assert made == planned


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("masking={cases: {wrong_helpful: -3}}", "greater than or equal to 0"),
        ("plan.prices={oss: {input: 1, output: 1}}", "must be of known names, got 'oss'"),
        ("plan.output_tokens={integrater: 3}", "Did you mean 'integrator'"),
        ("masking={targets: [{problem_id: a, slot: 1}, {problem_id: a, slot: 1}]}", "must differ"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting: str, words: str) -> None:
    with pytest.raises(DhdError, match=words):
        oracle(setting)


def test_a_limited_plan_masks_only_what_is_listed() -> None:
    config = oracle("masking={cases: {indeterminate: 2}, targets: [{problem_id: 'oracle:001', slot: 0}], repeats: 1}")
    units = [{s.study: s.units for s in plan_run(config, limit).studies}["masking"] for limit in (5, None)]
    assert units == [1, 3]
    assert "masking" not in {s.study for s in plan_run(config, 1).studies}, "oracle:001 is not among one problem"


def test_more_masked_messages_than_there_are_cannot_be_planned() -> None:
    plan = plan_run(oracle("masking={cases: {indeterminate: 100000}, repeats: 1}", "benchmark.size=3"))
    assert {s.study: s.units for s in plan.studies}["masking"] == 15


def test_shared_prefixes_of_prompts_of_the_expected_length_are_counted_exactly() -> None:
    """The formula against the trie of every rendered prompt, masked messages aside."""
    config = oracle(*EVERYTHING, "masking=null", "protocol.subsets=[[0,2],[1,3,4]]")
    problem = load_problems(config)[0][0]
    stand_in = _StandIn(config, problem)
    for role in ("integrator", "other_integrator"):
        replays = [r for r in plan_shape(config, Studies(True, True, True)) if r.role == role]
        prompts = {_text(replay_call(config, problem.visible(), stand_in.pool, r).turns) for r in replays}
        ordered = sorted(prompts)
        common = [0, *(len(_prefix(a, b)) for a, b in itertools.pairwise(ordered))]
        trie = sum(len(text) - shared for text, shared in zip(ordered, common, strict=True))
        counted = _measure(config, problem).computed(_Shape.of(config, replays))
        # Messages begin alike ("Message 1", "Message 2"); to which part these few characters belong is not tracked.
        assert abs(trie - counted) <= len("\n\nMessage ") * len(prompts)


def test_merged_draws_read_their_prompt_once_and_are_written_each() -> None:
    draws = ("protocol.alone_draws=4", "protocol.only_draws=2", "protocol.blocks=1", "benchmark.size=2")
    apart, together = (plan_run(oracle(*draws, f"protocol.merge_draws={on}")).roles[2] for on in (False, True))
    assert together.calls == apart.calls and together.output_tokens == apart.output_tokens
    assert together.prompt_tokens_unshared == apart.prompt_tokens_unshared
    saved = (apart.prompt_tokens - together.prompt_tokens) / apart.prompt_tokens
    assert 0.1 < saved < 8 / 21, "of 21 prompts a problem 8 short ones are not sent"
    assert together.prompt_tokens_computed == apart.prompt_tokens_computed
