"""The report as tables, on a terminal and as Markdown, and as files of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from dhd_labels.errors import DhdError
from dhd_labels.report.figures import Figure
from dhd_labels.report.table import Table, escape, visible
from training.figure import make_figure
from training.gain import Gain
from training.importance import Importance
from training.references import PRIVILEGED_REFERENCES
from training.report import Report, reasons, write_json

TOP = 10
"""Features that a person is shown; the JSON has all."""
_MARKS = "* privileged: knows which proposals are right"
_COLUMNS = ("gain", "95 % interval", "p", "problems")


def render(report: Report, console: Console) -> None:
    """Print a report with its verdict; `*` marks what is privileged."""
    for table in (*_gains(report), *_details(report)):
        console.print(table.to_rich())
    for line in _lines(report):
        console.print(visible(line), markup=False)  # notes name benchmarks and integrators of the data set
    console.print(report.verdict, style="bold", markup=False)


def write_report(report: Report, folder: Path) -> tuple[Path, ...]:
    """Write report.json, report.md and the figure as report.svg and report.png; return their paths.

    Raises:
        DhdError: a file cannot be written.
    """
    figure = make_figure(report)
    paths = {name: folder / f"report.{name}" for name in ("json", "md", "svg", "png")}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths["md"].write_text(to_markdown(report, figure), encoding="utf-8")
        paths["svg"].write_bytes(figure.svg)
        paths["png"].write_bytes(figure.png)
    except OSError as error:
        raise DhdError(f"The folder of --out must be writable, got {str(folder)!r}: {error.strerror}.") from error
    write_json(report, paths["json"])
    return tuple(paths.values())


def to_markdown(report: Report, figure: Figure) -> str:
    """Return the report as one Markdown page."""
    parts = [f"# {escape(_title(report))}", f"**{escape(report.verdict)}**"]
    parts += [table.to_markdown() for table in _gains(report)]
    parts.append(f"![{escape(figure.title)}](report.svg)\n\n{escape(figure.caption)}")
    parts += [table.to_markdown() for table in _details(report)]
    parts += [escape(line) for line in _lines(report)]
    return "\n\n".join(parts) + "\n"


def marked(name: str, *, privileged: bool, upper_bound: bool = False) -> str:
    """Return a name with the mark of what is privileged or an upper bound."""
    return f"{name} (upper bound)" if upper_bound else f"{name}*" if privileged else name


def _title(report: Report) -> str:
    name = marked(report.selector, privileged=report.privileged, upper_bound=report.upper_bound)
    return f"Gain of {name}, {report.estimand}, {report.policy}, in points"


def _gains(report: Report) -> Iterator[Table]:
    rows = tuple((_reference(gain), *_cells(gain)) for gain in report.gains)
    yield Table(_title(report), ("compared with", *_COLUMNS), rows, _MARKS)
    rows = tuple((_reference(gain), *_cells(gain)) for gain in report.over_keep_all)
    yield Table("What the references themselves gain over keep-all", ("policy", *_COLUMNS), rows, _MARKS)


def _details(report: Report) -> Iterator[Table]:
    if report.placebos:
        rows = tuple(
            (row.name, *_cells(row.gain), row.skipped or f"may gain {row.may_gain}") for row in report.placebos
        )
        note = "Where no message matters all must vanish."
        yield Table("Placebos, gain over keep-all", ("placebo", *_COLUMNS, "what it may say"), rows, note)
    if report.spread:
        spread = tuple(
            (row.reference, f"{row.sd:.2f}", f"{min(row.gains):+.2f} to {max(row.gains):+.2f}") for row in report.spread
        )
        title = f"Spread of the gain over {report.repeats} repeated splits, in points"
        yield Table(title, ("compared with", "standard deviation", "range"), spread)
    yield _removals(report)
    if report.calibration is not None:
        yield _calibration(report)
    if not isinstance(report.importance, str) and report.importance:
        yield _importance(report.importance)


def _removals(report: Report) -> Table:
    rows = tuple(
        (row.kind, f"{row.messages:g}", f"{row.removed:g}", "-" if row.share is None else f"{100 * row.share:.1f} %")
        for row in report.removals
    )
    note = "A helpful message that was removed is lost. A value from a few blocks is noisy: most signs are chance."
    return Table("Messages removed", ("messages", "in decided pools", "removed", "share"), rows, note)


def _calibration(report: Report) -> Table:
    found = report.calibration
    assert found is not None
    rows = tuple(
        (f"{row.predicted:+.3f}", f"{row.observed:+.3f}", _span(row.low, row.high, 3), f"{row.n_messages}")
        for row in found.bins
    )
    slope = "-" if found.slope is None else f"{found.slope:.2f} ({_span(found.slope_low, found.slope_high)})"
    note = f"Slope of observed on predicted: {slope}; 1 where predictions are trajectory values in the right unit."
    return Table("Held-out trajectory values", ("predicted", "observed", "95 % interval", "messages"), rows, note)


def _importance(found: tuple[Importance, ...]) -> Table:
    rows = tuple(
        (row.feature, f"{100 * row.changed:.1f} %", "-" if row.changed_sd is None else f"{100 * row.changed_sd:.1f}",
         f"{row.lost:+.2f}")
        for row in found[:TOP]
    )  # fmt: skip
    columns = ("feature, permuted", "decisions that change", "sd over folds", "points lost")
    return Table("What the decisions hang on", columns, rows)


def _lines(report: Report) -> Iterator[str]:
    yield (
        f"held-out problems {report.n_problems}, messages {report.n_messages}, folds {report.folds}, repeats "
        f"{report.repeats}, seed {report.seed}"
    )
    factor = max((gain.coupling for gain in report.gains), default=1.0)
    methods = sorted({gain.p_method for gain in report.gains if gain.p_method})
    yield f"variance for coupled folds x{factor:.2f}; p: {'; '.join(methods) or 'none'}"
    if report.saved is not None:
        words = "" if report.saved.words is None else f", {100 * report.saved.words:.1f} % of their words"
        yield (
            f"hidden from the integrator: {100 * report.saved.messages_hidden:.1f} % of the messages{words}; "
            f"{100 * report.saved.pools_untouched:.1f} % of the pools are shown whole, "
            f"{100 * report.saved.pools_alone:.1f} % not at all; its calls saved: {report.saved.integrator_calls}"
        )
    if isinstance(report.importance, str):
        yield f"importance: {report.importance}"
    for note in report.notes:
        yield f"note: {note}"
    if report.excluded:
        yield f"excluded: {reasons(report.excluded)}"


def _reference(gain: Gain) -> str:
    return marked(gain.reference, privileged=gain.reference in PRIVILEGED_REFERENCES)


def _cells(gain: Gain) -> tuple[str, str, str, str]:
    if gain.gain is None:
        return "-", "-", "-", "0"
    p_value = "-" if gain.p_value is None else f"{gain.p_value:.4f}"
    return f"{gain.gain:+.2f}", _span(gain.ci_low, gain.ci_high), p_value, str(gain.n_problems)


def _span(low: float | None, high: float | None, digits: int = 2) -> str:
    return "-" if low is None or high is None else f"{low:+.{digits}f} to {high:+.{digits}f}"
