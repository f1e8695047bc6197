"""Find the files of a release and read their lines. Nothing in them is trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhd_labels.errors import DhdError

PATTERNS = ("raw/*/dhd/*/layer_a/part-*.jsonl*", "raw/*/dhd/*/loo/part-*.jsonl*")
LAYOUT = "raw/<benchmark>/dhd/<model>/{layer_a,loo}/part-*.jsonl.zst"
_PART = re.compile(r"part-\d+\.jsonl(?:\.zst)?")


@dataclass(frozen=True, slots=True)
class Campaign:
    """The files of one benchmark and model, both as the release spells them."""

    benchmark: str
    model: str
    layer_a: tuple[Path, ...]
    loo: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One row and where it stands, for errors."""

    where: str
    row: dict[str, Any]


def is_release(folder: Path) -> bool:
    """Return whether a folder has the layout of the paper's release."""
    return any(_PART.fullmatch(path.name) for path in folder.glob(PATTERNS[0]))


def campaigns(folder: Path) -> list[Campaign]:
    """Return what the release holds, by benchmark and model.

    Raises:
        DhdError: there is no row of `layer_a`.
    """
    found = sorted(
        {path.parents[1] for path in folder.glob(PATTERNS[0]) if _PART.fullmatch(path.name)},
        key=lambda path: path.relative_to(folder).as_posix(),
    )
    if not found:
        raise DhdError(f"The folder {folder} must have files {LAYOUT}, but has none of `layer_a`.")
    return [Campaign(path.parents[1].name, path.name, _parts(path / "layer_a"), _parts(path / "loo")) for path in found]


def _parts(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.glob("part-*") if _PART.fullmatch(path.name)))


def lines(path: Path) -> Iterator[Line]:
    """Yield the rows of a file, decompressed as they are read.

    Raises:
        DhdError: the file cannot be read or decompressed, or a line is no JSON object; names the line.
    """
    import pyarrow as pa

    compression = "zstd" if path.suffix == ".zst" else None
    name = "/".join(path.parts[-6:])
    try:
        with pa.input_stream(str(path), compression=compression) as raw:
            for number, text in enumerate(_texts(raw), 1):
                if text.strip():
                    yield Line(f"{name}, line {number}", _object(text, f"{name}, line {number}"))
    except (OSError, pa.ArrowException) as error:
        raise DhdError(f"The file {path} cannot be read: {error}. Fetch it again.") from error


def _texts(raw: Any) -> Iterator[bytes]:
    """Yield lines of a binary stream that has no `readline` of its own."""
    rest = b""
    while chunk := raw.read(1 << 20):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    yield rest


def _object(text: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DhdError(f"{where}: the line must be JSON, got {str(text[:60])[2:-1]!r} ({error}).") from None
    if not isinstance(found, dict):
        raise DhdError(f"{where}: the line must be a JSON object, got {type(found).__name__}.")
    return found
