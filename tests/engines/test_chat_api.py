"""Bodies of the chat API as data: whatever a server sends, a reply or one kind of error comes out."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.engines.base import ChatReply
from dhd_labels.engines.chat_api import BrokenAnswerError, decode, reply_of
from dhd_labels.engines.redact import redact
from tests.engines.fault_server import completion

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = (
    ("choices",), ("choices", 0), ("choices", 0, "message"), ("choices", 0, "message", "content"),
    ("choices", 0, "message", "reasoning"), ("choices", 0, "finish_reason"), ("usage",), ("usage", "prompt_tokens"),
    ("usage", "prompt_tokens_details"), ("usage", "prompt_tokens_details", "cached_tokens"), ("model",), ("error",),
)  # fmt: skip


@given(st.sampled_from(PLACES), JSON)
def test_any_value_in_any_place_is_a_reply_or_a_broken_answer(place: tuple[str | int, ...], value: Any) -> None:
    body = completion("7", message={"reasoning": None})
    node: Any = body
    for part in place[:-1]:
        node = node[part]
    node[place[-1]] = value
    with contextlib.suppress(BrokenAnswerError):
        check(reply_of(body, "asked"))


@given(JSON)
def test_any_body_is_a_reply_or_a_broken_answer(body: Any) -> None:
    with contextlib.suppress(BrokenAnswerError):
        check(reply_of(body, "asked"))


def check(reply: ChatReply) -> None:
    """Every field has its type, can be stored as UTF-8, and a reply that is not ok says so."""
    assert reply.status in ("ok", "truncated", "empty", "server_error")
    assert (reply.status == "ok") <= bool(reply.text.strip())
    assert (reply.error is None) == (reply.status in ("ok", "truncated"))
    for text in (reply.text, reply.reasoning, reply.finish_reason, reply.model, reply.error):
        assert text is None or text.encode() is not None
    for count in (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens):
        assert count is None or (type(count) is int and count >= 0)


@given(st.binary())
def test_any_bytes_are_data_or_a_broken_answer(content: bytes) -> None:
    with contextlib.suppress(BrokenAnswerError):
        decode(content)


def test_half_a_surrogate_pair_can_be_stored() -> None:
    body = decode(json.dumps(completion("half \ud83d")).encode())
    assert reply_of(body, "asked").text == "half " + 3 * "\ufffd"
    whole = decode(json.dumps(completion("whole \U0001f600")).encode())
    assert reply_of(whole, "asked").text == "whole \U0001f600"


def test_an_answer_without_an_id_does_not_get_the_one_asked_for() -> None:
    body = completion("7")
    del body["model"]
    assert reply_of(body, "asked").model == ""


@pytest.mark.parametrize("count", [True, -1, 3.5, "3", None])
def test_a_count_that_is_none_is_unknown(count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "prompt_tokens_details": {"cached_tokens": count}}
    reply = reply_of(completion("7", usage=usage), "asked")
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (None, None, None)


def test_parts_of_a_content_are_told_apart() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}, {"type": "text", "text": "7"}]
    reply = reply_of(completion(parts), "asked")
    assert (reply.text, reply.reasoning) == ("7", "so")


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length"])
def test_every_word_for_cut_off_is_truncated(finish: str) -> None:
    assert reply_of(completion("7", choice={"finish_reason": finish}), "asked").status == "truncated"


def test_a_refusal_is_empty_and_says_why() -> None:
    reply = reply_of(completion(None, message={"refusal": "I cannot"}), "asked")
    assert (reply.status, reply.error) == ("empty", "the model returned no text but a refusal")


@given(st.text(alphabet="ab", min_size=4, max_size=9), st.text(alphabet="abc /", max_size=30))
def test_a_secret_is_never_left_in_a_text(secret: str, around: str) -> None:
    assert secret not in redact(f"{around}{secret}{around}", (secret,))


def test_a_long_text_is_cut_and_on_one_line() -> None:
    assert redact("a\n b " * 900).count("\n") == 0 and len(redact("a b " * 900)) == 500
