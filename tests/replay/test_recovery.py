"""What a run recovers from: servers that were down for long, edited files, benchmarks that grow."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import EVERYTHING, oracle

from dhd_labels.dataset.build import build
from dhd_labels.engines.base import ChatReply
from dhd_labels.errors import DhdError
from dhd_labels.records import Message, Pool
from dhd_labels.replay.directory import open_run
from dhd_labels.replay.estimate import plan_run
from dhd_labels.replay.run import run
from dhd_labels.report.summary import summarise
from tests.engines.fault_server import FaultServer, ScriptedFront, failure, serving
from tests.replay.test_run import Spy
from tests.replay.test_studies import results

SMALL = ("benchmark.size=3", "protocol.blocks=2")


def down(reply: ChatReply) -> ChatReply:
    if reply.text.startswith("I looked"):
        return dataclasses.replace(reply, status="server_error", text="", error="HTTP 503")
    return reply


def test_a_server_that_is_down_for_many_runs_costs_no_call_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spy(monkeypatch, change=down)
    for _ in range(5):
        failed = run(oracle(*SMALL), tmp_path)
    assert {o.status for r in results(failed) for o in r.outcomes} == {"operational"}
    monkeypatch.undo()
    healthy = run(oracle(*SMALL), tmp_path)
    outcomes = [o for r in results(healthy) for o in r.outcomes]
    assert {o.status for o in outcomes} == {"graded"} and {o.attempts for o in outcomes} == {6}


def test_spent_attempts_can_be_raised_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch, change=lambda reply: dataclasses.replace(reply, status="empty", text=""))
    run(oracle(*SMALL), tmp_path)
    assert len(spy.seen) == 3 * 3
    monkeypatch.undo()
    assert run(oracle(*SMALL), tmp_path).tally.made == 0
    more = run(oracle(*SMALL, "protocol.max_attempts=4"), tmp_path)
    assert all(r.pool for r in results(more))


def edit(folder: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute(statement, values)
    db.close()


def pool_of(folder: Path, problem_id: str) -> dict[str, Any]:
    with sqlite3.connect(folder / "store.sqlite") as db:
        (text,) = db.execute("SELECT content FROM pools WHERE problem_id=?", (problem_id,)).fetchone()
    db.close()
    found: dict[str, Any] = json.loads(text)
    return found


def test_a_pool_that_is_not_what_was_cached_is_refused_and_made_anew(tmp_path: Path) -> None:
    """Another problem's pool; and an edited message with its id worked out again."""
    config = oracle(*SMALL)
    first = run(config, tmp_path)
    other = pool_of(tmp_path, "oracle:001")
    mine = pool_of(tmp_path, "oracle:000")
    messages = [Message(**m) for m in mine["messages"]]
    messages[2] = dataclasses.replace(messages[2], key_idea="a better idea", raw="a better idea")
    forged = dataclasses.asdict(Pool.of("oracle:000", mine["actor"], messages))
    quiet = [Message(**m) for m in mine["messages"]]
    quiet[2] = dataclasses.replace(quiet[2], key_idea="a better idea")
    subtle = dataclasses.asdict(Pool.of("oracle:000", mine["actor"], quiet))  # the raw text is left alone
    for content, words in (
        (other, "it is the pool of problem 'oracle:001'"),
        (forged, "it is not the pool that was cached"),
        (subtle, "it is not the pool that was cached"),
    ):
        edit(tmp_path, "UPDATE pools SET content=? WHERE problem_id='oracle:000'", json.dumps(content))
        for use in (lambda: run(config, tmp_path), lambda: build(open_run(tmp_path), tmp_path / "data")):
            with pytest.raises(DhdError, match=f"The pool of problem 'oracle:000' .* was changed: {words}"):
                use()
    saved = run(config, tmp_path, salvage_store=True)
    assert saved.tally.made == 0 and pool_of(tmp_path, "oracle:000") == mine
    assert [r.outcomes for r in results(saved)] == [r.outcomes for r in results(first)]


@pytest.mark.parametrize("change", [{"seed": 7}, {"protocol": {"renumber": True}}])
def test_an_edited_run_file_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    run(oracle(*SMALL), tmp_path)
    data = yaml.safe_load((tmp_path / "run.yaml").read_text())
    for key, value in change.items():
        data["config"][key] = {**data["config"][key], **value} if isinstance(value, dict) else value
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(DhdError, match="must be the one that store.sqlite was made with"):
        build(open_run(tmp_path), tmp_path / "data")
    (tmp_path / "run.yaml").unlink()
    with pytest.raises(DhdError, match="must be the one that store.sqlite was made with"):
        run(oracle(*SMALL, "seed=7"), tmp_path)
    assert not (tmp_path / "run.yaml").exists(), "a refused run leaves no trace"
    assert run(oracle(*SMALL), tmp_path).tally.made == 0


def test_how_answers_are_counted_may_change_without_a_call(tmp_path: Path) -> None:
    run(oracle(*SMALL), tmp_path)
    again = run(oracle(*SMALL, "outcomes.no_answer=incorrect", "grading_mode=official"), tmp_path)
    assert again.tally.made == 0 and again.directory.config.outcomes.no_answer == "incorrect"


def test_a_target_that_no_run_chooses_is_damage(tmp_path: Path) -> None:
    config = oracle(*SMALL, "masking={repeats: 1, targets: [{problem_id: 'oracle:001', slot: 0}]}")
    run(config, tmp_path)
    edit(tmp_path, "UPDATE targets SET slot=9")
    with pytest.raises(DhdError, match="is none that a run chooses"):
        build(open_run(tmp_path), tmp_path / "data")
    saved = run(config, tmp_path, salvage_store=True)
    assert saved.tally.made == 0 and [t.slot for r in results(saved) for t in r.targets] == [0]


def test_a_benchmark_that_grows_keeps_its_number_of_repeated_problems(tmp_path: Path) -> None:
    def write(count: int) -> None:
        rows = [
            {"id": f"q{n}", "question": f"Which number is written on card number {n}?", "answer_type": "integer",
             "reference": "1"} for n in range(count)
        ]  # fmt: skip
        (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))

    from dhd_labels.replay.plan import choose_studies
    from dhd_labels.replay.problems import load_problems

    own = ("benchmark.name=jsonl", f"benchmark.path={tmp_path / 'own.jsonl'}", "protocol.repeat_problems=4",
        "engines.world={kind: openai, model: m, base_url: 'http://127.0.0.1:1/v1'}",
        "sensitivity.order={problems: 2, blocks: 1}")  # fmt: skip
    config = oracle(*own)
    write(8)
    before = choose_studies(config, load_problems(config)[0])
    write(30)
    after = choose_studies(config, load_problems(config)[0], before)
    assert after.items() >= before.items()
    assert (sum(s.blocks for s in after.values()), sum(s.order for s in after.values())) == (4, 2)
    fresh = choose_studies(config, load_problems(config)[0])
    assert (sum(s.blocks for s in fresh.values()), sum(s.order for s in fresh.values())) == (4, 2) and fresh != after


def test_a_prompt_that_is_refused_for_ever_settles(tmp_path: Path) -> None:
    """A content filter: later runs ask nothing of it again, and neither stop nor wait for it."""
    front = ScriptedFront("m")

    def script(seen: Any) -> Any:
        text = seen.body["messages"][-1]["content"]
        refused = seen.body["messages"][0]["content"].startswith("# Integrator") and "card number 1?" in text
        return failure(400, "content policy") if refused else front(seen)

    cases = "masking={repeats: 1, cases: {indeterminate: 1}}"
    with serving(FaultServer(script, models=failure(404))) as server:
        engine = f"engines.world={{kind: openai, model: m, base_url: '{server.url}', concurrency: 4}}"
        config = oracle(engine, *SMALL, cases)
        first = run(config, tmp_path)
        sent = len(server.seen)
        again = run(config, tmp_path)
        assert len(server.seen) == sent and again.tally.made == 0 and first.note == ""
    outcomes = [o for r in results(again) for o in r.outcomes if r.problem.problem_id == "oracle:001"]
    assert {(o.status, o.reason, o.correct) for o in outcomes} == {("operational", "refused", None)}
    assert sum(len(r.targets) for r in results(again)) == 1


@pytest.mark.parametrize("kind", ["# Integrator", "# Evaluator"])
def test_masked_messages_wait_for_answers_and_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    config = oracle(*EVERYTHING, "benchmark.size=12", "masking={repeats: 1, cases: {indeterminate: 3}}",
        "sensitivity.order={problems: 4, blocks: 2}", "sensitivity.integrator={problems: 4, blocks: 2}")  # fmt: skip
    count = itertools.count()

    def failing(reply: ChatReply) -> ChatReply:
        said = reply.text.startswith("I looked") if kind == "# Integrator" else "compared both" in reply.text
        if said and next(count) % 3 == 0:
            return dataclasses.replace(reply, status="server_error", text="")
        return reply

    Spy(monkeypatch, change=failing)
    first = run(config, tmp_path)
    assert "run again" in first.note and not any(r.targets for r in results(first))
    monkeypatch.undo()
    whole, fresh = run(config, tmp_path), run(config, tmp_path / "fresh")
    chosen = [[target for result in results(report) for target in result.targets] for report in (whole, fresh)]
    assert chosen[0] == chosen[1] and len(chosen[0]) == 3 and whole.note == ""


def test_answers_that_a_server_never_gives_are_given_up_for_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = oracle(*SMALL, "masking={repeats: 1, cases: {indeterminate: 1}}")

    def never(reply: ChatReply) -> ChatReply:
        if reply.text.startswith("I looked at 1 clue"):
            return dataclasses.replace(reply, status="server_error", text="")
        return reply

    Spy(monkeypatch, change=never)
    notes = [run(config, tmp_path).note for _ in range(3)]
    assert ["run again" in note for note in notes] == [True, True, False]


def test_a_problem_is_complete_when_its_replays_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Spy(monkeypatch, change=down)
    report = run(oracle(*SMALL), tmp_path)
    totals = summarise(report.directory, results(report))
    assert (totals.complete, totals.with_pool, totals.replays_done) == (0, 3, 0)


def test_a_refused_name_of_the_model_leaves_the_finished_run_readable(tmp_path: Path) -> None:
    with serving(FaultServer(ScriptedFront("other-name"), models=failure(404))) as server:
        engine = f"engines.world={{kind: openai, model: m, base_url: '{server.url}'"
        run(oracle(f"{engine}, served_as: other-name}}", *SMALL), tmp_path)
        with pytest.raises(DhdError, match="The stored answers of the .* are of 'other-name', this config expects 'm'"):
            run(oracle(f"{engine}}}", *SMALL), tmp_path)
    build(open_run(tmp_path), tmp_path / "data")


def test_the_prompt_of_another_role_is_an_error_in_words() -> None:
    for role, template in (("integrator", "evaluator"), ("integrator", "hypothesizer"), ("hypothesizer", "integrator")):
        with pytest.raises(DhdError, match=f"'standard/{template}' is that of another role"):
            plan_run(oracle(f"roles.{role}.prompt=standard/{template}"))
