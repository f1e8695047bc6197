"""A saved rule of the transformer decides from records as it did before, and its files are data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dhd_labels.errors import DhdError
from dhd_selectors import Selector
from dhd_selectors.base import TEXT_COLUMNS
from dhd_selectors.saving import DecisionRule
from dhd_selectors.transformer import TransformerSelector

pytestmark = pytest.mark.neural


def test_a_rule_of_the_transformer_comes_back(tiny: str, X: pd.DataFrame, y: np.ndarray, tmp_path: Path) -> None:
    selector = TransformerSelector(model=tiny, epochs=1, n_jobs=1, device="cpu").fit(X, y)
    rule = DecisionRule("transformer", selector, "remove-worst", (float(np.median(selector.predict_value(X))),))
    rule.save_pretrained(tmp_path / "rule")
    back = Selector.from_pretrained(tmp_path / "rule")
    problem = {"answer_type": "integer", "question": X["question"].iloc[0]}
    messages: list[dict[str, Any]] = X.iloc[:5][list(TEXT_COLUMNS)].to_dict("records")
    found, expected = back.decide(problem, messages), rule.decide(problem, messages)
    assert found.kept == expected.kept
    np.testing.assert_allclose(list(found.values.values()), list(expected.values.values()), atol=1e-6)
    assert {file.suffix for file in (tmp_path / "rule" / "selector").rglob("*") if file.is_file()} <= {
        ".json", ".safetensors", ".txt",
    }  # fmt: skip
    weights = next((tmp_path / "rule" / "selector").rglob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(DhdError, match="was edited or cut short after it was saved"):
        Selector.from_pretrained(tmp_path / "rule")
