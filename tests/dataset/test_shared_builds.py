"""Every reported bug of building data sets, with its own input, through the real reader, writer and loader.

The kinds behind them have tests of their own; this file proves that the very inputs behave too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import yaml
from support import SHARED, message, pool, problem, reply

from dhd_labels.benchmarks.registry import facts as registry_facts
from dhd_labels.benchmarks.rows import read_own
from dhd_labels.dataset import card, schema
from dhd_labels.dataset.load import load, load_frame
from dhd_labels.dataset.rows import rows_of
from dhd_labels.dataset.write import write_dataset
from dhd_labels.errors import DhdError
from dhd_labels.labels import Proposal
from dhd_labels.protocol.parse import parse_message
from dhd_labels.records import Arm, Outcome, Replay, Role
from dhd_labels.replay.collect import ProblemResult
from tests.dataset.samples import SPLIT_OF, facts, row, write

Check = Callable[[Any, Path], None]


def columns_of(folder: Path, config: str) -> list[str]:
    """Return the columns that the card's `dataset_info` lists."""
    header = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    (info,) = [info for info in header["dataset_info"] if info["config_name"] == config]
    return [feature["name"] for feature in info["features"]]


def a_column_more(given: Any, place: Path) -> None:
    first, second = given["push_1"]["columns"], given["push_2"]["columns"]
    (more,) = [name for name in second if name not in first]
    write(place / "data", {"messages": [row("messages")]})
    assert more not in columns_of(place / "data", "messages")
    extra = {"messages": (schema.Column(more, "int32", "how often it was replayed"),)}
    write(place / "data", {"messages": [row("messages") | {more: 3}]}, extra_columns=extra)
    assert columns_of(place / "data", "messages") == [*(c.name for c in schema.MESSAGES), more]
    loaded = datasets.load_dataset(str(place / "data"), cache_dir=str(place / "cache"))
    assert loaded["train"][more] == [3]
    write(place / "data", {"messages": [row("messages")]})
    assert more not in columns_of(place / "data", "messages")


def nulls_first(given: Any, place: Path) -> None:
    assert given["rows"].startswith("1,000 rows with single_message_correct = null")
    found = [row("messages")] * 1000 + [row("messages", proposal_correct=True, key_idea="late")]
    write(place / "data", {"messages": found})
    loaded = load(place / "data")["train"]
    assert loaded.features == schema.features("messages")
    assert loaded["proposal_correct"] == [None] * 1000 + [True]
    assert loaded["key_idea"] == [None] * 1000 + ["late"]


def mixed_golds(given: Any, place: Path) -> None:
    golds = [item["gold"] for item in given["rows"]]
    lines = [
        (f"line {n}", {"id": str(n), "question": f"What, {n}?", "reference": gold, "answer_type": "integer"})
        for n, gold in enumerate(golds, 1)
    ]
    read = read_own(lines, registry_facts("jsonl"), None)
    assert [p.reference for p in read.problems] == ["12", "12"], "one declared form"
    assert read.excluded == {"bad_value": 1} and "line 3" in read.examples["bad_value"]
    for n, gold in enumerate(golds[1:], 1001):
        rows = [row("problems", reference="12")] * n + [row("problems", reference=gold)]
        with pytest.raises(DhdError, match=rf"^Row {n} of problems .*'reference' must be text or null, got "):
            write_dataset({"problems": rows}, place / "data", split_of=SPLIT_OF, card="")


def numpy_in_the_card(given: Any, place: Path) -> None:
    given = given["card_metadata"]
    number, names = np.int64(6), np.array(["helpful", "neutral", "harmful"])
    assert str(number) in given["num_classes"] and all(name in given["names"] for name in names)
    counts: Any = {"messages": {"train": number, "validation": np.int32(0), "test": 0}}
    text = card.render(facts(counts, title=names[0], sha256={"a": names[1]}))
    assert "!!python" not in text and "numpy" not in text
    header = yaml.safe_load(text.split("---")[1])
    assert header["dhd_labels"]["rows"]["messages"]["train"] == 6 and header["pretty_name"] == "helpful"
    assert [card.plain(value, "it") for value in (number, names)] == [6, names.tolist()]


def lone_surrogate(given: Any, place: Path) -> None:
    text = json.loads(given["message_text_json"])
    parsed = parse_message(reply(f"Key idea: {text}\nProposed answer: 7"), 0, Role("Role 0", "a lens"))
    assert parsed.status == "ok" and parsed.key_idea == text.replace("\udc00", "\ufffd")
    found = pool(problem(), [parsed, *(message(slot) for slot in range(1, 5))])
    replay = Replay("t:1", found.pool_id, Arm.alone(), "m", "original", None, 0, None, "alone")
    outcome = Outcome(replay, "no_answer", "none", None, None, "stop", 1, 0, 1, 0, "m")
    proposals = tuple(Proposal("graded", True) for _ in range(5))
    result = ProblemResult(problem(), "ok", None, (), found.messages, found, proposals, (outcome,), (), 1)
    rows = rows_of("run", result, "missing")["messages"]
    raw = [{**one, "problem_id": "p0"} for one in rows] + [row("messages", pool_id="raw", key_idea=text)]
    frame = load_frame(write(place / "data", {"messages": raw}))
    assert frame["key_idea"].tolist()[::5] == [parsed.key_idea] * 2, "both ways in agree"
    assert frame["replaced_characters"].tolist() == [1, 0, 0, 0, 0, 1]
    assert frame["pool_id"][0] == found.pool_id and json.loads(json.dumps(frame["key_idea"][0])) == parsed.key_idea


def not_finite(given: Any, place: Path) -> None:
    values = {name: float(text.split()[-1]) for name, text in given["row"].items()}
    frame = load_frame(write(place / "data", {"messages": [row("messages") | values]}))
    for name in values:
        reason = next(c.reason for c in schema.MESSAGES if c.name == name)
        assert frame[name].isna().all() and frame[reason][0].startswith(f"{name} is not a finite number")
    assert "NaN" not in json.dumps(frame.astype(object).where(frame.notna(), None).to_dict("records"), allow_nan=False)


CHECKS: dict[str, Check] = {
    "datasets/issues/8608": a_column_more,
    "datasets/issues/7222": nulls_first,
    "FlashRAG/issues/132": mixed_golds,
    "datasets/issues/6919": numpy_in_the_card,
    "inspect_ai/pull/2316": lone_surrogate,
    "apify-client-python/pull/87": not_finite,
}


def cases() -> list[dict[str, Any]]:
    if SHARED is None:
        return []
    text = Path(SHARED, "cases", "bug_inputs.jsonl").read_text(encoding="utf-8")
    return [row for row in map(json.loads, text.splitlines()) if row["area"] == "dataset_build"]


@pytest.mark.skipif(SHARED is None, reason="no shared cases at hand")
def test_every_row_has_a_check() -> None:
    assert sorted(next(end for end in CHECKS if row["source"].endswith(end)) for row in cases()) == sorted(CHECKS)


@pytest.mark.parametrize("end", CHECKS)
@pytest.mark.skipif(SHARED is None, reason="no shared cases at hand")
def test_the_reported_input_behaves_as_it_should(end: str, tmp_path: Path) -> None:
    (case,) = [row for row in cases() if row["source"].endswith(end)]
    CHECKS[end](case["input"], tmp_path)
