"""Check a row against its declared columns before Arrow sees it, so that errors name the row and the column."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dhd_labels.dataset.schema import Column
from dhd_labels.errors import DhdError

_BITS = {"int8": 8, "int32": 32, "int64": 64}
_IDS = ("problem_id", "pool_id", "integrator", "slot", "arm", "block", "draw")


class _WrongValueError(ValueError):
    """A value that its column cannot hold; the text says what the column holds."""


def clean_row(row: Mapping[str, Any], columns: Sequence[Column], name: str) -> dict[str, Any]:
    """Return the row as plain Python values in column order; lone surrogates become U+FFFD.

    Args:
        row: one value a column; None is a missing value, allowed everywhere.
        columns: the declared columns.
        name: how errors call the row, such as "Row 3 of messages".

    Raises:
        DhdError: a column is missing or unknown, or a value has another type, is out of range, NaN or
            infinite.
    """
    if row.keys() != {column.name for column in columns}:
        raise DhdError(_wrong_columns(row, columns, name))
    return {column.name: _clean(row, column, name) for column in columns}


def plain_text(text: str) -> str:
    """Return the text with every lone surrogate as U+FFFD, so that it can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def _clean(row: Mapping[str, Any], column: Column, name: str) -> Any:
    value = row[column.name]
    if value is None:
        return None
    try:
        return _checker(column.type)(value)
    except _WrongValueError as wrong:
        raise DhdError(
            f"{name} ({_identity(row)}): {column.name!r} must be {wrong} or null, "
            f"got {type(value).__name__} {repr(value)[:80]}."
        ) from None


def _wrong_columns(row: Mapping[str, Any], columns: Sequence[Column], name: str) -> str:
    wanted = [column.name for column in columns]
    missing = ", ".join(column for column in wanted if column not in row)
    unknown = ", ".join(str(column) for column in row if column not in wanted)
    parts = [f"lacks {missing}"] * bool(missing) + [f"has the unknown {unknown}"] * bool(unknown)
    return f"{name} ({_identity(row)}) must have exactly the declared columns, but it {' and '.join(parts)}."


def _identity(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {str(row[key])[:24]!r}" for key in _IDS if row.get(key) is not None) or "no id"


def _checker(kind: str) -> Callable[[Any], Any]:
    if kind.startswith("list<"):
        return lambda value: _items(value, _checker(kind[5:-1]))
    if kind in _BITS:
        return lambda value: _whole(value, _BITS[kind])
    return {"bool": _truth, "float64": _number}.get(kind, _text)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongValueError("text")
    return plain_text(value)


def _truth(value: Any) -> bool:
    value = _plain(value)
    if not isinstance(value, bool):
        raise _WrongValueError("true, false")
    return value


def _whole(value: Any, bits: int) -> int:
    value, limit = _plain(value), 1 << (bits - 1)
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise _WrongValueError(f"a whole number of {bits} bits")
    return value


def _number(value: Any) -> float:
    value = _plain(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise _WrongValueError("a finite number")
    return float(value)


def _items(value: Any, check: Callable[[Any], Any]) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise _WrongValueError("a list")
    return [check(item) for item in value]


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value
