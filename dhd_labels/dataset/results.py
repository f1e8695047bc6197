"""The results on a card: the tables of `stats` that fit a page, with their intervals, and three figures.

They are computed from the Parquet files once these are complete, so they say what a reader of the data set would find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.header import FIGURES, Files, Header, figure_path
from dhd_labels.dataset.schema import SCHEMA_VERSION
from dhd_labels.errors import NothingMadeError
from dhd_labels.report.table import Table

if TYPE_CHECKING:
    from dhd_labels.report.figures import Figure
    from dhd_labels.stats.command import Statistics
    from dhd_labels.stats.rows import Row

MOST_REPLAYS = 2_000_000
"""Replays up to which the tables of `stats` go on the card: beyond, they take more memory than a build may have."""
MOST_SYSTEMS = 12
"""Groups of rows that a page has room for."""
_FIGURES_SHOWN = 3
_PANELS = 6
_SYSTEM = ("benchmark", "actor", "integrator", "order")
_COMMAND = "python -m dhd_labels stats DATASET"


@dataclass(frozen=True, slots=True)
class CardFigure:
    """A figure of the card: its path in the data set, what it shows, and its bytes."""

    path: str
    title: str
    alt: str
    png: bytes


@dataclass(frozen=True, slots=True)
class Results:
    """Tables and figures of a card; the note says what it leaves out."""

    tables: tuple[Table, ...] = ()
    figures: tuple[CardFigure, ...] = ()
    note: str = ""


def results_of(
    folder: Path, rows: Mapping[str, Mapping[str, int]], files: Files, *, most_replays: int = MOST_REPLAYS
) -> Results:
    """Return the results of a data set whose Parquet files are complete, and write its figures into the folder.

    Args:
        folder: where the files are.
        rows: rows by config and split, as the card counts them.
        files: paths by config and split.
        most_replays: above as many replays only a note is returned.

    Raises:
        DhdError: the labels do not follow from the replays.
    """
    from dhd_labels.dataset.columns import Source
    from dhd_labels.stats.command import compute_from

    replays = sum(rows.get("replays", {}).values())
    if replays > most_replays:
        return Results(
            note=f"With {replays} replays (the limit is {most_replays}) the tables with intervals and the figures are "
            f"not on this page. To print them: {_COMMAND}"
        )
    try:
        found = compute_from(Source(str(folder), Header(SCHEMA_VERSION, rows, files), folder))
    except NothingMadeError:  # no messages, or no replays of the kind that tables are made of
        return Results()
    figures = _figures(found)
    for figure in figures:
        path = folder / figure.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(figure.png)
    return Results(tuple(card_tables(found)), figures, f"{found.rule.replace('`', '')} To print all tables: {_COMMAND}")


def card_tables(found: Statistics) -> list[Table]:
    """Return the tables of a page. Several benchmarks, models or orders are numbered in a table of their own."""
    systems, left_out = _systems(found)
    number = {system: str(place) for place, system in enumerate(systems, 1)}
    several = len(systems) > 1 or left_out > 0
    parts = [part(_of(found, key, number)) for key, part in _PARTS.items()]
    parts.append(_tests(_of(found, "pooled_test", number), _of(found, "discoveries", number)))
    tables = [_grouped(table, several=several) for table in parts if table.rows]
    return [_system_table(number, left_out), *tables] if several else tables


def _figures(found: Statistics) -> tuple[CardFigure, ...]:
    from dhd_labels.report.figures import make_figures

    ks = {row["k"] for row in found.table("accuracy_by_k").rows}
    names = [name for name in FIGURES if name != "accuracy_by_k" or len(ks) > 1]
    made = {figure.name: figure for figure in make_figures(found, names, most_panels=_PANELS)}
    return tuple(_card_figure(made[name]) for name in names if name in made)[:_FIGURES_SHOWN]


def _card_figure(figure: Figure) -> CardFigure:
    return CardFigure(figure_path(figure.name), figure.title, f"{figure.title}. {figure.summary}", figure.png)


def _systems(found: Statistics) -> tuple[list[tuple[str, ...]], int]:
    """Return the groups that are shown, and the number of those for which there is no room.

    With too many, the rows that pool the benchmarks stand for their parts.
    """
    from dhd_labels.stats.rows import ALL

    keys = (*_PARTS, "pooled_test")
    seen = dict.fromkeys(tuple(str(row[n]) for n in _SYSTEM) for key in keys for row in found.table(key).rows)
    every = list(seen)
    pooled = {system[1:] for system in every if system[0] == ALL}
    if len(every) <= MOST_SYSTEMS:
        return every, 0
    short = [system for system in every if system[0] == ALL or system[1:] not in pooled]
    return short[:MOST_SYSTEMS], len(every) - len(short[:MOST_SYSTEMS])


def _of(found: Statistics, key: str, number: Mapping[tuple[str, ...], str]) -> list[tuple[str, Row]]:
    """Return the rows of a table with the number of their group, of the groups that are shown."""
    rows = ((tuple(str(row[name]) for name in _SYSTEM), row) for row in found.table(key).rows)
    return sorted(((number[system], row) for system, row in rows if system in number), key=lambda pair: int(pair[0]))


def _system_table(number: Mapping[tuple[str, ...], str], left_out: int) -> Table:
    note = f"{left_out} more are in the tables of `stats`." if left_out else ""
    rows = tuple((place, *system) for system, place in number.items())
    return Table("What the numbers in the tables stand for", ("#", *_SYSTEM), rows, note)


def _grouped(table: Table, *, several: bool) -> Table:
    """Return a table without the column that numbers the groups where there is one group."""
    if several:
        return table
    return Table(table.title, table.columns[1:], tuple(row[1:] for row in table.rows), table.note)


def _accuracy(rows: Sequence[tuple[str, Row]]) -> Table:
    ks = sorted({row["k"] for _, row in rows})
    cells = {(place, row["k"]): _percent(row, "accuracy") for place, row in rows}
    problems: dict[str, set[int]] = {}
    for place, row in rows:
        problems.setdefault(place, set()).add(row["n"])
    body = tuple((p, _range(n), *(cells.get((p, k), "-") for k in ks)) for p, n in problems.items())
    note = "Accuracy in % by the number K of messages shown, with the 95 % interval that resamples problems."
    return Table("Accuracy by K", ("#", "problems", *(f"K = {k}" for k in ks)), body, note)


def _flips(rows: Sequence[tuple[str, Row]]) -> Table:
    names = {"loo": "one left out", "single": "only one shown"}
    body = tuple(
        (place, names[row["replay"]], row["proposal"], str(row["n"]), str(row["flips"]),
         _percent(row, "rate", "rate_ci_"), _percent(row, "helpful_share"))
        for place, row in rows
    )  # fmt: skip
    columns = ("#", "replay", "proposal", "messages", "flips", "flip rate %", "of these helpful %")
    note = (
        "A flip: one draw with the message and one without it end differently; one left out: of the first K messages, "
        "all recorded K together. 95 % intervals resample problems."
    )
    return Table("Flips", columns, body, note)


def _taxonomy(rows: Sequence[tuple[str, Row]]) -> Table:
    most = max((row["k"] for _, row in rows), default=0)
    body = tuple(
        (place, row["proposal"], *(str(row[name]) for name in ("helpful", "neutral", "harmful", "eligible")))
        for place, row in rows
        if row["replay"] == "loo" and row["k"] == most
    )
    columns = ("#", "proposal", "helpful", "neutral", "harmful", "messages")
    return Table(f"Messages by proposal and single-draw effect at K = {most}", columns, body)


def _identical(rows: Sequence[tuple[str, Row]]) -> Table:
    body = tuple(
        (place, str(row["disagree"]), str(row["n"]), _percent(row, "rate", "wilson_"), _ends(row, "clustered_"))
        for place, row in rows
    )
    columns = ("#", "blocks that differ", "blocks compared", "rate %, Wilson", "resampling problems")
    note = "How often two draws of one input end differently: noise that any effect must be told from. 95 % intervals."
    return Table("Identical-input disagreement", columns, body, note)


def _values(rows: Sequence[tuple[str, Row]]) -> Table:
    body = tuple(
        (place, str(row["proposal"]).replace("_", " "), str(row["n"]), str(row["n_problems"]), _value(row, "mean"))
        for place, row in rows
    )
    columns = ("#", "proposal", "messages", "problems", "mean trajectory value")
    note = "Positive: success is higher with the message than without it. 95 % intervals resample problems."
    return Table("Mean trajectory value by correctness of the proposal", columns, body, note)


def _stability(rows: Sequence[tuple[str, Row]]) -> Table:
    labels = ("stable_helpful", "indeterminate", "stable_harmful")
    counts = {(place, row["proposal"], row["label"]): str(row["n"]) for place, row in rows}
    keys = dict.fromkeys((place, row["proposal"]) for place, row in rows)
    body = tuple((*key, *(counts.get((*key, label), "0") for label in labels)) for key in keys)
    notes = dict.fromkeys(str(row["coverage_note"]) for _, row in rows if row["coverage_note"])
    columns = ("#", "proposal", *(label.replace("_", " ") for label in labels))
    return Table("Stability over matched blocks, messages", columns, body, " ".join(notes))


def _selection(rows: Sequence[tuple[str, Row]]) -> Table:
    body = tuple((place, row["policy"], row["kind"], f"{100 * row['accuracy']:.1f}", _gain(row)) for place, row in rows)
    columns = ("#", "policy", "kind", "accuracy %", "gain over keeping all, points")
    note = (
        "Other blocks of the same problem choose what is removed. privileged: knows verdicts or outcomes; placebo: a "
        "choice from noise. 95 % intervals resample problems."
    )
    return Table("Same-problem selection", columns, body, note)


def _masking(rows: Sequence[tuple[str, Row]]) -> Table:
    body = tuple((place, row["cell"], row["condition"], str(row["n"]), _percent(row, "success")) for place, row in rows)
    note = "Success with a part of one message masked. 95 % intervals resample problems."
    return Table("Component masking", ("#", "cell", "condition", "targets", "success %"), body, note)


def _sensitivity(rows: Sequence[tuple[str, Row]]) -> Table:
    body = tuple(
        (place, row["change"], str(row["n"]), _value(row, "mean_shift"), _share(row["exact_sign"]),
         _share(row["direction"]))
        for place, row in rows
    )  # fmt: skip
    columns = ("#", "change", "messages", "mean shift", "same sign %", "same direction %")
    return Table("Sensitivity of trajectory values", columns, body, "95 % intervals resample problems.")


_PARTS = {
    "accuracy_by_k": _accuracy,
    "taxonomy": _taxonomy,
    "flips": _flips,
    "identical_input": _identical,
    "stability": _stability,
    "mean_value": _values,
    "same_problem_selection": _selection,
    "masking": _masking,
    "sensitivity": _sensitivity,
}


def _tests(pooled: Sequence[tuple[str, Row]], found: Sequence[tuple[str, Row]]) -> Table:
    """Return both nulls of each family side by side: the pooled test, and the problems found one by one."""
    by_null = {(place, row["family"], row["null"]): row for place, row in pooled}
    discovered = {(place, row["family"], row["null"]): row for place, row in found}
    keys = dict.fromkeys((place, row["family"]) for place, row in pooled)
    body = tuple((*key, *_test_cells(by_null, discovered, key)) for key in keys)
    columns = (
        "#", "family", "messages", "stable", "expected, seven", "p, seven", "expected, removals", "p, removals",
        "problems", "found, seven", "found, removals",
    )  # fmt: skip
    note = (
        "Pooled exact test: are more messages stable than noise makes? seven: all outcomes of a block are "
        "exchangeable; removals: its five removal draws are. found: problems at a false discovery rate of 5 % "
        "(Benjamini-Hochberg, all problems of a system in one family)."
    )
    return Table("Tests against noise", columns, body, note)


def _test_cells(
    pooled: Mapping[tuple[str, str, str], Row], found: Mapping[tuple[str, str, str], Row], key: tuple[str, str]
) -> tuple[str, ...]:
    seven, removals = pooled[(*key, "seven")], pooled[(*key, "removals")]
    problems = [found.get((*key, null)) for null in ("seven", "removals")]
    tests = next((str(row["n_tests"]) for row in problems if row), "-")
    return (
        str(seven["n"]), str(seven["statistic"]), f"{seven['expected']:.1f}", _p(seven["p"]),
        f"{removals['expected']:.1f}", _p(removals["p"]), tests,
        *(str(row["found_bh"]) if row else "-" for row in problems),
    )  # fmt: skip


def _range(counts: set[int]) -> str:
    return str(min(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _percent(row: Row, name: str, ends: str = "ci_") -> str:
    """Return a fraction in percent with its interval."""
    return "-" if row[name] is None else f"{100 * row[name]:.1f} {_ends(row, ends)}"


def _gain(row: Row) -> str:
    """Return a difference of accuracies in points, with its interval."""
    return "-" if row["gain"] is None else f"{100 * row['gain']:+.1f} {_ends(row, 'ci_', sign='+')}"


def _value(row: Row, name: str) -> str:
    """Return a trajectory value as the fraction that it is in the data, with its interval."""
    return "-" if row[name] is None else f"{row[name]:+.3f} {_ends(row, 'ci_', scale=1, sign='+', digits=3)}"


def _ends(row: Row, ends: str, *, scale: float = 100, sign: str = "", digits: int = 1) -> str:
    low, high = row[f"{ends}low"], row[f"{ends}high"]
    if low is None or high is None:
        return f"(no interval: {row.get(f'{ends}reason') or 'no data'})"
    return f"[{scale * low:{sign}.{digits}f}, {scale * high:{sign}.{digits}f}]"


def _share(value: Any) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.0001 else "<0.0001"
