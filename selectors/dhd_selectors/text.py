"""Cheap, deterministic measurements of message texts: counts, normalised answers and word overlap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from dhd_selectors.base import FloatArray, IntArray

WORD = r"\w+"
NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_UNITS = (
    r"%|°\s?[CF]?|[numkcM]?m(?:ol|in)?|[mk]?g|[nm]?s|h|d|[mk]?L|[kM]?J|[kM]?eV|[kM]?W|[kM]?Pa|[kMG]?Hz|[km]?V|m?A|N|K|atm|bar"
    r"|seconds?|minutes?|hours?|days?|weeks?|years?|met(?:er|re)s?|(?:centi|kilo)met(?:er|re)s?|lit(?:er|re)s?"
    r"|(?:kilo|milli)?grams?|moles?|degrees?|dollars?|cents?|euros?|percent"
)
NUMBER_WITH_UNIT = rf"{NUMBER}\s?(?:{_UNITS})(?!\w)"
HEDGE = (
    r"(?i)\b(?:maybe|perhaps|might|could|possibly|probably|presumably|likely|seems?|appears?|roughly|approximately"
    r"|approx|around|unsure|uncertain|unclear|not sure|assum(?:e|es|ed|ing)|guess(?:es|ed|ing)?|i think)\b"
)
PLAIN_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"

_BOX = re.compile(r"\\boxed\s*\{(.*)\}", re.DOTALL)
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|left|right|displaystyle)\b|[\\${}\s]|,(?=\d{3}(?!\d))")
_CHOICE = re.compile(r"\(?([a-z])[).:]?")


def clean(values: pd.Series) -> pd.Series:
    """Return a text column with null as the empty string."""
    return values.astype(object).where(values.notna(), "").astype(str)


def join(parts: Sequence[pd.Series]) -> pd.Series:
    """Return the parts of each row joined by line breaks."""
    first, *rest = parts
    joined = first
    for part in rest:
        joined = joined + "\n" + part
    return joined


def count(values: pd.Series, pattern: str) -> FloatArray:
    """Return how often a pattern occurs in each text, (n_rows,)."""
    return values.str.count(pattern).to_numpy().astype(np.float64)


def count_words(values: pd.Series) -> FloatArray:
    """Return the words in each text, (n_rows,)."""
    return count(values, WORD)


@lru_cache(maxsize=1 << 16)  # words and answers repeat a lot across messages
def normalise_answer(answer: str) -> str:
    r"""Return an answer in a form in which equal answers usually compare equal; "" when there is none.

    Cheap on purpose: it drops boxes, LaTeX wrappers, spaces, thousands separators and case, and writes
    numbers one way (`\boxed{1,200.0}` -> `1200`, `(B)` -> `b`). It is no grader: it knows no units and no
    algebra.
    """
    box = _BOX.search(answer)
    bare = _WRAPPER.sub("", box.group(1) if box else answer).lower().rstrip(".")
    if (choice := _CHOICE.fullmatch(bare)) is not None:
        return choice.group(1)
    if re.fullmatch(PLAIN_NUMBER, bare):
        return _plain_number(bare)
    return bare


def _plain_number(digits: str) -> str:
    if re.fullmatch(r"[-+]?\d+", digits):
        return str(int(digits)) if len(digits) < 1000 else digits
    value = float(digits)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"


def normalise_answers(answers: pd.Series) -> pd.Series:
    """Return `normalise_answer` of each row."""
    return answers.map({a: normalise_answer(a) for a in answers.unique()}).astype(str)


def normalised_words(content: pd.Series) -> list[frozenset[str]]:
    """Return each text's set of words and numbers, normalised like an answer."""
    tokens = content.str.findall(rf"{NUMBER}|{WORD}")
    return [frozenset(normalise_answer(token) for token in row) for row in tokens]


def word_matrix(content: pd.Series) -> Any:
    """Return a sparse 0/1 matrix, (n_rows, n_distinct_words), of the lower-cased words in each text."""
    from scipy import sparse

    words = content.str.lower().str.findall(WORD).reset_index(drop=True).explode().dropna()
    codes, vocabulary = pd.factorize(words.to_numpy(dtype=object))
    shape = (len(content), max(1, len(vocabulary)))
    matrix = sparse.csr_array((np.ones(len(codes)), (words.index.to_numpy(dtype=np.int64), codes)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def jaccard(words: Any, left: IntArray, right: IntArray) -> FloatArray:
    """Return |common words| / |all words| of each pair of rows, (n_pairs,); 0 when neither row has a word."""
    size = np.asarray(words.sum(axis=1), dtype=np.float64).ravel()
    common = np.asarray(words[left].multiply(words[right]).sum(axis=1), dtype=np.float64).ravel()
    union = size[left] + size[right] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def share_of_own_words(words: Any, pools: IntArray) -> FloatArray:
    """Return the share of each row's words that no other row of its pool has, (n_rows,); 0 without words."""
    from scipy import sparse

    n = len(pools)
    if n == 0:
        return np.zeros(0)
    membership = sparse.csr_array((np.ones(n), (pools, np.arange(n))), shape=(int(pools.max()) + 1, n))
    users = words.multiply((membership @ words)[pools]).tocsr()
    rows = np.repeat(np.arange(n), np.diff(users.indptr))
    own = np.bincount(rows[users.data == 1.0], minlength=n).astype(np.float64)
    size = np.asarray(words.sum(axis=1), dtype=np.float64).ravel()
    return np.divide(own, size, out=np.zeros(n), where=size > 0)
