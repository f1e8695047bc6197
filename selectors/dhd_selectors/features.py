"""X: what an integrator could see of a message, plus its pool, as numbers.

Only the columns of `INPUT_COLUMNS` are ever read. No reference, verdict, effect or replay outcome is among
them, and a test alters every other column to show that no feature moves. The lens is out too: no integrator is
shown it. Each feature is declared once, in `FEATURES`, with the columns that it comes from, whether it looks at the
pool, and what it costs where the selector is used.

The pool is the unit (`POOL_KEYS`): features of the pool scope compare a message with the other messages that
the same integrator sees in the same order. All features are finite float64; unknown is 0 with a `has_...`
flag beside it. A pool is measured on its own, in plain Python, so that one pool (`pool_features`) and a million
messages (`build_features`) get the same numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError
from dhd_labels.records import CONTENT_FIELDS, AnswerType
from dhd_selectors import text
from dhd_selectors.base import POOL_KEYS, IntArray

FEATURE_VERSION = "2"
"""Changes whenever a feature is added, removed or means something else; a saved selector fits one version only."""

BENCHMARKS = ("quickstart", "omni-math-2", "jeebench", "scibench", "lab-bench", "mascqa", "jsonl")
"""Benchmarks with an indicator of their own; rows of any other have zeros in all of them."""

OF_PROBLEM = ("answer_type", "question")
"""Columns to join from the config `problems`."""
MESSAGE_COLUMNS = (
    "slot",
    "benchmark",
    "answer_type",
    "question",
    "role_name",
    "proposed_answer",
    *CONTENT_FIELDS,
    "confidence_text",
    "confidence_level",
    "confidence_value",
)
INPUT_COLUMNS = (*POOL_KEYS, *MESSAGE_COLUMNS)
"""The whitelist."""

CONFIDENCE_RANK = {"low": 1.0, "medium": 2.0, "high": 3.0}
CONCRETE_WORDS = 5
"""Fewest words with which a message says what to check, unless it cites a number or an equation."""

Cost = Literal["free", "one integrator call"]


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of X.

    Attributes:
        name: its name.
        sources: the input columns that it comes from.
        doc: what it means.
        pool: whether it looks at the other messages of the pool (the scope: pool or message).
        cost: what a decision costs that needs it. All are free today: none needs the integrator to be asked.
    """

    name: str
    sources: tuple[str, ...]
    doc: str
    pool: bool = False
    cost: Cost = "free"


_ANSWER = ("proposed_answer",)
_CHECK = ("what_to_check",)
_QUESTION = ("question", *CONTENT_FIELDS)
_LEVEL = ("confidence_level",)

POOLED: Mapping[str, tuple[str, ...]] = {
    "content_words": CONTENT_FIELDS,
    "sentences": CONTENT_FIELDS,
    "what_to_check_words": _CHECK,
    "numbers": CONTENT_FIELDS,
    "hedges": CONTENT_FIELDS,
    "fields_missing": CONTENT_FIELDS,
    "question_overlap": _QUESTION,
    "confidence_level": _LEVEL,
}
"""Features that are also compared with their mean in the pool, and their sources."""

FEATURES = (
    Feature("slot", ("slot",), "0-based place of the message in the pool"),
    *(
        Feature(f"answer_type_{t}", ("answer_type",), f"1 when the problem asks for a {t}")
        for t in get_args(AnswerType)
    ),
    *(Feature(f"benchmark_{b.replace('-', '_')}", ("benchmark",), f"1 for problems of {b}") for b in BENCHMARKS),
    Feature("has_question", ("question",), "1 when the question is known; 0 where it is withheld"),
    Feature("question_words", ("question",), "words in the question"),
    Feature("role_words", ("role_name",), "words in the role's name"),
    *(Feature(f"{f}_words", (f,), f"words in the {f.replace('_', ' ')}") for f in CONTENT_FIELDS),
    Feature("content_words", CONTENT_FIELDS, "words in all content fields"),
    Feature("has_content", CONTENT_FIELDS, "1 when any content field has a word; 0 also where texts are withheld"),
    Feature("fields_missing", CONTENT_FIELDS, "content fields without a word: what the parser did not find"),
    Feature("sentences", CONTENT_FIELDS, "sentences and lines in the content"),
    Feature("letters_per_word", CONTENT_FIELDS, "mean length of the content's words; 0 without any"),
    Feature("distinct_words", CONTENT_FIELDS, "share of the content's words that are different ones"),
    Feature("numbers", CONTENT_FIELDS, "numbers in the content"),
    Feature("units", CONTENT_FIELDS, "numbers in the content that carry a unit"),
    Feature("equations", CONTENT_FIELDS, "equals signs in the content"),
    Feature("commands", CONTENT_FIELDS, "LaTeX commands in the content"),
    Feature("hedges", CONTENT_FIELDS, "hedging words in the content (maybe, roughly, assume, ...)"),
    Feature("certainty", CONTENT_FIELDS, "words of certainty in the content (clearly, must, ...)"),
    Feature("reasons", CONTENT_FIELDS, "words that give a reason in the content (because, hence, ...)"),
    Feature("negations", CONTENT_FIELDS, "negations in the content"),
    Feature("questions", CONTENT_FIELDS, "question marks in the content"),
    Feature("check_is_concrete", _CHECK, f"1 when it says what to check in {CONCRETE_WORDS} words or with a number"),
    Feature("check_acts", _CHECK, "words for an act of checking in what to check (compare, recompute, ...)"),
    Feature("question_overlap", _QUESTION, "share of the content's different words that the question has"),
    Feature("question_covered", _QUESTION, "share of the question's different words that the content has"),
    Feature("question_numbers", _QUESTION, "share of the question's different numbers that the content has"),
    Feature("has_answer", _ANSWER, "1 when the message proposes an answer"),
    Feature("answer_chars", _ANSWER, "characters of the normalised answer"),
    Feature("answer_is_numeric", _ANSWER, "1 when the normalised answer is a plain number"),
    Feature(
        "answer_in_content",
        (*_ANSWER, *CONTENT_FIELDS),
        "1 when the content itself names the proposed answer",
    ),
    Feature("answer_in_question", (*_ANSWER, "question"), "1 when the question names the proposed answer"),
    Feature("confidence_words", ("confidence_text",), "words in the stated confidence"),
    Feature("has_confidence_level", _LEVEL, "1 when the self-reported confidence reads as a level"),
    Feature("confidence_level", _LEVEL, "that level: low 1, medium 2, high 3; 0 when unclear"),
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
    Feature(
        "answer_confidence",
        (*_ANSWER, *_LEVEL),
        "sum of the levels behind this answer over that behind all answers; unclear counts as medium",
        pool=True,
    ),
    Feature("similarity_mean", CONTENT_FIELDS, "mean Jaccard overlap of words with each other message", pool=True),
    Feature("similarity_max", CONTENT_FIELDS, "largest of these overlaps", pool=True),
    Feature("novelty", CONTENT_FIELDS, "share of the message's words that no other message uses", pool=True),
    *(Feature(f"pool_{n}", s, f"the pool's mean of {n}", pool=True) for n, s in POOLED.items()),
    *(Feature(f"{n}_over_pool", s, f"{n} minus the pool's mean", pool=True) for n, s in POOLED.items()),
)
FEATURE_NAMES = tuple(feature.name for feature in FEATURES)

_POOLS_AT_ONCE = 4096


class Visible(NamedTuple):
    """What is read of one message: `MESSAGE_COLUMNS` with texts "" and numbers NaN where there is none."""

    slot: float
    benchmark: str
    answer_type: str
    question: str
    role_name: str
    proposed_answer: str
    reasoning_direction: str
    key_idea: str
    critical_assumption: str
    what_to_check: str
    confidence_text: str
    confidence_level: str
    confidence_value: float


def build_features(messages: pd.DataFrame) -> pd.DataFrame:
    """Return X, (n_messages, n_features) float64, with the rows and the index of `messages`.

    Args:
        messages: columns of the `messages` config plus `answer_type` and `question` of the `problems` config; columns
            outside `INPUT_COLUMNS` are not read.

    Raises:
        DhdError: an input column is missing.
    """
    missing = [column for column in INPUT_COLUMNS if column not in messages.columns]
    if missing:
        raise DhdError(
            f"The columns of the messages must include {', '.join(missing)}. Rebuild the data set with this "
            "version, and join `answer_type` and `question` from the `problems` config."
        )
    matrix = np.empty((len(messages), len(FEATURES)))
    # By pool and slot: the sums of floating-point numbers, and so X, do not depend on the order of the rows.
    pools = pool_codes(messages)
    slot = messages["slot"].to_numpy(dtype=np.float64, na_value=-1.0)
    order = np.lexsort((slot, pools))
    bounds = np.append(np.flatnonzero(np.diff(pools[order], prepend=-1)), len(order))
    columns = {name: messages[name] for name in MESSAGE_COLUMNS}
    for first in range(0, len(bounds) - 1, _POOLS_AT_ONCE):
        ends = bounds[first : first + _POOLS_AT_ONCE + 1]
        rows = order[ends[0] : ends[-1]]
        seen = list(_visible(columns, rows))
        measured = (_measure_pool(seen[a:b]) for a, b in zip(ends[:-1] - ends[0], ends[1:] - ends[0], strict=True))
        matrix[rows] = [values for pool in measured for values in pool]
    return pd.DataFrame(matrix, index=messages.index, columns=pd.Index(FEATURE_NAMES))


def pool_features(messages: Sequence[Visible]) -> pd.DataFrame:
    """Return X of one pool, (n_messages, n_features), in the order of `messages`.

    The fast way to decide for a single pool; equal to `build_features` of the same messages.
    """
    order = sorted(range(len(messages)), key=lambda row: messages[row].slot)
    matrix = np.empty((len(messages), len(FEATURES)))
    if order:
        matrix[order] = _measure_pool([messages[row] for row in order])
    return pd.DataFrame(matrix, columns=pd.Index(FEATURE_NAMES))


def pool_codes(frame: pd.DataFrame) -> IntArray:
    """Return (n_rows,) the 0-based number of each row's pool, in order of first appearance."""
    groups = frame.groupby(list(POOL_KEYS), sort=False, dropna=False)
    return groups.ngroup().to_numpy().astype(np.int64)


def _visible(columns: Mapping[str, pd.Series], rows: IntArray) -> Iterator[Visible]:
    parts: list[list[Any]] = []
    for name, column in columns.items():
        part = column.iloc[rows]
        if name in ("slot", "confidence_value"):
            parts.append(part.to_numpy(dtype=np.float64, na_value=np.nan).tolist())
        else:
            parts.append([value if isinstance(value, str) else "" for value in part.to_numpy(dtype=object)])
    return map(Visible._make, zip(*parts, strict=True))


class _Words(NamedTuple):
    """The words of a message's content and its normalised answer, for the comparison with the other messages."""

    distinct: frozenset[str]
    answer: str


def _measure_pool(messages: Sequence[Visible]) -> list[list[float]]:
    """Return the features of a pool's messages, which are in the order of their slots."""
    values, found = zip(*map(_measure, messages), strict=True)
    for add in (_answers_in_pool(values, found), _overlaps([words.distinct for words in found]), _over_pool(values)):
        for own, more in zip(values, add, strict=True):
            own.update(more)
    return [[own[name] for name in FEATURE_NAMES] for own in values]


def _measure(message: Visible) -> tuple[dict[str, float], _Words]:
    """Return the message-scope features of a message, and what its pool is compared by."""
    fields = (message.reasoning_direction, message.key_idea, message.critical_assumption, message.what_to_check)
    split = [text.words(field) for field in fields]
    content = "\n".join(fields)
    found = [word for part in split for word in part]
    distinct = frozenset(found)
    numbers = text.numbers(content)
    answer = text.normalise_answer(message.proposed_answer)
    values: dict[str, float] = {
        **_of_problem(message.answer_type, message.benchmark),
        "slot": message.slot,
        "role_words": len(text.words(message.role_name)),
        **{f"{name}_words": len(part) for name, part in zip(CONTENT_FIELDS, split, strict=True)},
        **_of_content(content, found, distinct, numbers),
        "fields_missing": sum(not part for part in split),
        **_of_check(message.what_to_check, split[-1]),
        **_of_question(message.question, distinct, numbers, answer),
        "has_answer": answer != "",
        "answer_chars": len(answer),
        "answer_is_numeric": text.is_number(answer),
        "answer_in_content": text.names_answer(answer, content, distinct, numbers),
        **_of_confidence(message),
    }
    return values, _Words(distinct, answer)


@lru_cache(maxsize=256)
def _of_problem(answer_type: str, benchmark: str) -> Mapping[str, float]:
    return {
        **{f"answer_type_{kind}": kind == answer_type for kind in get_args(AnswerType)},
        **{f"benchmark_{name.replace('-', '_')}": name == benchmark for name in BENCHMARKS},
    }


def _of_content(
    content: str, found: Sequence[str], distinct: frozenset[str], numbers: Sequence[str]
) -> dict[str, float]:
    n = len(found)
    return {
        "content_words": n,
        "has_content": n > 0,
        "sentences": text.count_sentences(content),
        "letters_per_word": sum(map(len, found)) / n if n else 0.0,
        "distinct_words": len(distinct) / n if n else 0.0,
        "numbers": len(numbers),
        "units": text.count_units(content) if numbers else 0,
        "equations": content.count("="),
        "commands": text.count_commands(content),
        "hedges": text.count_hedges(content, found),
        "certainty": text.count_in(found, text.CERTAINTY),
        "reasons": text.count_in(found, text.REASONS),
        "negations": text.count_in(found, text.NEGATIONS),
        "questions": content.count("?"),
    }


def _of_check(check: str, found: Sequence[str]) -> dict[str, float]:
    precise = "=" in check or bool(text.numbers(check))
    return {
        "check_is_concrete": len(found) >= CONCRETE_WORDS or precise,
        "check_acts": text.count_in(found, text.CHECKS),
    }


def _of_question(question: str, distinct: frozenset[str], numbers: Sequence[str], answer: str) -> dict[str, float]:
    n_words, asked, given, stated = _read_question(question)
    common = len(distinct & asked)
    cited = {text.normalise_answer(number) for number in numbers} if given else set()
    return {
        "has_question": n_words > 0,
        "question_words": n_words,
        "question_overlap": common / len(distinct) if distinct else 0.0,
        "question_covered": common / len(asked) if asked else 0.0,
        "question_numbers": len(given & cited) / len(given) if given else 0.0,
        "answer_in_question": text.names_answer(answer, question, asked, stated),
    }


@lru_cache(maxsize=64)  # the messages of a pool follow each other
def _read_question(question: str) -> tuple[int, frozenset[str], frozenset[str], tuple[str, ...]]:
    """Return the number of words, the different words, the different normalised numbers and the numbers."""
    found, numbers = text.words(question), tuple(text.numbers(question))
    return len(found), frozenset(found), frozenset(map(text.normalise_answer, numbers)), numbers


def _of_confidence(message: Visible) -> dict[str, float]:
    level = CONFIDENCE_RANK.get(message.confidence_level)
    value = message.confidence_value
    known = math.isfinite(value)
    return {
        "confidence_words": len(text.words(message.confidence_text)),
        "has_confidence_level": level is not None,
        "confidence_level": level or 0.0,
        "has_confidence_value": known,
        "confidence_value": value if known else 0.0,
    }


def _answers_in_pool(values: Sequence[Mapping[str, float]], found: Sequence[_Words]) -> Iterator[dict[str, float]]:
    """Yield the features of agreement of each message; a message without an answer agrees with none."""
    n = len(found)
    proposed = Counter(words.answer for words in found if words.answer)
    top = max(proposed.values(), default=0)
    behind: Counter[str] = Counter()
    for own, words in zip(values, found, strict=True):
        behind[words.answer] += own["confidence_level"] or CONFIDENCE_RANK["medium"]  # type: ignore[assignment]
    stated = sum(behind[answer] for answer in proposed)
    seen: set[str] = set()
    for words in found:
        answer = words.answer
        count = proposed[answer] if answer else 0
        yield {
            "pool_size": n,
            "answer_agreement": max(count - 1, 0) / max(n - 1, 1),
            "answer_is_plurality": 0 < count == top,
            "answer_is_minority": 0 < count < top,
            "answer_is_unique": count == 1,
            "answer_seen_before": answer in seen,
            "pool_answers": len(proposed),
            "pool_top_share": top / n,
            "answer_confidence": behind[answer] / stated if answer else 0.0,
        }
        if answer:
            seen.add(answer)


def _overlaps(found: Sequence[frozenset[str]]) -> Iterator[dict[str, float]]:
    """Yield the features of overlap of each message, from the different words of all of them."""
    seen: set[str] = set()
    common_words: set[str] = set()
    for own in found:
        common_words |= own & seen
        seen |= own
    overlaps: list[list[float]] = [[] for _ in found]
    for a, own in enumerate(found):
        for b in range(a + 1, len(found)):
            common = len(own & found[b])
            overlap = common / (len(own) + len(found[b]) - common) if common else 0.0
            overlaps[a].append(overlap)
            overlaps[b].append(overlap)
    for own, mine in zip(found, overlaps, strict=True):
        yield {
            "similarity_mean": sum(mine) / max(len(mine), 1),
            "similarity_max": max(mine, default=0.0),
            "novelty": len(own - common_words) / len(own) if own else 0.0,
        }


def _over_pool(values: Sequence[Mapping[str, float]]) -> Iterator[dict[str, float]]:
    """Yield the pool's mean of each feature of `POOLED`, and how far each message is above it."""
    mean = {name: sum(own[name] for own in values) / len(values) for name in POOLED}
    for own in values:
        yield {
            **{f"pool_{name}": mean[name] for name in POOLED},
            **{f"{name}_over_pool": own[name] - mean[name] for name in POOLED},
        }
