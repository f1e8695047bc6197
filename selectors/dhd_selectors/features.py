"""X: what an integrator could see of a message, plus its pool, as numbers.

Only the columns of `INPUT_COLUMNS` are ever read. No reference, verdict, effect or replay outcome is among
them, and a test alters every other column to show that no feature moves. Each feature is declared once, in
`FEATURES`, with the columns that it comes from.

The pool is the unit (`POOL_KEYS`): features of the pool scope compare a message with the other messages that
the same integrator sees in the same order. All features are finite float64; unknown is 0 with a `has_...`
flag beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError
from dhd_labels.records import CONTENT_FIELDS, AnswerType
from dhd_selectors import text
from dhd_selectors.base import POOL_KEYS, FloatArray, IntArray

BENCHMARKS = ("quickstart", "omni-math-2", "jeebench", "scibench", "lab-bench", "mascqa", "jsonl")
"""Benchmarks with an indicator of their own; rows of any other have zeros in all of them."""

INPUT_COLUMNS = (
    *POOL_KEYS,
    "slot",
    "benchmark",
    "answer_type",
    "role_name",
    "proposed_answer",
    *CONTENT_FIELDS,
    "confidence_level",
    "confidence_value",
)
"""The whitelist. `answer_type` is joined from `problems`; the lens is out, as integrators never see it."""

CONFIDENCE_RANK = {"low": 1.0, "medium": 2.0, "high": 3.0}


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of X: name, input columns it comes from, meaning, and whether it looks at the pool."""

    name: str
    sources: tuple[str, ...]
    doc: str
    pool: bool = False


_ANSWER = ("proposed_answer",)

FEATURES = (
    Feature("slot", ("slot",), "0-based place of the message in the pool"),
    *(
        Feature(f"answer_type_{t}", ("answer_type",), f"1 when the problem asks for a {t}")
        for t in get_args(AnswerType)
    ),
    *(Feature(f"benchmark_{b.replace('-', '_')}", ("benchmark",), f"1 for problems of {b}") for b in BENCHMARKS),
    Feature("role_words", ("role_name",), "words in the role's name"),
    *(Feature(f"{f}_words", (f,), f"words in the {f.replace('_', ' ')}") for f in CONTENT_FIELDS),
    Feature("content_words", CONTENT_FIELDS, "words in all content fields"),
    Feature("has_content", CONTENT_FIELDS, "1 when any content field has a word; 0 also where texts are withheld"),
    Feature("numbers", CONTENT_FIELDS, "numbers in the content"),
    Feature("units", CONTENT_FIELDS, "numbers in the content that carry a unit"),
    Feature("equations", CONTENT_FIELDS, "equals signs in the content"),
    Feature("hedges", CONTENT_FIELDS, "hedging words in the content (maybe, roughly, assume, ...)"),
    Feature("has_answer", _ANSWER, "1 when the message proposes an answer"),
    Feature("answer_chars", _ANSWER, "characters of the normalised answer"),
    Feature("answer_is_numeric", _ANSWER, "1 when the normalised answer is a plain number"),
    Feature(
        "answer_in_content",
        (*_ANSWER, *CONTENT_FIELDS),
        "1 when the content itself names the proposed answer",
    ),
    Feature("has_confidence_level", ("confidence_level",), "1 when the self-reported confidence reads as a level"),
    Feature("confidence_level", ("confidence_level",), "that level: low 1, medium 2, high 3; 0 when unclear"),
    Feature("has_confidence_value", ("confidence_value",), "1 when a confidence number is stated"),
    Feature("confidence_value", ("confidence_value",), "that number, as a fraction of 1; 0 when none is stated"),
    Feature("pool_size", (), "messages in the pool", pool=True),
    Feature("answer_agreement", _ANSWER, "share of the other messages with the same normalised answer", pool=True),
    Feature("answer_is_plurality", _ANSWER, "1 when no answer of the pool is proposed more often", pool=True),
    Feature("answer_is_minority", _ANSWER, "1 when another answer of the pool is proposed more often", pool=True),
    Feature("answer_is_unique", _ANSWER, "1 when no other message proposes this answer", pool=True),
    Feature("answer_seen_before", (*_ANSWER, "slot"), "1 when a lower slot proposes this answer", pool=True),
    Feature("pool_answers", _ANSWER, "distinct answers in the pool", pool=True),
    Feature("pool_top_share", _ANSWER, "share of the pool behind its most frequent answer", pool=True),
    Feature("similarity_mean", CONTENT_FIELDS, "mean Jaccard overlap of words with each other message", pool=True),
    Feature("similarity_max", CONTENT_FIELDS, "largest of these overlaps", pool=True),
    Feature("novelty", CONTENT_FIELDS, "share of the message's words that no other message uses", pool=True),
    Feature("content_words_over_pool", CONTENT_FIELDS, "content words minus the pool's mean", pool=True),
    Feature("confidence_over_pool", ("confidence_level",), "confidence level minus the pool's mean", pool=True),
)
FEATURE_NAMES = tuple(feature.name for feature in FEATURES)


def build_features(messages: pd.DataFrame) -> pd.DataFrame:
    """Return X, (n_messages, n_features) float64, with the rows and the index of `messages`.

    Args:
        messages: columns of the `messages` config plus `answer_type`; columns outside `INPUT_COLUMNS` are not
            read.

    Raises:
        DhdError: an input column is missing.
    """
    missing = [column for column in INPUT_COLUMNS if column not in messages.columns]
    if missing:
        raise DhdError(
            f"The columns of the messages must include {', '.join(missing)}. Rebuild the data set with this "
            "version, and join `answer_type` from the `problems` config."
        )
    visible = messages[list(INPUT_COLUMNS)].reset_index(drop=True)
    # One fixed order inside makes the floating-point sums, and so X, independent of the order of the rows.
    order = np.lexsort(tuple(pd.factorize(visible[c], sort=True)[0] for c in ("slot", *POOL_KEYS)))
    ordered = visible.iloc[order].reset_index(drop=True)
    columns = _all_columns(ordered)
    if set(columns) != set(FEATURE_NAMES):
        raise AssertionError(f"declared and computed features differ: {set(columns) ^ set(FEATURE_NAMES)}")
    sorted_matrix = np.column_stack([columns[name] for name in FEATURE_NAMES]).astype(np.float64)
    matrix = np.empty_like(sorted_matrix)
    matrix[order] = sorted_matrix
    return pd.DataFrame(matrix, index=messages.index, columns=pd.Index(FEATURE_NAMES))


def pool_codes(frame: pd.DataFrame) -> IntArray:
    """Return (n_rows,) the 0-based number of each row's pool, in order of first appearance."""
    groups = frame.groupby(list(POOL_KEYS), sort=False, dropna=False)
    return groups.ngroup().to_numpy().astype(np.int64)


def _all_columns(messages: pd.DataFrame) -> dict[str, FloatArray]:
    pools = pool_codes(messages)
    fields = {name: text.clean(messages[name]) for name in (*CONTENT_FIELDS, "role_name", "proposed_answer")}
    content = text.join([fields[name] for name in CONTENT_FIELDS])
    columns = {
        "slot": messages["slot"].to_numpy(dtype=np.float64),
        **_indicators(messages["answer_type"], get_args(AnswerType), "answer_type"),
        **_indicators(messages["benchmark"], BENCHMARKS, "benchmark"),
        **_confidence(messages),
        **_content(fields, content),
        **_answer(fields["proposed_answer"], content),
        **_pool_answers(fields["proposed_answer"], pools),
        **_similarity(content, pools),
        "pool_size": np.bincount(pools)[pools].astype(np.float64) if len(pools) else np.zeros(0),
    }
    columns["content_words_over_pool"] = _minus_pool_mean(columns["content_words"], pools)
    columns["confidence_over_pool"] = _minus_pool_mean(columns["confidence_level"], pools)
    return columns


def _indicators(values: pd.Series, known: tuple[str, ...], prefix: str) -> dict[str, FloatArray]:
    names = values.astype(object).to_numpy()
    return {f"{prefix}_{k.replace('-', '_')}": (names == k).astype(np.float64) for k in known}


def _confidence(messages: pd.DataFrame) -> dict[str, FloatArray]:
    level = messages["confidence_level"].astype(object).map(CONFIDENCE_RANK).to_numpy(dtype=np.float64)
    value = messages["confidence_value"].to_numpy(dtype=np.float64, na_value=np.nan)
    return {
        "has_confidence_level": np.isfinite(level).astype(np.float64),
        "confidence_level": np.nan_to_num(level, nan=0.0),
        "has_confidence_value": np.isfinite(value).astype(np.float64),
        "confidence_value": np.where(np.isfinite(value), value, 0.0),
    }


def _content(fields: dict[str, pd.Series], content: pd.Series) -> dict[str, FloatArray]:
    words = text.count_words(content)
    return {
        "role_words": text.count_words(fields["role_name"]),
        **{f"{name}_words": text.count_words(fields[name]) for name in CONTENT_FIELDS},
        "content_words": words,
        "has_content": (words > 0).astype(np.float64),
        "numbers": text.count(content, text.NUMBER),
        "units": text.count(content, text.NUMBER_WITH_UNIT),
        "equations": text.count(content, "="),
        "hedges": text.count(content, text.HEDGE),
    }


def _answer(answers: pd.Series, content: pd.Series) -> dict[str, FloatArray]:
    normal = text.normalise_answers(answers)
    named = [bool(a) and a in words for a, words in zip(normal, text.normalised_words(content), strict=True)]
    return {
        "has_answer": (normal != "").to_numpy().astype(np.float64),
        "answer_chars": normal.str.len().to_numpy().astype(np.float64),
        "answer_is_numeric": normal.str.fullmatch(text.PLAIN_NUMBER).to_numpy().astype(np.float64),
        "answer_in_content": np.asarray(named, dtype=np.float64),
    }


def _pool_answers(answers: pd.Series, pools: IntArray) -> dict[str, FloatArray]:
    """Rows must be in slot order within their pool."""
    frame = pd.DataFrame({"pool": pools, "answer": text.normalise_answers(answers)})
    has = (frame["answer"] != "").to_numpy()
    same = frame.groupby(["pool", "answer"])["answer"]
    count = np.where(has, same.transform("size").to_numpy(), 0)
    seen_before = has & (same.cumcount().to_numpy() > 0)
    by_pool = pd.DataFrame({"count": count, "first": has & ~seen_before}).groupby(pools)
    top = by_pool["count"].transform("max").to_numpy()
    size = by_pool["count"].transform("size").to_numpy()
    flags = {
        "answer_is_plurality": has & (count == top),
        "answer_is_minority": has & (count < top),
        "answer_is_unique": count == 1,
        "answer_seen_before": seen_before,
    }
    return {
        **{name: flag.astype(np.float64) for name, flag in flags.items()},
        "answer_agreement": np.maximum(count - 1, 0) / np.maximum(size - 1, 1),
        "pool_answers": by_pool["first"].transform("sum").to_numpy(dtype=np.float64),
        "pool_top_share": top / size,
    }


def _similarity(content: pd.Series, pools: IntArray) -> dict[str, FloatArray]:
    words = text.word_matrix(content)
    total, largest = np.zeros(len(content)), np.zeros(len(content))
    others = np.zeros(len(content))
    for left, right in _pairs_of_a_pool(pools):
        overlap = text.jaccard(words, left, right)
        for rows in (left, right):
            total[rows] += overlap
            largest[rows] = np.maximum(largest[rows], overlap)
            others[rows] += 1
    return {
        "similarity_mean": total / np.maximum(others, 1),
        "similarity_max": largest,
        "novelty": text.share_of_own_words(words, pools),
    }


def _pairs_of_a_pool(pools: IntArray) -> list[tuple[IntArray, IntArray]]:
    """Return row numbers (left, right) for each pair of places, over all pools that have both."""
    if not len(pools):
        return []
    place = pd.Series(pools).groupby(pools).cumcount().to_numpy()
    rows = np.full((pools.max() + 1, place.max() + 1), -1, dtype=np.int64)
    rows[pools, place] = np.arange(len(pools))
    pairs = []
    for a in range(rows.shape[1]):
        for b in range(a + 1, rows.shape[1]):
            both = (rows[:, a] >= 0) & (rows[:, b] >= 0)
            pairs.append((rows[both, a], rows[both, b]))
    return pairs


def _minus_pool_mean(values: FloatArray, pools: IntArray) -> FloatArray:
    mean: FloatArray = pd.Series(values).groupby(pools).transform("mean").to_numpy(dtype=np.float64)
    return values - mean
