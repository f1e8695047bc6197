"""Make the calls that are not in the store yet, and commit each as it arrives."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dhd_labels.config import RoleConfig
from dhd_labels.engines.base import ChatEngine, ChatReply, ChatRequest, EngineIdentity, RequestOptions, Turn
from dhd_labels.errors import DhdError
from dhd_labels.records import content_id
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.cost import Budget
from dhd_labels.replay.store import OTHER_MODEL, Store

MOST_AGAIN = 1000
"""Calls that may wait for the others before they are asked again; each holds its prompt."""
NO_MODEL = "(none)"
"""What `served_as` says of a server whose answers carry no model id."""


@dataclass(frozen=True, slots=True)
class DrawOf:
    """What a call has in common with the others of its prompt that are asked for as one request for `of` draws."""

    of: int
    seed: int


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
    draw: DrawOf | None = None
    json_schema: str | None = None

    def request(self, attempt: int, *, merged: bool = False) -> ChatRequest:
        """Return the resolved request of an attempt; every attempt has its own seed.

        Args:
            attempt: 0 for the first.
            merged: the one request for this call and those it is merged with.
        """
        return ChatRequest(
            self.turns,
            self.decoding.temperature,
            self.decoding.top_p,
            self.decoding.max_tokens,
            self.draw.seed if merged and self.draw else self.seed(attempt),
            self.grammar,
            affinity=self.problem_id,
            options=RequestOptions(
                self.decoding.reasoning_effort, self.decoding.chat_template_kwargs, self.decoding.extra_body
            ),
            n=self.draw.of if merged and self.draw else 1,
            json_schema=self.json_schema,
        )

    def key(self, engine: EngineIdentity, attempt: int, *, merged: bool = False) -> str:
        """Return the SHA-256 of the fully resolved request, the engine that answers it and the draw it is for."""
        return self.key_of(engine, self.request(attempt, merged=merged), attempt)

    def key_of(self, engine: EngineIdentity, request: ChatRequest, attempt: int) -> str:
        """Return the key of this call when a request asks for it, alone or merged with others."""
        ticket = {"ticket": self.ticket, "attempt": attempt}
        return content_id({"engine": engine.for_key(), "request": request.for_key(), **ticket})


def merge(calls: Sequence[Call]) -> list[Call]:
    """Return calls of one prompt as draws of one request. Each stays a call of its own, with a row of its own."""
    if len(calls) == 1:
        return list(calls)
    draw = DrawOf(len(calls), calls[0].seed(0))
    return [replace(call, draw=draw) for call in calls]


class ModelMismatchError(DhdError):
    """Another model answered than the config declares."""


@dataclass(slots=True)
class Tally:
    """What one invocation did: answers found in the store, calls made, calls that failed."""

    found: int = 0
    made: int = 0
    failed: int = 0


def execute(
    calls: Iterable[Call],
    engine: ChatEngine,
    store: Store,
    max_attempts: int,
    tally: Tally,
    tick: Callable[[], None],
    budget: Budget | None = None,
) -> None:
    """Answer every call that has no accepted answer yet.

    An answer that cannot be used is asked for again at once with the seed of the next attempt, up to `max_attempts`. A
    server error waits for the next run, since a server that is down would only burn the attempts; it spends none.
    Merged calls that were never asked for are one request; what of them has to be asked again is asked for by itself.

    Raises:
        ModelMismatchError: another model answered. Its answers are in the store as failed calls, which the next run
            asks for again; what the declared model has answered stays.
        CostLimitError: the next call could pass the limit; all calls before it are answered and in the store.
    """
    _Execution(engine, store, max_attempts, tally, tick, budget).run(calls)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request, the calls that it asks for (several when they are merged), and the number of their attempt."""

    calls: tuple[Call, ...]
    attempt: int
    request: ChatRequest


class _Admitted(Iterator[tuple[_Asked, ChatRequest]]):
    """The requests that the budget admits; `held` is one that it does not admit now.

    It ends there and goes on when the calls in flight have cost less than was reserved. An engine that looks again
    while others are in flight so keeps as many in flight as the limit allows.
    """

    def __init__(self, asked: Iterator[_Asked], budget: Budget | None) -> None:
        self._asked, self._budget = asked, budget
        self.held: _Asked | None = None

    def __next__(self) -> tuple[_Asked, ChatRequest]:
        asked = self.held or next(self._asked)
        self.held = None
        if self._budget and not self._budget.admit(asked.calls[0].role, asked.request):
            self.held = asked
            raise StopIteration
        return asked, asked.request


@dataclass(slots=True)
class _Execution:
    """Answers calls with one engine. `again` are calls whose answer could not be used."""

    engine: ChatEngine
    store: Store
    max_attempts: int
    tally: Tally
    tick: Callable[[], None]
    budget: Budget | None
    again: list[Call] = field(default_factory=list)

    def run(self, calls: Iterable[Call]) -> None:
        """Ask until each call is settled: all of them, then those that have to be asked again, and so on."""
        waiting = _together(calls)
        while True:
            self._round(waiting)
            if not self.again:
                return
            waiting = self._once_more()

    def _round(self, waiting: Iterator[list[Call]]) -> None:
        """Ask for every call once, and for those that are to be asked again before there are too many of them."""
        asked = (asked for calls in self._in_turn(waiting) for asked in self._missing(calls))
        admitted = _Admitted(asked, self.budget)
        while True:
            made = self.tally.made
            for group in self.engine.generate(admitted):
                self._take(group)
            if admitted.held is None:
                return
            if self.budget and self.tally.made == made:
                raise self.budget.refusal(admitted.held.calls[0].role, admitted.held.request)

    def _in_turn(self, waiting: Iterator[list[Call]]) -> Iterator[list[Call]]:
        for calls in waiting:
            if len(self.again) >= MOST_AGAIN:
                yield from self._once_more()
            yield calls

    def _once_more(self) -> Iterator[list[Call]]:
        """Take the calls that are to be asked again, each by itself."""
        calls, self.again = self.again, []
        return iter([[call] for call in calls])

    def _take(self, group: Sequence[tuple[_Asked, ChatReply]]) -> None:
        """Commit what has finished."""
        answers = [answer for asked, reply in group for answer in self._answers(asked, reply)]
        self.store.add_calls([row for _, row in answers])
        for call, row in answers:
            if self._settle(call, row.reply):
                self.again.append(call)
            else:
                self.tick()
        self._pay(group)

    def _missing(self, calls: Sequence[Call]) -> Iterator[_Asked]:
        """Yield what is to be asked of some calls of one prompt: all in one request, or those that are left."""
        attempts = [_next_attempt(call, self.engine.identity, self.store, self.max_attempts) for call in calls]
        draw = calls[0].draw
        if draw and len(calls) == draw.of and not any(attempt != 0 for attempt in attempts):
            yield _Asked(tuple(calls), 0, calls[0].request(0, merged=True))
            return
        for call, attempt in zip(calls, attempts, strict=True):
            if attempt is None:
                self.tally.found += 1
                self.tick()
            else:
                yield _Asked((call,), attempt, call.request(attempt))

    def _answers(self, asked: _Asked, reply: ChatReply) -> Iterator[tuple[Call, CallRow]]:
        """Yield each call of a request with the row of its draw."""
        engine, attempt, request = self.engine.identity, asked.attempt, asked.request
        for call, draw in zip(asked.calls, _draws(reply, len(asked.calls)), strict=True):
            key = call.key_of(engine, request, attempt)
            checked = _of_declared_model(engine, draw)
            yield call, CallRow(call.ticket, attempt, key, call.role, call.problem_id, request.seed, checked)

    def _settle(self, call: Call, reply: ChatReply) -> bool:
        """Count an answer; return whether it has to be asked for again."""
        if is_of_another_model(reply):
            raise model_mismatch(call.role, self.engine.identity, reply.model)
        usable = call.accepts(reply)
        self.tally.made += 1
        self.tally.failed += not usable
        return not usable and reply.status != "server_error" and not _is_spent(call, self.store, self.max_attempts)

    def _pay(self, group: Sequence[tuple[_Asked, ChatReply]]) -> None:
        if self.budget:
            for asked, reply in group:
                self.budget.settle(asked.calls[0].role, asked.request, reply)


def _together(calls: Iterable[Call]) -> Iterator[list[Call]]:
    """Yield the calls one by one, but neighbours that are draws of one request together."""
    for _, group in itertools.groupby(calls, key=lambda call: (call.problem_id, call.draw.seed) if call.draw else call):
        yield list(group)


def _draws(reply: ChatReply, asked: int) -> Iterator[ChatReply]:
    """Yield so many draws: what came back, and failed calls in place of what did not."""
    found = (replace(reply, more=()), *reply.more)[:asked]
    yield from found
    for _ in range(asked - len(found)):
        if reply.status in ("ok", "truncated", "empty"):
            error = f"the server gave {len(found)} of {asked} draws; it may not know 'n' (protocol.merge_draws)"
            yield replace(_uncounted(reply), status="server_error", text="", reasoning=None, error=error)
        else:
            yield _uncounted(reply)


def _uncounted(reply: ChatReply) -> ChatReply:
    return replace(reply, prompt_tokens=None, cached_tokens=None, completion_tokens=None, more=())


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


def _next_attempt(call: Call, engine: EngineIdentity, store: Store, max_attempts: int) -> int | None:
    """Return the number of the attempt to make, or None when the store has the answer or the attempts are spent."""
    rows = store.attempts(call.ticket)
    for row in rows:
        if row.key not in _keys(call, engine, row.attempt):
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
    """Whether asking again is pointless.

    The prompt is too long or refused, which no seed changes; the attempts are used up; or temperature 0 gave the same
    text twice.
    """
    if rows and rows[-1].reply.status in ("prompt_too_long", "refused"):
        return True
    answered = [row.reply for row in rows if row.reply.status != "server_error"]
    if len(answered) >= max_attempts:
        return True
    same = len(answered) >= 2 and answered[-1].text == answered[-2].text
    return same and call.decoding.temperature == 0 and rows[-1].reply.status != "server_error"


def _keys(call: Call, engine: EngineIdentity, attempt: int) -> Iterator[str]:
    """Yield the keys that an attempt may have: of a request of its own, and of one that was merged."""
    yield call.key(engine, attempt)
    if call.draw and attempt == 0:
        yield call.key(engine, attempt, merged=True)
