"""What a run recovers from: servers that were down for long, edited files, benchmarks that grow."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import oracle

from dhd_labels.dataset.build import build
from dhd_labels.engines.base import ChatReply
from dhd_labels.errors import DhdError
from dhd_labels.records import Message, Pool
from dhd_labels.replay.directory import open_run
from dhd_labels.replay.run import run
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
    for content, words in ((other, "it is the pool of problem 'oracle:001'"), (forged, "message 2 is not what its")):
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
