"""What every engine takes and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

Token = TypeVar("Token")
ReplyStatus = Literal["ok", "truncated", "empty", "prompt_too_long", "server_error"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One chat turn."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A fully resolved request: with the identity of the engine it decides the answer.

    `affinity` names requests that share a prefix (one problem's); it only guides placement and is not part of any key.
    """

    turns: tuple[Turn, ...]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    grammar: str | None
    affinity: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What came back. `text` excludes any reasoning part; token counts are None when the engine does not say."""

    status: ReplyStatus
    text: str
    reasoning: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    model: str
    error: str | None


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """Which software and which weights answer. Part of every call's key."""

    kind: str
    version: str
    model: str
    revision: str


class ChatEngine(Protocol):
    """A model that answers a stream of requests."""

    @property
    def identity(self) -> EngineIdentity:
        """Software, version, model and revision."""
        ...

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests, pulling them lazily, and yield in any order what has finished since the last look.

        A failed call is a reply with a status. Replies come in groups so that the store can commit a group with one
        sync; a group never waits for a call that is still running.
        """
        ...

    def close(self) -> None:
        """Stop the engine and free its memory."""
        ...
