"""Peak memory of a push with its load-back, for data sets of more and more rows: `python -m tests.bench.push_memory`.

Rows lie in files of 250,000, as `build` writes them, all on the test Hub; the pushing process is a fork of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from dhd_labels.dataset.write import ROWS_A_FILE, ROWS_A_GROUP
from tests.dataset.samples import PRELUDE, row, write
from tests.hub import running
from tests.hub.client import clients

SIZES = (ROWS_A_FILE, 4 * ROWS_A_FILE, 12 * ROWS_A_FILE)
CODE = """
import resource, time
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before, start = peak(), time.time()
push(folder, f"org/{folder.name}")
print(f"{peak() - before} MiB more than before the push, {time.time() - start:.0f} s")
"""


def data_set(folder: Path, rows: int) -> Path:
    """Write a data set of `rows` messages, made of one file again and again."""
    write(folder, {"messages": [row("messages", key_idea=f"{n} " * 40) for n in range(ROWS_A_GROUP)]})
    first = "messages/train-all-00000.parquet"
    table = pq.read_table(folder / first)
    paths = [first.replace("00000", f"{number:05d}") for number in range(rows // ROWS_A_FILE)]
    for path in paths:
        with pq.ParquetWriter(folder / path, table.schema) as file:
            for _ in range(ROWS_A_FILE // ROWS_A_GROUP):
                file.write_table(table)
    card = (folder / "README.md").read_text()
    card = card.replace(f"train: {ROWS_A_GROUP}", f"train: {rows}").replace(
        f"path: {first}", f"path: [{', '.join(paths)}]"
    )
    (folder / "README.md").write_text(card)
    return folder


def main() -> None:
    """Push one data set after the other and print the peaks."""
    with tempfile.TemporaryDirectory() as place, running() as hub, clients(hub, Path(place, "home")) as client:
        for rows in SIZES:
            print(f"{rows:>9} messages: {client.run(PRELUDE + CODE, data_set(Path(place, str(rows)), rows))}", end="")


if __name__ == "__main__":
    main()
