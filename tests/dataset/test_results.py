"""The results on a card: computed from the files, with intervals, figures of equal bytes."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import DatasetCard

from dhd_labels.dataset.header import FIGURES, data_files, figure_path, local_header
from dhd_labels.dataset.results import MOST_SYSTEMS, card_tables, results_of
from dhd_labels.simulate.worlds import scenario
from dhd_labels.simulate.write import Plan, simulate_dataset
from dhd_labels.stats.command import Statistics, compute
from tests.dataset.example_card import EXAMPLE, REFRESH, render_example
from tests.dataset.samples import rows, write

WORLD = dataclasses.replace(scenario("mixed"), benchmarks=2, actors=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks and two actors."""
    out = tmp_path_factory.mktemp("results") / "data"
    simulate_dataset(Plan(WORLD, 20, 3, seed=4), out)
    return out


@pytest.fixture(scope="module")
def found(data: Path) -> Statistics:
    return compute(data)


def test_the_card_shows_its_figures_and_the_data_set_has_them(data: Path) -> None:
    text = (data / "README.md").read_text()
    shown = re.findall(r"^!\[(.+)\]\((\S+)\)$", text, re.MULTILINE)
    assert [path for _, path in shown] == [figure_path(name) for name in FIGURES[:3]]
    assert all(path in data_files(data) for _, path in shown)
    assert all(re.search(r"\d", alt) for alt, _ in shown)  # its values, for who cannot see it


def test_the_same_rows_give_the_same_figures(data: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    simulate_dataset(Plan(WORLD, 20, 3, seed=4), again)
    for path in data_files(data):
        assert (again / path).read_bytes() == (data / path).read_bytes(), path


def test_a_rebuilt_data_set_has_no_figure_of_the_old_one(data: Path, tmp_path: Path) -> None:
    target = shutil.copytree(data, tmp_path / "data")
    (target / "figures" / "mine.png").write_bytes(b"mine")
    write(target, rows())
    assert [path.name for path in (target / "figures").iterdir()] == ["mine.png"]


def test_every_number_of_the_tables_is_one_of_stats(data: Path, found: Statistics) -> None:
    tables = {table.title: table for table in card_tables(found)}
    first = next(iter(found.table("mean_value").rows))
    row = next(r for r in tables["Mean trajectory value by correctness of the proposal"].rows if r[0] == "1")
    assert row[4] == f"{first['mean']:+.3f} [{first['ci_low']:+.3f}, {first['ci_high']:+.3f}]"
    accuracy = {(r["benchmark"], r["actor"], r["k"]): r for r in found.table("accuracy_by_k").rows}
    systems = {r[0]: r[1:] for r in tables["What the numbers in the tables stand for"].rows}
    assert len(systems) == 2 * 3 * len(WORLD.integrator_scales)  # each benchmark, and both together
    for line in tables["Accuracy by K"].rows:
        benchmark, actor = systems[line[0]][:2]
        if len(WORLD.integrator_scales) == 1:
            wanted = accuracy[benchmark, actor, 0]
            assert line[2] == "{:.1f} [{:.1f}, {:.1f}]".format(
                *(100 * wanted[name] for name in ("accuracy", "ci_low", "ci_high"))
            )
    assert {row[0] for row in tables["Tests against noise"].rows} <= set(systems)


def test_tables_fit_a_page(data: Path) -> None:
    text = (data / "README.md").read_text()
    results = text[text.index("begin results") : text.index("end results")]
    lines = [line for line in results.splitlines() if line.startswith("|")]
    assert lines
    assert max(map(len, lines)) < 200
    assert not re.search(r"\d\.\d{4}", "".join(lines))


def test_no_table_has_two_rows_of_one_name(found: Statistics) -> None:
    """A column that tells rows apart, such as K, must be shown or be the same in all of them."""
    for table in card_tables(found):
        names = [(row[0], *(cell for cell in row[1:] if re.match("[A-Za-z]", cell))) for row in table.rows]
        assert len(set(names)) == len(names), table.title


def test_many_systems_are_cut_and_counted(found: Statistics) -> None:
    """Twenty actors: the page has room for some, and says how many it leaves to `stats`."""
    tables = tuple(
        dataclasses.replace(t, rows=[dict(r, actor=f"{r['actor']}-{n}") for n in range(20) for r in t.rows])
        if t.rows and "actor" in t.rows[0]
        else t
        for t in found.tables
    )
    cut = card_tables(dataclasses.replace(found, tables=tables))
    systems = cut[0]
    assert len(systems.rows) == MOST_SYSTEMS
    assert {row[1] for row in systems.rows} == {"all"}  # pooled benchmarks stand for their parts
    assert f"{20 * 6 * len(WORLD.integrator_scales) - MOST_SYSTEMS} more" in systems.note


def test_beyond_the_limit_the_card_names_the_command(data: Path, tmp_path: Path) -> None:
    header = local_header(data)
    results = results_of(data, header.rows, header.files, most_replays=10)
    assert (results.tables, results.figures) == ((), ())
    assert "stats DATASET" in results.note
    assert "limit is 10" in results.note


def test_rows_without_replays_give_no_results(tmp_path: Path) -> None:
    tables: dict[str, Any] = {**rows(), "messages": [], "replays": []}
    header = local_header(write(tmp_path / "d", tables))
    assert results_of(tmp_path / "d", header.rows, header.files).tables == ()


@pytest.mark.slow
def test_the_example_card_is_current(tmp_path: Path) -> None:
    made = render_example(tmp_path)
    there = {path.relative_to(EXAMPLE).as_posix(): path for path in EXAMPLE.rglob("*") if path.is_file()}
    assert set(there) == set(made), f"refresh it with: {REFRESH}"
    assert there["README.md"].read_text() == made["README.md"].decode(), f"refresh it with: {REFRESH}"
    for name, content in made.items():
        assert len(content) < 100_000, name
        if name.endswith(".png"):  # the pixels follow the version of the drawing library
            assert there[name].read_bytes()[:24] == content[:24], f"another size; refresh it with: {REFRESH}"
    assert DatasetCard(made["README.md"].decode()).data.to_dict()["pretty_name"] == "DHD labels: oracle"
