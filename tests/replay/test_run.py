"""Whole runs on the scripted engine: known labels, resume, retries, isolation of prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import oracle

from dhd_labels import oracle as world_module
from dhd_labels.engines.base import ChatReply, ChatRequest
from dhd_labels.engines.scripted import ScriptedEngine
from dhd_labels.errors import DhdError
from dhd_labels.labels import direction
from dhd_labels.oracle import World
from dhd_labels.records import Arm, MessageLabel
from dhd_labels.replay import run as run_module
from dhd_labels.replay.collect import ProblemResult, collect
from dhd_labels.replay.run import RunReport, run
from dhd_labels.report.summary import summarise


def results(report: RunReport) -> list[ProblemResult]:
    store = report.directory.open_store()
    found = list(collect(store, report.directory.config, report.directory.models))
    store.close()
    return found


def labels(report: RunReport) -> dict[tuple[int, int], MessageLabel]:
    return {
        (int(r.problem.problem_id.partition(":")[2]), label.slot): label
        for r in results(report)
        if r.pool
        for label in r.labels(r.main_outcomes(), "missing")
    }


class Spy:
    """Wraps the scripted engine and records every request that goes out."""

    seen: list[ChatRequest]

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change: Any = None) -> None:
        self.seen = []
        real = ScriptedEngine.generate
        spy = self

        def generate(engine: ScriptedEngine, requests: Iterable[Any]) -> Iterator[Any]:
            def watched() -> Iterator[Any]:
                for token, request in requests:
                    spy.seen.append(request)
                    yield token, request

            for group in real(engine, watched()):
                yield [(token, change(reply) if change else reply) for token, reply in group]

        monkeypatch.setattr(ScriptedEngine, "generate", generate)


def test_exact_world_gives_the_known_labels(tmp_path: Path) -> None:
    world = World("exact")
    found = labels(run(oracle("engines.world.world=exact", "protocol.blocks=2"), tmp_path))
    assert len(found) == 250
    for (number, slot), label in found.items():
        truth = world.trajectory_value(number, slot)
        alone = world.success_probability(number, ())
        assert label.trajectory_value == label.in_pool_effect == label.ci_low == label.ci_high == truth
        assert label.single_effect == world.success_probability(number, (slot,)) - alone
        assert label.proposal_correct is world.clues(number)[slot].correct
        if label.proposal_correct is not None:
            assert label.cell == f"{'correct' if label.proposal_correct else 'wrong'}_{direction(truth)}"
    cells = {label.cell for label in found.values()}
    assert len(cells - {None}) == 6, "the world must exercise every cell"


def test_stochastic_world_matches_in_expectation(tmp_path: Path) -> None:
    """Estimation errors over 250 messages must average to 0 and spread as binomial sampling says."""
    world = World("stochastic")
    found = labels(run(oracle("protocol.blocks=4"), tmp_path))
    errors, variances = [], []
    for (number, slot), label in found.items():
        assert label.trajectory_value is not None
        full = world.success_probability(number, Arm.full().kept)
        without = world.success_probability(number, Arm.without(slot).kept)
        errors.append(label.trajectory_value - world.trajectory_value(number, slot))
        variances.append((full * (1 - full) / 2 + without * (1 - without)) / 4)
    assert abs(np.mean(errors)) < 0.03
    # Messages of a pool share the full draws, so about 100 independent squares: the ratio has a spread near 0.14.
    assert 0.6 < np.sum(np.square(errors)) / np.sum(variances) < 1.4


def test_a_second_run_makes_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = oracle("benchmark.size=4", "protocol.blocks=2")
    first = run(config, tmp_path)
    spy = Spy(monkeypatch)
    second = run(config, tmp_path)
    assert spy.seen == [] and second.tally.made == 0 and second.tally.found == first.tally.made
    assert labels(first) == labels(second)


def test_limit_can_be_raised_later(tmp_path: Path) -> None:
    config = oracle("benchmark.size=6", "protocol.blocks=2")
    small = run(config, tmp_path, limit=2)
    whole = run(config, tmp_path)
    assert whole.tally.found == small.tally.made
    assert [r.problem.problem_id for r in results(whole)] == [f"oracle:{n:03d}" for n in range(6)]
    fresh = run(config, tmp_path / "fresh")
    assert labels(whole) == labels(fresh)


def test_another_config_in_the_directory_is_refused_with_the_keys(tmp_path: Path) -> None:
    run(oracle("benchmark.size=2", "protocol.blocks=2"), tmp_path)
    before = (tmp_path / "store.sqlite").read_bytes()
    with pytest.raises(DhdError) as caught:
        run(oracle("benchmark.size=2", "protocol.blocks=3", "roles.integrator.temperature=0.9"), tmp_path)
    text = str(caught.value)
    assert "config.protocol.blocks: there 2, now 3" in text
    assert "config.roles.integrator.temperature: there 0.7, now 0.9" in text
    assert "recruiter" not in text
    assert (tmp_path / "store.sqlite").read_bytes() == before


def test_prompts_show_what_the_arm_says_and_never_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    # Without right proposals no message carries the reference either, so it must be in no prompt at all.
    monkeypatch.setattr(World, "clues", lambda self, n: tuple(CLUE for _ in range(5)))
    CLUE = world_module.Clue("no idea", None, 0.0)
    run(oracle("benchmark.size=5", "protocol.blocks=2"), tmp_path)
    references = {n: World("stochastic").reference(n) for n in range(5)}
    kinds: dict[str, int] = {}
    for request in spy.seen:
        text = "\n".join(turn.content for turn in request.turns)
        number = world_module.card_number(text)
        kinds[text.splitlines()[0]] = kinds.get(text.splitlines()[0], 0) + 1
        assert references[number] not in text
        if not text.startswith("# Integrator"):
            assert world_module.visible_clues(text) == (), "recruiter and hypothesizers see no message"
            assert text.count("Reader ") <= 1, "a hypothesizer sees its own role only"
    assert kinds == {"# Recruiter": 5, "# Hypothesizer": 25, "# Integrator": 5 * (4 + 20 + 14)}


def test_arms_show_exactly_their_messages_in_slot_order_with_original_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    run(oracle("benchmark.size=1", "protocol.blocks=1", "protocol.alone_draws=1", "protocol.only_draws=1"), tmp_path)
    shown = []
    for request in spy.seen[6:]:
        text = request.turns[-1].content
        kept = world_module.visible_clues(text)
        numbers = [int(line.split()[1].rstrip(",")) for line in text.splitlines() if line.startswith("Message ")]
        assert numbers == [slot + 1 for slot in kept]
        shown.append(kept)
    full = tuple(range(5))
    removals = [tuple(s for s in full if s != i) for i in full]
    assert sorted(shown) == sorted([(), *[(i,) for i in full], full, full, *removals])


def test_identical_inputs_are_separate_calls_with_their_own_keys(tmp_path: Path) -> None:
    report = run(oracle("benchmark.size=1", "protocol.blocks=3"), tmp_path)
    store = report.directory.open_store()
    rows = [rows[-1] for ticket, rows in store.calls("oracle:000").items() if "/full/" in ticket]
    assert len(rows) == 6 == len({row.key for row in rows}) == len({row.seed for row in rows})
    store.close()


def test_failed_calls_are_retried_with_new_seeds_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(reply: ChatReply) -> ChatReply:
        return dataclasses.replace(reply, status="empty", text="")

    spy = Spy(monkeypatch, change=empty)
    report = run(oracle("benchmark.size=2"), tmp_path)
    assert len(spy.seen) == 2 * 3 and len({request.seed for request in spy.seen}) == 6
    totals = summarise(report.directory, results(report))
    assert totals.with_pool == 0 and totals.failed == {"no_roles (recruiter: empty)": 2}
    run(oracle("benchmark.size=2"), tmp_path)
    assert len(spy.seen) == 6, "spent attempts are not repeated"


def test_a_server_error_waits_for_the_next_run_and_the_block_is_repaired(tmp_path: Path) -> None:
    config = oracle("benchmark.size=8", "engines.world.fault_rate=0.08", "protocol.blocks=3")
    first = run(config, tmp_path)
    before = summarise(first.directory, results(first))
    assert any("server_error" in reason for reason in before.failed)
    for _ in range(4):
        last = run(config, tmp_path)
    after = summarise(last.directory, results(last))
    assert sum(after.failed.values()) < sum(before.failed.values())
    assert after.replays_done > before.replays_done
    known = {o.replay: o for r in results(first) for o in r.outcomes if o.status == "graded"}
    assert known
    assert all(known.get(o.replay, o) == o for r in results(last) for o in r.outcomes), (
        "a settled outcome never changes"
    )


def test_truncated_replies_are_missing_and_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(reply: ChatReply) -> ChatReply:
        if reply.text.startswith("I looked"):
            return dataclasses.replace(reply, status="truncated", finish_reason="length")
        return reply

    spy = Spy(monkeypatch, change=cut)
    report = run(oracle("benchmark.size=1", "protocol.blocks=2"), tmp_path)
    assert len(spy.seen) == 6 + 4 + 20 + 14
    outcomes = results(report)[0].outcomes
    assert {o.status for o in outcomes} == {"truncated"} and {o.correct for o in outcomes} == {None}
    assert all(label.trajectory_value is None for label in labels(report).values())


def test_a_store_made_with_another_prompt_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = oracle("benchmark.size=1", "protocol.blocks=1")
    run(config, tmp_path)
    real = run_module.recruiter_call

    def altered(*args: Any) -> Any:
        call = real(*args)
        first = dataclasses.replace(call.turns[0], content=call.turns[0].content + " Be brief.")
        return dataclasses.replace(call, turns=(first, *call.turns[1:]))

    monkeypatch.setattr(run_module, "recruiter_call", altered)
    with pytest.raises(DhdError, match="'oracle:000/recruiter' .* was made with another prompt"):
        run(config, tmp_path)


def test_interrupt_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = oracle("benchmark.size=2", "protocol.blocks=2")
    calls = 0

    def stop_midway(stage: str, done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, progress=stop_midway)
    again = run(config, tmp_path)
    assert again.tally.found >= 30
    assert labels(again) == labels(run(config, tmp_path / "fresh"))
