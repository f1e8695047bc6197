from __future__ import annotations

import shutil
from pathlib import Path

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import oracle

from dhd_labels.dataset import schema
from dhd_labels.dataset.build import build
from dhd_labels.dataset.columns import open_source
from dhd_labels.dataset.load import load, load_frame
from dhd_labels.errors import DhdError
from dhd_labels.replay.run import run
from tests.dataset.samples import row, write


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set that `build` wrote, whose card gives the digest of every file."""
    place = tmp_path_factory.mktemp("built")
    settings = ("benchmark.size=8", "protocol.blocks=1", "protocol.only_draws=0")
    build(run(oracle(*settings), place / "run").directory, place / "data")
    return place / "data"


def test_load_gives_three_splits_with_the_declared_features(labels: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for config in schema.CONFIGS:
        loaded = load(labels, config)
        assert [*loaded] == [*schema.SPLITS]
        assert all(data.features == schema.features(config) for data in loaded.values())
    assert load(labels, "replays")["test"].num_rows == 0
    assert capfd.readouterr() == ("", "")
    assert not datasets.utils.are_progress_bars_disabled()


def test_plain_load_dataset_reads_it_too(labels: Path) -> None:
    assert datasets.load_dataset(str(labels))["train"].num_rows == 3
    assert datasets.get_dataset_config_names(str(labels)) == ["messages", "replays", "problems"]


def test_nulls_stay_null_whatever_the_type(labels: Path) -> None:
    frame = load_frame(str(labels), "messages", ("train",))
    assert frame["proposal_correct"].tolist() == [True, False, pd.NA]
    assert str(frame["proposal_correct"].dtype) == "boolean"
    assert str(frame["slot"].dtype) == "Int8"
    assert frame["trajectory_value"].isna().tolist() == [False, False, True]
    assert frame["cell"].tolist() == [None] * 3
    replays = load_frame(labels, "replays")
    assert replays["kept"].tolist() == [(), (0, 2)] * 2
    assert replays["removed"].tolist() == [pd.NA, 1] * 2
    assert replays["seed"].tolist() == [2**40] * 4


def test_splits_come_in_the_order_asked_and_empty_ones_keep_their_types(labels: Path) -> None:
    assert load_frame(labels)["split"].tolist() == ["train"] * 3 + ["validation"] * 3
    assert load_frame(labels, splits=("test", "train"))["split"].tolist() == ["test"] * 3 + ["train"] * 3
    empty = load_frame(labels, "replays", ("test",))
    assert len(empty) == 0
    assert (empty.dtypes == load_frame(labels, "replays").dtypes).all()


def test_a_rebuilt_folder_is_read_afresh(labels: Path) -> None:
    assert load_frame(labels)["n_blocks"].tolist() == [5] * 6
    write(labels, {"messages": [row("messages", n_blocks=6)]})
    assert load_frame(labels)["n_blocks"].tolist() == [6]


def test_a_config_without_any_row_is_empty_not_missing(tmp_path: Path) -> None:
    folder = write(tmp_path / "out", {"messages": [row("messages")], "replays": []})
    assert load_frame(folder, "replays").columns.tolist() == [c.name for c in schema.REPLAYS] + ["split"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda d: shutil.rmtree(d), r"There is no folder '.*labels'"),
        (lambda d: (shutil.rmtree(d), d.mkdir()), "is empty"),
        (lambda d: (shutil.rmtree(d), d.write_text("x")), "is a file"),
        (lambda d: (d / "README.md").unlink(), "holds no data set of dhd-labels"),
        (
            lambda d: (d / "README.md").write_text("---\nlicense: mit\n---\n"),
            "holds no data set of dhd-labels",
        ),
        (lambda d: (d / "README.md").write_text("---\n: [\n---\n"), "is no valid YAML"),
        (lambda d: (d / "README.md").write_bytes(b"---\n\xff\n---\n"), "holds no data set of dhd-labels"),
        (
            lambda d: (d / "messages/train-all-00000.parquet").unlink(),
            "lacks messages/train-all-00000.parquet",
        ),
        (lambda d: (d / "messages/train-all-00000.parquet").write_bytes(b"x"), "cannot be read"),
    ],
)
def test_what_is_not_a_data_set_is_refused_with_what_to_do(labels: Path, make: object, said: str) -> None:
    make(labels)  # type: ignore[operator]
    with pytest.raises(DhdError, match=said) as caught:
        load_frame(labels)
    assert "python -m dhd_labels build RUN --out DIR" in str(caught.value)


def test_missing_configs_columns_and_rows_are_named(tmp_path: Path, labels: Path) -> None:
    only = write(tmp_path / "only", {"messages": [row("messages")]})
    with pytest.raises(DhdError, match=r"has no config 'replays'; it has messages"):
        load_frame(only, "replays")
    with pytest.raises(DhdError, match="Did you mean 'messages'"):
        load_frame(only, "mesage")
    with pytest.raises(DhdError, match="Did you mean 'train'"):
        load_frame(only, splits=("trian",))
    shutil.copy(only / "messages/train-all-00000.parquet", labels / "messages/train-all-00000.parquet")
    with pytest.raises(DhdError, match="train has 1, not 3"):
        load_frame(labels)


def test_foreign_columns_under_our_card_are_refused(labels: Path) -> None:
    path = labels / "messages/train-all-00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["slot"]), path)
    with pytest.raises(DhdError, match=r"train-all-00000.parquet lacks the columns slot"):
        load_frame(labels)


def test_another_schema_version_is_refused(labels: Path) -> None:
    card = labels / "README.md"
    card.write_text(card.read_text().replace(f"schema_version: '{schema.SCHEMA_VERSION}'", "schema_version: '99'"))
    with pytest.raises(DhdError, match=rf"'schema_version' of .* must be '{schema.SCHEMA_VERSION}', got '99'"):
        load(labels)


def _edited(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("trajectory_value")
    return table.set_column(place, table.schema.field(place), pa.array([0.25] * len(table), pa.float64()))


@pytest.mark.parametrize(
    "edit", [_edited, lambda table: table.slice(1), lambda table: table.take([1, 0, *range(2, len(table))])]
)
def test_a_file_that_was_edited_after_the_build_is_refused(built: Path, tmp_path: Path, edit: object) -> None:
    folder = shutil.copytree(built, tmp_path / "copy")
    path = sorted((folder / "messages").glob("train-*.parquet"))[0]
    table = pq.read_table(path)
    pq.write_table(edit(table), path)  # type: ignore[operator]
    for use in (lambda: load_frame(folder), lambda: list(open_source(folder).batches("messages", ("pool_id",)))):
        with pytest.raises(DhdError, match=r"messages/train-.*must be as it was built, but its SHA-256"):
            use()
    assert len(load_frame(folder, "replays"))
    pq.write_table(table.drop_columns(["slot"]), path)
    with pytest.raises(DhdError, match="lacks the columns slot"):
        load_frame(folder)


def test_an_edited_file_is_noticed_also_when_the_one_before_was_read(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "copy")
    assert len(load_frame(folder))
    path = sorted((folder / "messages").glob("train-*.parquet"))[0]
    pq.write_table(_edited(pq.read_table(path)), path)
    with pytest.raises(DhdError, match="must be as it was built"):
        load_frame(folder)


@pytest.mark.parametrize(("version", "whose"), [("99", "A newer"), ("3", "An older"), ("None", "An older")])
def test_a_newer_and_an_older_version_are_told_apart(labels: Path, version: str, whose: str) -> None:
    card = labels / "README.md"
    card.write_text(
        card.read_text().replace(f"schema_version: '{schema.SCHEMA_VERSION}'", f"schema_version: '{version}'")
    )
    with pytest.raises(DhdError, match=f"got '{version}'. {whose} version of dhd-labels wrote it"):
        load(labels)


@pytest.mark.parametrize("broken", ["license: [mit", "a: b: c", "license: 'mit", "\tlicense: mit"])
def test_a_card_with_broken_yaml_names_the_line(labels: Path, broken: str) -> None:
    card = labels / "README.md"
    card.write_text(card.read_text().replace("license: apache-2.0", broken, 1))
    with pytest.raises(DhdError, match=r"The card .*README.md cannot be read: line \d+: its header is no valid YAML"):
        load(labels)
