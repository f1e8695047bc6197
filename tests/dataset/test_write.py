from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dhd_labels.dataset import header, place, schema
from dhd_labels.dataset.load import load, load_frame
from dhd_labels.dataset.write import count_rows, write_dataset, writing_dataset
from dhd_labels.errors import DhdError
from tests.dataset.samples import SPLIT_OF, row, rows, write


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def refuse(tmp_path: Path, config: str, bad: dict[str, Any]) -> str:
    """Return the message with which a row after a thousand good ones is refused."""
    good = row("messages", pool_id="pool") if config == "messages" else row(config)
    with pytest.raises(DhdError) as caught:
        write_dataset({config: [good] * 1000 + [bad]}, tmp_path / "out", split_of=SPLIT_OF, card="")
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))
    return str(caught.value)


def test_files_have_the_declared_schema_and_the_rows(labels: Path) -> None:
    for config, written in rows().items():
        read: list[dict[str, Any]] = []
        for split in schema.SPLITS:
            path = labels / header.data_path(config, split)
            expected = [r for r in written if SPLIT_OF[r["problem_id"]] == split]
            assert path.exists() == bool(expected)
            if expected:
                table = pq.read_table(path)
                assert table.schema == schema.arrow_schema(config)
                assert table.schema.metadata == schema.arrow_schema(config).metadata
                read += table.to_pylist()
        assert read == [{**r, "replaced_characters": 0} for r in written]


def test_types_come_from_the_declaration_after_a_thousand_nulls(tmp_path: Path) -> None:
    """huggingface/datasets#7222: numbers, text and verdicts that are null in the first thousand rows."""
    last = row("messages", pool_id="pool", slot=1, proposal_correct=True, key_idea="x", n_blocks=5)
    folder = write(tmp_path / "out", {"messages": [row("messages")] * 1000 + [last]})
    frame = load_frame(folder)
    assert frame["proposal_correct"].isna().sum() == 1000
    assert [*frame[["slot", "proposal_correct", "key_idea", "n_blocks"]].iloc[-1]] == [1, True, "x", 5]
    assert load(folder)["train"].features == schema.features("messages")


@pytest.mark.parametrize("gold", [12, ["12", "twelve"], 12.0, True, {"a": 1}, b"12"])
def test_mixed_gold_types_are_refused_with_the_row_number(tmp_path: Path, gold: object) -> None:
    """RUC-NLPIR/FlashRAG#132: not deep in Arrow, after a thousand rows."""
    message = refuse(tmp_path, "problems", row("problems", reference=gold))
    assert message.startswith("Row 1000 of problems (problem_id 'p0'): 'reference' must be text or null, got ")
    assert repr(gold) in message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), np.float64("nan")])
@pytest.mark.parametrize("column", [c for c in schema.MESSAGES if c.type == "float64"], ids=lambda c: c.name)
def test_a_number_that_is_not_finite_is_null_with_a_reason(tmp_path: Path, column: schema.Column, value: float) -> None:
    """apify-client-python#87: no NaN in a file, and the row says why there is no number."""
    assert column.reason is not None
    found = [row("messages"), row("messages") | {column.name: value}]
    frame = load_frame(write(tmp_path / "out", {"messages": found}))
    assert frame[column.name].isna().all()
    assert frame[column.reason].tolist() == [None, f"{column.name} is not a finite number: {float(value)}"]


def test_a_number_that_is_not_finite_and_has_no_place_for_a_reason_is_refused(tmp_path: Path) -> None:
    extra = {"messages": (schema.Column("true_value", "float64", "the true effect"),)}
    bad = [row("messages", slot=3) | {"true_value": float("nan")}]
    with pytest.raises(DhdError, match=r"Row 0 of messages \(.*\): 'true_value' must be a finite"):
        write_dataset({"messages": bad}, tmp_path / "out", split_of=SPLIT_OF, card="", extra_columns=extra)


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("slot", 128, "a whole number of 8 bits"),
        ("slot", True, "a whole number of 8 bits"),
        ("slot", 1.0, "a whole number of 8 bits"),
        ("n_blocks", 2**31, "a whole number of 32 bits"),
        ("proposal_correct", 1, "true, false"),
        ("proposal_correct", "yes", "true, false"),
        ("ci_low", "0.1", "a finite number"),
        ("ci_low", True, "a finite number"),
    ],
)
def test_values_of_another_type_are_refused(tmp_path: Path, column: str, value: object, wanted: str) -> None:
    assert f"'{column}' must be {wanted} or null, got" in refuse(
        tmp_path, "messages", row("messages") | {column: value}
    )


@pytest.mark.parametrize("kept", ["0", [300], [None], ["0"], 0])
def test_bad_lists_are_refused(tmp_path: Path, kept: object) -> None:
    assert "'kept' must be" in refuse(tmp_path, "replays", row("replays", kept=kept))


def test_columns_must_be_the_declared_ones(tmp_path: Path) -> None:
    bad = row("messages") | {"surprise": 1}
    del bad["slot"]
    assert "lacks slot and has the unknown surprise" in refuse(tmp_path, "messages", bad)


def test_unknown_configs_and_problems_without_a_split_are_refused(tmp_path: Path) -> None:
    assert "must have a split, got None" in refuse(tmp_path, "messages", row("messages", problem_id="px"))
    with pytest.raises(DhdError, match="Did you mean 'messages'"):
        write_dataset({"mesages": []}, tmp_path / "out", split_of=SPLIT_OF, card="")


def test_lone_surrogates_become_the_replacement_character(tmp_path: Path) -> None:
    """UKGovernmentBEIS/inspect_ai#2316: in text and in lists of text; loads back as UTF-8."""
    tables = {
        "messages": [row("messages", key_idea="the set \udc00 is open", what_to_check="\ud83d\ude00 😀")],
        "problems": [row("problems", choices=["\ud800", "ok"])],
    }
    folder = write(tmp_path / "out", tables)
    assert load_frame(folder)["key_idea"].tolist() == ["the set \ufffd is open"]
    assert load_frame(folder)["what_to_check"].tolist() == ["\ufffd\ufffd 😀"]
    assert load_frame(folder)["replaced_characters"].tolist() == [3]
    assert load_frame(folder, "problems")["choices"].tolist() == [("\ufffd", "ok")]
    assert load_frame(folder, "problems")["replaced_characters"].tolist() == [1]


def test_numpy_scalars_are_plain_values(tmp_path: Path) -> None:
    bad = row("messages", slot=np.int64(2), proposal_correct=np.bool_(True), ci_low=np.float32(0.5))
    frame = load_frame(write(tmp_path / "out", {"messages": [bad]}))
    assert [*frame[["slot", "proposal_correct", "ci_low"]].iloc[0]] == [2, True, 0.5]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one"), write(tmp_path / "two")
    assert {k: v[0] for k, v in content(one).items()} == {k: v[0] for k, v in content(two).items()}


def test_many_row_groups_keep_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhd_labels.dataset.write.ROWS_A_GROUP", 7)
    written = [row("messages", problem_id=f"p{number % 3}", n_blocks=number) for number in range(50)]
    folder = write(tmp_path / "out", {"messages": written})
    assert load_frame(folder, splits=("test",))["n_blocks"].tolist() == [*range(2, 50, 3)]
    assert pq.ParquetFile(folder / header.data_path("messages", "test")).num_row_groups == 3


def test_unchanged_content_leaves_files_untouched(labels: Path) -> None:
    before = content(labels)
    inode = labels.stat().st_ino
    write(labels)
    assert content(labels) == before
    assert labels.stat().st_ino == inode


def test_a_change_replaces_what_changed_and_keeps_what_is_not_ours(labels: Path) -> None:
    (labels / "notes").mkdir()
    (labels / "notes" / "mine.txt").write_text("keep me")
    (labels / "messages" / "extra.txt").write_text("me too")
    before = content(labels)
    tables = rows()
    tables["messages"][0]["key_idea"] = "another"
    del tables["replays"][2:]
    write(labels, tables)
    after = content(labels)
    assert before.keys() - after.keys() == {"replays/validation-all-00000.parquet"}
    assert {k for k in after if after[k] != before[k]} == {
        "messages/train-all-00000.parquet",
        "README.md",
    }
    assert sorted(path.name for path in labels.parent.iterdir() if path.name != "cache") == [labels.name]


@pytest.mark.parametrize("name", ["thesis.tex", "README.md", "messages/train-all-00000.parquet"])
def test_a_folder_that_is_not_ours_is_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    (tmp_path / "out" / name).write_text("precious")
    with pytest.raises(DhdError, match="must be new, empty or a data set of dhd-labels"):
        write(tmp_path / "out")
    assert (tmp_path / "out" / name).read_text() == "precious"


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(DhdError, match="is a file"):
        write(tmp_path / "out")


def test_an_empty_folder_and_missing_parents_are_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert len(load_frame(write(tmp_path / "empty"))) == 6
    assert len(load_frame(write(tmp_path / "a" / "b" / "c"))) == 6


def test_a_card_of_other_rows_is_refused(tmp_path: Path, labels: Path) -> None:
    text = (labels / "README.md").read_text()
    for card, said in ((text, "must count the rows"), ("# no header", "must start with the YAML header")):
        with pytest.raises(DhdError, match=said):
            write_dataset({"messages": [row("messages")]}, tmp_path / "out", split_of=SPLIT_OF, card=card)
    wrong = text.replace("path: messages/train", "path: messages/other")
    with pytest.raises(DhdError, match="'configs' must list the files"):
        write_dataset(rows(), tmp_path / "out", split_of=SPLIT_OF, card=wrong)
    assert not (tmp_path / "out").exists()


def test_counts_cover_every_split() -> None:
    assert count_rows({"messages": [row("messages")], "replays": []}, SPLIT_OF) == {
        "messages": {"train": 1, "validation": 0, "test": 0},
        "replays": {"train": 0, "validation": 0, "test": 0},
    }


def test_a_failed_rename_brings_the_old_data_set_back(labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(labels)
    rename = Path.rename

    def broken(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", broken)
    with pytest.raises(DhdError, match=r"cannot be written to .* no space left"):
        write(labels, {"messages": [row("messages")]})
    assert content(labels) == before


def test_rows_may_come_in_any_order_of_configs(labels: Path, tmp_path: Path) -> None:
    mixed = [(config, one) for config, found in rows().items() for one in found]
    with writing_dataset(tmp_path / "out", split_of=SPLIT_OF, configs=rows()) as writer:
        for config, one in sorted(mixed, key=lambda item: item[1]["problem_id"]):
            writer.add(config, one)
        assert writer.counts == count_rows(rows(), SPLIT_OF)
        writer.finish((labels / header.CARD_NAME).read_text())
    assert set(content(tmp_path / "out")) == set(content(labels))
    for config in rows():
        assert load_frame(tmp_path / "out", config).shape == load_frame(labels, config).shape


def test_a_writer_that_is_not_finished_changes_nothing(labels: Path) -> None:
    before = content(labels)
    with writing_dataset(labels, split_of=SPLIT_OF) as writer:
        writer.add("messages", row("messages"))
    assert content(labels) == before and not list(labels.parent.glob(".*"))


def test_a_crash_between_the_renames_is_repaired(labels: Path) -> None:
    before = content(labels)
    labels.rename(labels.with_name(f".{labels.name}.old"))
    with pytest.raises(DhdError, match="Row 0 of messages"):
        write_dataset({"messages": [{}]}, labels, split_of=SPLIT_OF, card="")
    assert content(labels) == before


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    with place.partial_folder(tmp_path / "out"), pytest.raises(DhdError, match="Another process is writing"):
        write(tmp_path / "out")


def test_a_killed_write_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    """SIGKILL after many rows: no target folder, and the next write succeeds over the leftovers."""
    code = """
import sys, time
from pathlib import Path
from dhd_labels.dataset.write import write_dataset
from tests.dataset.samples import SPLIT_OF, row
def endless():
    for number in range(10**9):
        if number == 12_000:
            print("writing", flush=True)
            time.sleep(60)
        yield row("messages")
write_dataset({"messages": endless()}, Path(sys.argv[1]), split_of=SPLIT_OF, card="")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE, env=env)
    assert child.stdout is not None
    assert child.stdout.readline() == b"writing\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not (tmp_path / "out").exists()
    assert (tmp_path / ".out.partial").exists()
    started = time.monotonic()
    assert len(load_frame(write(tmp_path / "out"))) == 6
    assert time.monotonic() - started < 10
    assert not (tmp_path / ".out.partial").exists()


def test_further_columns_and_the_simulation_file(tmp_path: Path) -> None:
    extra = {"messages": (schema.Column("true_value", "float64", "the true effect"),)}
    tables = {"messages": [row("messages") | {"true_value": 0.25}]}
    folder = write(tmp_path / "out", tables, extra_columns=extra)
    assert load_frame(folder)["true_value"].tolist() == [0.25]
    text = (folder / "README.md").read_text()
    assert "the true effect" in text
    write_dataset(tables, folder, split_of=SPLIT_OF, card=text, extra_columns=extra, simulation="{}\n")
    assert header.data_files(folder)[-1] == "simulation.json"
    write_dataset(tables, folder, split_of=SPLIT_OF, card=text, extra_columns=extra)
    assert "simulation.json" not in header.data_files(folder)
