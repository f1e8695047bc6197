"""Make the calls that are not in the store yet, and commit each as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dhd_labels.config import RoleConfig
from dhd_labels.engines.base import ChatEngine, ChatReply, ChatRequest, EngineIdentity, RequestOptions, Turn
from dhd_labels.errors import DhdError
from dhd_labels.records import content_id
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.store import OTHER_MODEL, Store

NO_MODEL = "(none)"
"""What `served_as` says of a server whose answers carry no model id."""


@dataclass(frozen=True, slots=True)
class Call:
    """One answer that the protocol needs: its place (ticket), its prompt, and what counts as an answer."""

    ticket: str
    role: str
    problem_id: str
    turns: tuple[Turn, ...]
    decoding: RoleConfig
    grammar: str | None
    seed: Callable[[int], int]
    accepts: Callable[[ChatReply], bool]
    json_schema: str | None = None

    def request(self, attempt: int) -> ChatRequest:
        """Return the resolved request of an attempt; every attempt has its own seed."""
        return ChatRequest(
            self.turns,
            self.decoding.temperature,
            self.decoding.top_p,
            self.decoding.max_tokens,
            self.seed(attempt),
            self.grammar,
            affinity=self.problem_id,
            options=RequestOptions(
                self.decoding.reasoning_effort, self.decoding.chat_template_kwargs, self.decoding.extra_body
            ),
            json_schema=self.json_schema,
        )

    def key(self, engine: EngineIdentity, attempt: int) -> str:
        """Return the SHA-256 of the fully resolved request, the engine that answers it and the draw it is for."""
        request = self.request(attempt).for_key()
        return content_id({"engine": engine.for_key(), "request": request, "ticket": self.ticket, "attempt": attempt})


class ModelMismatchError(DhdError):
    """Another model answered than the config declares."""


@dataclass(slots=True)
class Tally:
    """What one invocation did: answers found in the store, calls made, calls that failed."""

    found: int = 0
    made: int = 0
    failed: int = 0


def execute(
    calls: Iterable[Call], engine: ChatEngine, store: Store, max_attempts: int, tally: Tally, tick: Callable[[], None]
) -> None:
    """Answer every call that has no accepted answer yet.

    An answer that cannot be used is asked for again at once with the seed of the next attempt, up to `max_attempts`. A
    server error waits for the next run, since a server that is down would only burn the attempts; it spends none.

    Raises:
        ModelMismatchError: another model answered. Its answers are in the store as failed calls, which the next run
        asks
            for again; what the declared model has answered stays.
    """
    waiting: Iterable[Call] = calls
    while True:
        again: list[Call] = []
        for group in engine.generate(_requests(waiting, engine.identity, store, max_attempts, tally, tick)):
            checked = [(call, attempt, _of_declared_model(engine.identity, reply)) for (call, attempt), reply in group]
            store.add_calls([_row(call, attempt, engine.identity, reply) for call, attempt, reply in checked])
            for call, _, reply in checked:
                if is_of_another_model(reply):
                    raise model_mismatch(call.role, engine.identity, reply.model)
                usable = call.accepts(reply)
                tally.made += 1
                tally.failed += not usable
                if not usable and reply.status != "server_error" and not _is_spent(call, store, max_attempts):
                    again.append(call)
                else:
                    tick()
        if not again:
            return
        waiting = again


def is_of_another_model(reply: ChatReply) -> bool:
    """Whether a stored reply was refused because another model than the declared one gave it."""
    return reply.status == "server_error" and (reply.error or "").startswith(OTHER_MODEL)


def _of_declared_model(engine: EngineIdentity, reply: ChatReply) -> ChatReply:
    """Return a reply, or the failed call that it is when another model gave it. The text is kept."""
    if reply.status in ("ok", "truncated", "empty") and reply.model != engine.comes_back:
        return replace(reply, status="server_error", error=f"{OTHER_MODEL} than {engine.comes_back!r}")
    return reply


def model_mismatch(role: str, engine: EngineIdentity, came_back: str) -> ModelMismatchError:
    """Return the error of a role that another model answered."""
    alias = came_back or NO_MODEL
    return ModelMismatchError(
        f"The {role} must be answered by {engine.comes_back!r} (asked for as {engine.model!r}), but "
        f"{f'{came_back!r} came' if came_back else 'an answer without a model id came'} back. It is stored as a failed "
        "call. Correct the server and run again: that call is asked for again, all other answers stay. If it is the "
        f"same model under another name, set 'served_as' of its engine to {alias!r}."
    )


def _requests(
    calls: Iterable[Call],
    engine: EngineIdentity,
    store: Store,
    max_attempts: int,
    tally: Tally,
    tick: Callable[[], None],
) -> Iterator[tuple[tuple[Call, int], ChatRequest]]:
    for call in calls:
        attempt = _next_attempt(call, engine, store, max_attempts)
        if attempt is None:
            tally.found += 1
            tick()
        else:
            yield (call, attempt), call.request(attempt)


def _next_attempt(call: Call, engine: EngineIdentity, store: Store, max_attempts: int) -> int | None:
    """Return the number of the attempt to make, or None when the store has the answer or the attempts are spent."""
    rows = store.attempts(call.ticket)
    for row in rows:
        if row.key != call.key(engine, row.attempt):
            raise DhdError(
                f"The stored call {call.ticket!r} of {store.path} was made with another prompt, model or sampling than "
                "this run would use. Use the version of dhd-labels that began the run, or a new --run-dir."
            )
    if rows and (call.accepts(rows[-1].reply) or _are_spent(call, rows, max_attempts)):
        return None
    return len(rows)


def _is_spent(call: Call, store: Store, max_attempts: int) -> bool:
    return _are_spent(call, store.attempts(call.ticket), max_attempts)


def _are_spent(call: Call, rows: Sequence[CallRow], max_attempts: int) -> bool:
    """Whether asking again is pointless: the attempts are used up, or temperature 0 gave the same text twice."""
    answered = [row.reply for row in rows if row.reply.status != "server_error"]
    if len(answered) >= max_attempts:
        return True
    same = len(answered) >= 2 and answered[-1].text == answered[-2].text
    return same and call.decoding.temperature == 0 and rows[-1].reply.status != "server_error"


def _row(call: Call, attempt: int, engine: EngineIdentity, reply: ChatReply) -> CallRow:
    seed = call.seed(attempt)
    return CallRow(call.ticket, attempt, call.key(engine, attempt), call.role, call.problem_id, seed, reply)
