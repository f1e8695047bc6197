"""What a server says of itself beyond the model id, so that another server behind the same address is noticed.

Two servers can answer under one address and one model id: the same model with other weights, another quantization or a
shorter context, another program. The entry in the list of models and the answers themselves tell most of them apart.
What changes with every start (times, ids of permissions) is left out. It is no part of any key: a run may move servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dhd_labels.engines.base import ChatReply
from dhd_labels.engines.redact import redact

if TYPE_CHECKING:  # it imports the client, which reading a store does not need
    from dhd_labels.engines.http_faults import Fault

SOFTWARE = ("system_fingerprint", "server")
"""Parts that hosted services change without changing the model. All other parts come from the list of models."""
_ENTRY = ("owned_by", "root", "parent", "max_model_len", "context_length", "quantization")
_META = ("ftype", "size", "n_params", "n_ctx", "n_ctx_train")  # llama.cpp: kind and size of the weights
_LONGEST = 80
_AGE_S = 10.0
_PATIENCE_S = 5.0


def entry_of(answer: Any, names: Sequence[str], secrets: Sequence[str] = ()) -> dict[str, str]:
    """Return what the list of models says of the first of some ids that it has; empty when it has none."""
    items = answer.get("data") if isinstance(answer, dict) else None
    found = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    by_id = {str(item.get("id")).removeprefix("models/"): item for item in reversed(found)}
    item = next((by_id[name] for name in names if name in by_id), {})
    meta = item.get("meta")
    parts = {name: item.get(name) for name in _ENTRY}
    parts |= {name: meta.get(name) for name in _META} if isinstance(meta, dict) else {}
    return _plain(parts, secrets)


def describe(
    entry: Mapping[str, str], body: Any, headers: Mapping[str, str], secrets: Sequence[str] = ()
) -> dict[str, str]:
    """Return the entry with what an answer adds: its fingerprint, and the name of the server program."""
    fingerprint = body.get("system_fingerprint") if isinstance(body, dict) else None
    program = headers.get("server", "").split("/")[0].split("(")[0].strip()  # versions come and go
    return {**entry, **_plain({"system_fingerprint": fingerprint, "server": program}, secrets)}


def signed(reply: ChatReply, description: Mapping[str, str]) -> ChatReply:
    """Return a reply, and its further draws, with the description of the server that gave it."""
    said = json.dumps(description, sort_keys=True) if description else ""
    return replace(reply, server=said, more=tuple(replace(draw, server=said) for draw in reply.more))


def _plain(parts: Mapping[str, Any], secrets: Sequence[str]) -> dict[str, str]:
    found = {name: _word(value, secrets) for name, value in parts.items() if isinstance(value, str | int | float)}
    return {name: word for name, word in found.items() if word}


def _word(value: str | float, secrets: Sequence[str]) -> str:
    """Return a value as one short line. A path is private, but that it changed is not: it becomes a digest."""
    text = "".join(c for c in str(value).encode("utf-8", "replace").decode() if c.isprintable())
    shown = redact(text, secrets)[:_LONGEST]
    return f"path {hashlib.sha256(text.encode()).hexdigest()[:8]}" if "(path)" in shown else shown


class ServerWatch:
    """Keeps the entry of the model up to date. Lives in one event loop.

    It is read again before a call when it is older than 10 s, or after a fault that a restart of the server brings.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[Any]],
        names: Sequence[str],
        now: Callable[[], float],
        secrets: Sequence[str],
    ) -> None:
        self._ask, self._names, self._now, self._secrets = ask, names, now, secrets
        self._entry: dict[str, str] = {}
        self._lists = self._doubted = False
        self._read_at = 0.0
        self._lock = asyncio.Lock()

    def start(self, answer: Any) -> None:
        """Take the list of models that was read at the start, or the fault that came in its place."""
        self._lists = isinstance(answer, dict)
        self._take(answer)

    def doubt(self, fault: Fault) -> None:
        """Note a fault; after some of them another server may be there."""
        broken = fault.status is None and fault.kind in ("away", "passing")
        self._doubted = self._doubted or broken or fault.status in (502, 503, 504)

    async def entry(self) -> dict[str, str]:
        """Return what the list of models says now. A list that cannot be had leaves what is known."""
        if self._lists:
            async with self._lock:
                if self._doubted or self._now() - self._read_at > _AGE_S:
                    await self._read()
        return self._entry

    def describe(self, entry: Mapping[str, str], body: Any, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the description of the server that gave an answer."""
        return describe(entry, body, headers, self._secrets)

    async def _read(self) -> None:
        self._doubted, answer = False, None
        with contextlib.suppress(Exception):  # the call itself is next, and says what is wrong
            async with asyncio.timeout(_PATIENCE_S):
                answer = await self._ask()
        self._take(answer)

    def _take(self, answer: Any) -> None:
        self._read_at = self._now()
        if isinstance(answer, dict):
            self._entry = entry_of(answer, self._names, self._secrets)
