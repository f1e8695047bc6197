"""Errors that a user can act on. Their text names the record, the value and what to do; no traceback is shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DhdError(Exception):
    """A problem the user can fix: bad usage, bad config, bad input. Command lines exit with `exit_code`."""

    exit_code = 2


class NothingMadeError(DhdError):
    """The command worked as asked but nothing useful came of it."""

    exit_code = 1


class EngineStoppedError(DhdError):
    """The engine died in the middle of a run; what was in flight has failed, the rest was not sent."""

    exit_code = 3


class EndpointError(DhdError):
    """A server refuses every call, for a reason that no retry cures: key, model, address, certificate or settings."""


def did_you_mean(value: str, options: Iterable[str], *, list_all: bool = True) -> str:
    """Return "Did you mean 'x'? Known: a, b, x." for an unknown name."""
    known = sorted(options)
    close = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(known)}." if list_all else hint.strip()
