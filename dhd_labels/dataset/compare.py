"""Load a pushed data set back and compare it with the folder it came from, row by row, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dhd_labels.dataset.header import Header
from dhd_labels.dataset.remote import explained
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 4096
"""Rows in memory at once, of each side."""


def compare(folder: Path, header: Header, repo: str, commit: str) -> None:
    """Load every config of a data set at a commit with `load_dataset` and compare it with the folder.

    Both sides are streams, so a config of any size needs the memory of two batches.

    Raises:
        DhdError: a split, a column, a type or a row differs, or the data set cannot be loaded.
    """
    for config, splits in header.files.items():
        difference = _config_differs(folder, config, splits, repo, commit)
        if difference:
            raise DhdError(
                f"What the Hub returns must be what was pushed, but config {config!r} of {repo!r} at {commit[:12]} "
                f"differs: {difference}. Push again; if it stays, report it."
            )


def _config_differs(
    folder: Path, config: str, splits: Mapping[str, tuple[str, ...]], repo: str, commit: str
) -> str | None:
    import datasets

    with explained(f"Loading the config {config!r} of {repo!r} back"):
        loaded = datasets.load_dataset(repo, config, revision=commit, streaming=True)
        if set(loaded) != set(splits):
            return f"the splits are {sorted(loaded)}, not {sorted(splits)}"
        for split, paths in splits.items():
            here = _local(folder, paths)
            there = loaded[split].with_format("arrow").iter(batch_size=ROWS)
            difference = first_difference(here, there)
            if difference:
                return f"split {split}, {difference}"
    return None


def _local(folder: Path, paths: tuple[str, ...]) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        with pq.ParquetFile(folder / path) as file:
            if file.metadata.num_rows == 0:
                yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(batch_size=ROWS):
                yield pa.Table.from_batches([batch])


def first_difference(sent: Iterator[pa.Table], returned: Iterator[pa.Table]) -> str | None:
    """Return where two streams of tables first differ, or None when they hold the same rows.

    The streams may be cut into batches at different rows.
    """
    row = 0
    here, there = next(sent, None), next(returned, None)
    while here is not None and there is not None:
        if here.schema.remove_metadata() != there.schema.remove_metadata():
            return f"the columns are {there.schema.names}, not {here.schema.names}, or of another type"
        rows = min(here.num_rows, there.num_rows)
        difference = _rows_differ(here[:rows], there[:rows], row)
        if difference:
            return difference
        row += rows
        here = here[rows:] if rows < here.num_rows else next(sent, None)
        there = there[rows:] if rows < there.num_rows else next(returned, None)
    left, more = sum(t.num_rows for t in _rest(here, sent)), sum(t.num_rows for t in _rest(there, returned))
    return f"there are {row + more} rows, not {row + left}" if left or more else None


def _rest(first: pa.Table | None, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    if first is not None:
        yield first
        yield from others


def _rows_differ(here: pa.Table, there: pa.Table, start: int) -> str | None:
    for name in here.column_names:
        if not here.column(name).equals(there.column(name)):
            pairs = zip(here.column(name).to_pylist(), there.column(name).to_pylist(), strict=True)
            row, (sent, back) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
            return f"row {start + row}, column {name!r}: {repr(back)[:60]}, not {repr(sent)[:60]}"
    return None
