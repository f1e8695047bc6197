"""Similarities in meaning, on a tiny encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dhd_labels.errors import DhdError
from dhd_selectors import Selector, embeddings
from dhd_selectors.base import TEXT_COLUMNS
from dhd_selectors.embeddings import MEANING_COLUMNS, EmbeddingSelector, embed, meaning

pytestmark = pytest.mark.neural


def test_embeddings_have_length_one_and_are_made_once(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_KNOWN", {})
    texts = ["the total from sources", "", "the total from rumours", "the total from sources"]
    found = embed(texts, tiny)
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 0, 1, 1])
    assert np.array_equal(found[0], found[3])
    assert not np.allclose(found[0], found[2])
    monkeypatch.setattr(embeddings, "_embed", lambda encoder, texts: [1 / 0 for _ in texts])
    assert np.array_equal(embed(texts, tiny), found)


def test_meaning_compares_with_the_pool_and_the_question(tiny: str, X: pd.DataFrame) -> None:
    alike = X.iloc[:5].copy()
    alike[["reasoning_direction", "key_idea", "critical_assumption", "what_to_check"]] = ""
    alike["key_idea"] = ["slowly"] * 3 + ["the other book entirely", ""]
    alike["question"] = "slowly"
    found = meaning(alike, tiny)
    assert tuple(found.columns) == MEANING_COLUMNS
    assert found["meaning_similarity_max"].iloc[:3].tolist() == pytest.approx([1.0] * 3)
    assert found["meaning_to_question"].iloc[:3].tolist() == pytest.approx([1.0] * 3)
    assert found["meaning_novelty"].iloc[3] > found["meaning_novelty"].iloc[0]
    assert (found.iloc[4] == 0).all()
    assert (meaning(X.assign(**dict.fromkeys(TEXT_COLUMNS, "")), tiny) == 0).all(axis=None)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = meaning(X.iloc[order], tiny)
    assert shuffled.to_numpy() == pytest.approx(meaning(X, tiny).to_numpy()[order], abs=1e-6)


def test_a_selector_reads_them_beside_the_features(tiny: str, rows_of: Callable[..., Any]) -> None:
    X, new = rows_of(60), rows_of(20, seed=1)
    y, truth = (-0.3 * (meaning(rows, tiny)["meaning_novelty"].to_numpy() > 0.1) for rows in (X, new))
    selector = EmbeddingSelector(model=tiny)
    assert isinstance(selector, Selector)
    assert clone(selector).get_params() == selector.get_params()
    noise = np.random.default_rng(0).normal(0, 0.05, len(y))
    values = selector.fit(X, y + noise).predict_value(new)
    assert np.corrcoef(values, truth)[0, 1] > 0.7
    again = EmbeddingSelector(model=tiny).fit(X, y + noise).predict_value(new)
    assert np.array_equal(values, again)
    with pytest.raises(DhdError, match="must be one that reads features only, got 'transformer'"):
        EmbeddingSelector("transformer", tiny).fit(X, y)
