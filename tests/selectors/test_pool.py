"""What `keep` takes: records, dictionaries and rows, complete or not."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_labels.protocol.parse import confidence_level, confidence_value
from dhd_labels.records import CONTENT_FIELDS, Message, Problem
from dhd_selectors.features import build_features, pool_features
from dhd_selectors.saving import DecisionRule
from dhd_selectors.saving.pool import read_pool, text_frame

PROBLEM = Problem("t:1", "mascqa", "What is 3 plus 4?", "7", "integer", (), "apache-2.0", True, True)
MESSAGES = [
    Message(slot, f"Role {slot}", "lens", str(slot), f"maybe {slot}", "idea", "", "x = 7", confidence, "raw", "ok")
    for slot, confidence in enumerate(("high", "low; I guess", "0.7", "", "medium, 60%"))
]


def as_row(message: Message) -> dict[str, Any]:
    """The message as a row of the data set's `messages`, with nullable values as `load_frame` gives them."""
    row = dataclasses.asdict(message)
    stated = row.pop("confidence")
    return {
        **{name: row[name] or None for name in ("role_name", "proposed_answer", *CONTENT_FIELDS)},
        "slot": row["slot"],
        "pool_id": "p",
        "trajectory_value": 0.5,
        "proposal_correct": True,
        "confidence_text": stated,
        "confidence_level": confidence_level(stated),
        "confidence_value": confidence_value(stated),
    }


def frame() -> pd.DataFrame:
    return pd.DataFrame([as_row(message) for message in MESSAGES]).astype({"slot": "Int8"})


class ByHedges:
    """Values that tell the messages apart: minus the number in the reasoning."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, X: pd.DataFrame, y: Any, *, labels: Any = None, sample_weight: Any = None) -> ByHedges:
        return self

    def predict_value(self, X: pd.DataFrame) -> Any:
        return -X["slot"].to_numpy()


RULE = DecisionRule("x.py:ByHedges", ByHedges(), "remove-worst", (-2.5,))


FORMS: dict[str, tuple[Any, Any]] = {
    "records": (PROBLEM, MESSAGES),
    "visible problem": (PROBLEM.visible(), MESSAGES),
    "dictionaries": (dataclasses.asdict(PROBLEM), [dataclasses.asdict(message) for message in MESSAGES]),
    "rows": (pd.Series(dataclasses.asdict(PROBLEM)), frame()),
    "rows as dictionaries": (dataclasses.asdict(PROBLEM), [as_row(message) for message in MESSAGES]),
    "any order": (PROBLEM, MESSAGES[::-1]),
    "an iterator": (PROBLEM, iter(MESSAGES)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_means_the_same(form: str) -> None:
    problem, messages = FORMS[form]
    if form == "visible problem":
        expected = [message._replace(benchmark="") for message in read_pool(PROBLEM, MESSAGES)]
    else:
        expected = read_pool(PROBLEM, MESSAGES)
    found = read_pool(problem, messages)
    assert repr(found) == repr(expected)  # a confidence without a number is NaN
    pd.testing.assert_frame_equal(pool_features(found), pool_features(expected))


def test_features_are_those_that_were_trained_on() -> None:
    rows = frame().assign(integrator="i", order="original", benchmark="mascqa", answer_type="integer")
    trained = build_features(rows.assign(question=PROBLEM.question))
    pd.testing.assert_frame_equal(pool_features(read_pool(PROBLEM, MESSAGES)), trained)


def test_texts_for_selectors_that_read_them() -> None:
    texts = text_frame(read_pool(PROBLEM, MESSAGES[::-1]))
    assert texts["question"].tolist() == [PROBLEM.question] * 5
    assert texts["confidence_text"].tolist() == [message.confidence for message in MESSAGES]
    assert texts["pool"].dtype == np.int64 and not texts.isna().to_numpy().any()
    assert not {"lens", "reference", "proposal_correct"} & set(texts.columns)


def test_keep_and_decide() -> None:
    assert RULE.keep(PROBLEM, MESSAGES) == [0, 1, 2, 3]
    decision = RULE.decide(PROBLEM, MESSAGES[::-1])
    assert (decision.kept, decision.values, decision.reason) == ((0, 1, 2, 3), {s: -float(s) for s in range(5)}, None)
    assert dataclasses.replace(RULE, policy="keep-best", thresholds=(0.0,)).keep(PROBLEM, MESSAGES) == [0]
    assert dataclasses.replace(RULE, policy="or-alone", thresholds=(0.0, 0.0)).keep(PROBLEM, MESSAGES) == []
    assert dataclasses.replace(RULE, policy="remove-up-to-2", thresholds=(-2.5,)).keep(PROBLEM, MESSAGES) == [0, 1, 2]


@given(st.sets(st.integers(0, 4), max_size=4))
def test_a_pool_that_is_not_whole_is_kept_whole(slots: set[int]) -> None:
    decision = RULE.decide(PROBLEM, [MESSAGES[slot] for slot in slots])
    assert decision.kept == tuple(sorted(slots))
    assert decision.values == {}
    assert decision.reason == f"{len(slots)} messages, and rules are for 5: all kept"


def test_nothing_but_what_a_selector_may_see_is_read() -> None:
    class Guarded(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            assert key not in {"reference", "lens", "raw", "trajectory_value", "proposal_correct", "metadata"}
            return super().get(key, default)

        __getitem__ = get

    problem = Guarded(dataclasses.asdict(PROBLEM))
    messages = [Guarded(as_row(message) | dataclasses.asdict(message)) for message in MESSAGES]
    assert RULE.keep(problem, messages) == [0, 1, 2, 3]


def test_what_is_unknown_is_unknown() -> None:
    short = [{"proposed_answer": None, **dict.fromkeys(CONTENT_FIELDS)} for _ in range(5)]
    found = read_pool({"answer_type": "integer"}, short)
    assert [message.slot for message in found] == [0, 1, 2, 3, 4], "without slots the messages are in slot order"
    X = pool_features(found)
    for name in ("has_answer", "has_content", "has_question", "has_confidence_level", "has_confidence_value"):
        assert not X[name].any(), name
    missing = [{**message, "key_idea": missing} for message, missing in zip(short, MISSING, strict=True)]
    assert repr(read_pool({"answer_type": "integer"}, missing)) == repr(found)


MISSING = (None, pd.NA, float("nan"), "", None)


def changed(number: int, **changes: Any) -> list[dict[str, Any]]:
    rows = [as_row(message) for message in MESSAGES]
    rows[number] |= changes
    return rows


WITHOUT_IDEA = [{key: value for key, value in row.items() if key != "key_idea"} for row in changed(0)]
BAD = {
    "no answer type": ({}, MESSAGES, "'answer_type' of the problem must be a known one, got None"),
    "answer type": ({"answer_type": "integral"}, MESSAGES, "got 'integral'. Did you mean 'integer'?"),
    "problem": (
        "What is 3 plus 4?",
        MESSAGES,
        "The problem must be a record, a dictionary or a row of a frame, got str",
    ),
    "message": (PROBLEM, ["7"] * 5, "The message 0 must be a record, a dictionary or a row of a frame, got str"),
    "class": (PROBLEM, [Message] * 5, "The message 0 must be a record"),
    "missing": (PROBLEM, WITHOUT_IDEA, "The message 0 must have the fields .* got none of key_idea. Write None where"),
    "number": (
        PROBLEM,
        changed(2, proposed_answer=7),
        "'proposed_answer' of message 2 must be text or None, got int 7",
    ),
    "level": (PROBLEM, changed(1, confidence_level="sure"), "'confidence_level' of message 1 must be low.*got 'sure'"),
    "value": (
        PROBLEM,
        changed(1, confidence_value=70.0),
        "'confidence_value' of message 1 must be a fraction.*got 70.0",
    ),
    "truth": (PROBLEM, changed(1, confidence_value=True), "must be a fraction from 0 to 1 or None, got True"),
    "twice": (PROBLEM, [*MESSAGES[:4], MESSAGES[0]], r"each with a slot of its own, got the slots \[0, 1, 2, 3, 0\]"),
    "two pools": (PROBLEM, [*MESSAGES, *MESSAGES], "must be at most 5, got 10"),
    "slot": (PROBLEM, changed(4, slot=5), "'slot' of message 4 must be a whole number from 0 to 4, got 5"),
    "half a slot": (PROBLEM, changed(4, slot=1.5), "'slot' of message 4 must be a whole number"),
    "no slot": (PROBLEM, changed(4, slot=None), "'slot' of message 4 must be a whole number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_field_and_the_message(case: str) -> None:
    problem, messages, text = BAD[case]
    with pytest.raises(DhdError, match=text):
        RULE.keep(problem, messages)
