"""Sentence embeddings: how close messages are in meaning, to each other and to the problem.

Needs the `neural` extra. The embedding of a text is the mean of its tokens' last states, of length one (as MiniLM was
trained), and a text is embedded once a process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from dhd_labels.errors import DhdError
from dhd_labels.records import CONTENT_FIELDS
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS, FloatArray, uses_text
from dhd_selectors.registry import load_selector
from dhd_selectors.transformer.selector import DEFAULT_MODEL, torch_apart

if TYPE_CHECKING:
    from dhd_selectors.transformer.encoder import Encoder

MEANING_COLUMNS = (
    "meaning_similarity_mean",
    "meaning_similarity_max",
    "meaning_novelty",
    "meaning_to_question",
    "meaning_to_question_over_pool",
)
"""Mean and largest cosine with the other messages; one minus the cosine with their mean direction; cosine with the
question, and that minus the pool's mean. 0 where there is nothing to compare."""
_BATCH, _LENGTH = 64, 128
_KNOWN: dict[bytes, FloatArray] = {}
_MOST_KNOWN = 1 << 18


class EmbeddingSelector(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Another selector on the features and on similarities in meaning.

    Args:
        selector: name of a selector that reads features.
        model: folder or Hub id of an encoder, as for the transformer selector.
        random_state: seed of that selector.
        n_jobs: threads of both.
    """

    uses_text: ClassVar[bool] = True

    def __init__(
        self,
        selector: str = "lgbm",
        model: str = DEFAULT_MODEL,
        random_state: int | None = 0,
        n_jobs: int | None = 1,
    ) -> None:
        self.selector = selector
        self.model = model
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: pd.DataFrame,
        y: FloatArray,
        *,
        labels: pd.DataFrame | None = None,
        sample_weight: FloatArray | None = None,
    ) -> Self:
        """Fit that selector.

        Raises:
            DhdError: it reads texts itself, or cannot be fitted; or the extra is not installed.
        """
        made = load_selector(self.selector, random_state=self.random_state, n_jobs=self.n_jobs)
        if uses_text(made):
            raise DhdError(
                f"The 'selector' of EmbeddingSelector must be one that reads features only, got {self.selector!r}."
            )
        self.n_features_in_ = X.shape[1]
        self.selector_ = made.fit(self._columns(X), y, sample_weight=sample_weight)
        return self

    def predict_value(self, X: pd.DataFrame) -> FloatArray:
        """Return (n_messages,) predicted trajectory values."""
        return self.selector_.predict_value(self._columns(X))

    def _columns(self, X: pd.DataFrame) -> pd.DataFrame:
        features = X.drop(columns=[*TEXT_COLUMNS, POOL_COLUMN])
        return pd.concat([features, meaning(X, self.model, self.n_jobs)], axis=1)


def meaning(X: pd.DataFrame, model: str = DEFAULT_MODEL, n_jobs: int | None = 1) -> pd.DataFrame:
    """Return (n_messages, 5) `MEANING_COLUMNS`, float64 and finite, with the index of X.

    Args:
        X: with the text columns and `pool`.
        model: folder or Hub id of an encoder.
        n_jobs: threads.
    """
    content = [
        " ".join(part for part in row if part) for row in zip(*(X[name] for name in CONTENT_FIELDS), strict=True)
    ]
    says = embed(content, model, n_jobs)
    to_question = (says * embed(X["question"].tolist(), model, n_jobs)).sum(axis=1)
    found = np.zeros((len(X), len(MEANING_COLUMNS)))
    found[:, 3] = to_question
    pools = X[POOL_COLUMN].to_numpy()
    order = np.argsort(pools, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(pools[order])) + 1):
        found[rows, 4] = to_question[rows] - to_question[rows].mean() if len(rows) else 0.0
        if len(rows) < 2:
            continue
        cosine = says[rows] @ says[rows].T
        np.fill_diagonal(cosine, 0.0)
        others = says[rows].sum(axis=0) - says[rows]
        length = np.linalg.norm(others, axis=1)
        found[rows, 0] = cosine.sum(axis=1) / (len(rows) - 1)
        np.fill_diagonal(cosine, -1.0)
        found[rows, 1] = cosine.max(axis=1)
        along = (says[rows] * others).sum(axis=1)
        found[rows, 2] = np.where(length > 0, 1 - along / np.where(length > 0, length, 1.0), 0.0)
    empty = ~says.any(axis=1)
    found[empty] = 0.0
    return pd.DataFrame(found, index=X.index, columns=pd.Index(MEANING_COLUMNS))


def embed(texts: Sequence[str], model: str = DEFAULT_MODEL, n_jobs: int | None = 1) -> FloatArray:
    """Return (n_texts, width) embeddings of length one; zeros for an empty text.

    Args:
        texts: any texts; what is beyond 128 tokens is not read.
        model: folder or Hub id of an encoder.
        n_jobs: threads.

    Raises:
        DhdError: the extra is not installed, or the model cannot be loaded.
    """
    with torch_apart(n_jobs):
        from dhd_selectors.transformer.encoder import load_encoder

        encoder = load_encoder(model)
        keys = {text: hashlib.sha256(f"{encoder.digest} {text}".encode()).digest() for text in set(texts) if text}
        new = sorted(text for text, key in keys.items() if key not in _KNOWN)
        found = dict(zip((keys[text] for text in new), _embed(encoder, new), strict=True))
    rows = np.zeros((len(texts), encoder.width))
    for row, text in enumerate(texts):
        if text:
            rows[row] = found[keys[text]] if keys[text] in found else _KNOWN[keys[text]]
    if len(_KNOWN) + len(found) > _MOST_KNOWN:
        _KNOWN.clear()
    _KNOWN.update(found)
    return rows


def _embed(encoder: Encoder, texts: Sequence[str]) -> list[FloatArray]:
    import torch

    from dhd_selectors.transformer.encoder import Reader, by_length
    from dhd_selectors.transformer.inputs import tokenise_alone

    tokens = tokenise_alone(encoder.tokenizer, texts, _LENGTH)
    reader = Reader(encoder, 0, torch.device("cpu"), half=False)
    found: list[Any] = [None] * len(texts)
    for rows in by_length(tokens, np.arange(len(texts)), _BATCH):
        for row, mean in zip(rows, reader.last_means([tokens[r] for r in rows]), strict=True):
            found[row] = mean / max(float(np.linalg.norm(mean)), 1e-12)
    return found
