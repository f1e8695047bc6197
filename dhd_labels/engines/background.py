"""An event loop in a thread of its own, fed by code that is not async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
Tasks = set["asyncio.Task[None]"]
"""Tasks of one stream. Only the loop's thread changes it."""


class BackgroundLoop:
    """Runs coroutines beside the calling thread until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, None], tasks: Tasks) -> None:
        """Run a coroutine without waiting, as one of `tasks` until it is done."""

        def begin() -> None:
            task = self._loop.create_task(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        self._loop.call_soon_threadsafe(begin)

    def cancel(self, tasks: Tasks) -> None:
        """Cancel tasks and wait until they have let go of what they held. Nothing to do once the loop is closed."""
        if not self._loop.is_closed():
            self.run(_end(tasks))

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Cancel what still runs, run `last`, and end the loop and its threads. Nothing to do once it is closed."""
        if self._loop.is_closed():
            return
        self.run(_end_all(last))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end(tasks: Tasks) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


async def _end_all(last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    await _end({task for task in asyncio.all_tasks() if task is not asyncio.current_task()})
    await last()
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
