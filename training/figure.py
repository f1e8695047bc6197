"""The figure of a report: gains with their intervals, and observed against predicted values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dhd_labels.report.figures import COLOURS, MARKERS, Figure, drawing, to_bytes
from dhd_labels.report.table import visible
from training.gain import Gain
from training.references import PRIVILEGED_REFERENCES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from training.report import Report

_SIZE = (7.0, 6.0)
_LOOK: dict[str, Any] = {"linestyle": "none", "capsize": 3, "markersize": 5, "elinewidth": 1.2}
CAPTION = (
    "Above: gain over each reference and of each placebo over keep-all, in points, with 95 % intervals; * knows which "
    "proposals are right. Below: held-out messages in ten groups by predicted value, with what was observed."
)


def make_figure(report: Report) -> Figure:
    """Draw the gains, and the calibration where there is one."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    title = visible(f"{report.selector}, {report.estimand}, {report.policy}")
    if report.upper_bound:
        title += " (upper bound)"
    with drawing():
        two = report.calibration is not None
        canvas = Canvas(figsize=(_SIZE[0], _SIZE[1] if two else _SIZE[1] * 0.6))
        FigureCanvasAgg(canvas)
        axes = canvas.subplots(2 if two else 1, 1, squeeze=False)[:, 0]
        _draw_gains(axes[0], report)
        if two:
            _draw_calibration(axes[1], report)
        canvas.suptitle(title)
        return Figure("gain", title, CAPTION, _summary(report), to_bytes(canvas, "png"), to_bytes(canvas, "svg"))


def _summary(report: Report) -> str:
    """Return the gains in words, for who cannot see them."""
    return ", ".join(f"{gain.reference} {gain.gain:+.2f}" for gain in report.gains if gain.gain is not None)


def _draw_gains(ax: Axes, report: Report) -> None:
    selector = [
        (gain.reference + ("*" if gain.reference in PRIVILEGED_REFERENCES else ""), gain) for gain in report.gains
    ]
    placebo = [(f"placebo {row.name}", row.gain) for row in report.placebos]
    lines = [name for name, _ in (*selector, *placebo)]
    for series, (label, rows) in enumerate((("over", selector), ("placebo over keep-all", placebo))):
        drawn = [(lines.index(name), gain) for name, gain in rows if gain.gain is not None]
        if drawn:
            _errorbar(ax, drawn, series, label)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(range(len(lines)), lines)
    ax.set_ylim(len(lines) - 0.5, -0.5)
    ax.set_xlabel("gain, points, with 95 % interval")


def _errorbar(ax: Axes, drawn: list[tuple[int, Gain]], series: int, label: str) -> None:
    values = [gain.gain or 0.0 for _, gain in drawn]
    low = [
        value - (value if gain.ci_low is None else gain.ci_low) for value, (_, gain) in zip(values, drawn, strict=True)
    ]
    high = [
        (value if gain.ci_high is None else gain.ci_high) - value
        for value, (_, gain) in zip(values, drawn, strict=True)
    ]
    ends = [[max(0.0, end) for end in side] for side in (low, high)]
    places = [place for place, _ in drawn]
    ax.errorbar(values, places, xerr=ends, color=COLOURS[series], marker=MARKERS[series], label=label, **_LOOK)


def _draw_calibration(ax: Axes, report: Report) -> None:
    found = report.calibration
    assert found is not None
    x, y = [row.predicted for row in found.bins], [row.observed for row in found.bins]
    low = [0.0 if row.low is None else row.observed - row.low for row in found.bins]
    high = [0.0 if row.high is None else row.high - row.observed for row in found.bins]
    ax.errorbar(x, y, yerr=[low, high], color=COLOURS[2], marker=MARKERS[2], **_LOOK)
    ends = [min(x), max(x)]
    ax.plot(ends, ends, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel("predicted value")
    ax.set_ylabel("observed trajectory value")
