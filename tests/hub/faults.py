"""What goes wrong on the Hub on demand: refusals, cut connections, slow or held answers, a killed client."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


class Hold:
    """A barrier for requests: they wait at it until `release`."""

    def __init__(self) -> None:
        self._reached, self._released = threading.Semaphore(0), threading.Event()

    def wait_until_reached(self, timeout: float = 60) -> None:
        """Wait until one more request is held.

        Raises:
            TimeoutError: none came.
        """
        if not self._reached.acquire(timeout=timeout):
            raise TimeoutError("no request reached the barrier")

    def release(self) -> None:
        """Let the held requests, and all later ones, pass."""
        self._released.set()

    def stop_here(self) -> None:
        """Wait for the release; called by the Hub."""
        self._reached.release()
        self._released.wait(60)


@dataclass
class Fault:
    """What happens to the requests number `first` to `first + times - 1` of those that match.

    Attributes:
        method, path: regular expressions that the whole method and a part of the path must match.
        status: answer with this status instead of doing what is asked.
        cut: close the connection: `upload` in the middle of the request's body, `download` in the middle of the
            answer, `answer` after doing what is asked and before a word of the answer.
        seconds: wait before doing what is asked.
        hold: wait at this barrier first.
        kill: ends the client; `killed_after` says whether the Hub first does what is asked.
    """

    method: str
    path: str
    first: int = 1
    times: int = 1
    status: int | None = None
    message: str = "a fault of the test"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: str = ""
    seconds: float = 0.0
    hold: Hold | None = None
    kill: Callable[[], None] | None = None
    killed_after: bool = False
    seen: int = 0

    def meets(self, method: str, path: str) -> bool:
        """Count a request; whether the fault strikes it."""
        if not (re.fullmatch(self.method, method) and re.search(self.path, path)):
            return False
        self.seen += 1
        return self.first <= self.seen < self.first + self.times


@dataclass
class Faults:
    """The faults in force. The first that strikes a request is the one that it gets."""

    armed: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, fault: Fault) -> Fault:
        """Arm a fault."""
        with self.lock:
            self.armed.append(fault)
        return fault

    def hold(self, method: str, path: str, *, first: int = 1, times: int = 1 << 30) -> Hold:
        """Arm a barrier and return it."""
        hold = Hold()
        self.add(Fault(method, path, first, times, hold=hold))
        return hold

    def clear(self) -> None:
        """Disarm everything."""
        with self.lock:
            self.armed.clear()

    def strike(self, method: str, path: str) -> Fault | None:
        """Return the fault that a request meets."""
        with self.lock:
            struck = [fault for fault in self.armed if fault.meets(method, path)]
        return struck[0] if struck else None
