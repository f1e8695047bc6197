"""The exact tests: of every problem, and of all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.blocks import Blocks, matched_blocks
from dhd_labels.stats.exact_null import problem_tests
from dhd_labels.stats.families import FAMILIES, NULLS, Family, Null
from dhd_labels.stats.frames import ABSENT, GROUP_KEYS, IntArray, Units
from dhd_labels.stats.multiplicity import discoveries
from dhd_labels.stats.pooled import pooled_test
from dhd_labels.stats.rows import Group, Row, StatTable, systems
from dhd_labels.stats.tables.study import SEED, Study

if TYPE_CHECKING:
    import pandas as pd

_NULL = (
    "seven: the seven outcomes of a block are exchangeable; removals: its five removal draws are, so that a "
    "pure effect "
    "of the pool's size is no reason to reject"
)
_FAMILIES = (
    "Families: wrong_helpful (wrong messages, helpful), correct_harmful (correct messages, harmful), "
    "off_diagonal (both), "
    "any (all messages, either direction)."
)


class FrameRows(Sequence[Row]):
    """Rows of a frame as dictionaries, made when they are looked at: there may be millions."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def __len__(self) -> int:
        return len(self.frame)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> FrameRows: ...
    def __getitem__(self, at: int | slice) -> Row | FrameRows:
        """Return one row, or some rows."""
        if isinstance(at, slice):
            return FrameRows(self.frame.iloc[at])
        return next(iter(FrameRows(self.frame.iloc[[at]])))

    def __iter__(self) -> Iterator[Row]:
        step = 100_000
        names = list(self.frame.columns)
        for start in range(0, len(self.frame), step):
            part = self.frame.iloc[start : start + step]
            columns: list[list[Any]] = [part[name].tolist() for name in names]
            yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def test_tables(study: Study) -> list[StatTable]:
    """Return `problem_tests`, `discoveries` and `pooled_test`."""
    import pandas as pd

    frames: list[pd.DataFrame] = []
    found: list[Row] = []
    for group in _whole_groups(study):
        blocks = group_blocks(study, group.units)
        for family in FAMILIES:
            for null in NULLS:
                frame = _tests(study, group, blocks, family, null)
                frames.append(frame)
                found += _discovery_rows(frame, group, family, null)
    tests = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return [_problem_table(tests), _discovery_table(found), _pooled(study)]


def group_blocks(study: Study, rows: IntArray) -> Blocks:
    """Return the complete blocks of some units, by the rule for effects; pools are numbered as in `rows`."""
    units = study.units
    codes = np.concatenate([units.full[rows], units.without[rows]], axis=2)
    pool, block, column = np.nonzero(codes != ABSENT)
    success = study.effect(codes)[pool, block, column]
    return matched_blocks(pool, block, column, success, _Names(units, rows))


class _Names(Sequence[str]):
    """Names of units for errors, made when one is needed."""

    def __init__(self, units: Units, rows: IntArray) -> None:
        self._units, self._rows = units, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        """Return the name of one unit."""
        if isinstance(at, slice):
            return [self[i] for i in range(len(self))[at]]
        return str(self._units.keys["pool_id"].iloc[self._rows[at]])


def _whole_groups(study: Study) -> Iterator[Group]:
    """Yield one group an (actor, integrator, order), all benchmarks in it, of the units that have blocks."""
    recorded = (study.units.full != ABSENT).any(axis=(1, 2)) | (study.units.without != ABSENT).any(axis=(1, 2))
    benchmark = study.units.keys["benchmark"].cat.codes.to_numpy().astype(np.int64)
    for names, rows in systems(study.units):
        kept = rows[recorded[rows]]
        if len(kept):
            yield Group({"benchmark": "", **names}, kept, benchmark[kept])


def _tests(study: Study, group: Group, blocks: Blocks, family: Family, null: Null) -> pd.DataFrame:
    """Return one row an eligible pool; the others are counted by benchmark and reason."""
    import pandas as pd

    keys = study.units.keys.iloc[group.units].reset_index(drop=True)
    tests = problem_tests(blocks, study.units.proposal[group.units], family, null)
    adjusted = discoveries(tests)
    out = np.ones(len(keys), dtype=np.bool_)
    out[tests.pool] = False
    blockless = blocks.per_pool == 0
    names = keys["benchmark"].astype(object)
    for reason, mask in (("no complete block", out & blockless), ("no target slot", out & ~blockless)):
        for benchmark, count in names[mask].value_counts().items():
            where = Group({**group.keys, "benchmark": str(benchmark)}, group.units, group.stratum)
            study.exclude("problem_tests", where, f"{family}, {null}: {reason}", int(count))
    kept = keys.iloc[tests.pool]
    columns = {name: kept[name].to_numpy() for name in GROUP_KEYS}
    return pd.DataFrame(
        {
            **columns,
            "problem_id": kept["problem_id"].to_numpy(),
            "pool_id": kept["pool_id"].to_numpy(),
            "family": family,
            "null": null,
            "statistic": tests.statistic,
            "p": tests.p,
            "floor": tests.floor,
            "best_floor": tests.best_floor,
            "p_bh": adjusted.p_bh,
            "p_by": adjusted.p_by,
            "n_blocks": tests.n_blocks,
        }
    )


def _problem_table(tests: pd.DataFrame) -> StatTable:
    ordered = tests.sort_values(["p_bh", "p"], kind="stable") if len(tests) else tests
    return StatTable(
        "problem_tests",
        "Exact test of each problem",
        "statistic: the largest trajectory value, signed by the family, among the tested messages of a pool",
        "pool under one integrator and order",
        _NULL,
        FrameRows(ordered),
        hidden=frozenset({"pool_id"}),
        note=f"p is exact. floor: the smallest p that this pool's success counts allow; best_floor: that any "
        f"counts of as "
        f"many blocks allow. p_bh and p_by adjust over all pools of one actor, integrator, order, family and null, "
        f"p = 1 included. {_FAMILIES}",
    )


def _discovery_rows(tests: pd.DataFrame, group: Group, family: Family, null: Null) -> Iterator[Row]:
    from dhd_labels.stats.multiplicity import Q

    names = tests["benchmark"].astype(object)
    parts = [(str(name), tests[names == name]) for name in sorted(set(names))]
    for benchmark, part in (*parts, *([("all", tests)] if len(parts) > 1 else [])):
        yield {
            **group.keys,
            "benchmark": benchmark,
            "family": family,
            "null": null,
            "n_tests": len(part),
            "found_bh": int((part["p_bh"] <= Q).sum()),
            "found_by": int((part["p_by"] <= Q).sum()),
            "smallest_p": float(part["p"].min()),
            "floor_below": int((part["floor"] * len(tests) <= Q).sum()),
        }


def _discovery_table(rows: list[Row]) -> StatTable:
    return StatTable(
        "discoveries",
        "Problems found at a false discovery rate of 0.05",
        "number of pools whose adjusted p of the exact test is at most 0.05",
        "pool under one integrator and order",
        _NULL,
        rows,
        note=f"floor_below: pools whose counts allow a p small enough to be found alone (floor x tests at most "
        f"0.05); the "
        f"others can only be found together with more. Adjusted over all benchmarks. {_FAMILIES}",
    )


def _pooled(study: Study) -> StatTable:
    rows: list[Row] = []
    for group in study.groups:
        blocks = group_blocks(study, group.units)
        if not len(blocks.pool):
            continue
        for family in FAMILIES:
            for null in NULLS:
                rng = np.random.default_rng(SEED)
                found = pooled_test(blocks, study.units.proposal[group.units], family, null, rng)
                rows.append(
                    {
                        **group.keys,
                        "family": family,
                        "null": null,
                        "statistic": found.statistic,
                        "expected": found.expected,
                        "p": found.p,
                        "method": found.method,
                        "draws": found.draws,
                        "n": found.n_messages,
                        "n_pools": found.n_pools,
                    }
                )
    return StatTable(
        "pooled_test",
        "More repeatable effects than noise makes?",
        f"statistic: number of messages that are stable over their blocks ({FULL_DRAWS} full draws and five removals "
        "each); expected: its mean under the null",
        "message; the pools are independent",
        _NULL,
        rows,
        note=f"method exact: the convolution over pools; monte_carlo: seeded null data sets, add-one p. {_FAMILIES}",
    )
