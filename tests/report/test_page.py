"""The page and the figures: complete, repeatable, and safe whatever a name holds."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support import cli

from dhd_labels.report import figures
from dhd_labels.report.figures import make_figures
from dhd_labels.report.page import render_page, write_report
from dhd_labels.stats.command import Statistics, compute, write_json
from tests.stats.dataset_rows import Rows, edited, simulated

HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m $\\frac{1}{0}$ \"'&"


class Page(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(tmp_path_factory.mktemp("sim") / "data", problems=25)


@pytest.fixture(scope="module")
def found(folder: Path) -> Statistics:
    return compute(folder)


def test_every_table_stands_on_the_page_with_its_estimand_unit_and_null(found: Statistics) -> None:
    page = render_page(found, make_figures(found))
    for table in found.tables:
        if table.rows:
            assert f'id="{table.key}"' in page
            assert all((table.estimand, table.unit, table.null))
    assert page.count("<dt>Estimand</dt>") == sum(bool(table.rows) for table in found.tables)
    parser = Page()
    parser.feed(page)
    images = [attributes for tag, attributes in parser.tags if tag == "img"]
    assert len(images) == len(make_figures(found)) > 5
    assert all(str(image["src"]).startswith("data:image/png;base64,") and image["alt"] for image in images)


def test_names_are_shown_and_never_obeyed(folder: Path, tmp_path: Path) -> None:
    def rename(rows: Rows) -> None:
        for part in rows.values():
            for row in part:
                row["benchmark"] = HOSTILE
                if "actor" in row:
                    row["actor"] = row["integrator"] = HOSTILE

    found = compute(edited(folder, tmp_path / "data", rename))
    page = render_page(found, make_figures(found))
    parser = Page()
    parser.feed(page)
    assert not [tag for tag, _ in parser.tags if tag in ("script", "iframe", "object", "link")]
    assert not [a for _, attributes in parser.tags for a in attributes if a.startswith("on")]
    assert "\u202e" not in page and "\x1b" not in page
    assert "&lt;script&gt;" in page


def test_the_same_tables_give_the_same_bytes(found: Statistics, tmp_path: Path) -> None:
    one, other = write_report(found, tmp_path / "a"), write_report(found, tmp_path / "b")
    assert {path.suffix for path in one.figures} == {".png", ".svg"}
    for path, again in zip((one.page, *one.figures), (other.page, *other.figures), strict=True):
        assert path.read_bytes() == again.read_bytes()


def test_the_commands_write_the_contract(folder: Path, tmp_path: Path) -> None:
    done = cli("stats", str(folder), "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    columns = {
        "taxonomy": {"replay", "k", "proposal", "helpful", "neutral", "harmful", "eligible"},
        "flips": {"rate", "helpful_share", "ci_low", "ci_high"},
        "accuracy_by_k": {"k", "accuracy", "ci_low", "ci_high", "n"},
        "identical_input": {"disagree", "n", "rate", "wilson_low", "wilson_high"},
        "stability": {"proposal", "label", "n", "coverage_note"},
        "mean_value": {"proposal", "mean", "ci_low", "ci_high", "n"},
        "pooled_test": {"statistic", "p", "method"},
        "problem_tests": {"pool_id", "family", "null", "statistic", "p", "floor", "p_bh", "p_by"},
        "same_problem_selection": {"policy", "accuracy", "gain", "ci_low", "ci_high", "folds"},
        "routing": {"policy", "accuracy", "diff", "ci_low", "ci_high"},
        "budget": {"policy", "accuracy", "calls", "tokens"},
    }
    for key, wanted in columns.items():
        assert data[key], key
        assert all(wanted | {"benchmark", "actor", "integrator", "order"} <= set(row) for row in data[key]), key
    assert data["masking"] == data["sensitivity"] == []
    assert "Estimand" in done.stdout and "Left out" in done.stdout
    printed = cli("stats", str(folder), "--json", "-")
    assert json.loads(printed.stdout) == data
    page = cli("report", str(folder), "--out", str(tmp_path / "report"))
    assert page.returncode == 0, page.stderr
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_folder_that_cannot_be_written_is_said(found: Statistics, tmp_path: Path) -> None:
    from dhd_labels.errors import DhdError

    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(DhdError, match="cannot be written to"):
        write_report(found, tmp_path / "file")


def test_one_place_along_an_axis_is_not_stretched_to_its_width() -> None:
    from matplotlib.figure import Figure as Canvas

    ax = Canvas().subplots()
    points = [figures.Point("5", series, 50.0, 40.0, 60.0) for series in ("loo, correct", "loo, wrong")]
    figures._draw_along(ax, points, next(plot for plot in figures._PLOTS if plot.along))
    assert ax.get_xlim() == (4.5, 5.5)


def test_a_table_that_is_cut_speaks_of_the_rows_that_are_shown(found: Statistics) -> None:
    table = found.table("problem_tests")
    whole, cut = table.to_table().note, table.to_table(1).note
    assert whole.startswith("All rows: ") and "The rows shown" not in whole
    assert cut.startswith(f"First 1 of {len(table.rows)} rows") and "All rows: " not in cut
    assert "family" in cut.partition("The rows shown: ")[2].partition(".")[0]


def test_what_the_counts_of_exclusions_are_of_is_said_everywhere(found: Statistics) -> None:
    words = found.exclusion_table().note
    assert words in render_page(found, [])
    assert {row["table"] for row in found.exclusions} <= {"all", "blocks", *(table.key for table in found.tables)}
    text = io.StringIO()
    write_json(found, text)
    assert json.loads(text.getvalue())["meanings"]["exclusions"]["unit"] == words


def test_exact_tests_are_shown_by_problem_and_keep_their_pool_in_the_data(found: Statistics) -> None:
    table = found.table("problem_tests")
    assert "problem id" in table.to_table().columns and "pool id" not in table.to_table().columns
    assert table.rows[0]["pool_id"]
