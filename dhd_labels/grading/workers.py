"""A small pool of worker processes for comparisons that may run away.

Workers are plain child processes that speak JSON lines over pipes, so they work from scripts, tests, threads and forked
processes alike. One that is over time is killed and replaced; one that dies gives its task to a fresh one, once. They
start when first needed and end with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from dhd_labels.errors import DhdError

LIMIT_S = 5.0
"""Wall time of one comparison. Bounds on size and steps end all that we know of earlier, the same on every machine."""
_START_S = 60.0
_SOURCE_ROOT = str(Path(__file__).parents[2])


class WorkerDiedError(Exception):
    """A worker ended while it worked; the message says how."""


class WorkerTimeoutError(Exception):
    """A worker was over its time and was killed."""


class Worker:
    """One child process."""

    def __init__(self) -> None:
        paths = [_SOURCE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
        # -P: what lies in the current folder is not importable.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dhd_labels.grading.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._buffer = b""
        try:
            self._receive(_START_S)
        except (WorkerDiedError, WorkerTimeoutError) as error:
            self.close()
            raise DhdError(f"A grading worker must start, got: {error}. Command: {self._process.args!r}") from None

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, str]:
        """Return the reply to a request.

        Raises:
            WorkerTimeoutError: it took longer than `limit_s`.
            WorkerDiedError: the process ended.
        """
        line = json.dumps({**request, "limit_s": limit_s}).encode() + b"\n"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            raise WorkerDiedError(self._end()) from None
        return self._receive(limit_s)

    def _receive(self, limit_s: float) -> dict[str, str]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise WorkerTimeoutError(f"no reply within {limit_s:g} s")
            if poll.poll(left * 1000):
                piece = os.read(descriptor, 65536)
                if not piece:
                    raise WorkerDiedError(self._end())
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: dict[str, str] = json.loads(line)
        return reply

    def _end(self) -> str:
        try:
            return f"the worker ended with code {self._process.wait(5)}"
        except subprocess.TimeoutExpired:
            return "the worker closed its output"

    def close(self) -> None:
        """Kill the process; whatever it was doing is given up."""
        self._process.kill()
        self._process.wait()
        self.let_go()

    def let_go(self) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # Unsent bytes of a request to a dead worker cannot be flushed.
                with contextlib.suppress(OSError):
                    pipe.close()


class Pool:
    """Up to `size` workers, started when needed. Safe to use from several threads.

    Args:
        size: workers at a time; the number of cores, at most 4, by default.
        limit_s: wall time of one comparison.
        steps: steps of arithmetic of one comparison, `numeric.MAX_STEPS` by default.
    """

    def __init__(self, size: int | None = None, limit_s: float = LIMIT_S, steps: int | None = None) -> None:
        self._limit_s = limit_s
        self._options = {} if steps is None else {"steps": steps}
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(size or min(4, os.cpu_count() or 1))

    def compare(self, gold: str, given: str, thousands: bool = True) -> tuple[str, str | None]:
        """Compare two expressions; return `equal`, `unequal`, `unknown` or `timeout`, and a reason for the last two."""
        request = {"gold": gold, "given": given, "thousands": thousands, **self._options}
        with self._free:
            for attempt in (1, 2):
                worker = self._take()
                try:
                    reply = worker.ask(request, self._limit_s)
                except WorkerTimeoutError as error:
                    worker.close()
                    return "timeout", str(error)
                except WorkerDiedError as error:
                    worker.close()
                    if attempt == 2:
                        return "timeout", f"{error}, twice"
                except BaseException:
                    worker.close()  # interrupted: its reply would belong to nobody
                    raise
                else:
                    self._give_back(worker)
                    return reply["found"], reply.get("reason")
        raise AssertionError("unreachable")

    def _take(self) -> Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Worker()

    def _give_back(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def idle_workers(self) -> list[int]:
        """Return the process ids of workers that wait for work."""
        with self._lock:
            return [worker.pid for worker in self._idle]

    def let_go(self) -> None:
        """Forget all idle workers without ending them; for the child of a fork."""
        for worker in self._idle:
            worker.let_go()

    def close(self) -> None:
        """End all idle workers."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.close()


_shared: Pool | None = None
_shared_lock = threading.Lock()
_inherited: list[Pool] = []
"""Pools of parents of a fork, kept so that no destructor waits for processes that are not ours."""


def _shared_pool() -> Pool:
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Pool()
            atexit.register(_shared.close)
        return _shared


def _forget_after_fork() -> None:
    """The child of a fork starts its own workers: two processes on one pipe would mix their replies."""
    global _shared, _shared_lock
    if _shared is not None:
        atexit.unregister(_shared.close)
        _shared.let_go()
        _inherited.append(_shared)
    _shared, _shared_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


@lru_cache(maxsize=16384)
def _decided(gold: str, given: str, thousands: bool) -> tuple[str, str | None]:
    found, reason = _shared_pool().compare(gold, given, thousands)
    if found == "timeout":
        raise _NotCachedError(reason)
    return found, reason


class _NotCachedError(Exception):
    pass


def compare_in_worker(gold: str, given: str, thousands: bool) -> tuple[str, str | None]:
    """Compare two expressions in the pool of this process; see `Pool.compare`. Timeouts are not remembered."""
    try:
        return _decided(gold, given, thousands)
    except _NotCachedError as error:
        return "timeout", str(error)
