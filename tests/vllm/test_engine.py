"""The real vLLM on a real model. Run by `make test-vllm`, which installs vLLM and converts the weights."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from dhd_labels.config import VllmConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, Turn
from dhd_labels.engines.vllm import INVARIANT, VllmEngine
from dhd_labels.errors import DhdError
from dhd_labels.protocol.message_text import FIELD_LABELS
from dhd_labels.protocol.prompts import load_json_schema

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    # Torch warns about itself while it is imported, and vLLM leaves a socket context to the interpreter's exit.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "ignore::ResourceWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]


@pytest.fixture(scope="module")
def engine(settings: dict[str, Any]) -> Iterator[VllmEngine]:
    made = VllmEngine(VllmConfig(**settings))
    yield made
    made.close()


def request(text: str, seed: int = 1, tokens: int = 12, grammar: str | None = None) -> ChatRequest:
    turns = (Turn("system", "You are a careful assistant. " * 8), Turn("user", text))
    return ChatRequest(turns, 0.7, 1.0, tokens, seed, grammar, "p")


def answers(engine: VllmEngine, *requests: ChatRequest) -> list[ChatReply]:
    found = dict(itertools.chain.from_iterable(engine.generate(enumerate(requests))))
    return [found[i] for i in range(len(requests))]


def test_identity_names_model_and_digest_but_no_path(engine: VllmEngine, settings: dict[str, Any]) -> None:
    identity = engine.identity
    assert (identity.kind, identity.model) == ("vllm", settings["name"])
    assert re.fullmatch(r"vllm \d+\.\d+\.\d+\S* cpu", identity.version)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", identity.revision)
    assert settings["model"] not in repr((identity, answers(engine, request("Hi"))))


def test_the_prompt_is_the_one_that_vllm_itself_makes_of_the_chat(engine: VllmEngine) -> None:
    asked = request("Hi")
    turns = [{"role": turn.role, "content": turn.content} for turn in asked.turns]
    made = engine._llm.chat(turns, engine._vllm.SamplingParams(max_tokens=1), use_tqdm=False)
    assert engine._prompt(asked) == list(made[0].prompt_token_ids)


def test_seeds_decide_the_sample(engine: VllmEngine) -> None:
    # One at a time: numbers depend on which other requests share a step, see README.
    first, again, *others = [answers(engine, request("Tell me a story.", s, 24))[0].text for s in (1, 1, 2, 3)]
    assert first and first == again and len({first, *others}) == 3


def test_a_shared_prefix_longer_than_a_block_is_cached(engine: VllmEngine) -> None:
    answers(engine, request("What is the capital of France?"))
    replies = answers(engine, request("What is the capital of Spain?"), request("Count to ten."))
    assert all(reply.cached_tokens and reply.cached_tokens >= 32 for reply in replies)
    assert all(reply.cached_tokens % 32 == 0 and reply.cached_tokens < reply.prompt_tokens for reply in replies)


def test_truncation_is_a_status_and_counts_are_true(engine: VllmEngine) -> None:
    cut, done = answers(engine, request("Tell me a long story.", tokens=5), request("Hi", grammar='root ::= "yes"'))
    assert (cut.status, cut.finish_reason, cut.completion_tokens) == ("truncated", "length", 5) and cut.text
    assert (done.status, done.finish_reason, done.text) == ("ok", "stop", "yes")


def test_an_overlong_prompt_is_a_status_and_the_rest_goes_on(engine: VllmEngine) -> None:
    long, short = answers(engine, request("word " * 2000), request("Hi"))
    assert long.status == "prompt_too_long" and long.prompt_tokens and long.prompt_tokens > 1024
    assert long.error and "'max_model_len' is 1024" in long.error
    assert short.text
    # The longest prompt that leaves room for one token is sent.
    room = 1023 - len(engine._prompt(request("")))
    edge, over = answers(engine, request("a" + " a" * (room - 1)), request("a" + " a" * room))
    assert (edge.prompt_tokens, edge.completion_tokens, edge.status) == (1023, 1, "truncated")
    assert (over.prompt_tokens, over.status) == (1024, "prompt_too_long")


def test_a_grammar_forces_the_shape(engine: VllmEngine) -> None:
    grammar = 'root ::= "Answer: \\\\boxed{" [0-9]{1,3} "}"'
    replies = answers(engine, *[request("What is 3 plus 4?", seed, 30, grammar) for seed in range(4)])
    assert {reply.status for reply in replies} == {"ok"}
    assert all(re.fullmatch(r"Answer: \\boxed\{[0-9]{1,3}\}", reply.text) for reply in replies)


def test_a_schema_forces_the_fields_of_a_message(engine: VllmEngine) -> None:
    schema = load_json_schema("standard/hypothesizer")
    text = "What is 3 plus 4? Answer in JSON, each field in a few words."
    replies = answers(engine, *[dataclasses.replace(request(text, s, 300), json_schema=schema) for s in range(8)])
    done = [json.loads(reply.text) for reply in replies if reply.status == "ok"]
    assert done and {reply.status for reply in replies} <= {"ok", "truncated"}
    assert all(list(fields) == list(FIELD_LABELS) for fields in done)


def test_batch_invariant_mode_is_refused_on_a_cpu_before_weights_are_loaded(settings: dict[str, Any]) -> None:
    with pytest.raises(DhdError, match="'batch_invariant' of model 'smollm2-135m-instruct' must be false.*'cpu'"):
        VllmEngine(VllmConfig(**{**settings, "batch_invariant": True, "model": "/nowhere"}))
    assert INVARIANT not in os.environ


def test_a_bad_grammar_fails_its_own_call_with_a_reason(engine: VllmEngine) -> None:
    bad, good = answers(engine, request("Hi", grammar="root ::= nowhere"), request("Hi"))
    assert bad.status == "server_error" and bad.error and "grammar" in bad.error
    assert good.text


def test_more_requests_than_a_batch_and_none_is_lost(engine: VllmEngine) -> None:
    assert len(answers(engine, *[request(f"Say {i}.", i, 2) for i in range(20)])) == 20


def test_an_abandoned_stream_leaves_the_engine_usable(engine: VllmEngine) -> None:
    stream = engine.generate((i, request(f"Say {i}.", i, 3)) for i in range(50))
    next(stream)
    stream.close()
    assert answers(engine, request("Hi"))[0].text


def test_requests_of_one_step_share_their_prefix_on_a_cold_cache(engine: VllmEngine) -> None:
    """So a warming call is of no use here: one of eight that come at once computes the prompt, the others find it."""
    engine._llm.reset_prefix_cache()
    asked = [
        request("How many words has this question, and how many of them are short? " * 4, seed) for seed in range(8)
    ]
    cached = sorted(reply.cached_tokens or 0 for reply in answers(engine, *asked))
    assert cached[0] == 0 and all(count >= 64 for count in cached[1:]), cached


def test_several_draws_of_one_prompt_come_as_one_reply(engine: VllmEngine) -> None:
    asked = dataclasses.replace(request("Say a number and a colour.", 5, 16), n=4)
    (reply,) = answers(engine, asked)
    draws = (reply, *reply.more)
    assert len(draws) == 4 and len({draw.text for draw in draws}) > 1
    assert [draw.prompt_tokens is None for draw in draws] == [False, True, True, True], "the prompt was read once"
    assert all(draw.completion_tokens for draw in draws) and {draw.model for draw in draws} == {reply.model}
