"""The one retry layer of HTTP calls, and the throttle that all calls to a server share.

Waits grow by a factor of two from a base that depends on the fault, each stretched by up to a half, from a generator
that is seeded by the call. A server that is busy or away pauses every call, so that tries are not burnt on it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from dhd_labels.engines.http_faults import RETRIED, Fault

Answer = TypeVar("Answer")
LOG = logging.getLogger("dhd_labels")
_BASE_WAIT_S: Mapping[str, float] = {"busy": 4.0, "away": 4.0, "passing": 1.0}
"""With five tries, the waits of a busy or absent server add up to a minute or more: the window of most rate limits."""


class Clock(Protocol):
    """Time, in seconds."""

    def now(self) -> float:
        """Return a time that only grows."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let so much of that time pass."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Return the monotonic time."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep in the event loop."""
        await asyncio.sleep(seconds)


class Throttle:
    """How many tries may be in flight, and from when on: additive increase, multiplicative decrease.

    Lives in one event loop; only `limit` may be read from another thread.
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self._most, self._clock = most, clock
        self._limit = float(most)
        self._running = 0
        self._open_at = self._last_cut = clock.now()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Tries that may be in flight now, from 1 to `most`."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a pause to end and for room, hold a place, and give the time at which it was taken."""
        await self._enter()
        try:
            yield self._clock.now()
        finally:
            self._running -= 1
            self._wake()

    def widen(self) -> None:
        """Note a success: one more place after a round of them."""
        self._limit = min(self._most, self._limit + 1 / self._limit)
        self._wake()

    def cut(self, sent_at: float) -> None:
        """Note that the server was too busy for a try: half the places, once for all tries of the same round."""
        if sent_at >= self._last_cut:
            self._limit = max(1.0, self._limit / 2)
            self._last_cut = self._clock.now()

    def pause(self, seconds: float) -> None:
        """Let no try start for so long."""
        self._open_at = max(self._open_at, self._clock.now() + seconds)

    async def _enter(self) -> None:
        while True:
            pause = self._open_at - self._clock.now()
            if pause > 0:
                await self._clock.sleep(pause)
            elif self._running < self.limit:
                self._running += 1
                return
            else:
                await self._room()

    async def _room(self) -> None:
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(room)
        try:
            await room
        except asyncio.CancelledError:
            self._wake()  # it may have been woken already: the place goes to the next
            raise

    def _wake(self) -> None:
        free = self.limit - self._running
        while free > 0 and self._waiting:
            room = self._waiting.popleft()
            if not room.done():
                room.set_result(None)
                free -= 1


@dataclass(frozen=True, slots=True)
class Retry:
    """Tries a call until it succeeds, cannot succeed, or has had its tries."""

    max_tries: int
    max_wait_s: float
    throttle: Throttle
    clock: Clock
    place: str
    classify: Callable[[Exception], Fault]

    async def run(self, attempt: Callable[[], Awaitable[Answer]], label: str) -> Answer | Fault:
        """Return the answer of the first try that has one, or the fault of the last.

        Args:
            attempt: makes one HTTP try; what it raises is classified.
            label: names the call in the log and seeds its waits.
        """
        rng = random.Random(label)
        number = 1
        while True:
            async with self.throttle.slot() as sent_at:
                try:
                    answer = await attempt()
                except Exception as error:  # whatever a client raises becomes a fault with a reason
                    fault = self.classify(error)
                else:
                    self.throttle.widen()
                    return answer
            if fault.kind == "busy":
                self.throttle.cut(sent_at)
            if fault.kind not in RETRIED:
                return fault
            if number >= self.max_tries:
                return replace(fault, reason=f"{fault.reason} (after {number} tries)")
            await self._wait(fault, number, label, rng)
            number += 1

    async def _wait(self, fault: Fault, number: int, label: str, rng: random.Random) -> None:
        seconds = self.wait_s(fault, number, rng)
        if fault.kind in ("busy", "away"):
            self.throttle.pause(seconds)
        LOG.warning(
            "Waiting %.1f s before try %d of %d of %s at %s: %s",
            seconds, number + 1, self.max_tries, label, self.place, fault.reason,
        )  # fmt: skip
        await self.clock.sleep(seconds)

    def wait_s(self, fault: Fault, number: int, rng: random.Random) -> float:
        """Return the seconds to wait after a try: never less than the server asks for, never more than `max_wait_s`."""
        if fault.asked_wait_s is None:
            wait = _BASE_WAIT_S[fault.kind] * 2.0 ** (number - 1) * rng.uniform(1.0, 1.5)
        else:
            wait = min(fault.asked_wait_s, self.max_wait_s) * rng.uniform(1.0, 1.1)
        return min(wait, self.max_wait_s)
