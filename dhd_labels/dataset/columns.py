"""Read some columns of a data set's files, batch by batch: for tables over millions of rows.

`load` gives everything through `datasets`, which first copies all of it into a cache; this reads the Parquet files
themselves and nothing but the columns that are asked for. The same folders, Hub ids and checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset import header as headers
from dhd_labels.dataset.header import HOW_TO_BUILD, Header
from dhd_labels.dataset.hub import explain, parse_ref, quiet
from dhd_labels.dataset.load import check_files, check_rows, hub_header, loading
from dhd_labels.dataset.schema import CONFIGS, SPLITS
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 19
_REPEATED = ("pool_id", "problem_id", "benchmark", "actor", "integrator", "order", "arm", "status", "condition", "cell")
"""Text columns of few values, read as dictionaries."""


@dataclass(frozen=True, slots=True)
class Source:
    """A data set whose files can be read: its name for errors, its header and the folder that its paths start from."""

    name: str
    header: Header
    folder: Path

    def batches(
        self, config: str, columns: Sequence[str], *, where: Any = None, splits: Sequence[str] = SPLITS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the splits, in their order.

        Args:
            config: `messages`, `replays`, `problems` or `masking`.
            columns: columns to read, in this order.
            where: optional `pyarrow.compute` expression; rows that do not fulfil it are left out.
            splits: splits to read.

        Raises:
            DhdError: the config is missing, or a file is damaged or of other rows than the card counts.
        """
        import pyarrow as pa
        import pyarrow.dataset as ds

        files = self._files(config, splits)
        texts = [c.name for c in CONFIGS[config] if c.name in _REPEATED and c.type == "string"]
        reading = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=texts))
        for path in files:
            try:
                rows = ds.dataset(path, format=reading)
                _check_types(rows.schema, config, columns, path)
                yield from rows.to_batches(columns=list(columns), filter=where, batch_size=_BATCH_ROWS)
            except (OSError, pa.ArrowException) as error:
                raise DhdError(f"The file {path} cannot be read ({error}). {HOW_TO_BUILD}") from error

    def rows(self, config: str) -> int:
        """Return how many rows a config has."""
        return sum(self.header.rows.get(config, {}).values())

    def _files(self, config: str, splits: Sequence[str]) -> list[Path]:
        import pyarrow.parquet as pq

        if config not in self.header.rows:
            raise DhdError(f"The data set {self.name!r} has no config {config!r}. {HOW_TO_BUILD}")
        check_files(self.folder, self.header, config)
        paths = self.header.files.get(config, {})
        found = {split: pq.read_metadata(self.folder / path).num_rows for split, path in paths.items()}
        check_rows(found, self.header.rows[config], config, self.name)
        return [self.folder / paths[split] for split in splits if split in paths]


def _check_types(found: pa.Schema, config: str, columns: Sequence[str], path: Path) -> None:
    declared = {column.name: column.type for column in CONFIGS[config]}
    for name in columns:
        kind = _kind(found.field(name).type)
        if kind != declared[name].removeprefix("large_"):
            raise DhdError(f"The column {name!r} of {path} must be {declared[name]}, got {kind}. {HOW_TO_BUILD}")


def _kind(found: pa.DataType) -> str:
    """Return a type as the schema writes it; how texts are stored (large, as a dictionary) makes no difference."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(found):
        return _kind(found.value_type)
    if kinds.is_list(found):
        return f"list<{_kind(found.value_type)}>"
    return str(found).removeprefix("large_").replace("double", "float64")


def open_source(labels: str | Path) -> Source:
    """Find a data set, as `load` does; files on the Hub are fetched.

    Args:
        labels: a folder that `build` or `simulate` wrote, or a Hub id `org/name` or `org/name@revision`. A folder of
            that name wins.

    Raises:
        DhdError: no such data set, not one of ours, or the Hub said no.
    """
    folder = Path(labels).expanduser()
    ref = None if folder.exists() else parse_ref(str(labels))
    if ref is None:
        return Source(str(labels), headers.local_header(folder), folder.resolve())
    from huggingface_hub import snapshot_download

    header, revision = hub_header(ref)
    wanted = [path for files in header.files.values() for path in files.values()]
    try:
        with quiet():
            at = snapshot_download(ref.repo, repo_type="dataset", revision=revision, allow_patterns=wanted)
    except Exception as error:
        raise DhdError(explain(error, loading(ref))) from None
    return Source(ref.repo, header, Path(at))
