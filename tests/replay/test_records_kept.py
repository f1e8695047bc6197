"""What a store and its keys promise: repeats stay apart, every setting counts, a torn tail costs only itself."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import oracle, reply

from dhd_labels.engines.base import ChatRequest, EngineIdentity, RequestOptions, Turn
from dhd_labels.protocol.roles import recruiter_call
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.calls import Call
from dhd_labels.replay.problems import load_problems
from dhd_labels.replay.run import run
from dhd_labels.replay.store import Store
from tests.replay.test_run import Spy

ENGINE = EngineIdentity("vllm", "1", "m", "r")
TEXT = '∑ é 𝔘 {"id": 1}\n'  # characters of two, three and four bytes


def call() -> Call:
    return recruiter_call(oracle(), load_problems(oracle())[0][0].visible())


def test_byte_identical_prompts_are_separate_answers_and_come_back_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = oracle("benchmark.size=1", "protocol.blocks=0", "protocol.only_draws=0", "protocol.alone_draws=5")
    spy = Spy(monkeypatch)
    run(config, tmp_path)
    alone = [request for request in spy.seen if request.turns[0].content.startswith("# Integrator")]
    assert len(alone) == 5 and len({r.turns for r in alone}) == 1

    def answers() -> list[tuple[str, str, str]]:
        store = Store.open_existing(tmp_path / "store.sqlite")
        calls = store.calls("oracle:000")
        store.close()
        return [(t, rows[-1].key, rows[-1].reply.text) for t, rows in calls.items() if "/alone/" in t]

    before = answers()
    assert len(before) == 5 == len({key for _, key, _ in before})
    sent = len(spy.seen)
    assert run(config, tmp_path).tally.made == 0 and len(spy.seen) == sent
    assert answers() == before


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.1}, {"top_p": 0.5}, {"max_tokens": 7},
        {"grammar": 'root ::= "a"'}, {"reasoning_effort": "high"},
        {"chat_template_kwargs": {"enable_thinking": False}}, {"extra_body": {"top_k": 5}},
    ],
)  # fmt: skip
def test_every_setting_of_a_role_is_in_the_key(change: dict[str, Any]) -> None:
    one = call()
    if "grammar" in change:
        other = dataclasses.replace(one, grammar=change["grammar"])
    else:
        other = dataclasses.replace(one, decoding=one.decoding.model_copy(update=change))
    assert one.key(ENGINE, 0) != other.key(ENGINE, 0)
    assert one.key(ENGINE, 0) == call().key(ENGINE, 0)


@pytest.mark.parametrize("name", ["kind", "version", "model", "revision", "settings"])
def test_every_part_of_the_engine_that_decides_answers_is_in_the_key(name: str) -> None:
    assert call().key(ENGINE, 0) != call().key(dataclasses.replace(ENGINE, **{name: "x"}), 0)
    assert call().key(ENGINE, 0) == call().key(dataclasses.replace(ENGINE, served_as="x"), 0)
    assert call().key(ENGINE, 0) != call().key(ENGINE, 1)


def test_every_field_of_a_request_is_in_its_key_but_where_it_goes() -> None:
    request = ChatRequest((Turn("user", "P"),), 0.0, 1.0, 9, 1, None, affinity="p")
    further = {"options": RequestOptions("low"), "n": 2, "json_schema": "{}"}
    full = dataclasses.replace(request, **further)  # type: ignore[arg-type]
    assert full.for_key().keys() == {field.name for field in dataclasses.fields(request)} - {"affinity"}
    assert full.for_key() == {name: value for name, value in dataclasses.asdict(full).items() if name != "affinity"}
    assert request.for_key().keys() == full.for_key().keys() - further.keys(), "what is not set leaves no trace"
    assert dataclasses.replace(request, affinity="q").for_key() == request.for_key()


def row(number: int) -> CallRow:
    return CallRow(f"t-{number}", 0, f"key-{number}", "integrator", "p", number, reply(f"{number} {TEXT * 20}"))


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose last commits are only in its write-ahead log, as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("logged")
    store = Store.create_or_open(folder / "live.sqlite")
    for number in range(12):
        store.add_calls([row(number)])
    for part in ("", "-wal"):
        shutil.copyfile(folder / f"live.sqlite{part}", folder / f"store.sqlite{part}")
    store.close()
    return folder


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1))
def test_a_log_torn_at_any_byte_keeps_what_was_whole_and_goes_on(
    logged: Path, tmp_path_factory: pytest.TempPathFactory, cut: float
) -> None:
    """The tail may end inside a row or inside a character: whole commits stay, the torn one is gone, none is fused."""
    path = tmp_path_factory.mktemp("torn") / "store.sqlite"
    shutil.copyfile(logged / "store.sqlite", path)
    wal = (logged / "store.sqlite-wal").read_bytes()
    path.with_name("store.sqlite-wal").write_bytes(wal[: int(cut * len(wal))])
    store = Store.create_or_open(path)
    kept = [rows[0].seed for rows in store.calls("p").values()]
    assert sorted(kept) == list(range(len(kept))), "a prefix of the commits, without a hole"
    missing = [number for number in range(12) if number not in kept]
    for number in missing:
        store.add_calls([row(number)])
    found = store.calls("p")
    store.close()
    assert {ticket: rows[0].reply.text for ticket, rows in found.items()} == {
        f"t-{n}": f"{n} {TEXT * 20}" for n in range(12)
    }
    assert cut < 1 or not missing
