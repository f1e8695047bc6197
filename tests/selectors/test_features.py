"""Features see only the whitelist, come from the columns they declare, and mean what their doc says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_selectors import text
from dhd_selectors.base import POOL_KEYS
from dhd_selectors.features import FEATURE_NAMES, FEATURES, INPUT_COLUMNS, build_features

FORBIDDEN = {"reference", "proposal_correct", "proposal_status", "single_effect", "in_pool_effect"} | {
    "trajectory_value",
    "ci_low",
    "ci_high",
    "cell",
    "stable_cell",
    "stability",
    "n_blocks",
}


def test_declarations_are_unique_and_documented() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURES)
    assert all(feature.doc for feature in FEATURES)
    assert not FORBIDDEN & set(INPUT_COLUMNS)
    for feature in FEATURES:
        assert set(feature.sources) <= set(INPUT_COLUMNS), feature.name


def test_shape_types_and_no_nan(messages: pd.DataFrame) -> None:
    messages.index = pd.Index(range(100, 100 + len(messages)))
    X = build_features(messages)
    assert X.shape == (60, len(FEATURES))
    assert X.index.equals(messages.index)
    assert (X.dtypes == np.float64).all()
    assert np.isfinite(X.to_numpy()).all()


def test_no_other_column_moves_any_feature(messages: pd.DataFrame) -> None:
    before = build_features(messages)
    altered = messages.copy()
    for column in altered.columns.difference(list(INPUT_COLUMNS)):
        altered[column] = altered[column].astype(object).to_numpy()[::-1]
        altered.loc[altered.index[::2], column] = "altered"
    pd.testing.assert_frame_equal(build_features(altered), before, check_exact=True)
    only_visible = messages[list(INPUT_COLUMNS)]
    pd.testing.assert_frame_equal(build_features(only_visible), before, check_exact=True)


@pytest.mark.parametrize("column", [c for c in INPUT_COLUMNS if c not in POOL_KEYS])
def test_a_column_moves_only_features_that_declare_it(messages: pd.DataFrame, column: str) -> None:
    before = build_features(messages)
    altered = messages.copy()
    if column == "slot":
        altered[column] = 4 - altered[column]
    else:
        altered[column] = altered[column].to_numpy()[np.random.default_rng(1).permutation(len(altered))]
    after = build_features(altered)
    moved = {n for n in FEATURE_NAMES if not np.allclose(before[n], after[n], rtol=0, atol=1e-12)}
    assert moved <= {feature.name for feature in FEATURES if column in feature.sources}
    assert moved, "the alteration shows nothing"


def test_features_of_a_message_depend_on_its_own_pool_alone(messages: pd.DataFrame) -> None:
    before = build_features(messages)
    pd.testing.assert_frame_equal(build_features(messages.iloc[10:15]), before.iloc[10:15], check_exact=True)


def test_only_pool_features_look_at_other_messages(messages: pd.DataFrame) -> None:
    alone = pd.concat([build_features(messages.iloc[[n]]) for n in range(len(messages))])
    whole = build_features(messages)
    for feature in FEATURES:
        assert feature.pool or whole[feature.name].equals(alone[feature.name]), feature.name


def test_the_same_pool_under_two_integrators_is_two_pools(messages: pd.DataFrame) -> None:
    twice = pd.concat([messages, messages.assign(integrator="j")], ignore_index=True)
    X = build_features(twice)
    one = build_features(messages)
    pd.testing.assert_frame_equal(X.iloc[: len(one)], one, check_exact=True)
    assert (X["pool_size"] == 5).all()


def test_row_order_does_not_matter(messages: pd.DataFrame) -> None:
    shuffled = messages.sample(frac=1.0, random_state=3)
    pd.testing.assert_frame_equal(build_features(shuffled).sort_index(), build_features(messages), check_exact=True)


def test_withheld_texts_and_empty_frames(messages: pd.DataFrame) -> None:
    withheld = messages.copy()
    for column in INPUT_COLUMNS:
        if column not in (*POOL_KEYS, "slot"):
            withheld[column] = None
    X = build_features(withheld)
    assert np.isfinite(X.to_numpy()).all()
    assert (X["has_content"] == 0).all()
    assert (X["has_answer"] == 0).all()
    assert build_features(messages.iloc[:0]).shape == (0, len(FEATURES))


def test_a_missing_column_is_named(messages: pd.DataFrame) -> None:
    with pytest.raises(DhdError, match="must include answer_type"):
        build_features(messages.drop(columns="answer_type"))


def pool(answers: list[str], ideas: list[str], question: str = "") -> pd.DataFrame:
    n = len(answers)
    same = {"pool_id": "p", "integrator": "i", "order": "original", "benchmark": "jsonl"}
    same |= {"answer_type": "integer", "question": question, "confidence_text": ""}
    blank = {"role_name": "r", "reasoning_direction": "", "critical_assumption": None, "what_to_check": ""}
    levels = ["high", None, "low", "medium", "high"]
    rest = {"confidence_level": levels[:n], "confidence_value": [None] * n}
    texts = {"slot": range(n), "proposed_answer": answers, "key_idea": ideas}
    return pd.DataFrame({**texts, **same, **blank, **rest})


def test_agreement_minority_and_order() -> None:
    X = build_features(pool(["12", "\\boxed{12.0}", "7", "", "$12$"], ["a"] * 5))
    assert X["answer_agreement"].tolist() == [0.5, 0.5, 0.0, 0.0, 0.5]
    assert X["answer_is_plurality"].tolist() == [1, 1, 0, 0, 1]
    assert X["answer_is_minority"].tolist() == [0, 0, 1, 0, 0]
    assert X["answer_is_unique"].tolist() == [0, 0, 1, 0, 0]
    assert X["answer_seen_before"].tolist() == [0, 1, 0, 0, 1]
    assert set(X["pool_answers"]) == {2.0}
    assert set(X["pool_top_share"]) == {0.6}


def test_similarity_and_novelty() -> None:
    X = build_features(pool(["1"] * 3, ["add the sums", "Add the carry", "zebra"]))
    assert X["similarity_max"].tolist() == [0.5, 0.5, 0.0]
    assert X["similarity_mean"].tolist() == [0.25, 0.25, 0.0]
    assert X["novelty"].tolist() == pytest.approx([1 / 3, 1 / 3, 1.0])
    assert X["content_words_over_pool"].tolist() == pytest.approx([2 / 3, 2 / 3, -4 / 3])


def test_counts_of_a_message() -> None:
    X = build_features(pool(["120"], ["Maybe 2 hours = 120 minutes, roughly -3.5 of 1,200 kg"])).iloc[0]
    assert X["numbers"] == 4
    assert X["units"] == 3
    assert X["hedges"] == 2
    assert X["equations"] == 1
    assert X["answer_in_content"] == 1
    assert (X["has_confidence_level"], X["confidence_level"]) == (1, 3)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("\\boxed{1,200.0}", "1200"),
        ("1200", "1200"),
        ("1e3", "1000"),
        ("0.50", "0.5"),
        ("-0", "0"),
        ("+7", "7"),
        ("12,5", "12,5"),
        ("(B)", "b"),
        ("B.", "b"),
        ("c", "c"),
        ("$\\frac{1}{2}$", "frac12"),
        ("5 m", "5m"),
        ("  ", ""),
    ],
)
def test_normalised_answers(written: str, normal: str) -> None:
    assert text.normalise_answer(written) == normal


@settings(deadline=None)
@given(st.text())
def test_any_text_has_a_normal_form(written: str) -> None:
    normal = text.normalise_answer(written)
    assert normal == normal.strip()
    assert text.normalise_answer(f" {written}\n") == normal
