"""Write a data set folder: Parquet files with the declared schema and the card, all of it or nothing.

The new data set is written beside the old one, flushed to disk and renamed into place (`place.py`). The
same rows give the same bytes with the same library versions.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.header import CARD_NAME, SIMULATION_NAME, data_path, empty_rows, parse_header, single_files
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


class DatasetWriter:
    """Takes the rows of a data set one by one, of any config in any order; holds at most a row group of each file.

    `writing_dataset` makes one. Rows of one file are written in the order in which they are added.
    """

    def __init__(
        self,
        folder: Path,
        configs: Iterable[str],
        split_of: Mapping[str, str],
        extra_columns: Mapping[str, Sequence[Column]],
        stack: ExitStack,
    ) -> None:
        self._folder, self._split_of = folder, split_of
        self._files = {
            config: _ConfigFiles(folder, config, tuple(extra_columns.get(config, ())), stack) for config in configs
        }
        self._close_files = stack.close
        self.finished = False

    def add(self, config: str, row: Row) -> None:
        """Take a row of a config.

        Raises:
            DhdError: a bad row (named, with its column).
        """
        self._files[config].add(row, self._split_of)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The rows of each config and split so far, as the card needs them."""
        return {config: dict(files.counts) for config, files in self._files.items()}

    def finish(self, card: str, simulation: str | None = None) -> None:
        """Complete the files and add the card, whose counts must be those of the rows.

        Raises:
            DhdError: a card of other rows.
        """
        for files in self._files.values():
            files.flush()
        self._close_files()
        check_card(card, self.counts)
        write_file(self._folder / CARD_NAME, plain_text(card))
        if simulation is not None:
            write_file(self._folder / SIMULATION_NAME, simulation)
        self.finished = True


@contextmanager
def writing_dataset(
    out: Path,
    *,
    split_of: Mapping[str, str],
    configs: Iterable[str] = CONFIGS,
    extra_columns: Mapping[str, Sequence[Column]] = _NOTHING,
) -> Iterator[DatasetWriter]:
    """Give a writer of a data set folder that takes the place of `out` once it is finished; else nothing changes.

    A split without rows gets no file, since `datasets.load_dataset` refuses empty ones; the card counts it
    as 0. Files whose content stays the same are left untouched. Files in the folder that are not part of a
    data set stay.

    Args:
        out: the folder; missing, empty, or a data set of ours, which is replaced.
        split_of: problem_id to `train`, `validation` or `test`.
        configs: the configs that get rows.
        extra_columns: config name to further columns, such as a simulation's true values.

    Raises:
        DhdError: a folder that is not ours, or a full disk.
    """
    target = out.expanduser().resolve()
    for config in configs:
        if config not in CONFIGS:
            raise DhdError(f"A table must be a config of the data set, got {config!r}. {did_you_mean(config, CONFIGS)}")
    try:
        with partial_folder(target) as partial, ExitStack() as stack:
            writer = DatasetWriter(partial, configs, split_of, extra_columns, stack)
            yield writer
            if writer.finished:
                put_in_place(partial, target)
    except OSError as error:
        raise DhdError(
            f"The data set cannot be written to {target}: {error}. Choose another --out, or make room or rights there."
        ) from error


def write_dataset(
    tables: Mapping[str, Iterable[Row]],
    out: Path,
    *,
    split_of: Mapping[str, str],
    card: str,
    extra_columns: Mapping[str, Sequence[Column]] = _NOTHING,
    simulation: str | None = None,
) -> None:
    """Write a whole data set, config after config, under the conventions of `writing_dataset`.

    Args:
        tables: config name to rows; every row has exactly the columns of `schema.CONFIGS` (plus
            `extra_columns`).
        out: as in `writing_dataset`.
        split_of: as in `writing_dataset`.
        card: the README, from `card.render`; its row counts must be those of the rows.
        extra_columns: as in `writing_dataset`.
        simulation: text of `simulation.json`, for simulated data sets only.

    Raises:
        DhdError: a bad row (named, with its column), a folder that is not ours, a card of other rows, or a
            full disk.
    """
    with writing_dataset(out, split_of=split_of, configs=tables, extra_columns=extra_columns) as writer:
        for config, rows in tables.items():
            for row in rows:
                writer.add(config, row)
        writer.finish(card, simulation)


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


class RowDigest:
    """A SHA-256 digest of the rows of a config, taken one by one."""

    def __init__(self) -> None:
        self._total = hashlib.sha256()

    def add(self, row: Row) -> None:
        """Take the next row."""
        self._total.update(json.dumps(row, sort_keys=True).encode() + b"\n")

    def hexdigest(self) -> str:
        """Return the digest of the rows so far."""
        return self._total.hexdigest()


class _ConfigFiles:
    """The files of a config, one a split, with the rows that wait to be written."""

    def __init__(self, folder: Path, config: str, extra: Sequence[Column], stack: ExitStack) -> None:
        self._folder, self._config, self._stack = folder, config, stack
        self._columns, self._schema = (*CONFIGS[config], *extra), extended_schema(config, extra)
        self._waiting: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self.counts = empty_rows()

    def add(self, row: Row, split_of: Mapping[str, str]) -> None:
        name = f"Row {sum(self.counts.values())} of {self._config}"
        cleaned = clean_row(row, self._columns, name)
        split = _split(cleaned, split_of, name)
        self.counts[split] += 1
        self._waiting[split].append(cleaned)
        if len(self._waiting[split]) == ROWS_A_GROUP:
            self._flush(split)

    def flush(self) -> None:
        for split in SPLITS:
            self._flush(split)

    def _flush(self, split: str) -> None:
        """Write the waiting rows of a split as one row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._waiting[split]:
            return
        if split not in self._writers:
            path = self._folder / data_path(self._config, split)
            path.parent.mkdir(exist_ok=True)
            writer = pq.ParquetWriter(path, self._schema, compression="snappy")
            self._writers[split] = self._stack.enter_context(writer)
        table = pa.Table.from_pylist(self._waiting[split], schema=self._schema)
        self._writers[split].write_table(table, row_group_size=ROWS_A_GROUP)
        self._waiting[split] = []


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
    files = single_files(counts)
    if header.files != files:
        raise DhdError(f"The card's 'configs' must list the files that are written, {files}, got {dict(header.files)}.")


def write_file(path: Path, text: str) -> None:
    """Write a text file, the same bytes on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")
