"""Screened allocation end to end: who goes on, what a label may use, and that no interruption changes a decision."""

from __future__ import annotations

import dataclasses
import itertools
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import EVERYTHING, oracle, pool, problem

from dhd_labels.config import RunConfig
from dhd_labels.dataset import rows
from dhd_labels.dataset.build import build
from dhd_labels.dataset.load import load_frame
from dhd_labels.engines.base import ChatReply
from dhd_labels.errors import DhdError
from dhd_labels.labels import STOPPED, UNDECIDED, bootstrap_interval
from dhd_labels.records import Arm, Outcome, Replay
from dhd_labels.replay.allocate import decide, screen_counts
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.directory import open_run
from dhd_labels.replay.estimate import plan_run
from dhd_labels.replay.plan import Studies, hash_rank, plan_replays, study_of
from dhd_labels.replay.run import RunReport, run
from dhd_labels.report.summary import summarise
from dhd_labels.stats.allocation import next_blocks
from tests.replay.test_run import Spy
from tests.replay.test_studies import results

SCREENED = ("replay.allocation=screened", "protocol.alone_draws=1", "protocol.only_draws=1")
FEW = (*SCREENED, "benchmark.size=8", "protocol.blocks=3")
MODELS = {"integrator": "m", "other_integrator": "n"}


def decisions(report: RunReport) -> dict[str, int | None]:
    store = report.directory.open_store()
    found = {p.problem_id: store.blocks(p.problem_id) for p in store.problems()}
    store.close()
    return found


def matched(result: ProblemResult) -> dict[int, list[Outcome]]:
    """The main matched blocks of a problem, by number."""
    found: dict[int, list[Outcome]] = {}
    for outcome in result.main_outcomes():
        if outcome.replay.block is not None:
            found.setdefault(outcome.replay.block, []).append(outcome)
    return found


def successes(block: list[Outcome]) -> int:
    return sum(bool(outcome.correct) for outcome in block)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> list[ProblemResult]:
    config = oracle("protocol.alone_draws=1", "protocol.only_draws=1")
    return results(run(config, tmp_path_factory.mktemp("fixed")))


@pytest.fixture(scope="module", params=[1, 2])
def screened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    config = oracle(*SCREENED, f"replay.screen_blocks={request.param}")
    return run(config, tmp_path_factory.mktemp("screened"))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_a_block_does_not_depend_on_how_many_there_are(few: int, many: int, seed: int) -> None:
    config = oracle(f"seed={seed}", "protocol.blocks=5")

    def blocks(count: int) -> list[Replay]:
        planned = plan_replays(config, "p", "pool", MODELS, Studies(), blocks=count)
        return [replay for replay in planned if replay.block is not None]

    few, many = sorted((few, many))
    assert blocks(few) == [replay for replay in blocks(many) if replay.block in range(few)]
    assert len(blocks(few)) == 7 * few


def test_who_goes_on_is_decided_by_counts_alone(screened: RunReport, fixed: list[ProblemResult]) -> None:
    """A fixed run of the same seed holds all blocks; the screened one is the part of it that the rule gives."""
    screen, given_blocks = screened.directory.config.screen_blocks, decisions(screened)
    kinds = Counter[bool]()
    for mine, whole in zip(results(screened), fixed, strict=True):
        every = matched(whole)
        mixed = any(successes(every[block]) not in (0, 7) for block in range(screen))
        expected = 5 if mixed else screen
        assert given_blocks[mine.problem.problem_id] == expected
        assert matched(mine) == {block: every[block] for block in range(expected)}, "call keys and seeds included"
        assert mine.planned == len(mine.outcomes) == len(whole.outcomes) - 7 * (5 - expected)
        kinds[mixed] += 1
    assert min(kinds[True], kinds[False]) >= 2, "the world must have problems of both kinds"


def test_values_come_from_the_further_blocks_alone(screened: RunReport) -> None:
    screen = screened.directory.config.screen_blocks
    reasons = Counter[str | None]()
    for result in results(screened):
        blocks = matched(result)
        for label in result.labels(result.main_outcomes(), "missing"):
            effects = []
            for number in range(screen, len(blocks)):
                by_arm: dict[str, list[bool]] = {}
                for outcome in blocks[number]:
                    by_arm.setdefault(outcome.replay.arm.name, []).append(bool(outcome.correct))
                effects.append(np.mean(by_arm["full"]) - by_arm[Arm.without(label.slot).name][0])
            reasons[label.trajectory_value_reason] += 1
            assert (label.n_blocks, label.screen_blocks) == (len(effects), screen)
            if effects:
                value = bootstrap_interval([float(effect) for effect in effects])
                assert (label.trajectory_value, label.ci_low, label.ci_high) == (value.mean, value.low, value.high)
            else:
                assert label.trajectory_value is label.ci_low is label.ci_high is None
                assert (label.trajectory_value_reason, label.stability) == (STOPPED, "indeterminate")
            singles = []
            for number in range(screen):
                draws = {(o.replay.arm.name, o.replay.draw): float(bool(o.correct)) for o in blocks[number]}
                singles.append(draws["full", 0] - draws[Arm.without(label.slot).name, 0])
            assert label.in_pool_effect == pytest.approx(np.mean(singles)), "every problem has these"
    assert set(reasons) == {None, STOPPED}


def test_a_second_run_makes_no_call_and_the_first_counts_each_once(
    screened: RunReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = screened.tally
    spy = Spy(monkeypatch)
    again = run(screened.directory.config, screened.directory.path)
    assert spy.seen == [] and (made.found, again.tally.made, again.tally.found) == (0, 0, made.made)
    assert decisions(again) == decisions(screened) and again.note == screened.note == ""
    summary = summarise(again.directory, results(again))
    assert summary.complete == 50 == sum(summary.allocation.values())
    assert set(summary.allocation) == {"further blocks", "stopped"}


def test_the_data_set_says_which_blocks_decided(screened: RunReport, tmp_path: Path) -> None:
    screen = screened.directory.config.screen_blocks
    report = build(screened.directory, tmp_path / "data")
    frame = load_frame(tmp_path / "data", splits=("train", "validation", "test"))
    assert set(frame["screen_blocks"]) == {screen}
    stopped = frame["trajectory_value_reason"] == STOPPED
    assert 0 < stopped.sum() < len(frame) == 250, "stopped problems stay in the data set"
    assert frame.loc[stopped, "trajectory_value"].isna().all() and (frame.loc[stopped, "n_blocks"] == 0).all()
    left_out = {row[:2]: int(row[2]) for row in report.exclusions.rows}
    assert left_out["trajectory values of a problem", STOPPED] == stopped.sum() // 5
    assert "Screened allocation" in (tmp_path / "data" / "README.md").read_text()


def test_tables_over_problems_use_blocks_that_every_problem_has(screened: RunReport, tmp_path: Path) -> None:
    screen = screened.directory.config.screen_blocks
    tables = {table.title: table for table in build(screened.directory, tmp_path / "data").tables}
    assert tables["Identical-input disagreement"].rows[0][1] == str(50 * screen)
    accuracy = {row[0]: int(row[1]) for row in tables["Accuracy by arm"].rows}
    assert accuracy["full"] == 50 * 2 * screen and accuracy["alone"] == 50


def test_the_plan_is_a_bound(screened: RunReport) -> None:
    config = screened.directory.config
    bound = plan_run(config)
    fixed_plan = plan_run(oracle("protocol.alone_draws=1", "protocol.only_draws=1"))
    assert bound.calls == fixed_plan.calls and bound.arms == fixed_plan.arms
    tokens, fixed_tokens = ([role.tokens() for role in plan.roles] for plan in (bound, fixed_plan))
    assert tokens == fixed_tokens, "at most what the fixed run of as many blocks costs"
    assert {role.role for role in bound.roles if role.at_most} == {"integrator"}
    studies = {study["study"]: study for study in bound.as_json()["studies"]}
    assert studies["further blocks"]["at_most"] and not studies["blocks"]["at_most"]
    assert studies["blocks"]["calls"] == 50 * 7 * config.screen_blocks
    assert screened.tally.made < bound.calls
    limited = plan_run(oracle(*SCREENED, "replay.further_blocks=7"))
    assert {s.study: s.calls for s in limited.studies}["further blocks"] == 7 * 7


def test_the_plan_bounds_verdicts_too() -> None:
    fixed_plan, bound = (plan_run(oracle(*EVERYTHING, *more)) for more in ((), ("replay.allocation=screened",)))
    assert [role.calls for role in bound.roles] == [role.calls for role in fixed_plan.roles]


def interrupted(config: RunConfig, folder: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> bool:
    """Run until so many answers are made, and stop as a kill would: whether it came that far."""
    count = itertools.count()

    def stop(reply: ChatReply) -> ChatReply:
        if next(count) >= after:
            raise KeyboardInterrupt
        return reply

    with monkeypatch.context() as patch:
        Spy(patch, change=stop)
        try:
            run(config, folder)
        except KeyboardInterrupt:
            return True
    return False


@pytest.mark.parametrize("budget", ["null", "5"])
def test_no_interruption_changes_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str) -> None:
    config = oracle(*FEW, f"replay.further_blocks={budget}")
    whole = run(config, tmp_path / "whole")
    rng, stops = np.random.default_rng(5), 0
    while interrupted(config, tmp_path / "killed", monkeypatch, int(rng.integers(1, 40))):
        stops += 1
    assert stops >= 4
    last = run(config, tmp_path / "killed")
    assert decisions(last) == decisions(whole)
    assert [r.outcomes for r in results(last)] == [r.outcomes for r in results(whole)]
    found = [[list(rows.message_rows(r, "missing")) for r in results(report)] for report in (last, whole)]
    assert found[0] == found[1]


def test_without_a_budget_a_limited_run_decides_what_the_whole_one_does(tmp_path: Path) -> None:
    config = oracle(*FEW)
    small = run(config, tmp_path / "run", limit=3)
    first = decisions(small)
    assert len(first) == 3 and None not in first.values() and small.note == ""
    fresh = decisions(run(config, tmp_path / "fresh"))
    assert decisions(run(config, tmp_path / "run")) == fresh and first.items() <= fresh.items()


def test_a_budget_waits_for_all_problems_and_goes_to_the_most_mixed(tmp_path: Path) -> None:
    config = oracle(*FEW, "replay.further_blocks=5")
    small = run(config, tmp_path / "run", limit=3)
    assert set(decisions(small).values()) == {None}
    assert small.note == "further blocks are given once all 8 problems are run, this time 3 were"
    assert {label.trajectory_value_reason for r in results(small) for label in r.labels(r.main_outcomes(), "missing")
            } == {UNDECIDED}  # fmt: skip
    summary = summarise(small.directory, results(small))
    assert (summary.complete, summary.allocation) == (0, {"undecided": 3}), "more may be asked for of each"
    whole = run(config, tmp_path / "run")
    assert whole.note == "" and decisions(whole) == decisions(run(config, tmp_path / "fresh"))
    counts = {r.problem.problem_id: successes(matched(r)[0]) for r in results(whole)}
    further = {problem_id: (blocks or 0) - 1 for problem_id, blocks in decisions(whole).items()}
    assert sum(further.values()) == 5 and max(further.values()) == 2
    worth = {problem_id: min(count, 7 - count) for problem_id, count in counts.items()}
    least = min(worth[p] for p, more in further.items() if more)
    assert all(further[p] for p in worth if worth[p] > least)


def test_equally_mixed_problems_share_a_budget_in_the_order_of_a_hash() -> None:
    config = oracle("replay.allocation=screened", "replay.further_blocks=9")
    ids = [f"p{n}" for n in range(20)]
    by_counts = {problem_id: [3 if n % 2 else 4] for n, problem_id in enumerate(ids)}
    got = decide(config, by_counts, 9)
    first = sorted(ids, key=lambda problem_id: hash_rank(config, problem_id))[:3]
    assert [got[p] for p in first] == [5, 5, 2] and sum(got.values()) == 20 + 9
    assert decide(config, dict(reversed(by_counts.items())), 9) == got


def answered(values: list[bool | None], status: str = "truncated", attempts: int = 1) -> ProblemResult:
    """A problem whose only block has these outcomes."""
    arms = [(Arm.full(), 0), (Arm.full(), 1), *((Arm.without(slot), 0) for slot in range(5))]
    found = []
    for (arm, draw), value in zip(arms, values, strict=False):
        replay = Replay("t:1", "p", arm, "m", "original", 0, draw, None, arm.name)
        ends = ("graded", None) if value is not None else (status, "server_error" if status == "operational" else "x")
        found.append(Outcome(replay, *ends, "7", value, "stop", 1, 0, 1, 0, "m", attempts=attempts))  # type: ignore[arg-type]
    subject = problem()
    return ProblemResult(
        subject, "ok", None, (), (), pool(subject), (), tuple(found), (), 7, screen_blocks=1, further_blocks=None
    )


@given(st.lists(st.sampled_from([True, False, None]), min_size=7, max_size=7))
def test_an_incomplete_screen_is_mixed_whatever_is_missing(values: list[bool | None]) -> None:
    config = oracle("replay.allocation=screened")
    (count,) = screen_counts(config, answered(values)) or (None,)
    right, wrong = values.count(True), values.count(False)
    assert count == (right if None not in values else max(1, min(right, wrong)))
    assert (screen_counts(config, answered(values[::-1]))) == [count], "the rule is symmetric in the seven draws"
    if None in values:
        assert next_blocks([[count or 0]], 9, 5) == [4]


def test_a_screen_waits_for_what_the_next_run_may_get() -> None:
    config = oracle("replay.allocation=screened", "protocol.max_attempts=3")
    assert screen_counts(config, answered([True] * 6)) is None
    down: list[bool | None] = [True] * 6 + [None]
    assert screen_counts(config, answered(down, "operational", attempts=2)) is None
    assert screen_counts(config, answered(down, "operational", attempts=3)) == [1]


def test_a_server_that_fails_delays_the_decision_and_changes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = oracle(*FEW)
    count = itertools.count()

    def failing(reply: ChatReply) -> ChatReply:
        if reply.text.startswith("I looked") and next(count) % 20 == 0:
            return dataclasses.replace(reply, status="server_error", text="", error="HTTP 503")
        return reply

    Spy(monkeypatch, change=failing)
    first = run(config, tmp_path / "run")
    assert "are decided once their screening blocks are answered: run again" in first.note
    assert 0 < list(decisions(first).values()).count(None) < 8
    monkeypatch.undo()
    whole = run(config, tmp_path / "run")
    assert decisions(whole) == decisions(run(config, tmp_path / "fresh")) and whole.note == ""


def test_an_answer_that_is_cut_off_for_good_lets_the_problem_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(reply: ChatReply) -> ChatReply:
        return dataclasses.replace(reply, status="truncated") if reply.text.startswith("I looked at 5") else reply

    Spy(monkeypatch, change=cut)
    report = run(oracle(*FEW), tmp_path)
    assert set(decisions(report).values()) == {3}


def test_a_decision_stays_when_answers_are_counted_otherwise(tmp_path: Path) -> None:
    first = run(oracle(*FEW), tmp_path)
    again = run(oracle(*FEW, "outcomes.no_answer=incorrect", "grading_mode=official"), tmp_path)
    assert again.tally.made == 0 and decisions(again) == decisions(first)


def edit(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute(statement, values)
    db.close()


@pytest.mark.parametrize("budget", ["null", "5"])
def test_decisions_survive_a_salvage_and_a_lost_one_is_made_again_alike(tmp_path: Path, budget: str) -> None:
    config = oracle(*FEW, f"replay.further_blocks={budget}")
    before = decisions(run(config, tmp_path))
    lost = next(problem_id for problem_id, blocks in before.items() if blocks == 3)
    edit(tmp_path, "UPDATE meta SET value='many' WHERE name=?", f"blocks of {lost}")
    for use in (lambda: run(config, tmp_path), lambda: build(open_run(tmp_path), tmp_path / "data")):
        with pytest.raises(DhdError, match="number of matched blocks 'many' .*--salvage"):
            use()
    saved = run(config, tmp_path, salvage_store=True)
    assert saved.tally.made == 0 and decisions(saved) == before


def test_what_was_given_counts_against_the_budget(tmp_path: Path) -> None:
    """The lost decision of a mixed problem for which nothing was left is made again: still nothing is."""
    config = oracle(*FEW, "replay.further_blocks=5")
    report = run(config, tmp_path)
    before = decisions(report)
    poor = next(r.problem.problem_id for r in results(report)
                if successes(matched(r)[0]) not in (0, 7) and before[r.problem.problem_id] == 1)  # fmt: skip
    edit(tmp_path, "DELETE FROM meta WHERE name=?", f"blocks of {poor}")
    again = run(config, tmp_path)
    assert decisions(again) == before and again.tally.made == 0


def test_a_decision_that_no_run_makes_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    config = oracle(*FEW)
    run(config, tmp_path)
    edit(tmp_path, "UPDATE meta SET value='90' WHERE name='blocks of oracle:002'")
    with pytest.raises(DhdError, match="for problem 'oracle:002' must be 1 to 3, got 90"):
        run(config, tmp_path)


def test_every_other_study_keeps_its_blocks(tmp_path: Path) -> None:
    """Sensitivity checks are chosen by rank and not by outcomes, so nothing decides about their blocks."""
    report = run(oracle(*EVERYTHING, "replay.allocation=screened", "protocol.blocks=4"), tmp_path)
    counted = Counter[str]()
    for result in results(report):
        counted.update(study_of(outcome.replay) for outcome in result.outcomes)
        for (integrator, order), outcomes in result.groups().items():
            main = (integrator, order) == (report.directory.integrator, "original")
            for label in result.labels(outcomes, "missing"):
                assert label.screen_blocks == int(main)
                assert main or label.n_blocks == 3
    assert counted["order"] == counted["integrator"] == 8 * 3 * 7
    assert 50 * 7 < counted["blocks"] < 50 * 4 * 7
    targets = [target for result in results(report) for target in result.targets]
    assert targets and all(t.cell for t in targets)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("replay.allocation=screened", "protocol.blocks=1"), "'protocol.blocks' must be more than .* got 1 and 1"),
        (("replay.allocation=screened", "replay.screen_blocks=5"), "must be more than .* got 5 and 5"),
        (("replay.further_blocks=9",), "'replay.further_blocks' must not be set unless .* got 9"),
        (("replay.screen_blocks=2",), "'replay.screen_blocks' must not be set unless .* got 2"),
        (("replay.allocation=screened", "replay.further_blocks=0"), "greater than or equal to 1"),
        (("replay.allocation=adaptive",), "fixed"),
        (
            ("replay.allocation=screened", "protocol.blocks=2", "masking={cases: {indeterminate: 1}}"),
            "2 blocks or more besides those of the screen, so 'protocol.blocks' must be at least 3, got 2",
        ),
    ],
)
def test_settings_that_cannot_screen_are_refused(settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(DhdError, match=words):
        oracle(*settings)


def test_a_run_that_began_before_there_was_screening_goes_on(tmp_path: Path) -> None:
    import yaml

    config = oracle("benchmark.size=2", "protocol.blocks=2")
    run(config, tmp_path)
    data = yaml.safe_load((tmp_path / "run.yaml").read_text())
    del data["config"]["replay"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(data))
    assert open_run(tmp_path).config.replay.allocation == "fixed"
    assert run(config, tmp_path).tally.made == 0
    with pytest.raises(DhdError, match="config.replay.allocation: there 'fixed', now 'screened'"):
        run(oracle("benchmark.size=2", "protocol.blocks=2", "replay.allocation=screened"), tmp_path)
