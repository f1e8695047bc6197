"""Data sets for the tests of tables: made by a run or a simulation, read as plain rows, edited, written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dhd_labels.dataset import card
from dhd_labels.dataset.columns import open_source
from dhd_labels.dataset.schema import CONFIGS
from dhd_labels.dataset.write import count_rows, write_dataset
from dhd_labels.simulate.worlds import World, scenario
from dhd_labels.simulate.write import Plan, simulate_dataset
from dhd_labels.stats.checks import check_labels
from dhd_labels.stats.frames import read_units
from dhd_labels.stats.tables.study import Study
from tests.dataset.samples import facts

Row = dict[str, Any]
Rows = dict[str, list[Row]]


def simulated(out: Path, problems: int = 30, blocks: int = 5, world: World | None = None, draws: int = 1) -> Path:
    simulate_dataset(Plan(world or scenario("mixed"), problems, blocks, 3, draws), out)
    return out


def read_rows(folder: Path) -> Rows:
    """Return the rows of every config with the declared columns and their split."""
    found: Rows = {}
    for config, columns in CONFIGS.items():
        names = [column.name for column in columns]
        found[config] = [
            {**row, "split": path.name.split("-")[0]}
            for path in sorted((folder / config).glob("*.parquet"))
            for row in pq.read_table(path, columns=names).to_pylist()
        ]
    return found


def write_rows(rows: Rows, out: Path) -> Path:
    split_of = {row["problem_id"]: row["split"] for found in rows.values() for row in found}
    plain = {c: [{k: v for k, v in row.items() if k != "split"} for row in found] for c, found in rows.items()}
    write_dataset(plain, out, split_of=split_of, card=card.render(facts(count_rows(plain, split_of))))
    return out


def edited(folder: Path, out: Path, edit: Callable[[Rows], None]) -> Path:
    """Return a copy of a data set whose rows were changed."""
    rows = read_rows(folder)
    edit(rows)
    return write_rows(rows, out)


def study_of(folder: Path) -> Study:
    units = read_units(open_source(folder))
    return Study(units, check_labels(units))


def only(rows: Iterable[Row], **wanted: Any) -> Row:
    """Return the one row with these values."""
    found = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]
