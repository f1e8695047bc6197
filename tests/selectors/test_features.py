"""Features see only the whitelist, come from the columns they declare, and mean what their doc says."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_selectors import text
from dhd_selectors.base import POOL_KEYS
from dhd_selectors.features import (
    FEATURE_NAMES,
    FEATURE_VERSION,
    FEATURES,
    INPUT_COLUMNS,
    MESSAGE_COLUMNS,
    POOLED,
    Visible,
    build_features,
    pool_features,
)

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
        assert feature.cost == "free", "a feature that needs a call has to be asked for by name"
    sources = {feature.name: feature.sources for feature in FEATURES}
    assert all(sources[name] == of for name, of in POOLED.items())
    assert Visible._fields == MESSAGE_COLUMNS


def test_other_columns_are_another_version() -> None:
    """A saved selector says which version of X it reads: with another list of features, raise `FEATURE_VERSION`."""
    digest = hashlib.sha256("\n".join(FEATURE_NAMES).encode()).hexdigest()[:12]
    assert (FEATURE_VERSION, digest) == ("2", "56f091bf13d4")


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


def visible(messages: pd.DataFrame) -> list[Visible]:
    """The messages as a caller without a data set has them."""
    texts = messages[list(MESSAGE_COLUMNS)].astype(object).where(messages[list(MESSAGE_COLUMNS)].notna(), "")
    rows = texts.assign(
        slot=messages["slot"].astype(float), confidence_value=messages["confidence_value"].astype(float)
    )
    return [Visible(*row) for row in rows.itertuples(index=False)]


def test_one_pool_measures_the_same_as_a_data_set(messages: pd.DataFrame) -> None:
    X = build_features(messages)
    for start in range(0, len(messages), 5):
        rows = messages.iloc[start : start + 5].sample(frac=1.0, random_state=start)
        alone = pool_features(visible(rows))
        pd.testing.assert_frame_equal(alone, X.loc[rows.index].reset_index(drop=True), check_exact=True)
    assert pool_features([]).shape == (0, len(FEATURES))


def test_many_pools_at_once_measure_the_same(messages: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    X = build_features(messages)
    monkeypatch.setattr("dhd_selectors.features._POOLS_AT_ONCE", 5)
    pd.testing.assert_frame_equal(build_features(messages), X, check_exact=True)


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


def test_what_a_message_takes_from_the_question() -> None:
    X = build_features(pool(["40"], ["Take 40 birds from 1,200.0"], "How many birds of 1200 or 40 or 7?")).iloc[0]
    assert X["question_words"] == 9
    assert X["question_overlap"] == pytest.approx(2 / 7)  # 40 and birds, of these and take, from, 1, 200, 0
    assert X["question_numbers"] == pytest.approx(2 / 3)
    assert (X["has_question"], X["answer_in_question"]) == (1, 1)
    withheld = build_features(pool(["40"], ["Take 40 birds"])).iloc[0]
    names = ("has_question", "question_words", "question_overlap", "question_covered", "question_numbers")
    assert not withheld[[*names, "answer_in_question"]].any()


def test_parse_health_and_what_is_checked() -> None:
    rows = pool(["1"] * 3, ["One. Two!\nThree", "v1.5 is one sentence.", ""])
    rows["what_to_check"] = ["the total", "compare both sums with the first one", "x = 3"]
    X = build_features(rows)
    assert X["sentences"].tolist() == [4, 2, 1]
    assert X["fields_missing"].tolist() == [2, 2, 3]
    assert X["check_is_concrete"].tolist() == [0, 1, 1]
    assert X["check_acts"].tolist() == [0, 1, 0]
    assert X["pool_fields_missing"].tolist() == pytest.approx([7 / 3] * 3)
    assert X["fields_missing_over_pool"].tolist() == pytest.approx([-1 / 3, -1 / 3, 2 / 3])


def test_kinds_of_words() -> None:
    idea = "Clearly it is not so, because we must \\frac it? I think it could be."
    X = build_features(pool(["1"], [idea])).iloc[0]
    counted = {name: X[name] for name in ("certainty", "negations", "reasons", "commands", "questions", "hedges")}
    assert counted == {"certainty": 2, "negations": 1, "reasons": 2, "commands": 1, "questions": 1, "hedges": 2}


def test_confidence_behind_an_answer() -> None:
    X = build_features(pool(["1", "1", "2", "", "3"], [""] * 5))  # high, unclear, low, medium, high
    assert X["answer_confidence"].tolist() == pytest.approx([5 / 9, 5 / 9, 1 / 9, 0, 3 / 9])


@pytest.mark.parametrize(
    ("answer", "content", "named"),
    [
        ("B", "so option B holds", 1),
        ("(B)", "a bad one", 0),
        ("A", "this is a guess", 0),
        ("1200", "there are 1,200.0 of them", 1),
        ("120", "there are 1,200 of them", 0),
        ("x", "", 0),
        ("", "anything", 0),
    ],
)
def test_an_answer_that_the_content_names(answer: str, content: str, named: int) -> None:
    assert build_features(pool([answer], [content]))["answer_in_content"].tolist() == [named]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(), min_size=5, max_size=5), st.text(), st.text())
def test_any_text_gives_finite_features(ideas: list[str], answer: str, question: str) -> None:
    rows = pool([answer] * 5, ideas, question)
    X = build_features(rows)
    assert np.isfinite(X.to_numpy()).all()
    pd.testing.assert_frame_equal(pool_features(visible(rows)), X, check_exact=True)


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
