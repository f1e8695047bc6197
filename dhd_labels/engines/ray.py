"""Copies of one of our own engines on a Ray cluster.

All requests of a problem go to one worker while it lives, so their shared prefix is computed once; a new problem goes
to the worker with the least to do. A bounded number of requests is sent ahead. What a worker has finished is fetched at
once, without waiting for the problem, and what a lost worker had not handed over goes to another one.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal

from dhd_labels import __version__
from dhd_labels.config import OpenAIConfig, RayConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, EngineIdentity, Token
from dhd_labels.engines.http_retry import LOG
from dhd_labels.engines.ray_cluster import CONNECTION, has_room, why
from dhd_labels.engines.ray_placement import Placement
from dhd_labels.engines.ray_worker import Taken, Worker
from dhd_labels.errors import DhdError, EngineStoppedError

MOST_LOSSES = 3
"""Workers lost over a request until it has failed, and losses of a worker without an answer until it stays away."""
_LISTEN_S = 1.0
_TAKE_S = 30.0
_CLOSE_S = 20.0
_THREADS = 4
"""Calls that a worker can serve at once: one each to open, put, take and close."""
_PASSED_ON = ("HF_TOKEN", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
"""Variables that engines read besides those that the config names."""


@dataclass(slots=True)
class _Sent(Generic[Token]):
    """A request that is not answered yet, and how many workers were lost over it."""

    token: Token
    request: ChatRequest
    losses: int = 0


@dataclass(slots=True, eq=False)
class _Member:
    """A worker as this process sees it.

    `calls` are the calls to it that have not returned, and what each is; `sent` its requests that are not answered, of
    which those in `outbox` have not left.
    """

    number: int
    state: Literal["placing", "opening", "alive", "gone"] = "placing"
    actor: Any = None
    host: str = "?"
    identity: EngineIdentity | None = None
    calls: dict[Any, str] = field(default_factory=dict)
    sent: dict[int, _Sent[Any]] = field(default_factory=dict)
    outbox: list[int] = field(default_factory=list)
    losses: int = 0


class RayEngine:
    """Implements `ChatEngine` on a Ray cluster; each worker is an actor that hosts an engine."""

    def __init__(self, config: RayConfig) -> None:
        self._ray: Any = CONNECTION.open(config)
        self._config = config
        self._members = [_Member(number) for number in range(config.workers)]
        self._placement: Placement[_Member] = Placement(lambda member: len(member.sent), config.ahead // 2)
        self._numbers = itertools.count()
        self._stream = 0
        self._waiting: dict[int, _Sent[Any]] = {}
        self._error: DhdError | None = None
        self._last_loss: str | DhdError = ""
        self._alone_since: float | None = None
        self._closed = False
        self._kind = self._ray.remote(
            num_cpus=config.cpus,
            num_gpus=config.gpus,
            scheduling_strategy="SPREAD",
            max_concurrency=_THREADS,
        )(Worker)
        try:
            for member in self._members:
                self._start(member)
            self._identity = self._wait_for_workers()
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> EngineIdentity:
        """That of the engine in the workers: where it runs changes no key."""
        return self._identity

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests, each problem on one worker.

        Raises:
            EngineStoppedError: no worker is left, and none could be started within `wait_s`.
            DhdError: as the engine in a worker raises it. Before either, every reply that came was handed over.
        """
        stream, ended = iter(requests), False
        self._stream += 1
        self._placement.begin()
        try:
            while True:
                room = max(0, len(self._alive()) * self._config.ahead - self._unanswered())
                pulled = [_Sent(token, request) for token, request in itertools.islice(stream, room)]
                ended = len(pulled) < room if room else ended  # for now: it may go on after the next replies
                self._waiting.update((next(self._numbers), sent) for sent in pulled)
                self._send()
                if ended and not self._unanswered():
                    return
                if replies := self._listen():
                    yield replies
                self._raise_if_hopeless()
        finally:
            self._forget()

    def close(self) -> None:
        """Stop the workers, and Ray where it was started for this engine."""
        if self._closed:
            return
        self._closed = True
        try:
            closing = [member.actor.close.remote() for member in self._alive()]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
            for member in self._members:
                if member.actor is not None:
                    self._ray.kill(member.actor)
        finally:
            CONNECTION.close()

    def _alive(self) -> list[_Member]:
        return [member for member in self._members if member.state == "alive"]

    def _unanswered(self) -> int:
        return len(self._waiting) + sum(len(member.sent) for member in self._members)

    def _send(self) -> None:
        """Give what waits a worker, and each worker what it has not got yet, in one call."""
        living = self._alive()
        if not living:
            return
        for number, sent in self._waiting.items():
            home = self._placement.choose(sent.request.affinity, living)
            home.sent[number] = sent
            home.outbox.append(number)
        self._waiting.clear()
        for member in living:
            if member.outbox and "put" not in member.calls.values():  # one at a time: they would overtake each other
                jobs = [(number, member.sent[number].request) for number in member.outbox]
                member.outbox = []
                member.calls[member.actor.put.remote(self._stream, jobs)] = "put"

    def _forget(self) -> None:
        """Let the workers begin the next stream without requests, where any of this one are left."""
        self._waiting.clear()
        for member in self._members:
            if member.sent and member.state == "alive" and not self._closed:
                member.actor.put.remote(self._stream + 1, [])
            member.sent, member.outbox = {}, []

    def _listen(self) -> list[tuple[Any, ChatReply]]:
        """Wait until something has happened, at most a second, and return the replies that came."""
        calls = {call: member for member in self._members for call in member.calls}
        if not calls:
            return []
        # One that is ready ends the wait; then all that are. Replies first: a broken call behind them loses the worker.
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=_LISTEN_S)
        if ready:
            ready, _ = self._ray.wait(list(calls), num_returns=len(calls), timeout=0)
        replies: list[tuple[Any, ChatReply]] = []
        for call in sorted(ready, key=lambda call: calls[call].calls[call] != "take"):
            member = calls[call]
            what = member.calls.pop(call, None)  # gone when the worker was lost a moment ago
            if what is None:
                continue
            try:
                found = self._ray.get(call)
            except self._ray.exceptions.RayError as error:
                replies += self._lose(member, why(error))
                continue
            replies += self._note(member, what, found)
        return replies

    def _note(self, member: _Member, what: str, found: Any) -> list[tuple[Any, ChatReply]]:
        """Take what a call to a worker returned into account; return the replies in it."""
        if what == "place":
            self._open(member, *found)
        elif what == "open":
            return self._opened(member, found)
        elif what == "take":
            return self._taken(member, found)
        return []

    def _start(self, member: _Member) -> None:
        member.state, member.actor = "placing", self._kind.remote()
        member.calls = {member.actor.place.remote(): "place"}

    def _open(self, member: _Member, host: str, version: str) -> None:
        if version != __version__:
            self._error = DhdError(
                f"Every node must have the same version of dhd-labels, got {version} on {host} and {__version__} here"
            )
            return
        member.state, member.host = "opening", host
        config = self._config.engine_of(member.number)
        call = member.actor.open.remote(config, _environment(self._config), str(Path.cwd()))
        member.calls[call] = "open"

    def _opened(self, member: _Member, found: EngineIdentity | DhdError) -> list[tuple[Any, ChatReply]]:
        if isinstance(found, DhdError):
            return self._stop(member, found)
        for other in self._members:
            if other.identity and other.identity != found:
                self._error = _not_alike(other, member, other.identity, found)
                return []
        member.state, member.identity = "alive", found
        self._take(member)
        return []

    def _take(self, member: _Member) -> None:
        member.calls[member.actor.take.remote(_TAKE_S)] = "take"

    def _taken(self, member: _Member, taken: Taken) -> list[tuple[Any, ChatReply]]:
        """Take over replies, each once: one that nobody waits for is dropped."""
        for level, text in taken.logged:
            LOG.log(level, "Worker %d on %s: %s", member.number, member.host, text)
        found = [
            (sent.token, replace(reply, unseen=reply.unseen + sent.losses))
            for number, reply in taken.replies
            if (sent := member.sent.pop(number, None))
        ]
        if found:
            member.losses = 0
        if taken.error:
            return found + self._stop(member, taken.error)
        self._take(member)
        return found

    def _stop(self, member: _Member, error: DhdError) -> list[tuple[Any, ChatReply]]:
        """Do without a worker whose engine stopped by itself; any other error is about all of them."""
        if not isinstance(error, EngineStoppedError):
            self._error = error
            return []
        LOG.warning("Worker %d on %s is given up: %s", member.number, member.host, error)
        self._last_loss = error
        return self._unload(member)

    def _lose(self, member: _Member, reason: str) -> list[tuple[Any, ChatReply]]:
        """Put another process in the place of a worker that is lost, and return the requests that have failed."""
        LOG.warning(
            "Worker %d on %s is lost (%s); %d requests that it had not answered go to others",
            member.number, member.host, reason, len(member.sent),
        )  # fmt: skip
        self._last_loss = reason
        failed = self._unload(member)
        member.losses += 1
        if member.losses < MOST_LOSSES:
            self._start(member)
        return failed

    def _unload(self, member: _Member) -> list[tuple[Any, ChatReply]]:
        """End a worker; its requests wait for others, but for those over which too many were lost."""
        self._ray.kill(member.actor)
        self._placement.leave(member)
        failed = []
        for number, sent in member.sent.items():
            sent.losses += number not in member.outbox
            if sent.losses < MOST_LOSSES:
                self._waiting[number] = sent
            else:
                failure = self._failure(f"{sent.losses} workers were lost: {self._last_loss}")
                failed.append((sent.token, replace(failure, unseen=sent.losses)))
        member.state, member.sent, member.outbox, member.calls = "gone", {}, [], {}
        return failed

    def _failure(self, reason: str) -> ChatReply:
        return ChatReply("server_error", "", None, None, None, None, None, self._identity.comes_back, reason[:500])

    def _raise_if_hopeless(self) -> None:
        """Raise what ends the stream: an error about all workers, or that no worker is left."""
        if self._error:
            raise self._error
        if any(member.state in ("opening", "alive") for member in self._members):
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        placing = any(member.state == "placing" for member in self._members)
        if not placing or now - self._alone_since > self._config.wait_s:
            raise self._no_worker()

    def _wait_for_workers(self) -> EngineIdentity:
        """Wait until all workers are open, or those for which the cluster has room in time; return their identity."""
        deadline = time.monotonic() + self._config.wait_s
        while missing := [m for m in self._members if m.state in ("placing", "opening")]:
            self._listen()
            self._raise_if_hopeless()
            late = time.monotonic() > deadline and all(member.state == "placing" for member in missing)
            if late and self._alive():
                LOG.warning(
                    "The cluster has room for %d of %d workers now (%s); the others join when there is more",
                    len(self._alive()), len(self._members), has_room(self._ray),
                )  # fmt: skip
                break
        identity = next((member.identity for member in self._members if member.identity), None)
        if identity is None:
            raise self._no_worker()
        return identity

    def _no_worker(self) -> DhdError:
        """Return the error of a cluster without workers: what the last engine said, or what Ray did."""
        if isinstance(self._last_loss, DhdError):
            return self._last_loss
        then = "Every answer so far is in the store; run the same command to go on"
        name = self._config.public_name
        if all(member.state == "gone" for member in self._members):
            return EngineStoppedError(
                f"The cluster must keep a worker of {name!r} alive, got {MOST_LOSSES} losses in a row without an "
                f"answer, on {has_room(self._ray)}; of the last one Ray says: {self._last_loss}. Look for missing "
                f"packages and for memory on the nodes (ray logs). {then}"
            )
        return EngineStoppedError(
            f"The cluster must have room for a worker of {name!r} ({self._config.cpus:g} CPUs and "
            f"{self._config.gpus:g} GPUs), got none in {self._config.wait_s:g} s on {has_room(self._ray)}. Start nodes "
            f"(ray start --address=...), or lower 'cpus' or 'gpus'. {then}"
        )


def _environment(config: RayConfig) -> dict[str, str]:
    """Return the variables of this process that an engine reads, for its workers."""
    engine = config.engine
    named = (engine.api_key_env, engine.base_url_env) if isinstance(engine, OpenAIConfig) else ()
    return {name: os.environ[name] for name in (*_PASSED_ON, *named) if name and name in os.environ}


def _not_alike(one: _Member, other: _Member, there: EngineIdentity, here: EngineIdentity) -> DhdError:
    left, right = asdict(there), asdict(here)
    parts = "; ".join(
        f"{name}: {left[name]!r} on {one.host}, {right[name]!r} on {other.host}"
        for name in left
        if left[name] != right[name]
    )
    return DhdError(
        f"All workers of a ray engine must run the same software and weights, got {parts}. Install the same on every "
        "node"
    )
