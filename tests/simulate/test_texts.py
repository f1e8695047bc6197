"""What the words say is what the hidden traits are, and nothing else."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import message, problem

from dhd_labels.dataset.splits import split_of
from dhd_labels.grading.grader import grade_by_rules
from dhd_labels.labels import grade_proposal
from dhd_labels.simulate import SCENARIOS, texts
from dhd_labels.simulate.pools import Pools, draw_pools
from dhd_labels.simulate.texts import WORD_PAIRS, message_texts, questions
from dhd_selectors.features import build_features

WORDS = [word for pairs in WORD_PAIRS for pair in pairs for word in pair]


def frame(pools: Pools, seed: int = 0) -> pd.DataFrame:
    """The message rows of these pools, with texts drawn from a seed."""
    columns = message_texts(pools, np.random.default_rng(seed))
    n = len(pools)
    return pd.DataFrame({
        "pool_id": [f"p{i}" for i in range(n) for _ in range(5)], "integrator": "i", "order": "original",
        "slot": np.tile(np.arange(5), n), "benchmark": "b", "answer_type": "integer",
        "question": "How many?",
        **{name: column.to_pylist() for name, column in columns.items()},
    })  # fmt: skip


@pytest.fixture(scope="module")
def mixed() -> tuple[Pools, pd.DataFrame]:
    pools = draw_pools(SCENARIOS["mixed"], 300, np.random.default_rng(0))
    return pools, frame(pools)


def test_the_cues_can_be_counted_in_the_text(mixed: tuple[Pools, pd.DataFrame]) -> None:
    pools, rows = mixed
    features = build_features(rows)
    hedges, check, numbers, long = (pools.cues[:, :, cue].ravel() for cue in range(4))
    assert (features["hedges"] == hedges).all()
    assert (features["numbers"] == numbers).all()
    words = features["what_to_check_words"]
    assert words[check == 1].min() > words[check == 0].max()
    sentences = rows["reasoning_direction"].str.count(r"\.")
    assert (sentences == 1 + long).all()
    level = rows["confidence_level"].map({"low": 0, "medium": 1, "high": 2})
    assert (level == pools.confidence.ravel()).all()


def test_proposals_are_graded_as_the_truth_says(mixed: tuple[Pools, pd.DataFrame]) -> None:
    pools, rows = mixed
    seen = set()
    for row, verdict, reference in zip(
        rows["proposed_answer"][:200], pools.correct.ravel(), pools.reference.repeat(5), strict=False
    ):
        graded = grade_proposal(problem(reference=str(reference)), message(0, proposed_answer=row), grade_by_rules)
        assert (graded.status, graded.correct) == {
            1: ("graded", True), 0: ("graded", False), -1: ("no_answer", None)
        }[int(verdict)]  # fmt: skip
        seen.add(int(verdict))
    assert seen == {1, 0, -1}


def test_equal_answers_are_equal_texts_and_no_number_tells_the_reference(mixed: tuple[Pools, pd.DataFrame]) -> None:
    pools = draw_pools(SCENARIOS["mixed"], 20_000, np.random.default_rng(1))
    right, wrong = pools.answer[pools.correct == 1], pools.answer[pools.correct == 0]
    assert abs(right.mean() - wrong.mean()) < 4 * 2600 * np.sqrt(2 / min(len(right), len(wrong)) * 3)
    assert (pools.answer[pools.correct == 0] != pools.reference.repeat(5).reshape(-1, 5)[pools.correct == 0]).all()
    pool, rows = mixed
    boxed = rows["proposed_answer"].str.extract(r"(\d+)")[0].fillna("0").astype(int)
    assert (boxed == pool.answer.ravel()).all()
    agree = [len({a for a in row if a}) for row in pools.answer]
    assert {1, 2, 3} <= set(agree)


def test_both_words_of_a_pair_are_as_long_and_stand_nowhere_else() -> None:
    assert len(set(WORDS)) == len(WORDS)
    assert all(len(one) == len(other) for pairs in WORD_PAIRS for one, other in pairs)
    phrases = [
        text
        for name, value in vars(texts).items()
        if name.isupper() and name != "WORD_PAIRS" and isinstance(value, tuple)
        for text in strings(value)
    ]
    vocabulary = {word.lower() for text in phrases for word in re.findall(r"\w+", text)}
    assert len(vocabulary) > 200 and not vocabulary & set(WORDS)


def strings(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(itertools.chain(*map(strings, value)))


def test_no_feature_without_words_sees_the_wording() -> None:
    """Exchange the two word lists everywhere: no length, count, agreement or overlap moves, only the words."""
    pools = draw_pools(SCENARIOS["wording"], 200, np.random.default_rng(2))
    rows, swapped = frame(pools), frame(dataclasses.replace(pools, words=~pools.words))
    differ = rows["reasoning_direction"] != swapped["reasoning_direction"]
    assert differ.all()
    rest = [name for name in rows if name != "reasoning_direction"]
    pd.testing.assert_frame_equal(rows[rest], swapped[rest])
    pd.testing.assert_frame_equal(build_features(rows), build_features(swapped))
    assert (rows["reasoning_direction"].str.len() == swapped["reasoning_direction"].str.len()).all()


def test_the_words_follow_the_tone_in_the_wording_world_only() -> None:
    for name, share in (("wording", 0.75), ("reasoning", 0.5)):
        pools = draw_pools(SCENARIOS[name], 4000, np.random.default_rng(3))
        rows = frame(pools)
        for place, pairs in enumerate(WORD_PAIRS):
            helpful = rows["reasoning_direction"].str.contains(rf"\b(?:{'|'.join(pair[0] for pair in pairs)})\b")
            assert (helpful == pools.words[:, :, place].ravel()).all()
            assert (helpful == pools.tone.ravel()).mean() == pytest.approx(share, abs=0.015)


def test_questions_are_distinct_and_land_in_all_splits() -> None:
    made = questions(range(3000))
    assert len(set(made)) == 3000 and made == questions(range(3000))
    found = [split_of(question) for question in made]
    assert found.count("train") / 3000 == pytest.approx(0.8, abs=0.03)
    assert {"validation", "test"} <= set(found)
