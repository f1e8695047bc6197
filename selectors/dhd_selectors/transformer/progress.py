"""How far a fit is, on stderr: a bar on a terminal, plain lines otherwise, and nothing of what is quick."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

QUIET_S = 10.0
LINE_EVERY_S = 30.0


class Progress:
    """Told (stage, done, total), now and then."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description:>22}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=self._console, transient=True) if self._console.is_terminal else None
        self._tasks: dict[str, int] = {}
        self._began = self._said = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` are done."""
        now = time.monotonic()
        if now - self._began < QUIET_S:
            return
        if self._bar is None:
            if now - self._said >= LINE_EVERY_S:
                self._said = now
                self._console.print(f"[{now - self._began:6.0f} s] {stage}: {done} of {total}", markup=False)
            return
        self._bar.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=total)
        self._bar.update(self._tasks[stage], completed=done, total=total)  # type: ignore[arg-type]

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show progress while the block runs."""
    progress = Progress()
    try:
        yield progress
    finally:
        progress.close()
