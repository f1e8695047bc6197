"""Put a finished data set folder in place, all of it or nothing.

The new folder is filled beside the old one, flushed to disk and renamed. After a crash the target is the
old data set, the new one, or (between two renames) missing with the old one beside it, which the next write
brings back.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dhd_labels.dataset.header import data_files, read_header
from dhd_labels.errors import DhdError


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder beside the target that one process at a time can have; it is gone afterwards.

    Raises:
        DhdError: the target is not a folder that may be replaced, or another process is writing it.
    """
    import fcntl

    _recover(target)
    _check_target(target)
    partial = _beside(target, "partial")
    partial.mkdir(parents=True, exist_ok=True)
    lock = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DhdError(
                f"Another process is writing the data set {target}. Wait for it, or choose another --out."
            ) from None
        for leftover in partial.iterdir():
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    finally:
        os.close(lock)


def _beside(target: Path, what: str) -> Path:
    return target.with_name(f".{target.name}.{what}")


def _recover(target: Path) -> None:
    """Bring back the old data set if a crash came between the two renames of `put_in_place`."""
    old = _beside(target, "old")
    if old.exists() and not target.exists():
        old.rename(target)


def _check_target(target: Path) -> None:
    if target.exists() and not target.is_dir():
        raise DhdError(f"The data set folder must be a folder, but {target} is a file. Choose another --out.")
    if target.exists() and any(target.iterdir()) and read_header(target) is None:
        raise DhdError(
            f"The folder {target} must be new, empty or a data set of dhd-labels, but it holds other files, "
            "which are not overwritten. Choose another --out."
        )


def put_in_place(partial: Path, target: Path) -> None:
    """Make the finished folder the data set, unless the data set there already has the same content.

    Files of the old folder that are no part of a data set stay in the new one.

    Raises:
        OSError: the folder cannot be renamed; the old data set is then still in place.
    """
    if data_files(target) == data_files(partial) and all(_same(partial, target, name) for name in data_files(partial)):
        return
    _sync(partial)
    if not target.exists() or not any(target.iterdir()):
        partial.rename(target)
    else:
        _carry_over(target, partial)
        old = _beside(target, "old")
        if old.exists():
            shutil.rmtree(old)
        target.rename(old)
        try:
            partial.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old)
    _sync_folder(target.parent)


def _carry_over(old: Path, new: Path) -> None:
    """Link what stays into the new folder: files of equal content, and files that are not ours."""
    ours = set(data_files(old))
    for path in sorted(old.rglob("*")):
        name = path.relative_to(old).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if name not in ours or ((new / name).exists() and _same(old, new, name)):
            (new / name).unlink(missing_ok=True)
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            _link(path, new / name)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _same(one: Path, other: Path, name: str) -> bool:
    return filecmp.cmp(one / name, other / name, shallow=False)


def _sync(folder: Path) -> None:
    """Flush every file and folder below to disk, so that the rename cannot overtake the content."""
    for path in folder.rglob("*"):
        _sync_folder(path)
    _sync_folder(folder)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
