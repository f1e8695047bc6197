"""What runs in every process of a cluster: one of our own engines, fed from a queue. It knows nothing of Ray.

The engine lives in one thread. Requests are put into its queue and replies taken from it by other threads, so a stream
of requests stays one stream: the engine's batch is not emptied between two deliveries.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import cast

from dhd_labels import __version__
from dhd_labels.config import ModelConfig
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatEngine, ChatReply, ChatRequest, EngineIdentity
from dhd_labels.engines.redact import reason_of
from dhd_labels.errors import DhdError, EngineStoppedError

Job = tuple[int, ChatRequest]
"""A request and its number, which no other request of the run has."""
_CLOSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a worker hands over: replies by number, lines of the log (level, text), and what ended its engine."""

    replies: list[tuple[int, ChatReply]]
    logged: list[tuple[int, str]]
    error: DhdError | None


class Worker:
    """Hosts an engine. Its methods may be called from different threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._replies: list[tuple[int, ChatReply]] = []
        self._logged: list[tuple[int, str]] = []
        self._error: DhdError | None = None
        self._stream = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def place(self) -> tuple[str, str]:
        """Return the host that this process runs on, and the version of dhd-labels there."""
        return socket.gethostname(), __version__

    def open(self, config: ModelConfig, environment: Mapping[str, str], folder: str) -> EngineIdentity | DhdError:
        """Start the engine and return its identity, or the error that a user must see.

        Args:
            config: of the engine.
            environment: variables that it reads, such as its key. They come as an argument because Ray writes the
                variables of a `runtime_env` to its logs.
            folder: where relative paths begin, if it is there.
        """
        os.environ.update(environment)
        if Path(folder).is_dir():
            os.chdir(folder)
        logging.getLogger("dhd_labels").addHandler(_Forward(self._log))
        opened: SimpleQueue[EngineIdentity | DhdError] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, args=(config, opened), name="engine", daemon=True)
        self._thread.start()
        return opened.get()

    def put(self, stream: int, jobs: list[Job]) -> None:
        """Queue requests of a stream behind those that wait.

        Streams are numbered upwards. The first call for one forgets those before: nobody waits for them any more.
        """
        with self._changed:
            if stream > self._stream:
                self._stream = stream
                self._jobs.clear()
                self._replies = []
            if stream == self._stream:
                self._jobs.extend(jobs)
            self._changed.notify_all()

    def take(self, longest_s: float) -> Taken:
        """Wait until there is something to hand over, at most so many seconds, and hand over all of it."""
        with self._changed:
            self._changed.wait_for(lambda: self._replies or self._logged or self._error, longest_s)
            taken = Taken(self._replies, self._logged, self._error)
            self._replies, self._logged = [], []
            return taken

    def close(self) -> None:
        """Stop the engine, so that what it started ends with it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread:
            self._thread.join(_CLOSE_S)

    def next_job(self, stream: int) -> Job:
        """Return the next waiting request of a stream.

        Raises:
            StopIteration: none waits now, or the stream was given up.
        """
        with self._changed:
            if not self._jobs or self._given_up(stream):
                raise StopIteration
            return self._jobs.popleft()

    def _given_up(self, stream: int) -> bool:
        return self._closed or stream != self._stream

    def _live(self, config: ModelConfig, opened: SimpleQueue[EngineIdentity | DhdError]) -> None:
        """Open the engine, answer until it is closed or fails, and close it, all in one thread."""
        try:
            engine = open_engine(config)
        except Exception as error:  # whatever it is, the user must learn of it where the command was typed
            opened.put(error if isinstance(error, DhdError) else _unexpected(error))
            return
        opened.put(engine.identity)
        try:
            while self._wait():
                self._answer(engine)
        except Exception as error:
            with self._changed:
                self._error = error if isinstance(error, DhdError) else _unexpected(error)
                self._changed.notify_all()
        finally:
            engine.close()

    def _wait(self) -> bool:
        """Wait for requests; return whether there are any, and not the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            return not self._closed

    def _answer(self, engine: ChatEngine) -> None:
        """Answer what waits and what comes meanwhile, until nothing is left or the stream is given up."""
        with self._changed:
            stream = self._stream
        groups = cast("Generator[list[tuple[int, ChatReply]]]", engine.generate(_Waiting(self, stream)))
        with contextlib.closing(groups):
            for group in groups:
                with self._changed:
                    if self._given_up(stream):
                        return
                    self._replies += group
                    self._changed.notify_all()

    def _log(self, level: int, text: str) -> None:
        with self._changed:
            self._logged.append((level, text))
            self._changed.notify_all()


class _Waiting(Iterator[Job]):
    """The requests that wait now.

    It ends when none does and goes on when there are some again. An engine that looks again while others are in flight
    so keeps its batch full; for one that does not, the worker begins anew.
    """

    def __init__(self, worker: Worker, stream: int) -> None:
        self._worker, self._stream = worker, stream

    def __next__(self) -> Job:
        return self._worker.next_job(self._stream)


class _Forward(logging.Handler):
    """Keeps warnings for the process where the command was typed."""

    def __init__(self, log: Callable[[int, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._keep = log

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._keep(record.levelno, record.getMessage())


def _unexpected(error: Exception) -> EngineStoppedError:
    return EngineStoppedError(
        f"The engine in a worker on {socket.gethostname()} stopped: {reason_of(error)}. Every answer before that is in "
        "the store; run the same command to go on"
    )
