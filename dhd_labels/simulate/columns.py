"""Arrow columns from NumPy arrays, without a Python object a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Index = npt.NDArray[np.int64]


def take(options: Sequence[Any], index: npt.NDArray[Any]) -> pa.Array:
    """Return `options[i]` for each i of a 1-d array; an option may be None."""
    import pyarrow as pa

    return pa.array(options).take(pa.array(index))


def join(*parts: Any, separator: str = "") -> pa.Array:
    """Return the texts of each row, arrays or constants, joined."""
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*parts, separator)


def numerals(number: Index, where: npt.NDArray[np.bool_]) -> pa.Array:
    """Return each number as text, null where the condition does not hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pa.array(number, mask=~where), pa.string())


def unless_negative(number: Index) -> pa.Array:
    """Return the numbers, null for those below 0."""
    import pyarrow as pa

    return pa.array(number, mask=number < 0)


def unit_rows(main: npt.NDArray[Any], blocks: npt.NDArray[Any]) -> Index:
    """Return the main values of each unit, then its block values, unit by unit, as one 1-d array.

    Args:
        main: (n_main,) the same for every unit, or (n_units, n_main).
        blocks: (n_units, n_blocks, n_draws).
    """
    units = len(blocks)
    main = np.broadcast_to(main, (units, main.shape[-1]))
    return np.concatenate([main, blocks.reshape(units, -1)], axis=1).ravel().astype(np.int64)


def table(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return a table of exactly the columns of a schema; NaN becomes null.

    Raises:
        ValueError: a column is missing or unknown.
    """
    import pyarrow as pa

    if set(columns) != set(schema.names):
        raise ValueError(f"The columns must be those declared, but they differ in {set(columns) ^ set(schema.names)}.")
    arrays = [_typed(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _typed(values: Any, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.cast(kind)
    return pa.array(values, type=kind, from_pandas=True)
