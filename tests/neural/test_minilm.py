"""The real weights: MiniLM from its package, through the command line and on words that no feature tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dhd_selectors.embeddings import embed
from dhd_selectors.transformer import TransformerSelector
from dhd_selectors.transformer.encoder import MINILM, weights_of
from tests.support import cli

pytestmark = [pytest.mark.neural, pytest.mark.slow]


def test_the_weights_come_from_the_package_without_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert Path(weights_of(MINILM), "model.safetensors").is_file()
    assert weights_of("someone/else") == "someone/else"
    near, same, far = embed(["The cat sat on a mat.", "A cat was sitting on the mat.", "Interest rates fell in May."])
    assert near @ same > 0.8 > 0.3 > near @ far


def test_learns_words_from_few_messages(rows_of: Callable[..., Any], values_of: Callable[..., Any]) -> None:
    X, new = rows_of(24), rows_of(8, seed=1)
    fitted = TransformerSelector(max_length=64, epochs=1).fit(X, values_of(X, 0.2))
    assert np.corrcoef(fitted.predict_value(new), values_of(new, 0.0))[0, 1] > 0.6


def test_the_command_line_fits_it(tmp_path: Path) -> None:
    data = tmp_path / "words"
    made = cli("simulate", "--problems", "24", "--blocks", "2", "--scenario", "wording", "--out", str(data))
    assert made.returncode == 0, made.stderr
    done = cli("--selector", "transformer", "--labels", str(data), "--test", module="training.fit")
    assert done.returncode == 0, done.stderr
    assert "transformer" in done.stdout
    assert "shuffled-within-problem" in done.stdout
