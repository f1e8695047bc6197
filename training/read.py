"""Read what training needs of a data set: some columns of the Parquet files themselves, batch by batch.

A data set of a million messages has ten million replays of thirty columns, of which eight are needed, most of them as
codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dhd_labels.dataset.columns import open_source
from dhd_labels.dataset.load import check_splits
from dhd_labels.dataset.schema import MESSAGES
from dhd_labels.records import CONTENT_FIELDS, Arm
from dhd_selectors.base import POOL_KEYS, PRIVILEGED_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

_PRIVILEGED = tuple(name for name in PRIVILEGED_COLUMNS if name in {column.name for column in MESSAGES})
COLUMNS = {
    "messages": (
        *POOL_KEYS, "problem_id", "benchmark", "actor", "slot", "role_name", "proposed_answer", *CONTENT_FIELDS,
        "confidence_text", "confidence_level", "confidence_value", *_PRIVILEGED, "screen_blocks",
        "license", "train_allowed", "commercial_use",
    ),
    "replays": (*POOL_KEYS, "arm", "kept", "block", "draw", "status", "correct"),
    "problems": ("problem_id", "question", "answer_type"),
}  # fmt: skip
"""The columns that training reads of each config."""


def read_frame(labels: str, config: str, splits: Sequence[str]) -> pd.DataFrame:
    """Return the rows of one config, splits in the given order, with a last column `split`.

    Text that repeats is categorical in `replays` and shares its objects elsewhere; whole numbers and verdicts are
    nullable. `kept` is a tuple where the arm is a `subset`, else None.

    Args:
        labels: folder or Hub id, optionally with `@revision`.
        config: `messages`, `replays` or `problems`.
        splits: which of `train`, `validation`, `test` to read.

    Raises:
        DhdError: the data set cannot be read, or is of another version.
    """
    import pyarrow as pa

    check_splits(splits)
    source, columns = open_source(labels), COLUMNS[config]
    found = [list(_prepared(source.batches(config, columns, splits=[split]), config)) for split in splits]
    rows = [sum(batch.num_rows for batch in batches) for batches in found]
    if not sum(rows):
        return pd.DataFrame({name: pd.Series([], dtype=object) for name in (*columns, "split")})
    table = pa.Table.from_batches([batch for batches in found for batch in batches]).unify_dictionaries()
    frame = pd.DataFrame({name: _series(table.column(name), as_codes=config == "replays") for name in columns})
    return frame.assign(split=np.repeat(np.array(splits, dtype=object), rows))


def _series(column: pa.ChunkedArray, *, as_codes: bool) -> pd.Series:
    """Return a column with None for missing text, or as a categorical of codes where it was read as such."""
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_string(column.type) or kinds.is_large_string(column.type):
        return pd.Series(column.to_numpy(), dtype=object)
    types = {pa.bool_(): pd.BooleanDtype(), pa.int32(): pd.Int32Dtype(), pa.int8(): pd.Int8Dtype()}
    found: pd.Series = column.to_pandas(types_mapper=types.get)
    if as_codes or not kinds.is_dictionary(column.type):
        return found
    names = np.array([*found.cat.categories, None], dtype=object)
    return pd.Series(names[found.cat.codes.to_numpy()], dtype=object)


def _prepared(batches: Iterator[pa.RecordBatch], config: str) -> Iterator[pa.RecordBatch]:
    """Drop the lists of kept slots where the name of the arm says them."""
    import pyarrow.compute as pc

    for batch in batches:
        if config == "replays":
            named = pc.not_equal(batch.column("arm").cast("string"), Arm.subset(()).kind)
            kept = pc.if_else(named, None, batch.column("kept"))
            batch = batch.set_column(batch.schema.get_field_index("kept"), "kept", kept)
        if batch.num_rows:
            yield batch
