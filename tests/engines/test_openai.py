"""The openai engine over real HTTP, against a server of our own that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import dataclasses
import email.utils
import itertools
import json
import logging
import os
import signal
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

import dhd_labels
from dhd_labels.config import OpenAIConfig, load_config
from dhd_labels.engines import open_engine
from dhd_labels.engines.address import host_of
from dhd_labels.engines.base import ChatReply, ChatRequest, RequestOptions, Turn
from dhd_labels.engines.http_stops import SAME_FAULTS
from dhd_labels.engines.openai import OpenAIEngine
from dhd_labels.errors import DhdError, EndpointError, EngineStoppedError
from dhd_labels.replay.collect import collect
from dhd_labels.replay.run import RunReport
from tests.engines.fault_server import (
    MODEL,
    Answer,
    FaultServer,
    ScriptedFront,
    Seen,
    completion,
    failure,
    good,
    serving,
)

KEY = "letmein-4711-and-stay"


class FastClock:
    """A clock on which a minute passes in a fraction of a second. It keeps every wait."""

    def __init__(self, speed: float = 500.0) -> None:
        self._speed = speed
        self.waits: list[float] = []

    def now(self) -> float:
        return time.monotonic() * self._speed

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(seconds / self._speed)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_LOG", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread.name


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving(FaultServer()) as made:
        yield made


def config(url: str, **changes: Any) -> OpenAIConfig:
    return OpenAIConfig(**{"kind": "openai", "model": MODEL, "base_url": url, "timeout_s": 20, **changes})


def request(seed: int = 1, text: str = "Hi", grammar: str | None = None, **options: Any) -> ChatRequest:
    turns = (Turn("system", "Be careful."), Turn("user", text))
    return ChatRequest(turns, 0.7, 0.9, 12, seed, grammar, "t:1", RequestOptions(**options))


def ask(
    server: FaultServer | str, requests: Iterable[ChatRequest] = (), clock: FastClock | None = None, **changes: Any
) -> list[ChatReply]:
    """Answer requests with a fresh engine, in their order."""
    engine = OpenAIEngine(config(server if isinstance(server, str) else server.url, **changes), clock or FastClock())
    asked = list(requests) or [request()]
    try:
        groups = list(engine.generate(enumerate(asked)))
    finally:
        engine.close()
    found = dict(itertools.chain.from_iterable(groups))
    assert len(found) == sum(map(len, groups)) == len(asked), "one reply a call"
    return [found[number] for number in range(len(asked))]


@pytest.mark.parametrize(
    ("first", "unseen"), [(Answer(body=completion(), cut_at=30), 1), (Answer(body=b"{"), 1), (failure(500), 0)]
)
def test_a_try_that_may_be_charged_for_without_an_answer_is_counted(
    server: FaultServer, first: Answer, unseen: int
) -> None:
    server.script = lambda seen: first if seen.tries == 1 else good(seen)
    (reply,) = ask(server)
    assert reply.status == "ok" and reply.unseen == unseen
    server.script = lambda seen: first
    (reply,) = ask(server, max_tries=2)
    assert reply.status == "server_error" and reply.unseen == 2 * unseen


def test_everything_of_a_request_is_sent_and_everything_of_the_answer_kept(server: FaultServer) -> None:
    wanted = request(
        5, reasoning_effort="low", chat_template_kwargs={"enable_thinking": False}, extra_body={"top_k": 20}
    )
    (reply,) = ask(server, [wanted])
    (seen,) = server.seen
    assert seen.body == {
        "model": MODEL, "temperature": 0.7, "top_p": 0.9, "max_tokens": 12, "seed": 5, "reasoning_effort": "low",
        "messages": [{"role": "system", "content": "Be careful."}, {"role": "user", "content": "Hi"}],
        "chat_template_kwargs": {"enable_thinking": False}, "top_k": 20,
    }  # fmt: skip
    assert reply == ChatReply("ok", "seed 5", None, "stop", 9, 4, 3, MODEL, None)


def test_what_is_not_set_is_not_sent(server: FaultServer) -> None:
    ask(server)
    assert set(server.seen[0].body) == {"model", "messages", "temperature", "top_p", "max_tokens", "seed"}


def test_the_identity_has_the_model_and_nothing_of_the_place(server: FaultServer) -> None:
    engine = open_engine(config(server.url, revision="abc", served_as="back"))
    identity = engine.identity
    engine.close()
    engine.close()
    assert (identity.kind, identity.version, identity.model) == ("openai", "chat-completions", MODEL)
    assert (identity.revision, identity.comes_back, identity.settings) == ("abc", "back", "")
    assert str(server.port) not in repr(identity) and "127.0.0.1" not in repr(identity)


@pytest.mark.parametrize(
    ("style", "sent"),
    [("vllm", {"structured_outputs": {"grammar": "root ::= x"}}), ("llamacpp", {"grammar": "root ::= x"})],
)
def test_a_grammar_is_sent_as_the_server_takes_it(server: FaultServer, style: str, sent: dict[str, Any]) -> None:
    ask(server, [request(grammar="root ::= x")], grammar_style=style)
    assert sent.items() <= server.seen[0].body.items()


def test_a_grammar_without_a_style_is_an_error_before_anything_is_sent(server: FaultServer) -> None:
    with pytest.raises(DhdError, match="'grammar_style' of model 'org/model' must be 'vllm' or 'llamacpp'.*'none'"):
        ask(server, [request(grammar="root ::= x")])
    assert not server.seen
    engine = f"engines.world={{kind: openai, model: m, base_url: {server.url}}}"
    with pytest.raises(DhdError, match="'engines.world.grammar_style' must be.*'roles.integrator.grammar' is set"):
        load_config("oracle", [engine, "roles.integrator.grammar=small/integrator"])


@pytest.mark.parametrize("style", ["none", "llamacpp"])
def test_a_json_schema_is_sent_as_the_response_format(server: FaultServer, style: str) -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
    ask(server, [dataclasses.replace(request(), json_schema=json.dumps(schema))], grammar_style=style)
    sent = server.seen[0].body["response_format"]
    assert sent == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    assert "structured_outputs" not in server.seen[0].body
    # Servers write the fields in this order: reasoning that stands first must stay first.
    assert list(sent["json_schema"]["schema"]["properties"]) == ["b", "a"]


def test_a_server_known_to_be_vllm_is_also_told_to_leave_no_white_space(server: FaultServer) -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string"}}}
    ask(server, [dataclasses.replace(request(), json_schema=json.dumps(schema))], grammar_style="vllm")
    body = server.seen[0].body
    assert body["structured_outputs"] == {"json": schema, "disable_any_whitespace": True}
    assert "response_format" not in body


# What one try meets: retried, and what the reason says when every try meets it.
RETRIED = {
    "429 with Retry-After": (failure(429, "slow down", headers={"Retry-After": "3"}), "HTTP 429: slow down"),
    "429 without": (failure(429, "slow down"), "HTTP 429: slow down"),
    "503": (Answer(503, b"<html>overloaded</html>"), "HTTP 503: <html>overloaded</html>"),
    "500": (failure(500, "boom"), "HTTP 500: boom"),
    "502": (Answer(502, b"bad gateway"), "HTTP 502: bad gateway"),
    "408": (failure(408), "HTTP 408: no"),
    "409": (failure(409), "HTTP 409: no"),
    "425": (failure(425), "HTTP 425: no"),
    "a header of harmony": (
        failure(500, "unexpected tokens remaining in message header: ––commentary"),
        "HTTP 500: unexpected tokens remaining in message header: ––commentary",
    ),
    "broken JSON": (Answer(body=b'{"choices": [{"mess'), "the answer is no JSON (19 bytes)"),
    "deep JSON": (Answer(body=b"[" * 100_000), "the answer is no JSON (100000 bytes)"),
    "no JSON object": (Answer(body=[1]), "the answer is a JSON list, not an object"),
    "no choices": (Answer(body={"id": 1}), "the answer has no 'choices'"),
    "an error with status 200": (Answer(body={"error": {"message": "upstream"}}), "the server answered an error: "),
    "a cut body": (Answer(body=completion(), cut_at=40), "the connection broke"),
    "a body cut at once": (Answer(body=completion(), cut_at=0), "the connection broke"),
    "a stream cut in the middle": (Answer(body=completion(), chunked=True), "the connection broke"),
    "a hang": (Answer(hangs=True), "no answer within 'timeout_s'"),
}


@pytest.mark.parametrize("fault", RETRIED)
def test_a_fault_that_passes_is_tried_again(server: FaultServer, fault: str, caplog: pytest.LogCaptureFixture) -> None:
    answer, reason = RETRIED[fault]
    server.script = lambda seen: answer if seen.seed == 1 and seen.tries < 3 else good(seen)
    timeout = 0.2 if answer.hangs else 20
    replies = ask(server, [request(1), request(2)], timeout_s=timeout)
    assert [reply.text for reply in replies] == ["seed 1", "seed 2"] and server.per_call() == {1: 3, 2: 1}
    waits = [record.getMessage() for record in caplog.records if record.name == "dhd_labels"]
    assert len(waits) == 2 and all("a call of t:1 (seed 1)" in line and reason in line for line in waits)


@pytest.mark.parametrize("fault", RETRIED)
def test_a_fault_that_stays_ends_in_a_status_for_that_call_only(server: FaultServer, fault: str) -> None:
    answer, reason = RETRIED[fault]
    server.script = lambda seen: answer if seen.seed == 1 else good(seen)
    bad, fine = ask(server, [request(1), request(2)], max_tries=2, timeout_s=0.2 if answer.hangs else 20)
    assert bad.status == "server_error" and fine.status == "ok" and server.per_call() == {1: 2, 2: 1}
    assert bad.error and bad.error.startswith(reason) and bad.error.endswith("(after 2 tries)")
    assert (bad.text, bad.model, bad.completion_tokens) == ("", MODEL, None)


def test_a_busy_server_is_waited_for_as_long_as_it_says(server: FaultServer, caplog: pytest.LogCaptureFixture) -> None:
    """429 with Retry-After 60 on every call for 60 s: nobody burns the tries, and each wait is logged."""
    clock = FastClock()
    opens = clock.now() + 60

    def script(seen: Seen) -> Answer:
        return good(seen) if clock.now() >= opens else failure(429, headers={"Retry-After": "60"})

    server.script = script
    replies = ask(server, map(request, range(12)), clock, concurrency=4)
    assert {reply.status for reply in replies} == {"ok"} and max(server.per_call().values()) == 2
    refused = len(server.seen) - 12
    waits = [record.args[0] for record in caplog.records if record.name == "dhd_labels"]  # type: ignore[index]
    assert 1 <= refused <= 4 and len(waits) == refused and all(60 <= wait <= 66 for wait in waits)


@pytest.mark.parametrize("form", ["seconds", "date", "milliseconds"])
def test_retry_after_is_kept_in_every_form_by_the_real_clock(server: FaultServer, form: str) -> None:
    now = time.time()
    headers = {
        "seconds": {"Retry-After": "0.05"},
        "milliseconds": {"retry-after-ms": "50", "Retry-After": "30"},
        "date": {"Date": email.utils.formatdate(now, usegmt=True), "Retry-After": email.utils.formatdate(now + 1)},
    }[form]
    server.script = lambda seen: good(seen) if seen.tries > 1 else failure(429, headers=headers)
    engine = OpenAIEngine(config(server.url))
    assert next(engine.generate([(0, request())]))[0][1].status == "ok"
    engine.close()


def test_no_wait_is_longer_than_the_cap(server: FaultServer, caplog: pytest.LogCaptureFixture) -> None:
    server.script = lambda seen: failure(429, headers={"Retry-After": "86400"})
    (reply,) = ask(server, max_tries=3, max_wait_s=7)
    assert reply.status == "server_error" and len(server.seen) == 3
    assert [record.args[0] for record in caplog.records if record.name == "dhd_labels"] == [7.0, 7.0]  # type: ignore[index]


def test_a_fifth_of_all_calls_failing_loses_none_and_repeats_none_that_succeeded(server: FaultServer) -> None:
    faults = [answer for answer, _ in RETRIED.values() if not answer.hangs]
    succeeded: list[int] = []

    def script(seen: Seen) -> Answer:
        if hash((seen.seed, seen.tries)) % 5 == 0:
            return faults[seen.number % len(faults)]
        succeeded.append(seen.seed)
        return good(seen)

    server.script = script
    replies = ask(server, map(request, range(200)), FastClock(4000), concurrency=16)
    assert len(server.seen) > 220, "faults must have happened"
    assert all(reply.text == f"seed {seed}" for seed, reply in enumerate(replies) if reply.status == "ok")
    assert {reply.status for reply in replies} <= {"ok", "server_error"}
    assert sorted(succeeded) == [seed for seed, reply in enumerate(replies) if reply.status == "ok"]
    assert max(server.per_call().values()) <= 5


def test_places_are_halved_when_the_server_is_busy_and_won_back(server: FaultServer) -> None:
    server.script = lambda seen: failure(429) if seen.tries == 1 and seen.seed < 16 else good(seen)
    engine = OpenAIEngine(config(server.url, concurrency=16), FastClock(4000))
    stream = engine.generate((seed, request(seed)) for seed in range(400))
    limits = [engine._throttle.limit for _ in stream]
    engine.close()
    assert min(limits) <= 8 and limits[-1] > min(limits) and server.busiest <= 16


def test_requests_are_pulled_lazily_and_never_more_than_the_places(server: FaultServer) -> None:
    pulled = 0

    def source() -> Iterator[tuple[int, ChatRequest]]:
        nonlocal pulled
        for seed in range(40):
            pulled += 1
            yield seed, request(seed)

    engine = OpenAIEngine(config(server.url, concurrency=3, warm_up=False))
    done, ahead = 0, []
    for group in engine.generate(source()):
        done += len(group)
        ahead.append(pulled - done)
    engine.close()
    assert done == pulled == 40 and max(ahead) <= 3 and server.busiest <= 3


def test_a_problem_is_warmed_up_by_its_first_call_while_others_begin(server: FaultServer) -> None:
    """The server sees no second call of a problem before it has answered the first."""
    answered: set[str] = set()
    cold: list[int] = []

    def script(seen: Seen) -> Answer:
        problem = seen.body["messages"][1]["content"]
        if seen.seed % 10 and problem not in answered:
            cold.append(seen.seed)
        time.sleep(0.02)
        answered.add(problem)
        return good(seen)

    server.script = script
    asked = [replace(request(10 * p + c, f"problem {p}"), affinity=f"t:{p}") for p in range(6) for c in range(5)]
    for warm_up in (True, False):
        answered.clear()
        cold.clear()
        server.busiest = 0
        replies = ask(server, asked, concurrency=8, warm_up=warm_up)
        assert [reply.text for reply in replies] == [f"seed {r.seed}" for r in asked] and server.busiest > 1
        assert bool(cold) is not warm_up


def test_an_abandoned_stream_ends_its_calls_and_the_engine_goes_on(server: FaultServer) -> None:
    both = threading.Barrier(2)

    def script(seen: Seen) -> Answer:
        if seen.seed >= 77:
            both.wait(10)  # passes only when two calls are in flight at once: the hanging one gave its place back
        return good(seen) if seen.seed != 1 else Answer(hangs=True)

    server.script = script
    engine = OpenAIEngine(config(server.url, concurrency=2, warm_up=False), FastClock())
    stream = engine.generate((seed, request(seed)) for seed in range(50))
    assert next(stream)[0][0] == 0
    stream.close()
    assert [seen.seed for seen in server.seen if seen.seed > 1] == []
    replies = itertools.chain.from_iterable(engine.generate((seed, request(seed)) for seed in (77, 78)))
    assert {seed: reply.text for seed, reply in replies} == {77: "seed 77", 78: "seed 78"}
    engine.close()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C raise also where the tests were started with it ignored, as a shell's background jobs are."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_waiting_ends_the_calls(server: FaultServer) -> None:
    def interrupt(seen: Seen) -> Answer:
        os.kill(os.getpid(), signal.SIGINT)
        return Answer(hangs=True)

    server.script = interrupt
    engine = OpenAIEngine(config(server.url))
    with pytest.raises(KeyboardInterrupt):
        list(engine.generate([(0, request())]))
    engine.close()


def test_an_engine_may_be_closed_before_its_stream(server: FaultServer) -> None:
    server.script = lambda seen: good(seen) if seen.seed == 0 else Answer(hangs=True)
    engine = OpenAIEngine(config(server.url, concurrency=2))
    stream = engine.generate((seed, request(seed)) for seed in range(9))
    next(stream)
    engine.close()
    stream.close()


def test_streams_share_an_engine(server: FaultServer) -> None:
    engine = OpenAIEngine(config(server.url, concurrency=2))
    streams = [engine.generate((seed, request(seed)) for seed in range(start, start + 5)) for start in (0, 100)]
    rounds = itertools.zip_longest(*streams, fillvalue=[])
    found = {token: reply.text for groups in rounds for group in groups for token, reply in group}
    engine.close()
    assert found == {seed: f"seed {seed}" for start in (0, 100) for seed in range(start, start + 5)}


# Answers that are no faults of HTTP.
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (completion(None, choice={"finish_reason": "stop"}, message={"reasoning": "so 12"}),
         {"status": "empty", "reasoning": "so 12", "finish_reason": "stop", "completion_tokens": 3}),
        (completion("", message={"reasoning": "thought"}, choice={"finish_reason": "length"}),
         {"status": "truncated", "reasoning": "thought", "finish_reason": "length", "text": ""}),
        (completion(" \n"), {"status": "empty", "error": "the model returned no text"}),
        (completion("7", choice={"finish_reason": "length"}), {"status": "truncated", "text": "7"}),
        (completion("7", message={"reasoning_content": "why"}), {"status": "ok", "reasoning": "why", "text": "7"}),
        (completion("7", choice={"finish_reason": "content_filter"}), {"status": "server_error", "text": "7"}),
        (completion(choices=[]), {"status": "server_error", "error": "the answer has empty 'choices'",
                                  "completion_tokens": 3}),
        (completion(choices=None), {"status": "server_error", "error": "the answer has empty 'choices'"}),
        (completion("7", model="other/model"), {"status": "ok", "model": "other/model"}),
        (completion("7", usage=None), {"status": "ok", "prompt_tokens": None, "completion_tokens": None}),
    ],
)  # fmt: skip
def test_what_a_finished_answer_becomes(server: FaultServer, body: dict[str, Any], expected: dict[str, Any]) -> None:
    server.script = lambda seen: Answer(body=body)
    (reply,) = ask(server)
    assert {name: getattr(reply, name) for name in expected} == expected
    assert len(server.seen) == 1, "an answer that was paid for is not asked for again here"


@pytest.mark.parametrize(
    ("status", "message", "fields"),
    [
        (400, "This model's maximum context length is 2048 tokens. However, you requested 3000 tokens", {}),
        (400, "The decoder prompt (length 3000) is longer than the maximum model length of 2048.", {}),
        (400, "the request exceeds the available context size", {"type": "exceed_context_size_error"}),
        (400, "Your input is large", {"code": "context_length_exceeded"}),
        (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens).", {}),
        (422, "`inputs` tokens + max_new_tokens must be <= 4096: context window", {}),
    ],
)
def test_a_prompt_the_server_finds_too_long_is_a_status(
    server: FaultServer, status: int, message: str, fields: dict[str, str]
) -> None:
    server.script = lambda seen: failure(status, message, **fields) if seen.seed == 1 else good(seen)
    long, fine = ask(server, [request(1), request(2)])
    assert (long.status, fine.status) == ("prompt_too_long", "ok") and long.error and message[:20] in long.error
    assert server.per_call() == {1: 1, 2: 1}


def test_a_prompt_over_the_limit_is_found_before_it_is_sent(server: FaultServer, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"word": 0, "?": 1}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    asked = [request(1), request(2, "word " * 97), request(3, "word " * 96)]
    for place in (tmp_path, tmp_path / "tokenizer.json"):
        replies = ask(server, asked, tokenizer=str(place), max_model_len=100)
        assert [reply.status for reply in replies] == ["ok", "prompt_too_long", "ok"]
        assert replies[1].prompt_tokens == 100 and "'max_model_len' is 100" in str(replies[1].error)
    assert set(server.per_call()) == {1, 3}


def test_a_tokenizer_that_is_none_is_named(server: FaultServer, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(DhdError, match="'tokenizer' must be a tokenizer.json, a folder with one, or a Hub id"):
        OpenAIEngine(config(server.url, tokenizer=str(tmp_path), max_model_len=100))
    with pytest.raises(ValueError, match="'max_model_len' of model 'org/model' must be set when 'tokenizer' is"):
        config(server.url, tokenizer="org/model")


def test_a_refused_request_fails_its_own_call_only(server: FaultServer) -> None:
    def script(seen: Seen) -> Answer:
        return failure(422, f"field {seen.seed} is bad") if seen.seed % 2 else good(seen)

    server.script = script
    replies = ask(server, map(request, range(60)), concurrency=4)
    assert {reply.status for reply in replies[::2]} == {"ok"}
    # What is refused before anything was answered may be a setting; afterwards it is the prompt.
    assert {reply.status for reply in replies[9::2]} == {"refused"}
    assert {reply.status for reply in replies[1:9:2]} <= {"refused", "server_error"}
    assert replies[1].error == "HTTP 422: field 1 is bad" and len(server.seen) == 60


def test_requests_that_are_all_refused_alike_stop_the_run(server: FaultServer) -> None:
    server.script = lambda seen: failure(400, f"Unsupported parameter: 'seed' (request 8f{seen.number}a)")
    engine = OpenAIEngine(config(server.url, concurrency=4))
    kept: list[tuple[int, ChatReply]] = []
    with pytest.raises(EndpointError, match="first 10 calls to the model 'org/model' at .* alike: HTTP 400: Unsupp"):
        for group in engine.generate((seed, request(seed)) for seed in range(1000)):
            kept += group
    engine.close()
    assert SAME_FAULTS <= len(server.seen) <= SAME_FAULTS + 4 and len(kept) >= SAME_FAULTS
    assert {reply.status for _, reply in kept} == {"server_error"}


def test_many_refused_requests_after_a_success_do_not_stop_the_run(server: FaultServer) -> None:
    server.script = lambda seen: good(seen) if seen.seed == 0 else failure(400, "flagged")
    assert [r.status for r in ask(server, map(request, range(40)), concurrency=1)] == ["ok"] + ["refused"] * 39


def test_an_answer_of_an_earlier_stream_tells_a_bad_prompt_from_bad_settings(server: FaultServer) -> None:
    """Rounds of a stage, and a worker of a cluster, are streams of their own."""
    server.script = lambda seen: good(seen) if seen.seed == 0 else failure(400, "flagged")
    engine = OpenAIEngine(config(server.url, concurrency=2))
    try:
        list(engine.generate([(0, request(0))]))
        later = list(itertools.chain.from_iterable(engine.generate(enumerate(map(request, range(1, 30))))))
        assert {reply.status for _, reply in later} == {"refused"} and len(later) == 29
        with pytest.raises(EndpointError, match="all refused alike"):
            list(engine.generate(enumerate(request(seed, extra_body={"top_k": 1}) for seed in range(1, 30))))
    finally:
        engine.close()


def test_a_prompt_that_a_moderation_flags_fails_its_own_call_only(server: FaultServer) -> None:
    """Some hosted services say so with 403, which otherwise means that the key may not."""
    server.script = lambda seen: failure(403, "your input was flagged by moderation") if seen.seed == 3 else good(seen)
    assert [r.status for r in ask(server, map(request, range(6)), concurrency=1)].index("refused") == 3
    assert len(server.seen) == 6


FATAL = {
    "bad key": (failure(401, f"Incorrect API key provided: {KEY[:9]}****stay"), r"The key .* 'OPENAI_API_KEY'"),
    "no right": (failure(403, "not yours"), r"The key .*HTTP 403: not yours.*'OPENAI_API_KEY'"),
    "unknown model": (failure(404, "The model `m` does not exist"), "no such model .*'org/model'.*Check 'model'"),
    "unknown model, 400": (failure(400, "bad", code="model_not_found"), "will answer no call: HTTP 400: bad"),
    "no money": (failure(429, "You exceeded your quota", code="insufficient_quota"), "HTTP 429: You exceeded"),
}


@pytest.mark.parametrize("fault", FATAL)
def test_what_would_fail_every_call_stops_at_once_and_keeps_what_is_done(server: FaultServer, fault: str) -> None:
    answer, words = FATAL[fault]
    server.script = lambda seen: good(seen) if seen.number < 3 else answer
    engine = OpenAIEngine(config(server.url, concurrency=2))
    kept = 0
    with pytest.raises(EndpointError, match=words) as caught:
        for group in engine.generate((seed, request(seed)) for seed in range(1000)):
            kept += len(group)
    engine.close()
    assert 2 <= kept <= 3 and len(server.seen) <= 5 and caught.value.exit_code == 2
    assert KEY not in str(caught.value) and "stay" not in str(caught.value)


def test_a_bad_key_is_found_at_the_start_and_a_missing_one_is_named(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.models = failure(401, "bad key")
    with pytest.raises(EndpointError, match="put a valid one into the environment variable 'OPENAI_API_KEY'"):
        ask(server)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(EndpointError, match="environment variable 'OPENAI_API_KEY' .* is not set"):
        ask(server)
    assert not server.seen and server.listed == 2


def test_an_unknown_model_is_found_at_the_start(server: FaultServer) -> None:
    with pytest.raises(EndpointError, match=r"'model' .* got 'org/modl'. Did you mean 'org/model'"):
        ask(server, model="org/modl")
    server.models = Answer(body={"data": [{"id": name} for name in (*(f"a/{i}" for i in range(300)), MODEL)]})
    with pytest.raises(EndpointError, match=r"Did you mean 'org/model'") as caught:
        ask(server, model="org/modl")
    assert len(str(caught.value)) < 1000
    assert ask(server, model="alias", served_as=MODEL)[0].model == "alias" and len(server.seen) == 1


@pytest.mark.parametrize(
    "models",
    [failure(404), failure(405), failure(403), failure(501), Answer(body=b"<html>"), Answer(body=[]),
     Answer(body={"data": [{"name": 1}, 2]}), Answer(body={"data": [{"id": f"models/{MODEL}"}]})],
)  # fmt: skip
def test_a_server_without_a_list_of_models_is_fine(server: FaultServer, models: Answer) -> None:
    server.models = models
    assert ask(server)[0].status == "ok"


def test_a_server_that_is_not_there_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with serving(FaultServer()) as probe:
        port = probe.port

    class Starts(FastClock):
        """Starts the server during the second wait."""

        async def sleep(self, seconds: float) -> None:
            if len(self.waits) == 2 and not started:
                started.append(FaultServer(port=port))
                running.append(serving(started[0]))
                running[0].__enter__()
            await super().sleep(seconds)

    started: list[FaultServer] = []
    running: list[Any] = []
    try:
        assert ask(f"http://127.0.0.1:{port}/v1", clock=Starts())[0].status == "ok"
    finally:
        running[0].__exit__(None, None, None)
    assert any("no connection to the server" in record.getMessage() for record in caplog.records)


def test_a_server_that_never_comes_is_one_sentence() -> None:
    with serving(FaultServer()) as probe:
        url = probe.url
    clock = FastClock()
    with pytest.raises(EngineStoppedError, match=r"cannot be reached: no connection .* \(after 5 tries\). Start it"):
        ask(url, clock=clock)
    assert sum(clock.waits) >= 60, "a server needs a minute to start again"


def test_a_server_that_goes_away_stops_the_run_after_some_calls() -> None:
    with serving(FaultServer()) as server:
        made = OpenAIEngine(config(server.url, concurrency=4, max_tries=2), FastClock(4000))
    statuses: list[str] = []
    with pytest.raises(EngineStoppedError, match="run the same command to go on"):
        for group in made.generate((seed, request(seed)) for seed in range(1000)):
            statuses += [reply.status for _, reply in group]
    made.close()
    assert SAME_FAULTS <= len(statuses) <= SAME_FAULTS + 4 and set(statuses) == {"server_error"}


def test_a_certificate_error_stops_at_once() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost", "127.0.0.1").configure_cert(tls)
    clock = FastClock()
    with serving(FaultServer(), tls) as server, pytest.raises(EndpointError, match="certificate .*'SSL_CERT_FILE'"):
        ask(server.url.replace("http:", "https:"), clock=clock)
    assert not clock.waits


def test_a_trusted_certificate_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with serving(FaultServer(), tls) as server:
        assert ask(server.url.replace("http:", "https:"))[0].status == "ok"


def test_the_key_goes_to_the_server_and_nowhere_else(
    server: FaultServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server says and however verbose the log is."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-nobody-else")
    echo = f"you sent Bearer {KEY} of org-of-nobody-else and sk-abcdefgh12345"
    server.script = lambda seen: failure(500, echo) if seen.seed == 1 else failure(422, echo)
    replies = ask(server, [request(1), request(2)], max_tries=2)
    engine = OpenAIEngine(config(server.url))
    server.script = lambda seen: failure(403, echo)
    with pytest.raises(EndpointError) as caught:
        list(engine.generate([(0, request())]))
    engine.close()
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    written = "\n".join([*map(repr, replies), str(caught.value), repr(engine.identity), caplog.text])
    assert "HTTP 500: you sent Bearer ***" in written
    for secret in (KEY, "org-of-nobody-else", "sk-abcdefgh12345"):
        assert secret not in written


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_not_shown(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(DhdError, match="environment variable 'OPENAI_API_KEY'.*not shown") as caught:
        ask(server)
    assert key not in str(caught.value)


def test_a_local_server_needs_no_key_and_spaces_around_one_are_ignored(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", f" {KEY}\n")
    ask(server, api_key_env="OTHER_KEY")
    monkeypatch.delenv("OTHER_KEY")
    ask(server, api_key_env="OTHER_KEY")
    assert [seen.headers["authorization"] for seen in server.seen] == [f"Bearer {KEY}", "Bearer no-key-needed"]


def test_the_address_can_come_from_the_environment(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = OpenAIConfig(kind="openai", model=MODEL, base_url_env="MY_URL")
    assert host_of(made) == "$MY_URL (not set)"
    with pytest.raises(DhdError, match="environment variable 'MY_URL' must hold the base URL of model 'org/model'"):
        OpenAIEngine(made)
    monkeypatch.setenv("MY_URL", server.url)
    assert host_of(made) == f"127.0.0.1:{server.port}"
    engine = OpenAIEngine(made)
    assert next(engine.generate([(0, request())]))[0][1].status == "ok"
    engine.close()
    refused = {
        "http://me:secret@host/v1": "must not hold a user name",
        "http://host/v1?key=secret": "must end with the path of the API",
        "https:/host?secret": "another value",
    }
    for value, words in refused.items():
        monkeypatch.setenv("MY_URL", value)
        with pytest.raises(DhdError, match=words) as caught:
            OpenAIEngine(made)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(DhdError, match="'base_url' of model 'org/model' must be a URL such as http://localhost:8000"):
        OpenAIEngine(config(url))


def test_the_host_has_the_port_of_its_scheme() -> None:
    assert host_of(config("https://api.example.com/v1")) == "api.example.com:443"
    assert host_of(config("http://localhost:8000/v1")) == "localhost:8000"


@pytest.mark.parametrize("field", ["stream", "n", "seed", "model"])
def test_extra_fields_cannot_replace_our_own(field: str) -> None:
    with pytest.raises(DhdError, match=rf"'extra_body' of a role must hold only .*got \['{field}'\]"):
        load_config("oracle", [f"roles.integrator.extra_body.{field}=1"])


def rows(report: RunReport) -> list[Any]:
    """Return outcomes and labels of a run, without the names and the counts of the engine."""
    store = report.directory.open_store()
    found: list[Any] = []
    for result in collect(store, report.directory.config, report.directory.models):
        assert result.pool and len(result.outcomes) == result.planned
        found += [(o.replay.arm, o.replay.block, o.replay.draw, o.status, o.correct, o.seed) for o in result.outcomes]
        found += result.labels(result.main_outcomes(), "missing")
    store.close()
    return found


def test_a_run_over_http_has_the_labels_of_the_run_in_process(server: FaultServer, tmp_path: Path) -> None:
    front = ScriptedFront("scripted-stochastic")
    server.models = failure(404)
    server.script = lambda seen: failure(500) if seen.number % 9 == 0 else front(seen)
    engine = (
        f"engines.world={{kind: openai, model: scripted-stochastic, base_url: {server.url}, max_wait_s: 0.01, "
        "concurrency: 8, max_tries: 20}"
    )
    blocks = "protocol.blocks=2"
    local = dhd_labels.run("oracle", tmp_path / "a", limit=3, overrides=[blocks])
    remote = dhd_labels.run("oracle", tmp_path / "b", limit=3, overrides=[blocks, engine])
    assert rows(local) == rows(remote) and remote.tally.made == local.tally.made > 0 == remote.tally.failed
    sent = len(server.seen)
    assert sent > remote.tally.made
    again = dhd_labels.run("oracle", tmp_path / "b", limit=3, overrides=[blocks, engine])
    assert again.tally.made == 0 and len(server.seen) == sent
