"""From rows of X to token ids: the problem as first segment, the message and its pool as second.

A model's text is data: words that spell one of the tokenizer's control tokens are split like any others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError
from dhd_labels.records import CONTENT_FIELDS
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS, IntArray
from dhd_selectors.text import normalise_answer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

QUESTION_SHARE, CONTEXT_SHARE = 0.3, 0.2
"""Most of the tokens that the question and the pool's context may take; the message gets all that is left."""
_CHARS_PER_TOKEN = 16  # no tokenizer needs more on average, so what lies behind is cut unread
_BOX = re.compile(r"\\boxed\s*\{(.*)\}", re.DOTALL)
_NAMES = {
    "role_name": "Role",
    "proposed_answer": "Answer",
    "confidence_text": "Confidence",
    **{field: field.replace("_", " ").capitalize() for field in CONTENT_FIELDS},
}


@dataclass(frozen=True, slots=True)
class Texts:
    """The three texts of one row."""

    question: str
    message: str
    context: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """Ids of one row; `second` is where the second segment begins, `message` the span of the message in it."""

    ids: IntArray
    second: int
    message: tuple[int, int]


def row_texts(X: pd.DataFrame) -> list[Texts]:
    """Return the texts of each row.

    Args:
        X: (n_messages, ...) with the columns `TEXT_COLUMNS`, `pool` and `slot`.

    Raises:
        DhdError: such a column is missing.
    """
    needed = (*TEXT_COLUMNS, POOL_COLUMN, "slot")
    if missing := [column for column in needed if column not in X.columns]:
        raise DhdError(
            f"The X of TransformerSelector must have the columns of a selector with uses_text, got none named "
            f"{', '.join(missing)}."
        )
    contexts = _contexts(X)
    columns = {name: X[name].astype(str).tolist() for name in TEXT_COLUMNS}
    columns["proposed_answer"] = [_BOX.sub(r"\1", text) for text in columns["proposed_answer"]]
    messages = [
        ". ".join(f"{_NAMES[name]}: {columns[name][row].rstrip('. ')}" for name in _NAMES if columns[name][row])
        for row in range(len(X))
    ]
    return [Texts(*parts) for parts in zip(columns["question"], messages, contexts, strict=True)]


def _contexts(X: pd.DataFrame) -> list[str]:
    """Return what the other messages of the pool answer, the most frequent first, and how many agree."""
    answers = [normalise_answer(text) for text in X["proposed_answer"].astype(str)]
    contexts = [""] * len(X)
    pools = X[POOL_COLUMN].to_numpy()
    order = np.lexsort((X["slot"].to_numpy(dtype=np.float64), pools))
    for rows in np.split(order, np.flatnonzero(np.diff(pools[order])) + 1):
        counts = Counter(answers[row] for row in rows)
        for row in rows if len(rows) > 1 else ():
            others = counts - Counter([answers[row]])
            agree = others[answers[row]] if answers[row] else 0
            told = ", ".join(f"{answer or 'none'} by {count}" for answer, count in others.most_common())
            contexts[row] = f"{agree} of {len(rows) - 1} agree. Others: {told}."
    return contexts


def tokenise(tokenizer: PreTrainedTokenizerFast, texts: Sequence[Texts], max_length: int) -> list[Tokens]:
    """Return the token ids of each row, at most `max_length` of them.

    The question keeps its beginning, then the context does; the message loses its end last of all.
    """
    start, end = _controls(tokenizer)
    room = max_length - 3
    longest = (int(QUESTION_SHARE * room), room, int(CONTEXT_SHARE * room))
    columns = [
        _ids(tokenizer, [getattr(row, name) for row in texts], length)
        for name, length in zip(("question", "message", "context"), longest, strict=True)
    ]
    rows = []
    for question, message, context in zip(*columns, strict=True):
        message = message[: room - len(question) - len(context)]
        second = len(question) + 2
        ids = [start, *question, end, *message, *context, end]
        rows.append(Tokens(np.array(ids, dtype=np.int64), second, (second, second + len(message))))
    return rows


def tokenise_alone(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], max_length: int) -> list[Tokens]:
    """Return the token ids of single texts; the span of the message is the whole row, controls included."""
    start, end = _controls(tokenizer)
    rows = [np.array([start, *ids, end], dtype=np.int64) for ids in _ids(tokenizer, texts, max_length - 2)]
    return [Tokens(ids, len(ids), (0, len(ids))) for ids in rows]


def _ids(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], longest: int) -> list[list[int]]:
    """Return the ids of each text, cut; equal texts (a problem's question) are read once."""
    backend: Any = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    distinct = list(dict.fromkeys(texts))
    cut = [text[: _CHARS_PER_TOKEN * longest] for text in distinct]
    encoded = backend.encode_batch_fast(cut, add_special_tokens=False)
    known = {text: one.ids[:longest] for text, one in zip(distinct, encoded, strict=True)}
    return [known[text] for text in texts]


def _controls(tokenizer: PreTrainedTokenizerFast) -> tuple[int, int]:
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    if not isinstance(start, int) or not isinstance(end, int):
        raise DhdError(
            "The tokenizer of the model must have a token that starts and one that separates texts, got none. "
            "Choose an encoder such as MiniLM, BERT or RoBERTa."
        )
    return start, end
