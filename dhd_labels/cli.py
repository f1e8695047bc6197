"""What all command lines share: errors as sentences, exit codes, progress."""

from __future__ import annotations

import logging
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import typer
from rich.console import Console

from dhd_labels.errors import DhdError

INTERRUPTED = 130
LOG_EVERY_S = 30.0


def run_app(app: typer.Typer, argv: Sequence[str] | None, prog_name: str) -> int:
    """Run a command line and return its exit code: 0 done, 1 nothing useful made, 2 bad usage, 3 failed records."""
    try:
        app(args=None if argv is None else list(argv), prog_name=prog_name)
    except DhdError as error:
        say_error(str(error))
        return error.exit_code
    except OSError as error:  # a full disk or a closed pipe behind the output
        say_error(f"Writing failed: {error}")
        return DhdError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as stop:  # how typer ends, also on success and on bad usage
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def say_error(text: str) -> None:
    """Print an error to stderr; a control character in it (it can quote a data set) is shown, not obeyed."""
    shown = "".join(char if char == "\n" or unicodedata.category(char) != "Cc" else "\ufffd" for char in text)
    Console(stderr=True, soft_wrap=True).print(f"Error: {shown}", markup=False, highlight=False)


class Bar:
    """Progress of a run: a live bar on a terminal, one plain line every 30 s otherwise."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = console
        self._live: Progress | None = None
        self._tasks: dict[str, int] = {}
        self._started = self._said = time.monotonic()
        if console.is_terminal:
            columns = (TextColumn("{task.description:>13}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._live = Progress(*columns, console=console)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` calls of a stage are settled."""
        if self._live is None:
            self._plain(stage, done, total)
            return
        if stage not in self._tasks:
            self._tasks[stage] = self._live.add_task(stage, total=total)
        self._live.update(self._tasks[stage], completed=done)  # type: ignore[arg-type]

    def _plain(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said >= LOG_EVERY_S or done == total:
            self._said = now
            self._console.print(f"[{now - self._started:6.0f} s] {stage}: {done} of {total} calls", markup=False)


@contextmanager
def progress_bar(console: Console) -> Iterator[Bar]:
    """Show progress while the block runs, and what the engines log (waits, retries) as plain lines beside it."""
    bar = Bar(console)
    handler = _Lines(console)
    logger = logging.getLogger("dhd_labels")
    logger.addHandler(handler)
    try:
        with bar._live or nullcontext():
            yield bar
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    """Prints log records without breaking a live bar."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; its text is shown, never obeyed."""
        self._console.print(record.getMessage(), markup=False, highlight=False)


def console() -> Console:
    """Return the console for people; plain and unwrapped when stdout is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else 140, highlight=False, soft_wrap=not sys.stdout.isatty())
