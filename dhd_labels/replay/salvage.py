"""Save what can still be read of a damaged store. The damaged file itself is kept, byte for byte."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dhd_labels.errors import DhdError
from dhd_labels.replay.store import Store
from dhd_labels.replay.store_schema import APPLICATION_ID

_PARTS = ("", "-wal", "-shm")
_MISSES = 10_000
"""Row numbers in a row that may be unreadable before the end of a table is assumed."""


def salvage(path: Path) -> int | None:
    """Replace a damaged store by one with every row that is whole; return the calls saved, None if it was healthy.

    The new store is finished under another name first and then takes the place of the damaged one, of which a copy
    stays as `store.sqlite.damaged-N`. So a kill or a full disk on the way leaves the damaged store where it was.

    Raises:
        DhdError: the file was not made by dhd-labels, or the disk is full. Nothing is changed then.
    """
    if _is_healthy(path):
        return None
    aside, reading, fresh = _free_name(path), _beside(path, ".reading"), _beside(path, ".salvaged")
    try:
        _remove(reading)
        _remove(fresh)
        _copy(path, aside)
        _copy(path, reading)
        _pad(reading)
        saved = _copy_rows(reading, fresh)
        for part in _PARTS[1:]:
            _beside(path, part).unlink(missing_ok=True)
        fresh.replace(path)
    except (OSError, DhdError) as error:
        _remove(aside)
        raise DhdError(f"The store {path} cannot be salvaged now; it was left as it is. {error}") from None
    finally:
        _remove(reading)
        _remove(fresh)
    return saved


def _is_healthy(path: Path) -> bool:
    """Whether a store needs no salvage. A file that is plainly not ours raises, as it does everywhere."""
    with path.open("rb") as handle:
        header = handle.read(100)
    try:
        Store.check_file(path)
        store = Store.create_or_open(path)
        try:
            store.check_rows()
        finally:
            store.close()
    except DhdError as error:
        ours = int.from_bytes(header[68:72], "big") == APPLICATION_ID
        if ours and "--salvage" in str(error):
            return False
        raise
    return True


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := _beside(path, f".damaged-{number}")).exists():
        number += 1
    return aside


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _remove(path: Path) -> None:
    for part in _PARTS:
        _beside(path, part).unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    for part in _PARTS:
        if _beside(source, part).exists():
            shutil.copyfile(_beside(source, part), _beside(target, part))
            with _beside(target, part).open("rb") as handle:
                os.fsync(handle.fileno())


def _pad(path: Path) -> None:
    """Extend a truncated file with zeros to the size its header states; SQLite reads nothing of a shorter one."""
    with path.open("r+b") as handle:
        header = handle.read(32)
        if len(header) == 32:
            page = int.from_bytes(header[16:18], "big")
            pages = int.from_bytes(header[28:32], "big")
            wanted = (65536 if page == 1 else page) * pages
            if path.stat().st_size < wanted < 2**40:
                handle.truncate(wanted)


def _copy_rows(source: Path, target: Path) -> int:
    saved = 0
    fresh = Store.create_or_open(target)
    old = sqlite3.connect(source, isolation_level=None)
    old.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        with fresh.one_commit():
            for table in ("meta", "problems", "pools", "targets", "calls"):
                for row in _readable_rows(old, table):
                    saved += fresh.take_row(table, row) and table == "calls"
        fresh.drop_edited_pools()
    finally:
        old.close()
        fresh.close()
    return saved


def _readable_rows(db: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Look every row number up by itself: one damaged page then costs only the rows on it."""
    number, misses = 0, 0
    while misses < _MISSES:
        try:
            row = db.execute(f"SELECT * FROM {table} WHERE rowid=?", (number,)).fetchone()
        except sqlite3.DatabaseError as error:
            if "no such table" in str(error):
                return
            row = None
        misses = 0 if row else misses + 1
        number += 1
        if row:
            yield row
