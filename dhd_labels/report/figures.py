"""Figures of a data set's statistics, of the kinds that the paper shows: points with their intervals.

Every figure is a function of the tables of `stats`, so its numbers are the printed ones. Colours are those of Okabe and
Ito, which people with any colour vision tell apart, and each series has its own marker too. Equal tables give equal
bytes: no date, no random identifier, no text that is read as mathematics.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dhd_labels.records import CONDITIONS
from dhd_labels.report.table import visible
from dhd_labels.stats.rows import ALL, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from dhd_labels.stats.command import Statistics

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
POINTS = 100.0
_SYSTEM = ("actor", "integrator", "order")
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "dhd-labels",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}
_DPI = 150
_WIDTH, _PANEL, _LINE = 7.0, 1.1, 0.3
"""Inches: of a figure, of what a panel needs besides its lines, and of a line."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure as files, and what it shows."""

    name: str
    title: str
    caption: str
    png: bytes
    svg: bytes


@dataclass(frozen=True, slots=True)
class Point:
    """One estimate to draw: its line, its series, its value and interval (None where there is none)."""

    line: str
    series: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class _Plot:
    """How the rows of one table become points."""

    table: str
    title: str
    label: str
    points: Callable[[Row], Point | None]
    zero: bool = False
    along: bool = False
    """Draw lines along the x axis instead of one line of the y axis each."""


def make_figures(found: Statistics) -> list[Figure]:
    """Return every figure that the tables have rows for."""
    figures = []
    with drawing():
        for plot in _PLOTS:
            panels = _panels(found.table(plot.table).rows, plot.points)
            if panels:
                figures.append(_drawn(plot, panels, found.table(plot.table).says))
    return figures


@contextmanager
def drawing() -> Iterator[None]:
    """Draw inside of this: the settings of every figure, and no warning about glyphs."""
    import matplotlib as mpl

    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in another script shows as boxes
        yield


def _panels(rows: Sequence[Row], points: Callable[[Row], Point | None]) -> dict[str, list[Point]]:
    """Return the points of each system: of all its benchmarks together where there are several."""
    pooled = {_system(row) for row in rows if row["benchmark"] == ALL}
    panels: dict[str, list[Point]] = {}
    for row in rows:
        if row["benchmark"] != ALL and _system(row) in pooled:
            continue
        point = points(row)
        if point is not None:
            name = visible(f"{row['benchmark']}: {row['integrator']} reads {row['actor']}, {row['order']} order")
            panels.setdefault(name, []).append(point)
    return panels


def _system(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SYSTEM)


def _drawn(plot: _Plot, panels: Mapping[str, list[Point]], says: str) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    heights = [_PANEL + _LINE * (8 if plot.along else len({p.line for p in points})) for points in panels.values()]
    canvas = Canvas(figsize=(_WIDTH, sum(heights)))
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (name, points) in zip(axes, panels.items(), strict=True):
        (_draw_along if plot.along else _draw_lines)(ax, points, plot)
        ax.set_title(name, fontsize=9, loc="left")
    canvas.suptitle(plot.title)
    return Figure(plot.table, plot.title, says, to_bytes(canvas, "png"), to_bytes(canvas, "svg"))


def to_bytes(canvas: Any, kind: str) -> bytes:
    """Return a figure as a file of that kind (`png` or `svg`); equal figures give equal bytes."""
    file = io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    canvas.savefig(file, format=kind, dpi=_DPI, metadata=metadata)
    return file.getvalue()


def _draw_lines(ax: Axes, points: Sequence[Point], plot: _Plot) -> None:
    """One line a category, from the top; the series of a category share it, a little apart."""
    lines = list(dict.fromkeys(p.line for p in points))
    series = list(dict.fromkeys(p.series for p in points))
    for place, name in enumerate(series):
        own = [p for p in points if p.series == name]
        shift = (place - (len(series) - 1) / 2) * 0.6 / len(series) if len(points) > len(lines) else 0.0
        ends = [_ends(p) for p in own]
        ax.errorbar(
            [p.value for p in own],
            [lines.index(p.line) + shift for p in own],
            xerr=[[low for low, _ in ends], [high for _, high in ends]],
            **_look(place, name),
        )
    ax.set_yticks(range(len(lines)), [line.replace("_", " ") for line in lines])
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xlabel(plot.label)
    if plot.zero:
        ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    _legend(ax, series)


def _draw_along(ax: Axes, points: Sequence[Point], plot: _Plot) -> None:
    """The category is a number along the x axis; a series is joined by a line."""
    series = list(dict.fromkeys(p.series for p in points))
    for place, name in enumerate(series):
        own = sorted((p for p in points if p.series == name), key=lambda p: float(p.line))
        ends = [_ends(p) for p in own]
        look = {**_look(place, name), "linestyle": "-", "linewidth": 1.0}
        shift = (place - (len(series) - 1) / 2) * 0.06
        ax.errorbar(
            [float(p.line) + shift for p in own],
            [p.value for p in own],
            yerr=[[low for low, _ in ends], [high for _, high in ends]],
            **look,
        )
    ticks = sorted({int(float(p.line)) for p in points})
    ax.set_xticks(ticks)
    ax.set_xlim(ticks[0] - 0.5, ticks[-1] + 0.5)  # a single place is not stretched to the whole width
    ax.set_xlabel(plot.label.partition("|")[0])
    ax.set_ylabel(plot.label.partition("|")[2])
    _legend(ax, series)


def _look(place: int, name: str) -> dict[str, Any]:
    look = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
    return {
        **look,
        "linestyle": "none",
        "capsize": 3,
        "markersize": 5,
        "elinewidth": 1.2,
        "label": name.replace("_", " "),
    }


def _legend(ax: Axes, series: Sequence[str]) -> None:
    if any(series):
        ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _ends(point: Point) -> tuple[float, float]:
    """Return the lengths of both arms of an interval; 0 where there is none."""
    low, high = (point.value if end is None else end for end in (point.low, point.high))
    return max(0.0, point.value - low), max(0.0, high - point.value)


def _point(
    row: Row, line: object, value: str, *, series: object = "", ends: str = "ci_", scale: float = POINTS
) -> Point | None:
    """Return the point of a row; None where the row has no value."""
    if row[value] is None:
        return None
    low, high = (None if (end := row[f"{ends}{side}"]) is None else scale * end for side in ("low", "high"))
    return Point(str(line), str(series), scale * row[value], low, high)


def _condition(row: Row) -> Point | None:
    found = _point(row, row["condition"], "success", series=row["cell"])
    return found if row["condition"] in CONDITIONS else None


_PLOTS = (
    _Plot(
        "flips", "Which way messages flip outcomes", "helpful share of flips, %, with 95 % interval",
        lambda row: _point(row, f"{row['replay']}, {row['proposal']}", "helpful_share"),
    ),
    _Plot(
        "flips_by_k", "How often messages flip outcomes, by K", "K, messages shown|flip rate, %",
        lambda row: _point(row, row["k"], "rate", series=f"{row['replay']}, {row['proposal']}", ends="rate_ci_"),
        along=True,
    ),
    _Plot(
        "accuracy_by_k", "Accuracy by the number of messages shown", "K, messages shown|accuracy, %",
        lambda row: _point(row, row["k"], "accuracy"), along=True,
    ),
    _Plot(
        "mean_value", "Mean trajectory value by proposal", "trajectory value, with 95 % interval",
        lambda row: _point(row, row["proposal"], "mean", scale=1.0), zero=True,
    ),
    _Plot(
        "same_problem_selection", "Same-problem selection", "gain over keeping all, points, with 95 % interval",
        lambda row: _point(row, row["policy"], "gain", series=row["kind"]), zero=True,
    ),
    _Plot(
        "routing", "One message only", "difference from a random message, points, with 95 % interval",
        lambda row: _point(row, row["policy"], "diff", series="oracle" if row["oracle"] else "system"), zero=True,
    ),
    _Plot(
        "budget", "Accuracy against calls", "calls|accuracy, %",
        lambda row: _point(
            row, row["calls"], "accuracy",
            series="independent solves, vote" if row["policy"].startswith("independent_") else row["policy"],
        ),
        along=True,
    ),
    _Plot("masking", "Success with a part of one message masked", "success, %, with 95 % interval", _condition),
    _Plot(
        "identical_input", "Identical-input disagreement", "disagreement, %, with Wilson 95 % interval",
        lambda row: _point(row, "two full draws", "rate", ends="wilson_"),
    ),
)  # fmt: skip
