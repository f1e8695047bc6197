from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dhd_labels.__main__ import main
from dhd_labels.dataset.columns import open_source
from dhd_labels.dataset.load import load, load_frame
from dhd_labels.dataset.paper import convert, import_release
from dhd_labels.dataset.publish import push
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.stats.command import compute
from tests.dataset.releases import problem, write_part, write_release

SPLITS = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def test_labels_of_a_release_load_like_ours(tmp_path: Path, cache: Path) -> None:
    release = write_release(tmp_path / "release", problems=12)
    messages = load_frame(release, "messages", SPLITS)
    assert len(messages) == 2 * 12 * 5
    assert sorted(set(messages["benchmark"])) == ["jeebench", "lab-bench"]
    assert messages["in_pool_effect"].notna().all()
    assert messages["trajectory_value"].isna().all()
    assert messages["trajectory_value_reason"].notna().all()
    assert not messages["commercial_use"].any()
    assert set(zip(messages["benchmark"], messages["train_allowed"], strict=True)) == {
        ("jeebench", True),
        ("lab-bench", False),
    }
    problems = load_frame(release, "problems", SPLITS)
    assert problems[["question", "reference", "answer_type"]].isna().all(axis=None)
    assert set(problems["text_withheld"]) == {"not in the release"}
    replays = load_frame(release, "replays", SPLITS)
    assert len(replays) == 2 * 12 * 25
    assert replays[["seed", "attempts", "prompt_tokens"]].isna().all(axis=None)
    assert len(list((cache / "dhd_labels").iterdir())) == 1
    assert load(release, "messages")["train"].num_rows == (messages["split"] == "train").sum()
    assert len(list((cache / "dhd_labels").iterdir())) == 1
    assert open_source(release).rows("messages") == len(messages)


def test_statistics_follow_from_the_replays_of_a_release(tmp_path: Path) -> None:
    found = compute(str(write_release(tmp_path / "release", problems=12)))
    shown = found.table("accuracy_by_k").rows
    by_k = {row["k"]: row for row in shown if row["benchmark"] == "jeebench"}
    assert sorted(by_k) == [0, 1, 2, 3, 4, 5]
    plain = write_release(tmp_path / "plain", problems=12, suffix=".jsonl") / "raw" / "jeebench"
    files = sorted(plain.rglob("layer_a/*.jsonl"))
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    alone = [row["trace"]["no_hypothesis_baseline"]["correct"] for row in rows]
    assert by_k[0]["accuracy"] == pytest.approx(sum(alone) / len(alone))


def test_a_changed_release_is_read_again(tmp_path: Path, cache: Path) -> None:
    release = write_release(tmp_path / "release", problems=4)
    load_frame(release)
    write_release(release, problems=4, seed=1)
    assert len(load_frame(release, "messages", SPLITS)) == 40
    assert len(list((cache / "dhd_labels").iterdir())) == 2


def test_another_conversion_is_not_taken_from_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = write_release(tmp_path / "release", problems=2)
    load(release, "messages")
    monkeypatch.setattr(convert, "CONVERSION", convert.CONVERSION + 1)
    load(release, "messages")
    assert len(list((cache / "dhd_labels").iterdir())) == 2


def test_the_command_writes_a_data_set_that_can_be_pushed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release, out = write_release(tmp_path / "release"), tmp_path / "out"
    assert main(["import-release", str(release), "--out", str(out)]) == 0
    assert "12 problems, 60 messages" in capsys.readouterr().out
    card = (out / "README.md").read_text()
    assert "non-commercial" in card
    assert "license: other" in card
    assert main(["import-release", str(tmp_path), "--out", str(tmp_path / "no")]) == 2
    assert "must have files raw/" in capsys.readouterr().err
    assert push(out, "me/release", dry_run=True).files


def test_what_does_not_belong_together_is_named(tmp_path: Path) -> None:
    release = write_release(tmp_path / "release")
    folder = release / "raw" / "jeebench" / "dhd" / "gpt_oss_120b"
    write_part(folder / "loo" / "part-00001.jsonl", [{"source_problem_id": "stranger", "loo": []}])
    assert import_release(release, tmp_path / "out").left_out == {"row of loo without a row of layer_a": 1}
    write_part(folder / "loo" / "part-00002.jsonl", [{"source_problem_id": "stranger", "loo": []}])
    with pytest.raises(DhdError, match="part-00002.jsonl, line 1: the problem 'stranger' must be there once"):
        import_release(release, tmp_path / "out")
    for path in folder.rglob("part-*"):
        path.unlink()
    with pytest.raises(NothingMadeError, match="no problem with a verdict"):
        empty = tmp_path / "empty"
        write_part(empty / "raw" / "jeebench" / "dhd" / "m" / "layer_a" / "part-00000.jsonl", [])
        import_release(empty, tmp_path / "none")


def test_rows_are_joined_by_any_id_that_they_share(tmp_path: Path) -> None:
    layers, loos = zip(*(problem(f"{n}", np.random.default_rng(n)) for n in range(4)), strict=True)
    nameless = [{k: v for k, v in layer.items() if k != "source_problem_id"} for layer in layers]
    flat = [{**layer, **loo} for layer, loo in (problem(f"{n}", np.random.default_rng(n), flat=True) for n in range(4))]
    spellings: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
        "uid in both": (nameless, [{**loo, "problem_uid": f"u-{n}"} for n, loo in enumerate(loos)]),
        "uid is the other's id": ([{**layer, "problem_uid": f"{n}"} for n, layer in enumerate(nameless)], loos),
        "numbers from 0": tuple([{**row, "source_problem_id": n} for n, row in enumerate(f)] for f in (layers, loos)),
        "one flat row": (flat, []),
    }
    for name, (left, right) in spellings.items():
        folder = tmp_path / name / "raw" / "jeebench" / "dhd" / "m"
        write_part(folder / "layer_a" / "part-00000.jsonl", left)
        write_part(folder / "loo" / "part-00000.jsonl", right)
        assert import_release(tmp_path / name, tmp_path / f"{name} out").left_out == {}, name
        messages = load_frame(tmp_path / f"{name} out", "messages", SPLITS)
        assert len(messages) == 4 * 5 and messages["in_pool_effect"].notna().all(), name


def test_files_that_share_no_id_are_refused(tmp_path: Path) -> None:
    layer, loo = problem("a", np.random.default_rng(0))
    folder = tmp_path / "raw" / "jeebench" / "dhd" / "m"
    write_part(folder / "layer_a" / "part-00000.jsonl", [layer])
    write_part(folder / "loo" / "part-00000.jsonl", [{**loo, "source_problem_id": "jeebench:a"}])
    with pytest.raises(DhdError, match=r"must share ids, but no row of `layer_a` has 'jeebench:a' \(.*line 1\)"):
        import_release(tmp_path, tmp_path / "out")
