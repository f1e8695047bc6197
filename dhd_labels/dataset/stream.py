"""Write a data set folder from Arrow tables, chunk by chunk: for more rows than Python dictionaries can hold.

The sibling of `write.write_dataset`, with the same files, card and all-or-nothing placement. Rows are not checked one
by one, so only our own code, whose columns are typed by Arrow, may come this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dhd_labels.dataset.header import CARD_NAME, SIMULATION_NAME, data_path, empty_rows, single_files
from dhd_labels.dataset.place import file_sha256, partial_folder, put_in_place
from dhd_labels.dataset.schema import CONFIGS, Column
from dhd_labels.dataset.splits import Split
from dhd_labels.dataset.write import check_card, extended_schema, write_file
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Chunk = Mapping[str, Mapping[Split, "pa.Table"]]
"""Tables by config and split."""
Finish = Callable[[Path, dict[str, dict[str, int]], dict[str, str]], tuple[str, str | None]]
"""From (folder of the files, rows by config and split, SHA-256 by path) to (card, text of simulation.json or None)."""
_GROUP_ROWS = 100_000


def stream_dataset(
    chunks: Iterable[Chunk], out: Path, finish: Finish, *, extra_columns: Mapping[str, Sequence[Column]]
) -> None:
    """Write every chunk as it comes, then the card; all of it or nothing.

    Args:
        chunks: tables with exactly the columns of `schema.CONFIGS` and `extra_columns`, in that order.
        out: the folder; missing, empty, or a data set of ours, which is replaced.
        finish: makes the card and `simulation.json` once all rows are counted and digested.
        extra_columns: config name to further columns.

    Raises:
        DhdError: a folder that is not ours, a card of other rows, or a full disk.
        ValueError: a table has other columns than declared.
    """
    target = out.expanduser().resolve()
    schemas = {config: extended_schema(config, tuple(extra_columns.get(config, ()))) for config in CONFIGS}
    try:
        with partial_folder(target) as partial:
            counts = _write_chunks(partial, chunks, schemas)
            files = single_files(counts)
            sha256 = {path: file_sha256(partial / path) for splits in files.values() for (path,) in splits.values()}
            card, simulation = finish(partial, counts, sha256)
            check_card(card, counts, files, sha256)
            write_file(partial / CARD_NAME, card)
            if simulation is not None:
                write_file(partial / SIMULATION_NAME, simulation)
            put_in_place(partial, target)
    except OSError as error:
        raise DhdError(
            f"The data set cannot be written to {target}: {error}. Choose another --out, or make room or rights there."
        ) from error


def _write_chunks(folder: Path, chunks: Iterable[Chunk], schemas: Mapping[str, pa.Schema]) -> dict[str, dict[str, int]]:
    """Append every table to the file of its config and split; return the rows of each."""
    import pyarrow.parquet as pq

    counts = {config: empty_rows() for config in CONFIGS}
    with ExitStack() as stack:
        writers: dict[tuple[str, str], pq.ParquetWriter] = {}
        for chunk in chunks:
            for config, split, table in ((c, s, t) for c, tables in chunk.items() for s, t in tables.items()):
                if not table.num_rows:
                    continue
                key = (config, split)
                if key not in writers:
                    path = folder / data_path(config, split)
                    path.parent.mkdir(exist_ok=True)
                    writers[key] = stack.enter_context(pq.ParquetWriter(path, schemas[config], compression="snappy"))
                writers[key].write_table(table, row_group_size=_GROUP_ROWS)
                counts[config][split] += table.num_rows
    return counts
