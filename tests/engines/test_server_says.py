"""Another server behind the same address is told by what it says of itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.engines.base import ChatReply
from dhd_labels.engines.openai import OpenAIEngine
from dhd_labels.engines.server_says import describe, entry_of
from tests.engines.fault_server import MODEL, Answer, FaultServer, Seen, completion, good, serving
from tests.engines.test_chat_api import JSON
from tests.engines.test_openai import FastClock, ask, config, request

VLLM = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "root": "org/model", "parent": None,
    "max_model_len": 4096, "permission": [{"id": "modelperm-1", "created": 1}]}  # fmt: skip
LLAMA = {"id": MODEL, "created": 1, "owned_by": "llamacpp", "meta": {"ftype": "Q4_1", "size": 96576768, "n_ctx": 512}}


def listing(**changes: Any) -> Answer:
    return Answer(body={"object": "list", "data": [{"id": "other"}, {**VLLM, **changes}]})


def says(reply: ChatReply) -> dict[str, str]:
    found: dict[str, str] = json.loads(reply.server)
    return found


def fingerprinted(seen: Seen) -> Answer:
    return Answer(body=completion("yes", model=MODEL, system_fingerprint=f"fp-{seen.seed % 2}"))


def test_what_it_says_is_the_entry_the_fingerprint_and_the_program() -> None:
    with serving(FaultServer(fingerprinted, listing())) as server:
        odd, even = ask(server, [request(1), request(2)])
    entry = {"owned_by": "vllm", "root": "org/model", "max_model_len": "4096"}
    assert says(odd) == {**entry, "system_fingerprint": "fp-1", "server": "BaseHTTP"}
    assert says(even) == says(odd) | {"system_fingerprint": "fp-0"}


def test_a_restart_of_the_same_server_says_the_same() -> None:
    again = {**VLLM, "created": 2, "permission": [{"id": "modelperm-2", "created": 2}]}
    assert entry_of({"data": [VLLM]}, [MODEL]) == entry_of({"data": [again]}, [MODEL])


@pytest.mark.parametrize(
    "changes",
    [{"root": "/models/a-int4"}, {"max_model_len": 2048}, {"owned_by": "sglang"}, {"parent": "base"}, LLAMA,
     {"meta": {"ftype": "Q8_0"}}, {"meta": {"size": 5}}],
)  # fmt: skip
def test_other_weights_or_another_program_say_something_else(changes: dict[str, Any]) -> None:
    assert entry_of({"data": [VLLM]}, [MODEL]) != entry_of({"data": [{**VLLM, **changes}]}, [MODEL])


def test_a_path_is_not_shown_but_another_path_is_another_server() -> None:
    one, two = (entry_of({"data": [{**VLLM, "root": f"/data/of-me/{name}/weights"}]}, [MODEL]) for name in "ab")
    assert one["root"] != two["root"] and "of-me" not in str((one, two))


@given(JSON, JSON, st.text(max_size=20))
def test_whatever_a_server_says_is_a_few_short_lines(entry: Any, fingerprint: Any, program: str) -> None:
    data = {"data": [{**VLLM, "root": entry, "meta": entry}]}
    found = describe(entry_of(data, [MODEL]), {"system_fingerprint": fingerprint}, {"server": program})
    assert all(isinstance(v, str) and v and len(v) <= 80 and v.isprintable() for v in found.values())
    assert describe(entry_of(entry, [MODEL]), entry, {}) is not None
    assert json.dumps(found).encode("utf-8")


def test_the_key_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key := "letmein-4711-and-stay")
    with serving(FaultServer(models=listing(owned_by=f"you sent {key}", root=key))) as server:
        (reply,) = ask(server)
    assert "letmein" not in reply.server and "***" in reply.server


def test_it_takes_no_part_in_comparing_replies_or_keys() -> None:
    one = ChatReply("ok", "7", None, "stop", 1, 0, 1, MODEL, None, server="a")
    assert one == ChatReply("ok", "7", None, "stop", 1, 0, 1, MODEL, None, server="b")


class SleepClock(FastClock):
    """Time passes only by waiting, so that nothing gets old by itself."""

    time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await super().sleep(seconds)


@pytest.mark.parametrize("sign", [Answer(body=b"", cut_at=0), Answer(502, {}), Answer(503, {}), Answer(body=b"<html>")])
def test_after_a_restart_every_answer_carries_what_the_new_server_says(sign: Answer) -> None:
    """A call breaks in the middle of a stream, and another server is up under the same address and id."""
    server = FaultServer(models=listing())

    def script(seen: Seen) -> Answer:
        if seen.seed == 3 and seen.tries == 1:
            server.models = listing(max_model_len=2048)
            return sign
        return good(seen)

    server.script = script
    with serving(server):
        replies = ask(server, map(request, range(6)), clock := SleepClock(), concurrency=1)
    assert [says(reply)["max_model_len"] for reply in replies] == ["4096"] * 3 + ["2048"] * 3
    assert clock.time < 10 and server.listed == 2, "it is the broken call that makes it look again, once"


class Ahead(FastClock):
    """A clock that can be put forward."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


def test_a_silent_change_is_seen_before_long() -> None:
    with serving(FaultServer(models=listing())) as server:
        engine = OpenAIEngine(config(server.url, concurrency=1), clock := Ahead(1.0))
        first = next(engine.generate([(0, request())]))[0][1]
        server.models = listing(root="other/weights")
        clock.ahead = 11
        later = next(engine.generate([(0, request())]))[0][1]
        engine.close()
    assert (says(first)["root"], says(later)["root"]) == ("org/model", "other/weights") and server.listed == 2


def test_a_list_that_is_not_offered_is_not_asked_for_again() -> None:
    with serving(FaultServer(models=Answer(404, {}))) as server:
        replies = ask(server, map(request, range(20)), FastClock(100_000))
        assert server.listed == 1 and {reply.server for reply in replies} == {'{"server": "BaseHTTP"}'}


def test_a_list_that_breaks_later_costs_no_call() -> None:
    with serving(FaultServer(models=listing())) as server:
        engine = OpenAIEngine(config(server.url), FastClock(100_000))
        server.models = Answer(500, {})
        replies = [reply for group in engine.generate((n, request(n)) for n in range(20)) for _, reply in group]
        engine.close()
    assert {reply.status for reply in replies} == {"ok"} and says(replies[0])["root"] == "org/model"
