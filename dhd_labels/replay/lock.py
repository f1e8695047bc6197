"""One live run a run directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

from dhd_labels.errors import DhdError


class RunLock:
    """Keeps two live runs off one run directory. The system releases it when the process dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "run.lock"
        self._handle: IO[str] | None = None

    def __enter__(self) -> RunLock:
        try:
            handle = self._path.open("a+", encoding="utf-8")
        except OSError as error:
            raise DhdError(f"The run directory {self._path.parent} cannot be written: {error}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.seek(0)
            owner = handle.read().strip() or "unknown"
            handle.close()
            raise DhdError(
                f"The run directory {self._path.parent} is in use by a live run (process {owner}): "
                "wait for it, stop it, or choose another --run-dir."
            ) from None
        self._handle = handle
        with contextlib.suppress(OSError):  # the process id is for the message above only; a full disk may refuse it
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle:
            self._handle.close()
