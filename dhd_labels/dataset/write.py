"""Write a data set folder: Parquet files with the declared schema and the card, all of it or nothing.

The new data set is written beside the old one, flushed to disk and renamed into place (`place.py`). The
same rows give the same bytes with the same library versions.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.header import CARD_NAME, SIMULATION_NAME, data_path, empty_rows, parse_header
from dhd_labels.dataset.place import partial_folder, put_in_place
from dhd_labels.dataset.schema import CONFIGS, SPLITS, Column, features
from dhd_labels.dataset.values import clean_row, plain_text
from dhd_labels.errors import DhdError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Row = Mapping[str, Any]
ROWS_A_GROUP = 10_000
_NOTHING: Mapping[str, Any] = {}


def write_dataset(
    tables: Mapping[str, Iterable[Row]],
    out: Path,
    *,
    split_of: Mapping[str, str],
    card: str,
    extra_columns: Mapping[str, Sequence[Column]] = _NOTHING,
    simulation: str | None = None,
) -> None:
    """Write the rows of each config to `<config>/<split>-00000-of-00001.parquet`, and the card to README.md.

    A split without rows gets no file, since `datasets.load_dataset` refuses empty ones; the card counts it
    as 0. Files whose content stays the same are left untouched. Files in the folder that are not part of a
    data set stay.

    Args:
        tables: config name to rows; every row has exactly the columns of `schema.CONFIGS` (plus
            `extra_columns`).
        out: the folder; missing, empty, or a data set of ours, which is replaced.
        split_of: problem_id to `train`, `validation` or `test`.
        card: the README, from `card.render`; its row counts must be those of the rows.
        extra_columns: config name to further columns, such as a simulation's true values.
        simulation: text of `simulation.json`, for simulated data sets only.

    Raises:
        DhdError: a bad row (named, with its column), a folder that is not ours, a card of other rows, or a
            full disk.
    """
    target = out.expanduser().resolve()
    for config in tables:
        if config not in CONFIGS:
            raise DhdError(f"A table must be a config of the data set, got {config!r}. {did_you_mean(config, CONFIGS)}")
    try:
        with partial_folder(target) as partial:
            counts = {
                config: _write_config(partial, config, rows, split_of, tuple(extra_columns.get(config, ())))
                for config, rows in tables.items()
            }
            check_card(card, counts)
            write_file(partial / CARD_NAME, plain_text(card))
            if simulation is not None:
                write_file(partial / SIMULATION_NAME, simulation)
            put_in_place(partial, target)
    except OSError as error:
        raise DhdError(
            f"The data set cannot be written to {target}: {error}. Choose another --out, or make room or rights there."
        ) from error


def count_rows(tables: Mapping[str, Iterable[Row]], split_of: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Return the rows of each config and split, as the card needs them. Reads each table once.

    Raises:
        DhdError: a row's problem has no split.
    """
    return {
        config: empty_rows()
        | Counter(_split(row, split_of, f"Row {number} of {config}") for number, row in enumerate(rows))
        for config, rows in tables.items()
    }


def row_digest(rows: Iterable[Row]) -> str:
    """Return a SHA-256 digest of the rows of a config; reads them once."""
    total = hashlib.sha256()
    for row in rows:
        total.update(json.dumps(row, sort_keys=True).encode() + b"\n")
    return total.hexdigest()


def _write_config(
    folder: Path, config: str, rows: Iterable[Row], split_of: Mapping[str, str], extra: Sequence[Column]
) -> dict[str, int]:
    """Stream the rows of a config into one file a split; return the rows of each."""
    columns, schema = (*CONFIGS[config], *extra), extended_schema(config, extra)
    counts = empty_rows()
    waiting: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    with ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {}
        for number, row in enumerate(rows):
            name = f"Row {number} of {config}"
            cleaned = clean_row(row, columns, name)
            split = _split(cleaned, split_of, name)
            counts[split] += 1
            waiting[split].append(cleaned)
            if len(waiting[split]) == ROWS_A_GROUP:
                _flush(waiting, split, folder / data_path(config, split), schema, writers, stack)
        for split in SPLITS:
            _flush(waiting, split, folder / data_path(config, split), schema, writers, stack)
    return counts


def _flush(
    waiting: dict[str, list[dict[str, Any]]],
    split: str,
    path: Path,
    schema: pa.Schema,
    writers: dict[str, pq.ParquetWriter],
    stack: ExitStack,
) -> None:
    """Write the waiting rows of a split as one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not waiting[split]:
        return
    if split not in writers:
        path.parent.mkdir(exist_ok=True)
        writers[split] = stack.enter_context(pq.ParquetWriter(path, schema, compression="snappy"))
    writers[split].write_table(pa.Table.from_pylist(waiting[split], schema=schema), row_group_size=ROWS_A_GROUP)
    waiting[split] = []


def extended_schema(config: str, extra: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of a config with further columns at its end."""
    import datasets

    further = {column.name: datasets.Value(column.type) for column in extra}
    return datasets.Features({**features(config), **further}).arrow_schema


def _split(row: Row, split_of: Mapping[str, str], name: str) -> str:
    split = split_of.get(str(row.get("problem_id")))
    if split not in SPLITS:
        raise DhdError(f"{name}: the problem {row.get('problem_id')!r} must have a split, got {split!r}.")
    return split


def check_card(card: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Refuse a card that would describe, or make loaders look for, other files than these."""
    header = parse_header(card)
    if header is None:
        raise DhdError("The card must start with the YAML header that `card.render` writes, got a text without it.")
    if {config: dict(rows) for config, rows in header.rows.items()} != counts:
        raise DhdError(f"The card must count the rows that are written, {counts}, got {dict(header.rows)}.")
    files = {c: {s: data_path(c, s) for s in SPLITS if rows[s]} for c, rows in counts.items() if any(rows.values())}
    if header.files != files:
        raise DhdError(f"The card's 'configs' must list the files that are written, {files}, got {dict(header.files)}.")


def write_file(path: Path, text: str) -> None:
    """Write a text file, the same bytes on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")
