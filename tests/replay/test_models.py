"""Which model went out and which came back, role by role."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import BINDING, SOLVER, oracle

from dhd_labels.dataset.build import build, read_results
from dhd_labels.engines.base import ChatReply
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.replay.calls import ModelMismatchError
from dhd_labels.replay.run import run
from dhd_labels.report.summary import summarise
from tests.engines.fault_server import Answer, FaultServer, ScriptedFront, failure, serving
from tests.replay.test_run import Spy
from tests.replay.test_studies import results

TWO = ("benchmark.size=3", "protocol.blocks=1", f"engines.judge={SOLVER % 'exact'}", "grading=evaluator",
    f"roles.evaluator={BINDING % ('judge', 'evaluator', 0)}")  # fmt: skip
OPENAI = "{kind: openai, model: %s, base_url: 'http://127.0.0.1:1/v1'%s}"


def renamed(text: str, model: str) -> Any:
    def change(reply: ChatReply) -> ChatReply:
        return dataclasses.replace(reply, model=model) if text in reply.text else reply

    return change


def test_the_ids_are_recorded_by_role(tmp_path: Path) -> None:
    report = run(oracle(*TWO), tmp_path)
    models = {m["role"]: (m["asked_for"], m["came_back"]) for m in summarise(report.directory, results(report)).models}
    assert models["integrator"] == ("scripted-stochastic",) * 2 and models["evaluator"] == ("scripted-exact-5",) * 2
    assert set(models) == {"recruiter", "hypothesizer", "integrator", "evaluator"}


def test_an_answer_of_another_model_stops_the_run_and_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch, change=renamed("compared both", "scripted-stochastic"))
    with pytest.raises(ModelMismatchError, match=r"evaluator must be answered by 'scripted-exact-5' .*'scripted-stoch"):
        run(oracle(*TWO), tmp_path)
    judged = sum(r.turns[0].content.startswith("# Evaluator") for r in spy.seen)
    assert judged <= 8, "it stops at the first window of wrong answers"
    from dhd_labels.replay.directory import open_run

    directory = open_run(tmp_path)
    totals = summarise(directory, read_results(directory))
    asked = {(m["role"], m["asked_for"], m["came_back"]): m["calls"] for m in totals.models}
    assert asked["evaluator", "scripted-exact-5", "scripted-stochastic"] == judged, "the status shows who answered"
    with pytest.raises(NothingMadeError):
        build(directory, tmp_path / "data")
    monkeypatch.undo()
    again = run(oracle(*TWO), tmp_path)  # the server is corrected: only the refused answers are asked for again
    fresh = run(oracle(*TWO), tmp_path / "fresh")
    assert again.tally.made < fresh.tally.made and again.tally.found == fresh.tally.made - again.tally.made
    assert [r.outcomes for r in results(again)] != [] and {o.status for r in results(again) for o in r.outcomes} == {
        "graded"
    }


@pytest.mark.parametrize(("came_back", "served_as"), [("another-name", "another-name"), ("", "(none)")])
def test_another_name_of_the_model_can_be_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came_back: str, served_as: str
) -> None:
    front = ScriptedFront("m" if came_back else "")
    with serving(FaultServer(lambda seen: _named(front(seen), came_back), models=failure(404))) as server:
        engine = f"engines.world={{kind: openai, model: m, base_url: '{server.url}'"
        small = ("benchmark.size=1", "protocol.blocks=1", "protocol.alone_draws=1", "protocol.only_draws=1")
        with pytest.raises(ModelMismatchError, match=re.escape(f"'served_as' of its engine to '{served_as}'")):
            run(oracle(f"{engine}}}", *small), tmp_path)
        done = run(oracle(f"{engine}, served_as: '{served_as}'}}", *small), tmp_path)
        assert all(o.status == "graded" for r in results(done) for o in r.outcomes) and results(done)[0].outcomes


def _named(answer: Answer, model: str) -> Answer:
    body = dict(answer.body) if isinstance(answer.body, dict) else {}
    body["model"] = model
    return dataclasses.replace(answer, body=body)


def test_one_id_for_two_declared_models_is_refused() -> None:
    other = f"roles.other_integrator={BINDING % ('b', 'integrator', 0.7)}"
    check = "sensitivity.integrator={problems: 2, blocks: 1}"
    with pytest.raises(DhdError, match="declare different models .* both expect the id 'm' back"):
        oracle(f"engines.a={OPENAI % ('m', '')}", f"engines.b={OPENAI % ('n', ', served_as: m')}", other, check,
            "roles.integrator.engine=a")  # fmt: skip
    with pytest.raises(DhdError, match="must be another model than 'roles.integrator'"):
        oracle(f"engines.a={OPENAI % ('m', '')}", f"engines.b={OPENAI % ('m', '')}", other, check,
            "roles.integrator.engine=a")  # fmt: skip
    # The same declared model for actor and evaluator is fine.
    oracle(f"engines.a={OPENAI % ('m', '')}", "roles.integrator.engine=a", "grading=evaluator",
        f"roles.evaluator={BINDING % ('a', 'evaluator', 0)}")  # fmt: skip


def test_where_a_model_is_served_may_change_between_runs_but_not_what_is_measured(tmp_path: Path) -> None:
    config = oracle("benchmark.size=2", "protocol.blocks=1")
    run(config, tmp_path)
    run(oracle("benchmark.size=2", "protocol.blocks=1", "plan.message_tokens=99"), tmp_path)
    assert yaml.safe_load((tmp_path / "run.yaml").read_text())["config"]["plan"]["message_tokens"] == 99
    with pytest.raises(DhdError, match="config.engines.world.world_seed: there 0, now 3"):
        run(oracle("benchmark.size=2", "protocol.blocks=1", "engines.world.world_seed=3"), tmp_path)


def test_a_run_of_an_older_version_goes_on_without_a_call(tmp_path: Path) -> None:
    """A run file without the newer settings, and a store of format 1."""
    import sqlite3

    config = oracle("benchmark.size=2", "protocol.blocks=2")
    first = run(config, tmp_path)
    data = yaml.safe_load((tmp_path / "run.yaml").read_text())
    for key in ("masking", "sensitivity", "grading", "probe", "plan", "benchmarks"):
        del data["config"][key]
    for identity in data["engines"].values():
        del identity["served_as"], identity["settings"]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    with sqlite3.connect(tmp_path / "store.sqlite") as db:
        db.executescript(
            "ALTER TABLE problems DROP COLUMN studies; ALTER TABLE calls DROP COLUMN batch; DROP TABLE targets;"
            "DROP TABLE meta;"
            "UPDATE problems SET content = json_remove(content, '$.redistribute_text'); PRAGMA user_version=1;"
        )
    db.close()
    again = run(config, tmp_path)
    assert again.tally.made == 0 and again.tally.found == first.tally.made
    assert [r.outcomes for r in results(again)] == [r.outcomes for r in results(first)]


def test_calls_that_finished_together_share_a_batch_number(tmp_path: Path) -> None:
    import sqlite3

    run(oracle("benchmark.size=2", "protocol.blocks=1", "engines.world.slots=3"), tmp_path)
    with sqlite3.connect(tmp_path / "store.sqlite") as db:
        sizes = [n for (n,) in db.execute("SELECT COUNT(*) FROM calls GROUP BY batch")]
        assert db.execute("SELECT COUNT(*) FROM calls WHERE batch IS NULL").fetchone() == (0,)
    db.close()
    assert max(sizes) == 3
