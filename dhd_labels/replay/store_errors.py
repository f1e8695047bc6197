"""What can happen to a store's file, as errors that say what became of the paid work and what to do."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from dhd_labels.errors import DhdError


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into sentences that say what happened to the paid work and what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error) or "disk I/O" in str(error):
            raise DhdError(
                f"The disk of {path} is full or failing ({error}). Every call committed so far is safe: make room and "
                "run the same command again."
            ) from None
        if "locked" in str(error):
            raise DhdError(f"The run store {path} is locked by another process: wait for it, or stop it.") from None
        if "readonly" in str(error) or "unable to open" in str(error):
            raise DhdError(f"The run store {path} cannot be written ({error}): check its permissions.") from None
        raise damaged(path, error) from None
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from None


class EditedPoolError(DhdError):
    """A pool is not what the run cached."""


def edited_pool(path: Path, problem_id: str, error: object) -> EditedPoolError:
    """Return the error of a pool that is not what the run cached."""
    return EditedPoolError(
        f"The pool of problem {problem_id!r} in {path} was changed: {error}. Pools are never edited. Restore the "
        "stored file, or run again with --salvage: the pool is then made anew from its stored messages."
    )


def damaged(path: Path, error: Exception) -> DhdError:
    """Return the error of a file that is no store, or not what was written."""
    return DhdError(
        f"The run store {path} is damaged or not a store ({error}). It was left as it is. "
        "Run again with --salvage to keep the damaged file aside and go on with every call that can still be read."
    )
