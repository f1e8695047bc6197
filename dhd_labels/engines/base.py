"""What every engine takes and gives back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, TypeVar

Token = TypeVar("Token")
ReplyStatus = Literal["ok", "truncated", "empty", "prompt_too_long", "refused", "server_error"]
"""`refused`: the server answers other prompts and not this one; asking again would give the same."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One chat turn."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """What a role adds to its requests beyond sampling."""

    reasoning_effort: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def template_variables(self) -> dict[str, Any]:
        """Variables for a chat template that is rendered here: the effort is one of them."""
        effort = {"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}
        return {**effort, **self.chat_template_kwargs}


NO_OPTIONS = RequestOptions()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A fully resolved request: with the identity of the engine it decides the answer.

    `affinity` names requests that share a prefix (one problem's); it only guides placement and is not part of any key.
    `n` independent draws of one prompt are asked for at once. `json_schema` is the text of a schema that the answer
    must follow, `grammar` a GBNF grammar; a request has at most one of them.
    """

    turns: tuple[Turn, ...]
    temperature: float
    top_p: float
    max_tokens: int
    seed: int
    grammar: str | None
    affinity: str
    options: RequestOptions = NO_OPTIONS
    n: int = 1
    json_schema: str | None = None

    def for_key(self) -> dict[str, Any]:
        """Return everything that decides the answer, as plain data. Options that are not set leave no trace."""
        unset = {"options": self.options == NO_OPTIONS, "n": self.n == 1, "json_schema": self.json_schema is None}
        kept = (name for name in self.__slots__ if name != "affinity" and not unset.get(name))
        found = {name: getattr(self, name) for name in kept}
        found["turns"] = tuple({"role": turn.role, "content": turn.content} for turn in self.turns)
        if "options" in found:
            found["options"] = asdict(self.options)
        return found


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What came back. `text` excludes any reasoning part; token counts are None when the engine does not say.

    `more` are the further draws of a request with `n` above 1, in order; what all draws shared is counted in the first.
    `server` is what the server says of itself, as JSON: it tells servers under one address apart and decides nothing.
    `unseen` counts the tries of this call whose answer never came whole: the server may charge for them.
    """

    status: ReplyStatus
    text: str
    reasoning: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    model: str
    error: str | None
    more: tuple[ChatReply, ...] = ()
    server: str = field(default="", compare=False)
    unseen: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """Which software and which weights answer. Part of every call's key.

    `model` is the id that goes out; `served_as` the one that must come back when that is another. `settings` are those
    of the engine that change answers, as canonical JSON.
    """

    kind: str
    version: str
    model: str
    revision: str
    served_as: str = ""
    settings: str = ""

    @property
    def comes_back(self) -> str:
        """The model id that every reply must carry; empty for a server that is declared to name none."""
        return "" if self.served_as == "(none)" else self.served_as or self.model

    def for_key(self) -> dict[str, str]:
        """Return the parts that decide the answer, as plain data. Parts that are not set leave no trace."""
        found = asdict(self)
        del found["served_as"]
        if not self.settings:
            del found["settings"]
        return found


class ChatEngine(Protocol):
    """A model that answers a stream of requests."""

    @property
    def identity(self) -> EngineIdentity:
        """Software, version, model and revision."""
        ...

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests, pulling them lazily, and yield in any order what has finished since the last look.

        A stream that has ended may go on later: it is worth another look while requests are in flight.

        A failed call is a reply with a status. Replies come in groups so that the store can commit a group with one
        sync; a group never waits for a call that is still running.
        """
        ...

    def close(self) -> None:
        """Stop the engine and free its memory."""
        ...
