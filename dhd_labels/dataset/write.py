"""Write a data set folder: Parquet files with the declared schema and the card, all of it or nothing.

The new data set is written beside the old one, flushed to disk and renamed into place (`place.py`). The
same rows give the same bytes with the same library versions.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.header import CARD_NAME, SIMULATION_NAME, WHOLE, Files, data_path, empty_rows, parse_header
from dhd_labels.dataset.place import file_sha256, partial_folder, put_in_place
from dhd_labels.dataset.schema import CONFIGS, SPLITS, Column, features
from dhd_labels.dataset.values import Row, arrow_table, check_names, plain_text
from dhd_labels.errors import DhdError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_A_GROUP = 10_000
ROWS_AT_ONCE = 1_000
"""Rows that wait as Python objects, before Arrow holds them in a tenth of the memory."""
ROWS_A_FILE = 250_000
"""Rows of a config, split and part that one file holds at most; what a file holds depends on its part alone."""
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
    ) -> None:
        self.folder, self._split_of = folder, split_of
        self._part, self._parts = WHOLE, {WHOLE}
        self._configs = {config: _ConfigRows(config, tuple(extra_columns.get(config, ()))) for config in configs}
        self._open: dict[tuple[str, str], _Shards] = {}
        self.files: dict[str, dict[str, tuple[str, ...]]] = {}
        self.sha256: dict[str, str] = {}
        self.finished = False

    def start_part(self, part: str) -> None:
        """Complete the files so far; the rows that follow get files of this part, whose bytes depend on them alone.

        Raises:
            ValueError: the part had its turn already.
        """
        if part in self._parts:
            raise ValueError(f"The part must be a new one, got {part!r} again.")
        self.close()
        self._part = part
        self._parts.add(part)

    def add(self, config: str, row: Row) -> None:
        """Take a row of a config.

        Raises:
            DhdError: a bad row (named, with its column), at the latest when its file is completed.
        """
        taken = self._configs[config]
        split = taken.place(row, self._split_of)
        if (config, split) not in self._open:
            self._open[config, split] = _Shards(self.folder, taken, split, self._part)
        self._open[config, split].add(row)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The rows of each config and split so far, as the card needs them."""
        return {config: dict(rows.counts) for config, rows in self._configs.items()}

    @property
    def digests(self) -> dict[str, str]:
        """A digest of each config's files; valid once they are closed."""
        return {config: content_digest(files, self.sha256) for config, files in self.files.items()}

    def close(self) -> None:
        """Complete the files of the part; `files` and `sha256` then list them.

        Raises:
            DhdError: a bad row (named, with its column).
        """
        for (config, split), shards in self._open.items():
            shards.close()
            self.sha256 |= shards.sha256
            splits = self.files.setdefault(config, {})
            splits[split] = (*splits.get(split, ()), *shards.sha256)
        self._open = {}
        self.files = {
            c: {s: self.files[c][s] for s in SPLITS if s in self.files[c]} for c in CONFIGS if c in self.files
        }

    def abandon(self) -> None:
        """Let go of files that were not completed."""
        for shards in self._open.values():
            shards.abandon()

    def finish(self, card: str, simulation: str | None = None) -> None:
        """Complete the files and add the card, whose counts and files must be those of the rows.

        Raises:
            DhdError: a bad row, or a card of other rows.
        """
        self.close()
        check_card(card, self.counts, self.files, self.sha256)
        write_file(self.folder / CARD_NAME, plain_text(card))
        if simulation is not None:
            write_file(self.folder / SIMULATION_NAME, simulation)
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
        with partial_folder(target) as partial:
            writer = DatasetWriter(partial, configs, split_of, extra_columns)
            try:
                yield writer
            finally:
                writer.abandon()
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


class _ConfigRows:
    """What the files of a config have in common: its columns, and the number of rows so far."""

    def __init__(self, config: str, extra: Sequence[Column]) -> None:
        self.config = config
        self.columns, self.schema = (*CONFIGS[config], *extra), extended_schema(config, extra)
        self.counts = empty_rows()
        self.rows = 0
        self._names = frozenset(column.name for column in self.columns)

    def place(self, row: Row, split_of: Mapping[str, str]) -> str:
        """Count a row and return its split."""
        name = f"Row {self.rows} of {self.config}"
        check_names(row, self._names, name)
        split = _split(row, split_of, name)
        self.counts[split] += 1
        self.rows += 1
        return split


class _Shards:
    """The files of one config, split and part, with the rows that wait to be written."""

    def __init__(self, folder: Path, of: _ConfigRows, split: str, part: str) -> None:
        self._folder, self._of, self._split, self._part = folder, of, split, part
        self._waiting: list[Row] = []
        self._numbers: list[int] = []
        self._tables: list[pa.Table] = []
        self._rows = self._converted = 0
        self._path = ""
        self._writer: pq.ParquetWriter | None = None
        self.sha256: dict[str, str] = {}

    def add(self, row: Row) -> None:
        """Take the row that was just counted."""
        self._waiting.append(row)
        self._numbers.append(self._of.rows - 1)
        if self._converted + len(self._waiting) == ROWS_A_GROUP:
            self._flush()
        elif len(self._waiting) == ROWS_AT_ONCE:
            self._convert()

    def close(self) -> None:
        """Write what waits and complete the last file."""
        self._flush()
        self._complete()

    def abandon(self) -> None:
        """Close a file that will never be read."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()

    def _convert(self) -> None:
        if self._waiting:
            names = [f"Row {number} of {self._of.config}" for number in self._numbers]
            self._tables.append(arrow_table(self._waiting, self._of.columns, self._of.schema, names))
            self._converted += len(self._waiting)
        self._waiting, self._numbers = [], []

    def _flush(self) -> None:
        """Write the waiting rows as one row group, in the next file once this one is full."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._convert()
        if not self._tables:
            return
        table = pa.concat_tables(self._tables).combine_chunks()
        self._tables, self._converted = [], 0
        if self._rows and self._rows + table.num_rows > ROWS_A_FILE:
            self._complete()
        if self._writer is None:
            self._path = data_path(self._of.config, self._split, self._part, len(self.sha256))
            path = self._folder / self._path
            path.parent.mkdir(exist_ok=True)
            self._writer = pq.ParquetWriter(path, self._of.schema, compression="snappy")
        self._writer.write_table(table, row_group_size=ROWS_A_GROUP)
        self._rows += table.num_rows

    def _complete(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self.sha256[self._path] = file_sha256(self._folder / self._path)
        self._writer, self._rows = None, 0


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


def check_card(
    card: str,
    counts: Mapping[str, Mapping[str, int]],
    files: Files,
    sha256: Mapping[str, str],
) -> None:
    """Refuse a card that would describe, or make loaders look for, other files than these.

    Raises:
        DhdError: the card has no header of ours, or counts other rows, lists other files or gives other digests.
    """
    header = parse_header(card)
    if header is None:
        raise DhdError("The card must start with the YAML header that `card.render` writes, got a text without it.")
    if {config: dict(rows) for config, rows in header.rows.items()} != counts:
        raise DhdError(f"The card must count the rows that are written, {counts}, got {dict(header.rows)}.")
    if header.files != files:
        raise DhdError(f"The card's 'configs' must list the files that are written, {files}, got {dict(header.files)}.")
    if header.sha256 and header.sha256 != sha256:
        raise DhdError(f"The card's 'sha256' must be those of the files, {sha256}, got {dict(header.sha256)}.")


def content_digest(files: Mapping[str, tuple[str, ...]], sha256: Mapping[str, str]) -> str:
    """Return the digest of a config's files, given those of each: the same rows give the same files."""
    found = (sha256[path] for split in SPLITS for path in files.get(split, ()))
    return hashlib.sha256("".join(found).encode()).hexdigest()


def write_file(path: Path, text: str) -> None:
    """Write a text file, the same bytes on every system."""
    path.write_text(text, encoding="utf-8", newline="\n")
