"""Save what can still be read of a damaged store. The damaged file itself is kept, byte for byte."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dhd_labels.replay.store import Store

_PARTS = ("", "-wal", "-shm")
_MISSES = 10_000
"""Row numbers in a row that may be unreadable before the end of a table is assumed."""


def salvage(path: Path) -> int:
    """Move a damaged store aside and copy what can be read into a fresh one; return the calls saved.

    The damaged file stays beside the new one as `store.sqlite.damaged-N`.
    """
    aside = _move_aside(path)
    copy = path.with_name(path.name + ".salvage")
    for part in _PARTS:
        if (source := aside.with_name(aside.name + part)).exists():
            shutil.copyfile(source, copy.with_name(copy.name + part))
    _pad(copy)
    fresh = Store.create_or_open(path)
    try:
        return _copy_rows(copy, fresh)
    finally:
        fresh.close()
        for part in _PARTS:
            copy.with_name(copy.name + part).unlink(missing_ok=True)


def _move_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for part in _PARTS:
        if (source := path.with_name(path.name + part)).exists():
            source.rename(aside.with_name(aside.name + part))
    return aside


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


def _copy_rows(source: Path, fresh: Store) -> int:
    saved = 0
    old = sqlite3.connect(source, isolation_level=None)
    old.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        for table in ("problems", "pools", "calls"):
            for row in _readable_rows(old, table):
                saved += fresh.insert_raw(table, row) and table == "calls"
    finally:
        old.close()
    return saved


def _readable_rows(db: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """Look every row number up by itself: one damaged page then costs only the rows on it."""
    number, misses = 0, 0
    while misses < _MISSES:
        try:
            row = db.execute(f"SELECT * FROM {table} WHERE rowid=?", (number,)).fetchone()
        except sqlite3.DatabaseError:
            row = None
        misses = 0 if row else misses + 1
        number += 1
        if row:
            yield row
