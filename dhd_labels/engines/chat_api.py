"""The chat completions API as data: what goes out for a request, and what a body that came back says."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dhd_labels.config import OpenAIConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, ReplyStatus
from dhd_labels.errors import DhdError

_CUT = {"length", "max_tokens", "model_length"}
_FAILED = {"abort", "content_filter", "error"}


class BrokenAnswerError(Exception):
    """A body with status 200 that is no answer: no JSON, another shape, or an error in disguise."""


def arguments_of(request: ChatRequest, config: OpenAIConfig) -> dict[str, Any]:
    """Return the arguments of the client's `chat.completions.create`.

    Raises:
        DhdError: the request has a grammar and the config does not say how this server takes one.
    """
    options = request.options
    template = {"chat_template_kwargs": dict(options.chat_template_kwargs)} if options.chat_template_kwargs else {}
    effort = {"reasoning_effort": options.reasoning_effort} if options.reasoning_effort else {}
    grammar = _grammar_fields(request.grammar, config) if request.grammar else {}
    style, extra = _schema_fields(request.json_schema, config) if request.json_schema else ({}, {})
    return {
        "model": config.model,
        "messages": [{"role": turn.role, "content": turn.content} for turn in request.turns],
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        **({"n": request.n} if request.n > 1 else {}),
        **effort,
        **style,
        "extra_body": {**template, **grammar, **extra, **options.extra_body},
    }


def _grammar_fields(grammar: str, config: OpenAIConfig) -> dict[str, Any]:
    if config.grammar_style == "vllm":
        return {"structured_outputs": {"grammar": grammar}}
    if config.grammar_style == "llamacpp":
        return {"grammar": grammar}
    raise DhdError(
        f"The 'grammar_style' of model {config.model!r} must be 'vllm' or 'llamacpp' for a role with a 'grammar', got "
        "'none': say which of the two the server is, or set the 'grammar' of the role to null"
    )


def _schema_fields(schema: str, config: OpenAIConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the field of the API for a JSON schema, and the field beyond it where the server is known to be vLLM.

    Only the latter can forbid white space between fields, of which a small model may write nothing else.
    """
    if config.grammar_style == "vllm":
        return {}, {"structured_outputs": {"json": json.loads(schema), "disable_any_whitespace": True}}
    named = {"name": "answer", "schema": json.loads(schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}, {}


def decode(content: bytes) -> Any:
    """Return a body as data.

    Raises:
        BrokenAnswerError: it is no JSON.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise BrokenAnswerError(f"the answer is no JSON ({len(content)} bytes)") from None


def reply_of(body: Any, asked: str, draws: int = 1) -> ChatReply:
    """Read the body of a finished call. Its text is data: whatever it holds, a reply with a status comes out.

    Args:
        body: the decoded JSON.
        asked: the model id that a failed reply carries when the server named none.
        draws: draws that were asked for. The usage of all is counted in the first.

    Raises:
        BrokenAnswerError: it has another shape, or is an error that was sent with status 200.
    """
    if not isinstance(body, dict):
        raise BrokenAnswerError(f"the answer is a JSON {type(body).__name__}, not an object")
    if body.get("error") and not body.get("choices"):
        raise BrokenAnswerError(f"the server answered an error: {body['error']}")
    if "choices" not in body:
        raise BrokenAnswerError("the answer has no 'choices'")
    choices = _choices(body["choices"])
    if not choices:
        return _with_counts(body, "server_error", "", None, None, "the answer has empty 'choices'", asked)
    first, *others = (_read_choice(choice, body) for choice in choices[:draws])
    if not others:
        return first
    uncounted = (replace(o, prompt_tokens=None, cached_tokens=None, completion_tokens=None) for o in others)
    return replace(first, more=tuple(uncounted))


def _read_choice(choice: Mapping[str, Any], body: Mapping[str, Any]) -> ChatReply:
    message = _mapping(choice.get("message"))
    finish = _text(choice.get("finish_reason"))
    text, thought = _content(message.get("content"))
    reasoning = _text(message.get("reasoning")) or _text(message.get("reasoning_content")) or thought
    status, error = _judge(text, finish, message)
    return _with_counts(body, status, text, reasoning, finish, error, "")


def _judge(text: str, finish: str | None, message: Mapping[str, Any]) -> tuple[ReplyStatus, str | None]:
    if finish in _CUT:
        return "truncated", None
    if finish in _FAILED:
        return "server_error", f"the server ended the answer with {finish!r}"
    if text.strip():
        return "ok", None
    if message.get("refusal"):
        return "empty", "the model returned no text but a refusal"
    return "empty", "the model returned no text"


def _with_counts(
    body: Mapping[str, Any],
    status: ReplyStatus,
    text: str,
    reasoning: str | None,
    finish: str | None,
    error: str | None,
    unnamed: str,
) -> ChatReply:
    """Build a reply with the usage and the model id of the body; `unnamed` stands for an id that is not there."""
    usage = _mapping(body.get("usage"))
    return ChatReply(
        status=status,
        text=text,
        reasoning=reasoning,
        finish_reason=finish,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        model=_text(body.get("model")) or unnamed,
        error=error,
    )


def _choices(choices: Any) -> list[Mapping[str, Any]]:
    """Return the choices before the first that is none."""
    found = choices if isinstance(choices, list) else []
    return list(itertools.takewhile(lambda choice: isinstance(choice, dict), found))


def _content(content: Any) -> tuple[str, str | None]:
    """Return (text, reasoning) of a content that is a text, nothing, or a list of typed parts."""
    if not isinstance(content, list):
        return _text(content) or "", None
    parts = [_mapping(part) for part in content]
    text = "".join(_text(part.get("text")) or "" for part in parts if part.get("type") == "text")
    nested = [_content(part.get("thinking"))[0] for part in parts if part.get("type") == "thinking"]
    return text, "".join(nested) or None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    """Return a text that can be stored as UTF-8, or None. JSON can escape half a surrogate pair, UTF-8 cannot."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
