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
_NAMES = ("policy", "cell", "condition", "diagnostic", "arm", "proposal", "problem_id", "change")
"""Text columns that a row is known by; they are shown even when they are all the same."""
_PROBABILITIES = ("p", "p_bh", "p_by", "floor", "best_floor", "smallest_p")
_PLAIN = (*_PROBABILITIES, "tokens")
_DIFFERENCES = ("diff", "regret", "gain", "difference", "mean_shift")
_INTERVALS = {
    "ci_low": "",
    "rate_ci_low": "rate,",
    "accuracy_ci_low": "accuracy,",
    "wilson_low": "Wilson",
    "clustered_low": "clustered",
}
_LARGE = 100
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
        points: whether people are shown its fractions as percentages and points.
    """

    key: str
    title: str
    estimand: str
    unit: str
    null: str
    rows: Sequence[Row]
    hidden: frozenset[str] = frozenset()
    note: str = ""
    points: bool = False

    def to_table(self, most: int | None = None) -> Table:
        """Return the table for people, with estimand, unit and null below it.

        Text that is the same in all rows is said once below; an interval is one cell; empty columns are left out.

        Args:
            most: rows to show; None for all.
        """
        rows = list(self.rows if most is None else self.rows[:most])
        shown = [name for name in self.columns if name not in self.hidden and any(r[name] is not None for r in rows)]
        shared = {name: rows[0][name] for name in shown if self._is_shared(name, rows)}
        columns = [name for name in shown if name not in shared and not name.endswith(("_high", "_reason"))]
        cells = tuple(tuple(self._cell(name, row) for name in columns) for row in rows)
        cut = len(rows) < len(self.rows)
        said = [f"First {len(rows)} of {len(self.rows)} rows; all of them are in the JSON."] if cut else []
        if shared:
            which = "The rows shown" if cut else "All rows"
            said.append(f"{which}: {', '.join(f'{name} {value}' for name, value in shared.items())}.")
        return Table(self.title, tuple(map(self._heading, columns)), cells, " ".join([*said, self.says]))

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self.rows[0]) if self.rows else ()

    @property
    def says(self) -> str:
        """Return estimand, unit and null in one paragraph."""
        parts = (f"Estimand: {self.estimand}. Unit: {self.unit}. Null: {self.null}.", self.note)
        return " ".join(part for part in parts if part)

    @staticmethod
    def _is_shared(name: str, rows: Sequence[Row]) -> bool:
        first = rows[0][name]
        return isinstance(first, str) and name not in _NAMES and all(row[name] == first for row in rows)

    def _heading(self, name: str) -> str:
        if name.endswith("_low"):
            return f"{_INTERVALS.get(name, name.removesuffix('_low'))} 95 %".strip()
        in_points = self.points and name not in _PLAIN and isinstance(self._first(name), float)
        return name.replace("_", " ") + (
            " (points)" if in_points and name in _DIFFERENCES else " %" if in_points else ""
        )

    def _first(self, name: str) -> Any:
        return next((row[name] for row in self.rows if row[name] is not None), None)

    def _cell(self, name: str, row: Row) -> str:
        if not name.endswith("_low"):
            return self._number(name, row[name])
        high = name.removesuffix("low") + "high"
        if row[name] is None:
            return f"none: {row.get(name.removesuffix('low') + 'reason') or 'no data'}"
        return f"[{self._number(name, row[name])}, {self._number(high, row[high])}]"

    def _number(self, name: str, value: Any) -> str:
        if value is None:
            return "-"
        if not isinstance(value, float):
            return str(value)
        if name in _PROBABILITIES:
            return f"{value:.3g}"
        if self.points and name not in _PLAIN:
            return f"{100 * value:{'+' if name in _DIFFERENCES else ''}.2f}"
        return f"{value:.4f}" if abs(value) < _LARGE else f"{value:.1f}"


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
    codes = units.keys["benchmark"].cat.codes.to_numpy().astype(np.int64)
    names = units.keys["benchmark"].cat.categories
    for system, rows in systems(units):
        benchmark = codes[rows]
        for code in np.unique(benchmark).tolist():
            found = rows[benchmark == code]
            yield Group({"benchmark": str(names[code]), **system}, found, np.zeros(len(found), dtype=np.int64))
        if len(np.unique(benchmark)) > 1:
            yield Group({"benchmark": ALL, **system}, rows, benchmark)


def systems(units: Units) -> Iterator[tuple[dict[str, str], IntArray]]:
    """Yield every (actor, integrator, order) as columns, and the places of its units."""
    names = list(GROUP_KEYS[1:])
    found = units.keys.groupby(names, observed=True, sort=True)
    place = found.ngroup().to_numpy()
    for number in range(found.ngroups):
        rows = np.flatnonzero(place == number).astype(np.int64)
        first = units.keys.iloc[int(rows[0])]
        yield {name: str(first[name]) for name in names}, rows


def number(value: Any) -> float | None:
    """Return a plain number, None for NaN and infinities: a data file has no such numbers."""
    found = float(value)
    return found if math.isfinite(found) else None
