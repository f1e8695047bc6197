"""Messages with their texts, and a tiny encoder to read them."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from dhd_selectors.base import TEXT_COLUMNS
from dhd_selectors.features import build_features
from tests.neural.tiny import tiny_encoder

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
"""`make test` has no torch and leaves these tests out anyway; it must not fail to import them."""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_encoder(tmp_path_factory.mktemp("tiny"))


def make_rows(n_pools: int, seed: int = 0) -> pd.DataFrame:
    """X of a selector with uses_text: two pools a problem, and one of two words that no feature tells apart."""
    rng = np.random.default_rng(seed)
    words = ("derive", "recall", "evidence", "folklore", "slowly", "boldly")
    rows = [
        {
            "pool_id": f"pool-{pool}", "integrator": "i", "order": "original", "slot": slot, "benchmark": "b",
            "question": f"How many birds were counted on page {pool // 2}?", "answer_type": "integer",
            "role_name": "Auditor", "proposed_answer": str(rng.integers(3)),
            "reasoning_direction": " ".join(rng.choice(words, int(rng.integers(2, 20)))),
            "key_idea": f"totals from {rng.choice(['sources', 'rumours'])}", "critical_assumption": "no page is lost",
            "what_to_check": "", "confidence_text": "high", "confidence_level": "high", "confidence_value": np.nan,
            "message_status": "ok",
        }
        for pool in range(n_pools)
        for slot in range(5)
    ]  # fmt: skip
    messages = pd.DataFrame(rows)
    return pd.concat([build_features(messages), messages[list(TEXT_COLUMNS)].astype(object)], axis=1).assign(
        pool=np.repeat(np.arange(n_pools), 5)
    )


@pytest.fixture
def X() -> pd.DataFrame:
    return make_rows(24)


@pytest.fixture
def y(X: pd.DataFrame) -> np.ndarray:
    return word_values(X, 0.1)


def word_values(X: pd.DataFrame, noise: float, seed: int = 0) -> np.ndarray:
    sign = np.where(X["key_idea"].str.contains("sources"), 1.0, -1.0)
    return np.asarray(0.2 * sign + np.random.default_rng(seed).normal(0, noise, len(X)))


@pytest.fixture
def rows_of():  # type: ignore[no-untyped-def]
    return make_rows


@pytest.fixture
def values_of():  # type: ignore[no-untyped-def]
    return word_values
