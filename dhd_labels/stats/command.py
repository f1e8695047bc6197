"""What `python -m dhd_labels stats` does: every table of a data set, for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console

from dhd_labels.dataset.columns import Source, open_source
from dhd_labels.errors import DhdError
from dhd_labels.report.table import Table
from dhd_labels.stats.checks import check_labels
from dhd_labels.stats.frames import read_units
from dhd_labels.stats.rows import Row, StatTable
from dhd_labels.stats.tables.accuracy import accuracy_tables
from dhd_labels.stats.tables.problem_tests import test_tables
from dhd_labels.stats.tables.repeats import repeat_tables
from dhd_labels.stats.tables.routing import routing_table
from dhd_labels.stats.tables.selection import selection_table
from dhd_labels.stats.tables.studies import masking_tables, sensitivity_table
from dhd_labels.stats.tables.study import Study
from dhd_labels.stats.tables.taxonomy import taxonomy_tables

SHOWN = 40
"""Rows of a table that are printed; the JSON has all of them."""


_ROWS_AT_ONCE = 1000

LEFT_OUT = (
    "n counts messages in taxonomy, single_by_full, mean_value, stability and sensitivity; draws in accuracy_by_k and "
    "masking; blocks in blocks and identical_input; replays in all; problems, one for each actor, in the others."
)
"""What the counts of `exclusions` are of."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Every table of a data set, in reading order, and what was left out of each."""

    name: str
    tables: tuple[StatTable, ...]
    exclusions: tuple[Row, ...]
    no_answer: str

    def table(self, key: str) -> StatTable:
        """Return a table by its key."""
        return next(table for table in self.tables if table.key == key)

    def exclusion_table(self) -> Table:
        """Return what was left out, by table and reason, as a table for people."""
        columns = ("table", "benchmark", "actor", "integrator", "order", "reason", "n")
        rows = tuple(tuple(str(row[name]) for name in columns) for row in self.exclusions)
        return Table("Left out, by table and reason", columns, rows or (("-",) * 6 + ("0",),), LEFT_OUT)

    @property
    def rule(self) -> str:
        """Return how the labels treat an integrator that gives no answer."""
        return (
            f"Effects treat `no_answer` as {self.no_answer} (every label of the data set was computed again from its "
            "replays and agrees); accuracies always count it as incorrect."
        )


def compute(labels: str | Path) -> Statistics:
    """Compute every table of a data set.

    Args:
        labels: a folder that `build` or `simulate` wrote, or a Hub id `org/name` or `org/name@revision`.

    Raises:
        DhdError: the data set cannot be read, contradicts itself, or has labels that do not follow from its replays.
        NothingMadeError: it has no messages or no replays.
    """
    return compute_from(open_source(labels))


def compute_from(source: Source) -> Statistics:
    """Compute every table of a data set that was found already, under the conventions of `compute`."""
    units = read_units(source)
    study = Study(units, check_labels(units))
    for reason, count in units.ignored.items():
        study.exclusions.append(
            {"table": "all", "benchmark": "all", "actor": "all", "integrator": "all", "order": "all", "reason": reason}
            | {"n": count}
        )
    tables = tuple(_tables(study, source))
    return Statistics(source.name, tables, tuple(study.exclusions), study.checked.no_answer)


def _tables(study: Study, source: Source) -> Iterator[StatTable]:
    yield from taxonomy_tables(study)
    yield from accuracy_tables(study)
    yield routing_table(study)
    yield from repeat_tables(study)
    yield from test_tables(study)
    yield selection_table(study)
    yield from masking_tables(study, source)
    yield sensitivity_table(study)


def show(found: Statistics, screen: Console) -> None:
    """Print every table that has rows, what was left out, and which tables the data set has nothing for."""
    for table in found.tables:
        if table.rows:
            screen.print(table.to_table(SHOWN).to_rich())
    empty = [table.key for table in found.tables if not table.rows]
    if empty:
        screen.print(f"No rows for: {', '.join(empty)}. The data set has no such replays.", markup=False)
    screen.print(found.exclusion_table().to_rich())
    screen.print(found.rule, markup=False)


def write_json(found: Statistics, file: IO[str]) -> None:
    """Write every table as strict JSON, some rows at a time: there may be millions."""
    file.write("{\n")
    parts: list[tuple[str, Sequence[Row]]] = [(table.key, table.rows) for table in found.tables]
    parts.append(("exclusions", found.exclusions))
    for key, rows in parts:
        file.write(f"{_dumped(key)}: [")
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = _dumped(list(rows[start : start + _ROWS_AT_ONCE])).removeprefix("[").removesuffix("]")
            file.write(f",\n{some}" if start else f"\n{some}")
        file.write("],\n")
    meanings: dict[str, dict[str, str]] = {"exclusions": {"unit": LEFT_OUT}}
    meanings |= {t.key: {"estimand": t.estimand, "unit": t.unit, "null": t.null, "note": t.note} for t in found.tables}
    file.write(f'"meanings": {_dumped(meanings)},\n"rule": {_dumped(found.rule)}\n}}\n')


def write_file(found: Statistics, path: Path) -> None:
    """Write the JSON to a file.

    Raises:
        DhdError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            write_json(found, file)
    except OSError as error:
        raise DhdError(f"The file of --json must be writable, got {str(path)!r}: {error.strerror}.") from error


def _dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
