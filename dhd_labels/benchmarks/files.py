"""Rows out of upstream files: JSON lines, a JSON array, Parquet, an Excel sheet; and the download where none is given.

Every row comes with where it is ("file:line" or "file:row"). A row that cannot be read comes as the error; a file that
cannot be read is a DhdError.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from dhd_labels.benchmarks.problem_set import Row, UnusableRowError
from dhd_labels.benchmarks.registry import RegistryFacts, Upstream
from dhd_labels.errors import DhdError

Rows = Iterator[tuple[str, Row | UnusableRowError]]
GITHUB = "https://raw.githubusercontent.com"
_TIMEOUT = 30
"""Seconds without an answer after which a download is given up."""


class NotOnDiskError(DhdError):
    """No path was given, and the benchmark is neither in the cache nor to be had from the network."""


def locate(
    entry: RegistryFacts,
    path: str | None,
    patterns: Sequence[str],
    *,
    wanted: Callable[[Path], bool] = lambda file: True,
    fetch: bool = True,
) -> list[Path]:
    """Return the files of a benchmark: those under `path` (a file or folder), or the pinned upstream ones.

    Args:
        entry: the benchmark.
        path: where the user keeps the upstream file; None for the cache and the network.
        patterns: which files of a folder are the benchmark's; the first pattern with a hit decides.
        wanted: leaves files of a folder alone.
        fetch: whether the network may be used.

    Raises:
        NotOnDiskError: there is no path, and nothing is cached or reachable.
        DhdError: the path does not exist or holds none of the files.
    """
    root = Path(path) if path is not None else _download(entry, fetch)
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise DhdError(f"The path of benchmark {entry.name!r} must be a file or folder that exists, got {str(root)!r}")
    for pattern in patterns:
        if found := sorted(file for file in root.glob(pattern) if file.is_file() and wanted(file)):
            return found
    origin = f" They come from {entry.upstream}." if entry.upstream else ""
    raise DhdError(
        f"The folder {str(root)!r} must hold the files of benchmark {entry.name!r} ({' or '.join(patterns)}), got none."
        + origin
    )


def read_rows(file: Path) -> Rows:
    """Yield (where, row) of a file, by its ending; a `.json` file may be one array or JSON lines.

    Raises:
        DhdError: the file cannot be read, is cut off, or is of another format.
    """
    try:
        if file.suffix == ".parquet":
            yield from _parquet_rows(file)
        elif file.suffix == ".xlsx":
            yield from _sheet_rows(file)
        elif file.suffix == ".json" and _starts_with(file, b"["):
            yield from _array_rows(file)
        else:
            yield from _line_rows(file)
    except OSError as error:
        raise DhdError(f"The file {str(file)!r} cannot be read: {error}") from None


def _starts_with(file: Path, mark: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(mark)


def _line_rows(file: Path) -> Rows:
    with file.open("rb") as opened:
        # Lines end at b"\n" alone: JSON allows the other line breaks of Unicode inside a string.
        for number, line in enumerate(opened, start=1):
            if line.strip():
                where = f"{file.name}:{number}"
                yield where, _parse(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, where)


def _parse(line: bytes, where: str) -> Row | UnusableRowError:
    try:
        return _object(json.loads(line.decode("utf-8")), where)
    except UnicodeDecodeError as error:
        return UnusableRowError("not_json", f"The line {where} must be UTF-8: {error}")
    except (ValueError, RecursionError) as error:
        return UnusableRowError("not_json", f"The line {where} must be a JSON object: {error}")


def _object(value: Any, where: str) -> Row | UnusableRowError:
    if isinstance(value, dict):
        return value
    return UnusableRowError("not_json", f"The line {where} must be a JSON object, got {type(value).__name__}")


def _array_rows(file: Path) -> Rows:
    try:
        values = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DhdError(
            f"The file {str(file)!r} must be a whole JSON array; it is damaged or cut off ({error}). Download it again."
        ) from None
    for number, value in enumerate(values, start=1):
        where = f"{file.name}:{number}"
        yield where, _object(value, where)


def _parquet_rows(file: Path) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{file.name}:{number}", row
    except pa.ArrowException as error:
        raise _damaged(file, "Parquet", error) from None


def _sheet_rows(file: Path) -> Rows:
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (BadZipFile, InvalidFileException, KeyError, ValueError) as error:
        raise _damaged(file, "Excel", error) from None
    try:
        cells = book.worksheets[0].iter_rows(values_only=True)
        names = [str(name).strip() if name is not None else "" for name in next(cells, ())]
        for number, values in enumerate(cells, start=2):
            if any(value is not None for value in values):
                # A number is read as the text it shows; an empty cell is an empty text.
                texts = ("" if value is None else str(value) for value in values)
                yield f"{file.name}:{number}", dict(zip(names, texts, strict=False))
    except BadZipFile as error:
        raise _damaged(file, "Excel", error) from None
    finally:
        book.close()


def _damaged(file: Path, kind: str, error: Exception) -> DhdError:
    return DhdError(
        f"The file {str(file)!r} must be a whole {kind} file; it is damaged or cut off ({error}). Download it again."
    )


def _download(entry: RegistryFacts, fetch: bool) -> Path:
    """Return the folder with the pinned upstream files, from the cache or else the network."""
    if entry.upstream is None:
        raise DhdError(f"The 'path' must name a file for benchmark {entry.name!r}, got nothing")
    try:
        if entry.upstream.host == "hub":
            return _from_hub(entry.upstream, fetch)
        return _from_github(entry.upstream, fetch)
    # The clients raise OSError, ValueError (a cache miss offline) or an error of the HTTP library below them.
    except Exception as error:
        why = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise NotOnDiskError(
            f"The benchmark {entry.name!r} is not on this disk and could not be fetched ({why}). "
            f"Set its 'path' (--path; benchmark.path or benchmarks.N.path of a config) to a copy of"
            f" {', '.join(entry.upstream.files)} from {entry.upstream}."
        ) from None


def _from_hub(upstream: Upstream, fetch: bool) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    def snapshot(local_files_only: bool) -> Path:
        folder = snapshot_download(
            upstream.repo,
            repo_type="dataset",
            revision=upstream.revision,
            allow_patterns=list(upstream.files),
            local_files_only=local_files_only,
        )
        return Path(folder)

    try:
        cached = snapshot(local_files_only=True)
        if all(any(cached.glob(pattern)) for pattern in upstream.files):
            return cached
    except LocalEntryNotFoundError:
        pass
    if not fetch:
        raise FileNotFoundError("the files are not in the cache")
    # Without a network this fails at once, where the download itself would try for half a minute.
    HfApi().dataset_info(upstream.repo, revision=upstream.revision, timeout=_TIMEOUT)
    return snapshot(local_files_only=False)


def _from_github(upstream: Upstream, fetch: bool) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dhd-labels"
    folder = cache / upstream.repo.replace("/", "--") / upstream.revision
    for name in upstream.files:
        file = folder / Path(name).name
        if file.exists():
            continue
        if not fetch:
            raise FileNotFoundError(f"{file.name} is not in the cache")
        with urllib.request.urlopen(f"{GITHUB}/{upstream.repo}/{upstream.revision}/{name}", timeout=_TIMEOUT) as answer:  # noqa: S310 - the scheme is ours
            content = answer.read()
        folder.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: a download that is cut off must not look like a cached file.
        part = file.with_name(f"{file.name}.{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(file)
    return folder
