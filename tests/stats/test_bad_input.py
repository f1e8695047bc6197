"""Data sets that contradict themselves are refused by name; what is merely missing is counted by reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.stats.command import Statistics, compute, write_json
from tests.stats.dataset_rows import Row, Rows, only, read_rows, simulated, write_rows

ERRORS: dict[str, tuple[Callable[[Rows], None], str]] = {}


def error(text: str) -> Callable[[Callable[[Rows], None]], Callable[[Rows], None]]:
    def keep(edit: Callable[[Rows], None]) -> Callable[[Rows], None]:
        ERRORS[edit.__name__] = (edit, text)
        return edit

    return keep


def first(rows: list[Row], **wanted: object) -> Row:
    return next(row for row in rows if all(row[name] == value for name, value in wanted.items()))


@error(r"'trajectory_value' of slot \d of pool \w+ \(.*must be .*, which follows from its replays, got 0.123")
def edited_value(rows: Rows) -> None:
    rows["messages"][7]["trajectory_value"] = 0.123


@error(r"'cell' of slot \d of pool \w+ .*must be \w+_\w+, which follows")
def edited_cell(rows: Rows) -> None:
    row = next(m for m in rows["messages"] if m["cell"] and m["cell"].endswith("neutral"))
    row["cell"] = row["cell"].replace("neutral", "helpful")


@error(r"'stability' of slot \d .* got stable_helpful")
def edited_stability(rows: Rows) -> None:
    first(rows["messages"], stability="indeterminate")["stability"] = "stable_helpful"


@error(r"must be .*, which follows from its replays, got")
def edited_replay(rows: Rows) -> None:
    row = first(rows["replays"], arm="without-2-of-5", block=3)
    row["correct"] = not row["correct"]


@error(r"must be .*, which follows from its replays, got null")
def label_taken_away(rows: Rows) -> None:
    first(rows["messages"], slot=1)["in_pool_effect"] = None


@error(r"must be 4, which follows from its replays, got 5|must be .*, which follows from its replays")
def lost_block(rows: Rows) -> None:
    pool = rows["replays"][0]["pool_id"]
    rows["replays"] = [r for r in rows["replays"] if not (r["pool_id"] == pool and r["block"] == 2)]


@error(r"must be recorded once, but pool \w+ .* has several outcomes of block 1, place 0")
def duplicate_full_draw(rows: Rows) -> None:
    rows["replays"].append(dict(first(rows["replays"], arm="full", block=1, draw=0)))


@error(r"must be recorded once, but pool \w+ .* has several outcomes of arm only-3, draw 0")
def duplicate_single(rows: Rows) -> None:
    rows["replays"].append(dict(first(rows["replays"], arm="only-3")))


@error(r"slots 0 to 4, once each, got 0, 1, 2, 3, 4, 4")
def duplicate_message(rows: Rows) -> None:
    rows["messages"].append(dict(first(rows["messages"], slot=4)))


@error(r"slots 0 to 4, once each, got 0, 1, 2, 3 \(4 rows\)")
def smaller_pool(rows: Rows) -> None:
    rows["messages"].remove(first(rows["messages"], slot=4))


@error(r"'actor' of the pool \w+ must be one for all of its messages, got .*another")
def mixed_actors(rows: Rows) -> None:
    rows["messages"][3]["actor"] = "another"


@error(r"A replay must have the 'actor' of the messages of its pool, got .*arm alone")
def replay_of_another_actor(rows: Rows) -> None:
    rows["messages"][0]["actor"] = rows["messages"][0]["actor"]
    wrong = first(rows["replays"], arm="alone")
    wrong["actor"] = first(rows["messages"], slot=0)["actor"] + "-2"


@error(r"must belong to messages of the data set, but there are none, got .*integrator nobody")
def replay_without_messages(rows: Rows) -> None:
    rows["replays"][5]["integrator"] = "nobody"


@error(r"must have an 'arm' of the protocol, got .*arm prefix-9")
def unknown_arm(rows: Rows) -> None:
    rows["replays"][5]["arm"] = "prefix-9"


@error(r"of a block must be one of its two full draws or five removals, got .*arm full.*draw 2")
def third_full_draw(rows: Rows) -> None:
    first(rows["replays"], arm="full", block=1, draw=1)["draw"] = 2


@error(r"must have a 'block' of 0 or more, or none outside blocks, got .*block -3")
def block_below_zero(rows: Rows) -> None:
    first(rows["replays"], arm="full", block=1, draw=1)["block"] = -3


@error(r"must have the 'k' of its arm, got .*arm prefix-3, k 4")
def pool_size_of_another_arm(rows: Rows) -> None:
    first(rows["replays"], arm="prefix-3")["k"] = 4


@error(r"must have the 'removed' of its arm, got .*arm without-2-of-4.*removed 1")
def removal_of_another_arm(rows: Rows) -> None:
    first(rows["replays"], arm="without-2-of-4")["removed"] = 1


@error(r"must have a 'correct' exactly when it is `graded`")
def verdict_without_status(rows: Rows) -> None:
    first(rows["replays"], arm="alone", correct=True)["status"] = "truncated"


@error(r"must have a 'status' of graded, no_answer")
def unknown_status(rows: Rows) -> None:
    row = first(rows["replays"], arm="alone")
    row["status"], row["correct"] = "lost", None


@error(r"'proposal_correct' of slot \d of the pool \w+ must be null exactly when")
def proposal_without_status(rows: Rows) -> None:
    first(rows["messages"], proposal_correct=True)["proposal_status"] = "no_answer"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return read_rows(simulated(tmp_path_factory.mktemp("sim") / "data", problems=12))


@pytest.mark.parametrize("name", list(ERRORS))
def test_a_contradiction_names_the_record(name: str, rows: Rows, tmp_path: Path) -> None:
    edit, text = ERRORS[name]
    changed = copy.deepcopy(rows)
    edit(changed)
    with pytest.raises(DhdError, match=text):
        compute(write_rows(changed, tmp_path / "data"))


def left_out(found: Statistics, table: str) -> dict[str, int]:
    return {row["reason"]: row["n"] for row in found.exclusions if row["table"] == table}


def relabelled(rows: Rows, tmp_path: Path) -> Statistics:
    """Compute the tables of rows whose labels are taken from the replays, as a build would."""
    from dhd_labels.stats import checks, frames

    folder = write_rows(rows, tmp_path / "raw")
    units = frames.read_units(frames_source(folder))
    labels = checks._labels(units, "missing")
    place = {(r["pool_id"], r["integrator"], r["order"]): i for i, r in enumerate(units.keys.to_dict("records"))}
    for m in rows["messages"]:
        at = place[m["pool_id"], m["integrator"], m["order"]], m["slot"]
        for name in (*checks.NUMBERS, *checks.WORDS):
            value = getattr(labels, name)[at]
            plain = value.item() if hasattr(value, "item") else value
            m[name] = None if plain != plain else plain
    return compute(write_rows(rows, tmp_path / "data"))


def frames_source(folder: Path):  # type: ignore[no-untyped-def]
    from dhd_labels.dataset.columns import open_source

    return open_source(folder)


def test_a_block_with_one_full_draw_and_a_lost_verdict_are_left_out_and_counted(rows: Rows, tmp_path: Path) -> None:
    changed = copy.deepcopy(rows)
    changed["replays"].remove(first(changed["replays"], arm="full", block=2, draw=1))
    lost = first(changed["replays"], arm="full", block=4, draw=0)
    lost["status"], lost["reason"], lost["correct"], lost["score"] = "operational", "server_error", None, None
    found = relabelled(changed, tmp_path)
    assert left_out(found, "identical_input") == {"block with one full draw": 1, "full draw without a verdict": 1}
    assert left_out(found, "blocks") == {
        "block left out: one full draw": 1,
        "block left out: ungraded outcome": 1,
    }
    assert found.table("identical_input").rows[0]["n"] == 12 * 5 - 2


def test_a_benchmark_without_any_verdict_has_no_numbers_and_says_why(rows: Rows, tmp_path: Path) -> None:
    changed = copy.deepcopy(rows)
    chosen = sorted({r["problem_id"] for r in changed["problems"]})[:4]
    for found in changed.values():
        for row in found:
            if row["problem_id"] in chosen:
                row["benchmark"] = "lost"
                if "attempts" in row:
                    row |= {"status": "truncated", "reason": "token limit", "correct": None, "score": None}
    stats = relabelled(changed, tmp_path)
    for key, number in (("taxonomy", "eligible"), ("accuracy_by_k", "accuracy"), ("identical_input", "rate")):
        own = [row for row in stats.table(key).rows if row["benchmark"] == "lost"]
        assert all(not row[number] for row in own)
        assert [row for row in stats.exclusions if row["table"] == key and row["benchmark"] == "lost"]
    assert not [row for row in stats.table("problem_tests").rows if row["benchmark"] == "lost"]
    assert {e["n"] for e in stats.exclusions if e["benchmark"] == "lost" and "no complete block" in e["reason"]} >= {4}
    pooled = only(stats.table("accuracy_by_k").rows, benchmark="all", k=0)
    assert pooled["n"] == 12 - 4


def test_without_variance_there_is_no_interval_and_no_discovery(rows: Rows, tmp_path: Path) -> None:
    changed = copy.deepcopy(rows)
    for row in changed["replays"]:
        row |= {"status": "graded", "reason": None, "correct": True, "score": 1.0}
    found = relabelled(changed, tmp_path)
    for row in found.table("accuracy_by_k").rows:
        assert (row["accuracy"], row["ci_low"], row["ci_high"]) == (1.0, None, None)
        assert row["ci_reason"] == "no variation between problems"
    for row in found.table("flips").rows:
        assert (row["rate"], row["flips"], row["helpful_share"]) == (0.0, 0, None)
        assert row["ci_reason"]
    assert all(row["p"] == 1.0 for row in found.table("problem_tests").rows)
    assert all(row["p"] == 1.0 for row in found.table("pooled_test").rows)
    with (tmp_path / "out.json").open("w") as file:
        write_json(found, file)
    json.loads((tmp_path / "out.json").read_text())


def test_further_blocks_of_some_problems_only_do_not_enter_the_means(rows: Rows, tmp_path: Path) -> None:
    """As when `replay.allocation: screened` gives further blocks to mixed problems: the first block is of all."""
    changed = copy.deepcopy(rows)
    pools = sorted({r["pool_id"] for r in changed["replays"]})
    changed["replays"] = [r for r in changed["replays"] if r["pool_id"] in pools[:5] or not (r["block"] or 0)]
    for message in changed["messages"]:
        message["screen_blocks"] = 1
    found = relabelled(changed, tmp_path)
    identical = found.table("identical_input").rows[0]
    assert (identical["n"], identical["blocks_used"]) == (12, "first 1 of each problem")
    values = [r for r in changed["replays"] if r["block"] == 0]
    draws = {(r["pool_id"], r["arm"], r["draw"]): float(r["correct"]) for r in values}
    right = [m for m in changed["messages"] if m["proposal_correct"] is True]
    effects = [
        (draws[m["pool_id"], "full", 0] + draws[m["pool_id"], "full", 1]) / 2
        - draws[m["pool_id"], f"without-{m['slot']}-of-5", 0]
        for m in right
    ]
    row = only(found.table("mean_value").rows, proposal="correct")
    assert row["mean"] == pytest.approx(sum(effects) / len(effects))
    selection = found.table("same_problem_selection").rows[0]
    assert (selection["n_problems"], selection["folds"]) == (5, 5 * 4)


def test_nothing_to_count_is_said(rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(NothingMadeError, match="holds no messages"):
        compute(write_rows({**rows, "messages": [], "replays": []}, tmp_path / "a"))
    with pytest.raises(NothingMadeError, match="no replays"):
        compute(write_rows({**rows, "replays": []}, tmp_path / "b"))


def test_no_data_set_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(DhdError, match="There is no folder"):
        compute(tmp_path / "nowhere")
