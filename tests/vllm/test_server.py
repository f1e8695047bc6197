"""The openai engine against vLLM as a server, both real. Run by `make test-vllm`. The last test kills the server."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dhd_labels.config import OpenAIConfig, RunConfig, load_config
from dhd_labels.config.load import validate_config
from dhd_labels.engines.base import ChatReply, ChatRequest, Turn
from dhd_labels.engines.openai import OpenAIEngine
from dhd_labels.errors import EndpointError, EngineStoppedError
from dhd_labels.protocol.message_text import FIELD_LABELS
from dhd_labels.protocol.parse import parse_message
from dhd_labels.protocol.prompts import load_json_schema
from dhd_labels.records import Role
from dhd_labels.replay.run import run
from dhd_labels.replay.store import FILE_NAME
from tests.vllm.server import MODEL, VllmServer, vllm_server

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]
_PATIENCE = {"max_tries": 1, "timeout_s": 300, "max_wait_s": 0.2, "concurrency": 4}


@pytest.fixture(scope="module")
def server(settings: dict[str, Any]) -> Iterator[VllmServer]:
    with vllm_server(settings["model"]) as started:
        yield started


def engine_config(server: VllmServer, **changes: Any) -> OpenAIConfig:
    fields = {"kind": "openai", "model": MODEL, "base_url": server.url, "grammar_style": "vllm", **_PATIENCE}
    return OpenAIConfig(**{**fields, **changes})


def run_config(server: VllmServer, *changes: str) -> RunConfig:
    """The quickstart on two problems, unchanged but for its engine."""
    values = load_config("quickstart", ["benchmark.size=2", "probe.prompts=0", *changes]).model_dump(mode="json")
    return validate_config({**values, "engines": {"local": engine_config(server).model_dump(mode="json")}}, "test")


def request(text: str = "Tell me a story.", seed: int = 1, tokens: int = 24) -> ChatRequest:
    turns = (Turn("system", "You are a careful assistant. " * 8), Turn("user", text))
    return ChatRequest(turns, 0.7, 1.0, tokens, seed, None, "p")


def answers(server: VllmServer, *requests: ChatRequest, **changes: Any) -> list[ChatReply]:
    engine = OpenAIEngine(engine_config(server, **changes))
    try:
        found = dict(itertools.chain.from_iterable(engine.generate(enumerate(requests))))
    finally:
        engine.close()
    return [found[i] for i in range(len(requests))]


def stored(folder: Path, columns: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        return db.execute(f"SELECT {columns} FROM calls ORDER BY id").fetchall()


def test_a_run_with_grammars_is_made_once_and_reports_cached_tokens(server: VllmServer, tmp_path: Path) -> None:
    config = run_config(server, "protocol.blocks=1", "protocol.alone_draws=1")
    first = run(config, tmp_path)
    again = run(config, tmp_path)
    assert first.tally.made >= 2 * (1 + 5) and again.tally.made == 0 and again.tally.found > 0
    rows = stored(tmp_path, "role, status, prompt_tokens, cached_tokens, completion_tokens")
    assert {role for role, *_ in rows} == {"recruiter", "hypothesizer", "integrator"}
    assert "server_error" not in {status for _, status, *_ in rows}
    assert all(0 <= cached < prompt and written > 0 for _, _, prompt, cached, written in rows)
    assert sum(cached for *_, cached, _ in rows) > 0


def test_seeds_decide_the_sample(server: VllmServer) -> None:
    # One at a time: numbers depend on which other requests share a step.
    replies = answers(server, *[request(seed=seed) for seed in (1, 1, 2, 3)], concurrency=1)
    first, again, *others = [reply.text for reply in replies]
    assert first and first == again and len({first, *others}) == 3


def test_a_prompt_too_long_is_a_status_and_the_rest_goes_on(server: VllmServer) -> None:
    long, short = answers(server, request("word " * 2000), request())
    assert long.status == "prompt_too_long" and long.error and "1024" in long.error
    assert short.text


def test_an_unknown_model_stops_at_the_start(server: VllmServer) -> None:
    with pytest.raises(EndpointError, match=f"must be one that 127.0.0.1:{server.port} serves, got 'smollm3'.*{MODEL}"):
        answers(server, request(), model="smollm3")


@pytest.mark.parametrize("style", ["vllm", "none"])
def test_a_schema_forces_the_fields_of_a_message(server: VllmServer, style: str) -> None:
    schema = load_json_schema("standard/hypothesizer")
    text = "What is 3 plus 4? Answer in JSON, each field in a few words."
    asked = [dataclasses.replace(request(text, seed, 300), json_schema=schema) for seed in range(8)]
    replies = answers(server, *asked, grammar_style=style)
    done = [reply for reply in replies if reply.status == "ok"]
    assert done and {reply.status for reply in replies} <= {"ok", "truncated"}
    for reply in done:
        assert list(json.loads(reply.text)) == list(FIELD_LABELS)
        assert parse_message(reply, 0, Role("Ann", "counts")).confidence in ("high", "medium", "low")


def test_a_server_that_dies_loses_no_answer_and_the_next_run_completes(
    server: VllmServer, settings: dict[str, Any], tmp_path: Path
) -> None:
    def kill_in_the_middle(stage: str, done: int, total: int) -> None:
        if stage == "integrator" and done == 3:
            server.kill()

    changes = ("protocol.blocks=2", "protocol.alone_draws=1", "protocol.only_draws=0")
    with pytest.raises(EngineStoppedError):
        run(run_config(server, *changes), tmp_path, progress=kill_in_the_middle)
    before = stored(tmp_path, "ticket, status, text")
    failed = {ticket for ticket, status, _ in before if status == "server_error"}
    assert failed and len([ticket for ticket, *_ in before if "/integrator/" in ticket]) > len(failed)

    with vllm_server(settings["model"]) as another:
        report = run(run_config(another, *changes), tmp_path)
    after = stored(tmp_path, "ticket, status, text")
    assert after[: len(before)] == before, "no stored answer is touched"
    asked_again = [ticket for ticket, *_ in after[len(before) :] if ticket in {old for old, *_ in before}]
    assert set(asked_again) == failed and report.tally.made == len(after) - len(before)
    last = {ticket: status for ticket, status, _ in after}
    assert "server_error" not in last.values()
