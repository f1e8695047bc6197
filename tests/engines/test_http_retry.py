"""Waits, Retry-After and the throttle, without a server."""

from __future__ import annotations

import asyncio
import email.utils
import functools
import random
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.engines.http_faults import RETRIED, Fault, asked_wait
from dhd_labels.engines.http_retry import Clock, Retry, SystemClock, Throttle

Result = TypeVar("Result")
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


class StillClock:
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


def retry(clock: Clock | None = None, most: int = 4, tries: int = 5, cap: float = 120.0) -> Retry:
    made = clock or StillClock()
    return Retry(tries, cap, Throttle(most, made), made, "host:1", lambda error: error.args[0])


@given(
    st.sampled_from(RETRIED), st.integers(1, 60), st.integers(), st.none() | st.floats(0.001, float("inf")),
    st.floats(0.01, 1e4),
)  # fmt: skip
def test_a_wait_is_what_the_server_asks_for_up_to_the_cap(
    kind: str, number: int, seed: int, asked: float | None, cap: float
) -> None:
    fault = Fault(kind, "why", asked)  # type: ignore[arg-type]
    wait = retry(cap=cap).wait_s(fault, number, random.Random(seed))
    assert 0 < wait <= cap
    if asked is not None:
        assert wait >= min(asked, cap) and wait <= 1.1 * asked
    assert wait == retry(cap=cap).wait_s(fault, number, random.Random(seed)), "seeded by the call"


@pytest.mark.parametrize(("kind", "least"), [("busy", 60.0), ("away", 60.0), ("passing", 15.0)])
def test_waits_grow_and_differ_from_call_to_call(kind: str, least: float) -> None:
    totals = []
    for seed in range(50):
        rng = random.Random(seed)
        waits = [retry().wait_s(Fault(kind, "why"), number, rng) for number in (1, 2, 3, 4)]  # type: ignore[arg-type]
        assert waits == sorted(waits)
        totals.append(sum(waits))
    assert min(totals) >= least and max(totals) <= 1.5 * least and len(set(totals)) == 50


@given(st.integers(1, 10**6))
def test_a_date_is_read_by_the_clock_of_the_server(seconds: int) -> None:
    server = NOW - timedelta(days=3)
    until = email.utils.format_datetime(server + timedelta(seconds=seconds), usegmt=True)
    assert asked_wait({"retry-after": until, "date": email.utils.format_datetime(server, usegmt=True)}) == seconds
    assert asked_wait({"retry-after": email.utils.format_datetime(NOW + timedelta(seconds=seconds))}, NOW) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None), ({"retry-after": ""}, None), ({"retry-after": "soon"}, None), ({"retry-after": "nan"}, None),
        ({"retry-after": "-3"}, None), ({"retry-after": "0"}, None), ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5), ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Mon, 04 May 2026 11:59:00 GMT"}, None), ({"retry-after": "Mon, 99 May 2026"}, None),
    ],
)  # fmt: skip
def test_what_retry_after_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers, NOW) == seconds


@given(st.text())
def test_no_header_breaks_it(value: str) -> None:
    found = asked_wait({"retry-after": value, "date": value, "retry-after-ms": value}, NOW)
    assert found is None or found > 0


class Failing(Exception):
    """Carries the fault that it stands for."""


class JumpingSelector(selectors.SelectSelector):
    """Lets the time of a loop jump to the next timer, whenever nothing else is left to do."""

    loop: JumpingLoop

    def select(self, timeout: float | None = None) -> Any:
        self.loop.passed += timeout or 0.0
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop in which sleeping takes no time, and everything happens in the order of its own time."""

    def __init__(self) -> None:
        selector = JumpingSelector()
        selector.loop = self
        self.passed = 0.0
        super().__init__(selector)

    def time(self) -> float:
        return self.passed


class LoopClock:
    """The time of a `JumpingLoop`. It keeps every wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(seconds)


def in_jumping_time(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)


@pytest.mark.parametrize("kind", ["busy", "away"])
@pytest.mark.parametrize("asked", [60.0, None])
def test_a_pause_holds_every_call_and_costs_none_of_them_a_try(kind: str, asked: float | None) -> None:
    """The server is gone for 60 s; only the calls that were in flight have met it, all the others wait too."""
    tries = dict.fromkeys(range(20), 0)

    async def everything() -> list[Any]:
        clock = LoopClock()
        made = retry(clock, most=2)

        async def call(number: int) -> int | Fault:
            async def attempt() -> int:
                tries[number] += 1
                if clock.now() < 60:
                    raise Failing(Fault(kind, "why", asked))  # type: ignore[arg-type]
                return number

            return await made.run(attempt, f"call {number}")

        return await asyncio.gather(*map(call, tries))

    assert in_jumping_time(everything()) == list(range(20))
    assert sum(tries.values()) <= (22 if asked else 28) and max(tries.values()) <= 5


def test_a_fault_of_one_call_does_not_hold_the_others() -> None:
    async def everything() -> float:
        clock = LoopClock()
        made = retry(clock, most=4)

        async def attempt(number: int) -> float:
            if number == 0:
                raise Failing(Fault("passing", "why"))
            return clock.now()

        ends = await asyncio.gather(*(made.run(functools.partial(attempt, n), f"call {n}") for n in range(9)))
        return max(end for end in ends if isinstance(end, float))

    assert in_jumping_time(everything()) == 0


def test_the_waits_of_a_call_are_its_own_and_repeat() -> None:
    async def waits(label: str) -> tuple[float, ...]:
        clock = LoopClock()

        async def attempt() -> int:
            raise Failing(Fault("passing", "why"))

        fault = await retry(clock).run(attempt, label)
        assert fault == Fault("passing", "why (after 5 tries)")
        return tuple(clock.waits)

    first, again, other = (in_jumping_time(waits(label)) for label in ("a call", "a call", "another"))
    assert first == again != other and len(first) == 4


@pytest.mark.parametrize("kind", ["too_long", "refused", "fatal"])
def test_what_no_retry_cures_has_one_try(kind: str) -> None:
    clock, made = StillClock(), 0

    async def attempt() -> int:
        nonlocal made
        made += 1
        raise Failing(Fault(kind, "why"))  # type: ignore[arg-type]

    assert asyncio.run(retry(clock).run(attempt, "a call")) == Fault(kind, "why")  # type: ignore[arg-type]
    assert made == 1 and clock.time == 0


@given(st.integers(1, 9), st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_no_more_tries_run_than_there_are_places(most: int, steps: list[int]) -> None:
    async def everything() -> None:
        throttle = Throttle(most, SystemClock())
        running = 0

        async def call(length: int) -> None:
            nonlocal running
            async with throttle.slot() as sent_at:
                running += 1
                assert running <= most
                for _ in range(length):
                    await asyncio.sleep(0)
                running -= 1
            if length == 3:
                throttle.cut(sent_at)
            else:
                throttle.widen()
            assert 1 <= throttle.limit <= most

        await asyncio.wait_for(asyncio.gather(*map(call, steps)), 20)

    asyncio.run(everything())


def test_tries_of_one_round_cut_the_places_once() -> None:
    clock = StillClock()
    throttle = Throttle(16, clock)
    clock.time = 1.0
    throttle.cut(0.5)
    clock.time = 2.0
    for _ in range(15):
        throttle.cut(0.5)
    assert throttle.limit == 8
    throttle.cut(1.5)
    assert throttle.limit == 4
    for _ in range(6):
        throttle.widen()
    assert throttle.limit == 5


def test_a_cancelled_waiter_gives_its_place_to_the_next() -> None:
    """The second is cancelled after it was woken and before it has run."""

    async def everything() -> list[str]:
        throttle, order = Throttle(1, SystemClock()), []
        release = asyncio.Event()

        async def first() -> None:
            async with throttle.slot():
                await release.wait()
            waiting[0].cancel()

        async def call(name: str) -> None:
            async with throttle.slot():
                order.append(name)

        leading = asyncio.create_task(first())
        await asyncio.sleep(0)
        waiting = [asyncio.create_task(call(name)) for name in ("second", "third")]
        await asyncio.sleep(0)
        release.set()
        await asyncio.wait_for(asyncio.gather(leading, *waiting, return_exceptions=True), 5)
        return order

    assert asyncio.run(everything()) == ["third"]
