"""What all tables share: flat rows, what each estimates, and the groups that they are made for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dhd_labels.report.table import Table
from dhd_labels.stats.frames import GROUP_KEYS, IntArray, Units

Row = dict[str, Any]
ALL = "all"
"""The benchmark of a row that pools several; its interval resamples within each of them."""


@dataclass(frozen=True, slots=True)
class StatTable:
    """One table: its rows as plain data, and what its numbers mean.

    Attributes:
        key: its name in `--json`.
        title: its name for people.
        estimand: what is estimated.
        unit: what is counted, and what intervals resample.
        null: what a test takes for granted; "none" where nothing is tested.
        rows: one flat dictionary a row, all with the same keys; missing numbers are None.
        hidden: columns that people are not shown.
        note: anything else that a reader must know.
    """

    key: str
    title: str
    estimand: str
    unit: str
    null: str
    rows: tuple[Row, ...]
    hidden: frozenset[str] = frozenset()
    note: str = ""

    def to_table(self, most: int | None = None) -> Table:
        """Return the table for people, with estimand, unit and null below; columns without any value are left out.

        Args:
            most: rows to show; None for all.
        """
        rows = self.rows if most is None else self.rows[:most]
        columns = [name for name in self.columns if name not in self.hidden and self._has_value(name)]
        cells = tuple(tuple(format_value(name, row[name]) for name in columns) for row in rows)
        more = f" First {len(rows)} of {len(self.rows)} rows; all of them are in the JSON." * (
            len(rows) < len(self.rows)
        )
        return Table(self.title, tuple(name.replace("_", " ") for name in columns), cells, self.says + more)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self.rows[0]) if self.rows else ()

    @property
    def says(self) -> str:
        """Return estimand, unit and null in one paragraph."""
        parts = (f"Estimand: {self.estimand}. Unit: {self.unit}. Null: {self.null}.", self.note)
        return " ".join(part for part in parts if part)

    def _has_value(self, name: str) -> bool:
        return any(row[name] is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class Group:
    """Units that one set of rows is about."""

    keys: Mapping[str, str]
    units: IntArray
    """Their places among all units."""
    stratum: IntArray
    """(n,) number of the benchmark of each."""


def groups(units: Units) -> Iterator[Group]:
    """Yield every (benchmark, actor, integrator, order), and `all` benchmarks where there are several."""
    keys = units.keys
    for (actor, integrator, order), rows in keys.groupby(list(GROUP_KEYS[1:]), observed=True, sort=True).indices.items():
        benchmark = keys["benchmark"].cat.codes.to_numpy()[rows].astype(np.int64)
        names = keys["benchmark"].cat.categories
        rest = {"actor": actor, "integrator": integrator, "order": order}
        for code in np.unique(benchmark):
            found = rows[benchmark == code]
            yield Group({"benchmark": str(names[code]), **rest}, found, np.zeros(len(found), dtype=np.int64))
        if len(np.unique(benchmark)) > 1:
            yield Group({"benchmark": ALL, **rest}, rows, benchmark)


def number(value: Any) -> float | None:
    """Return a plain number, None for NaN and infinities: a data file has no such numbers."""
    found = float(value)
    return found if math.isfinite(found) else None


def format_value(name: str, value: Any) -> str:
    """Return a cell for people: p-values to three digits, other fractions to four decimals, missing as "-"."""
    if value is None:
        return "-"
    if isinstance(value, float):
        is_p = name in ("p", "p_bh", "p_by", "floor", "best_floor", "p_holm")
        return f"{value:.3g}" if is_p else f"{value:.4f}" if abs(value) < 100 else f"{value:.1f}"
    return str(value)


def pair_of(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the ends of an interval as plain numbers."""
    low, high = values
    return number(low), number(high)
