"""Runs whose answers came from more than one server: nothing is paid again, and everybody can see it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import oracle

from dhd_labels.dataset.build import build
from dhd_labels.engines.base import ChatReply
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.run import run
from dhd_labels.replay.servers import Served
from dhd_labels.replay.store import Store
from dhd_labels.report.summary import Summary, summarise
from tests.engines.fault_server import Answer, FaultServer, ScriptedFront, Seen, serving
from tests.replay.test_studies import results

MODEL = "scripted-stochastic"
BLOCKS = ("protocol.blocks=1",)


def listing(**entry: Any) -> Answer:
    return Answer(body={"data": [{"id": MODEL, "owned_by": "vllm", "max_model_len": 4096, **entry}]})


def engine(server: FaultServer) -> str:
    return f"engines.world={{kind: openai, model: {MODEL}, base_url: '{server.url}', max_tries: 2, max_wait_s: 0.01}}"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving(FaultServer(ScriptedFront(MODEL), models=listing(root="org/weights"))) as made:
        yield made


def summary(folder: Path) -> Summary:
    from dhd_labels.dataset.build import read_results
    from dhd_labels.replay.directory import open_run

    directory = open_run(folder)
    return summarise(directory, read_results(directory))


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "Another server" in r.getMessage()]


def test_one_server_is_recorded_and_nothing_is_said(
    server: FaultServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = run(oracle(engine(server), *BLOCKS), tmp_path, limit=2)
    found = summary(tmp_path)
    assert not warned(caplog) and not found.warnings
    assert sum(item["calls"] for item in found.servers) == report.tally.made == len(server.seen)
    assert {item["role"]: item["says"]["root"] for item in found.servers} == dict.fromkeys(
        ("recruiter", "hypothesizer", "integrator"), "org/weights"
    )


def test_other_weights_behind_the_same_address_are_warned_of_counted_and_on_the_card(
    server: FaultServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = run(oracle(engine(server), *BLOCKS), tmp_path, limit=2)
    server.models = listing(root="org/weights-int4", max_model_len=2048)
    more = run(oracle(engine(server), *BLOCKS), tmp_path, limit=3)
    assert more.tally.found == first.tally.made, "another server is no other request: nothing is paid twice"
    line = next(iter(warned(caplog)))
    assert len(warned(caplog)) == 1 and "root org/weights -> org/weights-int4" in line
    assert "max_model_len 4096 -> 2048" in line and "--run-dir" in line
    found = summary(tmp_path)
    by_root: dict[str, int] = {}
    for item in found.servers:
        by_root[item["says"]["root"]] = by_root.get(item["says"]["root"], 0) + item["calls"]
    assert by_root == {"org/weights": first.tally.made, "org/weights-int4": more.tally.made}
    (warning,) = found.warnings
    assert "of 2 servers" in warning and f"{first.tally.made} of (" in warning and f"{more.tally.made} of (" in warning
    assert f"Note: {warning}" in found.lines() and found.as_json()["warnings"] == [warning]
    build(more.directory, tmp_path / "data")
    card = (tmp_path / "data" / "README.md").read_text(encoding="utf-8")
    assert "what its server says of itself" in card and "int4" in card and re.search(r"of 2 servers", card)
    assert str(server.port) not in card


def test_the_batch_of_a_call_tells_its_server(server: FaultServer, tmp_path: Path) -> None:
    run(oracle(engine(server), *BLOCKS), tmp_path, limit=2)
    server.models = listing(root="b")
    report = run(oracle(engine(server), *BLOCKS), tmp_path, limit=3)
    store = report.directory.open_store()
    for item in store.servers():
        query = "SELECT problem_id, COUNT(*) FROM calls WHERE role=? AND batch BETWEEN ? AND ? GROUP BY problem_id"
        counts = dict(store._db.execute(query, (item.role, item.first_batch, item.last_batch)).fetchall())
        assert sum(counts.values()) == item.calls
        assert (set(counts) == {"oracle:002"}) == (item.says["root"] == "b")
    store.close()


def test_a_fingerprint_that_changes_in_the_middle_is_said_once(
    server: FaultServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    front = ScriptedFront(MODEL)

    def script(seen: Seen) -> Answer:
        answer = front(seen)
        answer.body["system_fingerprint"] = "fp-old" if seen.number < 20 or seen.number % 3 == 0 else "fp-new"
        return answer

    server.script = script
    run(oracle(engine(server), *BLOCKS), tmp_path, limit=2)
    (line,) = warned(caplog)
    assert "system_fingerprint fp-old -> fp-new" in line and "weights may be the same" in line
    (warning,) = summary(tmp_path).warnings
    assert "of 2 servers" in warning and "weights may be the same" in warning


def test_engines_that_say_nothing_leave_no_trace(tmp_path: Path) -> None:
    run(oracle("benchmark.size=1", "protocol.blocks=1"), tmp_path)
    assert (summary(tmp_path).servers, summary(tmp_path).warnings) == ([], [])


def row(number: int, said: str, status: str = "ok", role: str = "integrator") -> CallRow:
    reply = ChatReply(status, "7", None, "stop", 1, 0, 1, "m", None, server=said)  # type: ignore[arg-type]
    return CallRow(f"t/{number}", 0, "k", role, "p", 1, reply)


def served(store: Store) -> list[tuple[str, dict[str, str], int]]:
    return [(item.role, dict(item.says), item.calls) for item in store.servers()]


def test_counts_and_calls_are_committed_together_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = Store.create_or_open(path)
    store.add_calls([row(0, '{"root": "a"}'), row(1, '{"root": "a"}'), row(2, "", "ok"), row(3, "{}", "server_error")])
    with pytest.raises(Exception, match="UNIQUE"):
        store.add_calls([row(4, '{"root": "b"}'), row(0, '{"root": "b"}')])
    assert served(store) == [("integrator", {"root": "a"}, 2)]
    store.close()
    again = Store.create_or_open(path)
    again.add_calls([row(5, '{"root": "a"}')])
    assert again.servers() == [Served("m", "integrator", {"root": "a"}, 3, 1, 2)]
    again.close()


@pytest.mark.parametrize("part", ["system_fingerprint", "root"])
def test_a_server_that_always_says_something_else_fills_no_store(
    tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    store = Store.create_or_open(tmp_path / "store.sqlite")
    for number in range(200):
        store.add_calls([row(number, f'{{"{part}": "x{number}"}}')])
    found = store.servers()
    assert len(found) <= 42 and sum(item.calls for item in found) == 200 and len(warned(caplog)) <= 41
    store.close()


def test_the_counts_survive_a_salvage(server: FaultServer, tmp_path: Path) -> None:
    report = run(oracle(engine(server), *BLOCKS), tmp_path, limit=2)
    before = summary(tmp_path).servers
    path = report.directory.store_path
    data = bytearray(path.read_bytes())
    data[-2000:] = b"\xff" * 2000
    path.write_bytes(bytes(data))
    again = run(oracle(engine(server), *BLOCKS), tmp_path, limit=2, salvage_store=True)
    assert again.salvaged is not None and results(again)
    assert {item["role"] for item in summary(tmp_path).servers} == {item["role"] for item in before}
