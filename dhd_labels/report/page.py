"""One HTML page of all tables and figures of a data set, in a single file.

Whatever a name or an answer holds, it is shown and never obeyed: everything is escaped by the template, and the page
forbids scripts and foreign resources to itself.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from dhd_labels.errors import DhdError
from dhd_labels.report.figures import Figure, make_figures
from dhd_labels.report.table import visible
from dhd_labels.stats.command import SHOWN, Statistics

PAGE_NAME = "report.html"
_TEMPLATE = "page.html.jinja"


@dataclass(frozen=True, slots=True)
class Written:
    """Files of a report."""

    page: Path
    figures: tuple[Path, ...]


def write_report(found: Statistics, out: Path) -> Written:
    """Write the page, and every figure as PNG and SVG beside it.

    Raises:
        DhdError: the folder cannot be written.
    """
    figures = make_figures(found)
    page = render_page(found, figures)
    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = []
        for figure in figures:
            for kind, content in (("png", figure.png), ("svg", figure.svg)):
                paths.append(out / f"{figure.name}.{kind}")
                paths[-1].write_bytes(content)
        (out / PAGE_NAME).write_text(page, encoding="utf-8")
    except OSError as error:
        raise DhdError(
            f"The report cannot be written to {out}: {error.strerror}. Choose another --out, or make room there."
        ) from error
    return Written(out / PAGE_NAME, tuple(paths))


def render_page(found: Statistics, figures: Sequence[Figure]) -> str:
    """Return the page as HTML; figures are inside."""
    environment = Environment(
        loader=PackageLoader("dhd_labels.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    images = {figure.name: base64.b64encode(figure.png).decode("ascii") for figure in figures}
    filled = [table for table in found.tables if table.rows]
    return environment.get_template(_TEMPLATE).render(
        name=visible(found.name),
        rule=found.rule,
        tables=[(table, shown, visible(shown.note)) for table in filled for shown in [table.to_table(SHOWN)]],
        empty=[table.title for table in found.tables if not table.rows],
        images=images,
        exclusions=found.exclusion_table(),
    )
