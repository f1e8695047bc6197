"""From rows to arrays: what every subset earned, complete pools, targets, and reading only what is needed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dhd_labels.dataset.load import load_frame
from dhd_labels.dataset.schema import SCHEMA_VERSION
from dhd_labels.errors import DhdError
from dhd_labels.simulate import Plan, scenario, simulate_dataset
from dhd_selectors.actions import ALONE, FULL, REMOVALS, SINGLES
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS
from training.data import LabelData, assemble, load_data, main_groups
from training.outcomes import success_of
from training.read import COLUMNS, read_frame

SPLITS = ("train", "validation", "test")


def made(kit: Any, messages: list[dict[str, Any]], replays: list[dict[str, Any]], **options: Any) -> LabelData:
    problems = [{"problem_id": p, "answer_type": "integer", "question": f"What is {p}?"}
                for p in dict.fromkeys(m["problem_id"] for m in messages)]  # fmt: skip
    frames = (kit.frame(n, r) for n, r in (("messages", messages), ("replays", replays), ("problems", problems)))
    return assemble(*frames, **options)


def pool(kit: Any, problem: str, **values: Any) -> list[dict[str, Any]]:
    return [kit.message(problem, slot, **values) for slot in range(5)]


def blocks(kit: Any, problem: str, numbers: range, correct: Any = lambda block: block == 0) -> list[dict[str, Any]]:
    rows = [kit.replay(problem, "full", correct(b), block=b, draw=d) for b in numbers for d in (0, 1)]
    return rows + [kit.replay(problem, f"without-{s}-of-5", correct(b), block=b) for b in numbers for s in range(5)]


def test_matched_draws_and_others_are_never_mixed(kit: Any) -> None:
    """p0 has blocks, so its nested draws of the same arms say nothing; p1 has none, so they are all there is."""
    nested = [
        kit.replay(p, arm, True, block=None) for p in ("p0", "p1") for arm in ("full", "without-2-of-5", "only-1")
    ]
    data = made(kit, pool(kit, "p0") + pool(kit, "p1"), blocks(kit, "p0", range(2)) + nested)
    assert data.success[0, [FULL, *REMOVALS]].tolist() == [0.5] * 6
    assert data.success[1, [FULL, REMOVALS[2]]].tolist() == [1.0, 1.0]
    assert data.success[:, SINGLES[1]].tolist() == [1.0, 1.0]
    assert data.recorded.sum(axis=1).tolist() == [7, 3]
    assert np.isfinite(data.success).sum(axis=1).tolist() == [7, 3]


def test_arms_that_show_the_same_messages_are_one_action(kit: Any) -> None:
    rows = [
        kit.replay("p", "only-0", True, block=None),
        kit.replay("p", "prefix-1", False, block=None),
        kit.replay("p", "subset", True, block=None, kept=(1, 3)),
        kit.replay("p", "without-1-of-3", False, block=None),
        kit.replay("p", "subset", True, block=None, kept=()),
    ]
    data = made(kit, pool(kit, "p"), rows)
    assert {a: data.success[0, a] for a in np.flatnonzero(data.recorded[0])} == {
        0: 1.0,
        1: 0.5,
        0b1010: 1.0,
        0b101: 0.0,
    }


def test_what_was_drawn_is_recorded_whatever_became_of_it(kit: Any) -> None:
    data = made(kit, pool(kit, "p"), [kit.replay("p", "alone", None, block=None, status="operational")])
    assert np.isnan(data.success[0, ALONE]) and data.recorded[0, ALONE]
    assert data.recorded.sum() == 1


def test_blocks_that_only_some_problems_got_score_nothing(kit: Any) -> None:
    """p0 was screened by its first block and went on; p1 has two blocks like every other problem."""
    messages = pool(kit, "p0", screen_blocks=1) + pool(kit, "p1", screen_blocks=0)
    data = made(kit, messages, blocks(kit, "p0", range(2)) + blocks(kit, "p1", range(2)))
    assert data.success[:, FULL].tolist() == [1.0, 0.5]
    assert data.blocks.per_pool.tolist() == [1, 2], "of a screened problem, what came after the screen"


def test_only_graded_draws_make_a_complete_block(kit: Any) -> None:
    rows = blocks(kit, "p", range(3))
    rows[0] |= {"correct": None, "status": "no_answer"}
    data = made(kit, pool(kit, "p"), [*rows[:-1]])
    assert data.blocks.number.tolist() == [1]
    assert data.blocks.excluded == {"missing_draw": 1, "ungraded_outcome": 1}
    with pytest.raises(DhdError, match="there once"):
        made(kit, pool(kit, "p"), [*rows, rows[-1]])


def test_status_decides_success(kit: Any) -> None:
    statuses = ["graded", "graded", "no_answer", "truncated", "operational", "undetermined"]
    rows = [
        kit.replay("p", "full", c) | {"status": s} for s, c in zip(statuses, [True, False] + [None] * 4, strict=True)
    ]
    expected = [1.0, 0.0, 0.0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(success_of(kit.frame("replays", rows)), expected)


def test_without_blocks_the_target_is_the_in_pool_effect_and_counted(kit: Any) -> None:
    effects = pool(kit, "p0", in_pool_effect=0.5) + pool(kit, "p1", in_pool_effect=0.5)
    effects[0]["trajectory_value"] = 0.25
    data = made(kit, effects, blocks(kit, "p1", range(1)))
    assert data.y[:5].tolist() == [0.25, 0.5, 0.5, 0.5, 0.5]
    assert np.isnan(data.y[5:]).all(), "a pool with blocks has a trajectory value or none"
    assert data.fallback == 4
    told = data.labels["trajectory_value"].to_numpy(dtype=float, na_value=np.nan)
    np.testing.assert_array_equal(told, data.y, err_msg="hindsight must know what is learned, or it is no upper bound")


def test_a_pool_that_is_not_whole_is_refused(kit: Any) -> None:
    with pytest.raises(DhdError, match=r"pool pool-p .* must have the slots 0 to 4, once each, got \[0, 1, 2, 3\]"):
        made(kit, pool(kit, "p")[:4], [])
    with pytest.raises(DhdError, match="once each"):
        made(kit, [*pool(kit, "p")[:4], kit.message("p", 3)], [])


def test_texts_are_there_on_demand_and_never_missing(kit: Any) -> None:
    messages = pool(kit, "p", confidence_text=None, role_name=None)
    assert made(kit, messages, []).texts is None
    texts = made(kit, messages, [], texts=True).texts
    assert list(texts.columns) == [*TEXT_COLUMNS, POOL_COLUMN]
    assert texts["question"].tolist() == ["What is p?"] * 5
    assert texts["role_name"].tolist() == [""] * 5
    assert texts.notna().all(axis=None) and texts[POOL_COLUMN].dtype == np.int64


def test_rows_find_their_messages_in_any_order(kit: Any) -> None:
    world = kit.simulate(5, 0)
    data = assemble(world.messages.sample(frac=1, random_state=1), world.replays, world.problems)
    for number, rows in enumerate(data.rows):
        assert data.pool[rows].tolist() == [number] * 5
        assert data.slot[rows].tolist() == [0, 1, 2, 3, 4]


def test_sensitivity_rows_do_not_count_a_problem_twice() -> None:
    """Rows of the reversed order, and of an integrator that never solved alone, are left out."""
    messages = pd.DataFrame(
        {
            "pool_id": ["p"] * 4,
            "order": ["original", "reversed", "original", "original"],
            "integrator": ["a", "a", "b", "c"],
            "single_effect": [0.5, None, None, 0.0],
        }
    )
    assert main_groups(messages)["integrator"].tolist() == ["a", "c"]
    assert main_groups(messages, every_integrator=True)["integrator"].tolist() == ["a", "b", "c"]
    no_alone = messages.assign(single_effect=None)
    assert main_groups(no_alone)["integrator"].tolist() == ["a", "b", "c"], "a run without `alone` keeps its rows"


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("labels") / "data"
    simulate_dataset(Plan(scenario("mixed", missing=0.1), 40, 2, seed=1), out)
    return out


@pytest.mark.parametrize("splits", [SPLITS, ("test", "train"), ("validation",)])
@pytest.mark.parametrize("config", COLUMNS)
def test_training_reads_what_load_frame_does(
    labels: Path, config: str, splits: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    ours, theirs = read_frame(str(labels), config, splits), load_frame(labels, config, splits, COLUMNS[config])
    assert list(ours.columns) == [*COLUMNS[config], "split"] == list(theirs.columns)
    for name in ours.columns:
        left, right = ours[name].astype(object), theirs[name].astype(object)
        if name == "kept":
            left, right = left[left.notna()], right[theirs["arm"] == "subset"]
        assert (left.isna() == right.isna()).all()
        assert left.dropna().tolist() == right.dropna().tolist(), name


def test_a_data_set_reads_the_same_either_way(labels: Path) -> None:
    ours = load_data(str(labels), SPLITS, texts=True)
    theirs = load_data(str(labels), SPLITS, load_frame, texts=True)
    np.testing.assert_array_equal(ours.success, theirs.success)
    np.testing.assert_array_equal(ours.y, theirs.y)
    pd.testing.assert_frame_equal(ours.X, theirs.X)
    pd.testing.assert_frame_equal(ours.texts, theirs.texts)
    np.testing.assert_array_equal(ours.blocks.outcomes, theirs.blocks.outcomes)


def test_columns_must_exist(labels: Path) -> None:
    with pytest.raises(DhdError, match="no column 'slots'. Did you mean 'slot'"):
        load_frame(labels, "messages", SPLITS, ["slots"])
    with pytest.raises(DhdError, match="'trian'"):
        read_frame(str(labels), "messages", ["trian"])


def words(path: Path) -> set[str]:
    return set(re.findall("[a-z]+", str(path)))


def test_labels_of_another_version_are_refused(tmp_path: Path) -> None:
    """A column that an older build did not write; files and card of two versions; a card of another version."""
    simulate_dataset(Plan(scenario("null"), 20, 1, seed=1), tmp_path / "d")
    card = tmp_path / "d" / "README.md"
    text = card.read_text(encoding="utf-8")
    assert load_data(str(tmp_path / "d"), SPLITS).n_pools == 20
    file = next(path for path in (tmp_path / "d").rglob("*.parquet") if {"messages", "train"} <= words(path))
    table = pq.read_table(file)
    for name in ("screen_blocks", "confidence_text"):
        pq.write_table(table.drop_columns([name]), file)
        with pytest.raises(DhdError, match=f"lacks the columns {name}"):
            load_data(str(tmp_path / "d"), SPLITS)
    retyped = table.set_column(table.schema.get_field_index("n_blocks"), "n_blocks", table["n_blocks"].cast("float64"))
    pq.write_table(retyped, file)
    with pytest.raises(DhdError, match="SHA-256 is not the one in the card"):
        load_data(str(tmp_path / "d"), SPLITS)
    card.write_text(
        re.sub(r"(?m)^ +\S+\.parquet: [0-9a-f]{64}\n", "", text).replace("  sha256:\n", ""), encoding="utf-8"
    )
    with pytest.raises(DhdError, match="'n_blocks' of .* must be int32, got float64"):
        load_data(str(tmp_path / "d"), SPLITS)
    pq.write_table(table, file)
    text = re.sub(r"(schema_version: )\S+", r"\1'2'", text)
    assert SCHEMA_VERSION != "2"
    card.write_text(text, encoding="utf-8")
    with pytest.raises(DhdError, match="schema"):
        load_data(str(tmp_path / "d"), SPLITS)
