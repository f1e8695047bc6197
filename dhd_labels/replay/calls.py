"""Make the calls that are not in the store yet, and commit each as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dhd_labels.config import RoleConfig
from dhd_labels.engines.base import ChatEngine, ChatReply, ChatRequest, EngineIdentity, RequestOptions, Turn
from dhd_labels.errors import DhdError
from dhd_labels.records import content_id
from dhd_labels.replay.store import CallRow, Store


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

    An answer that cannot be used is asked for again at once with the seed of the next attempt; a server error waits for
    the next run, since a server that is down would only burn the attempts. Both stop after `max_attempts`.
    """
    waiting: Iterable[Call] = calls
    while True:
        again: list[Call] = []
        for group in engine.generate(_requests(waiting, engine.identity, store, max_attempts, tally, tick)):
            store.add_calls([_row(call, attempt, engine.identity, reply) for (call, attempt), reply in group])
            check_model(engine.identity, [(call.role, reply) for (call, _), reply in group])
            for (call, attempt), reply in group:
                usable = call.accepts(reply)
                tally.made += 1
                tally.failed += not usable
                retry = not usable and reply.status != "server_error" and attempt + 1 < max_attempts
                if retry:
                    again.append(call)
                else:
                    tick()
        if not again:
            return
        waiting = again


def check_model(engine: EngineIdentity, replies: Iterable[tuple[str, ChatReply]]) -> None:
    """Stop at the first answer of another model than the declared one, before more is paid.

    Raises:
        ModelMismatchError: a reply carries another model id. It is in the store already, with that id.
    """
    for role, reply in replies:
        if reply.status in ("ok", "truncated", "empty") and reply.model != engine.comes_back:
            raise model_mismatch(role, engine, reply.model)


def model_mismatch(role: str, engine: EngineIdentity, came_back: str) -> ModelMismatchError:
    """Return the error of a role that another model answered."""
    return ModelMismatchError(
        f"The {role} must be answered by {engine.comes_back!r} (asked for as {engine.model!r}), but {came_back!r} came "
        "back. If that is the same model under another name, set 'served_as' of its engine to this name and run again. "
        "If not, correct the server and use a new --run-dir: the wrong answers are in this store."
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
    if rows and (call.accepts(rows[-1].reply) or len(rows) >= max_attempts):
        return None
    return len(rows)


def _row(call: Call, attempt: int, engine: EngineIdentity, reply: ChatReply) -> CallRow:
    seed = call.seed(attempt)
    return CallRow(call.ticket, attempt, call.key(engine, attempt), call.role, call.problem_id, seed, reply)
