from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import message, outcome, pool, problem

from dhd_labels.records import Arm, Pool, Problem, as_json, content_id


def test_content_id_ignores_key_order_and_sees_every_value() -> None:
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    assert content_id({"a": 1}) != content_id({"a": "1"})
    assert len(content_id("x")) == 64


def test_pool_round_trips_and_refuses_an_edit() -> None:
    data = json.loads(json.dumps(as_json(pool())))
    assert Pool.from_json(data) == pool()
    data["messages"][2]["proposed_answer"] = "8"
    with pytest.raises(ValueError, match="do not hash to its id"):
        Pool.from_json(data)


def test_problem_round_trips() -> None:
    original = problem(choices=("a", "b"), metadata={"band": "x"})
    assert Problem.from_json(json.loads(json.dumps(as_json(original)))) == original


def test_visible_problem_has_no_reference() -> None:
    names = {field.name for field in dataclasses.fields(problem().visible())}
    assert names == {"problem_id", "question", "choices", "answer_type"}


def test_graded_and_correct_go_together() -> None:
    with pytest.raises(ValueError, match="'correct' of full must be None exactly when not graded"):
        outcome(Arm.full(), 0, 0, True, "no_answer")
    with pytest.raises(ValueError, match="must be None exactly when not graded"):
        outcome(Arm.full(), 0, 0, None)


@given(st.integers(2, 5), st.data())
def test_arms_keep_what_their_name_says(k: int, data: st.DataObject) -> None:
    slot = data.draw(st.integers(0, k - 1))
    arm = Arm.without(slot, k)
    assert arm.name == f"without-{slot}-of-{k}"
    assert sorted((*arm.kept, slot)) == list(range(k)) == list(Arm.prefix(k).kept)
    assert arm.removed == slot


def test_equal_sets_under_different_arms_stay_apart() -> None:
    assert Arm.only(0).kept == Arm.prefix(1).kept and Arm.only(0) != Arm.prefix(1)
    assert Arm.without(4).kept == Arm.prefix(4).kept and Arm.without(4) != Arm.prefix(4)


def test_renderable_needs_content_or_an_answer() -> None:
    empty = {"proposed_answer": "", "reasoning_direction": " ", "confidence": "high"}
    assert not message(0, **empty).renderable
    assert message(0, **{**empty, "proposed_answer": "7"}).renderable
