"""From rows to Arrow columns of the declared types, checked so that an error names the row, the column and the value.

Types come from the declaration and never from the values that happen to come first. A whole column is converted at
once; only where that fails are its values looked at one by one, to say which is wrong or to mend what can be mended:
lone surrogates become U+FFFD, which a column of the row counts, and a number that is not finite becomes null with a
reason beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.schema import Column
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, Any]
REPLACED = "replaced_characters"
_BITS = {"int8": 8, "int32": 32, "int64": 64}
_IDS = ("problem_id", "pool_id", "integrator", "slot", "arm", "block", "draw")
_TYPES: Mapping[str, tuple[type, ...]] = {"bool": (bool,), "float64": (float, int), **dict.fromkeys(_BITS, (int,))}
"""Python types whose values Arrow converts without a change of meaning; text everywhere else."""


class _WrongValueError(ValueError):
    """A value that its column cannot hold; the text says what the column holds."""


def check_names(row: Row, wanted: frozenset[str], name: str) -> None:
    """Refuse a row without exactly the declared columns.

    Raises:
        DhdError: a column is missing or unknown.
    """
    if row.keys() != wanted:
        missing = ", ".join(sorted(wanted - row.keys()))
        unknown = ", ".join(sorted(map(str, row.keys() - wanted)))
        parts = [f"lacks {missing}"] * bool(missing) + [f"has the unknown {unknown}"] * bool(unknown)
        raise DhdError(
            f"{name} ({_identity(row)}) must have exactly the declared columns, but it {' and '.join(parts)}."
        )


def arrow_table(rows: Sequence[Row], columns: Sequence[Column], schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    """Return rows as a table; None is a missing value, allowed everywhere.

    Args:
        rows: (n_rows,) one value a column, as Python or NumPy values.
        columns: the declared columns.
        schema: their Arrow schema.
        names: (n_rows,) how errors call each row, such as "Row 3 of messages".

    Raises:
        DhdError: a value has another type or is out of range; a number that is not finite has no column for its reason.
    """
    import pyarrow as pa

    values = {column.name: [row[column.name] for row in rows] for column in columns}
    for column in columns:
        if column.type == "float64":
            _mend_numbers(values, column, rows, names)
    arrays = {column.name: _array(values[column.name], column, rows, names) for column in columns}
    if REPLACED in arrays:
        arrays[REPLACED] = _replaced([array for name, array in arrays.items() if name != REPLACED], len(rows))
    return pa.Table.from_arrays([arrays[field.name].cast(field.type) for field in schema], schema=schema)


def plain_text(text: str) -> str:
    """Return the text with every lone surrogate as U+FFFD, so that it can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def _mend_numbers(values: dict[str, list[Any]], column: Column, rows: Sequence[Row], names: Sequence[str]) -> None:
    """Turn numbers that are not finite into null, with a reason where the row has none."""
    found = values[column.name]
    for place, value in enumerate(found):
        if value is None or not isinstance(value := _plain(value), float) or math.isfinite(value):
            continue
        if column.reason is None:
            raise _wrong(rows[place], column, names[place], "a finite number", value)
        found[place] = None
        if values[column.reason][place] is None:
            values[column.reason][place] = f"{column.name} is not a finite number: {value}"


def _array(values: list[Any], column: Column, rows: Sequence[Row], names: Sequence[str]) -> pa.Array:
    """Return a column at once where its values are plain, else value by value."""
    import pyarrow as pa

    kind = _arrow_type(column.type)
    if _is_plain(values, column.type):
        try:
            return pa.array(values, type=kind)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            pass  # the values are looked at one by one, so that the error names one
    checked = [_clean(value, column, row, name) for value, row, name in zip(values, rows, names, strict=True)]
    return pa.array(checked, type=kind)


def _is_plain(values: list[Any], kind: str) -> bool:
    """Return whether all values are of the Python type that a column stands for (a bool is no whole number)."""
    types = set(map(type, values)) - {type(None)}
    if not kind.startswith("list<"):
        return types <= set(_TYPES.get(kind, (str,)))
    items = chain.from_iterable(value for value in values if value is not None)
    return types <= {list, tuple} and set(map(type, items)) <= set(_TYPES.get(kind[5:-1], (str,)))


def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    if kind.startswith("list<"):
        return pa.list_(_arrow_type(kind[5:-1]))
    return pa.bool_() if kind == "bool" else pa.type_for_alias(kind)


def _replaced(arrays: Sequence[pa.Array], n_rows: int) -> pa.Array:
    """Return (n_rows,) how many U+FFFD the texts of each row hold."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    total = np.zeros(n_rows, dtype=np.int64)
    for array in arrays:
        if pa.types.is_list(array.type) and pa.types.is_string(array.type.value_type):
            parents, texts = pc.list_parent_indices(array), pc.list_flatten(array)
            np.add.at(total, parents.to_numpy(), pc.fill_null(pc.count_substring(texts, "\ufffd"), 0).to_numpy())
        elif pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            total += pc.fill_null(pc.count_substring(array, "\ufffd"), 0).to_numpy(zero_copy_only=False)
    return pa.array(total, type=pa.int32())


def _clean(value: Any, column: Column, row: Row, name: str) -> Any:
    if value is None:
        return None
    try:
        return _checker(column.type)(value)
    except _WrongValueError as wrong:
        raise _wrong(row, column, name, str(wrong), value) from None


def _wrong(row: Row, column: Column, name: str, wanted: str, value: Any) -> DhdError:
    return DhdError(
        f"{name} ({_identity(row)}): {column.name!r} must be {wanted} or null, "
        f"got {type(value).__name__} {repr(value)[:80]}."
    )


def _identity(row: Row) -> str:
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
    if type(value) in (float, int, bool):
        return value
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value
