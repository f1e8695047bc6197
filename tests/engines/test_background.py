"""An event loop beside the calling thread: what it is handed ends before it says so."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dhd_labels.engines.background import BackgroundLoop, Tasks


async def nothing() -> None:
    pass


@pytest.mark.parametrize("end", ["cancel", "close"])
def test_tasks_have_let_go_of_everything_when_the_call_returns(end: str) -> None:
    loop, tasks, events = BackgroundLoop("loop"), Tasks(), []
    begun = threading.Barrier(2)

    async def work() -> None:
        begun.wait(10)
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.02)
            events.append("let go")

    async def last() -> None:
        events.append("last")

    loop.start(work(), tasks)
    begun.wait(10)
    if end == "cancel":
        loop.cancel(tasks)
        assert events == ["let go"] and not tasks
    loop.close(last)
    assert events == ["let go", "last"]


def test_a_closed_loop_has_no_thread_and_may_be_closed_again() -> None:
    before = threading.active_count()
    loop = BackgroundLoop("loop")
    assert loop.run(asyncio.sleep(0, "result")) == "result" and threading.active_count() == before + 1
    loop.close(nothing)
    loop.close(nothing)
    loop.cancel(Tasks())
    assert threading.active_count() == before
