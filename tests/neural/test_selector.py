"""The transformer selector on a tiny encoder: conventions, learning, going on after a kill, saving."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from dhd_labels.errors import DhdError
from dhd_selectors import Selector, load_selector
from dhd_selectors.base import TEXT_COLUMNS
from dhd_selectors.transformer import TransformerSelector, encoder, training

pytestmark = pytest.mark.neural
Made = Callable[..., Any]


def small(tiny: str, **changes: Any) -> TransformerSelector:
    given = {
        "model": tiny,
        "epochs": 2,
        "batch_size": 16,
        "learning_rate": 3e-3,
        "precision": "float32",
        "device": "cpu",
    }
    return TransformerSelector(**given | changes)


def test_follows_the_conventions(tiny: str, X: pd.DataFrame, y: np.ndarray) -> None:
    selector = small(tiny, random_state=3)
    assert isinstance(selector, Selector)
    assert clone(selector).get_params() == selector.get_params()
    assert not [name for name in vars(selector) if name.endswith("_")]
    before, kept = selector.get_params(), (X.copy(), y.copy())
    assert selector.fit(X, y) is selector
    assert selector.get_params() == before
    assert selector.n_features_in_ == X.shape[1]
    selector.predict_value(X)
    pd.testing.assert_frame_equal(X, kept[0], check_exact=True)
    assert np.array_equal(y, kept[1])
    assert load_selector("transformer", random_state=3, n_jobs=1).get_params()["random_state"] == 3


@pytest.mark.parametrize(
    "case", ["plain", "zero", "constant", "nulls", "one-row", "flat-features", "tiny", "no-text", "no-features"]
)
def test_predictions_are_finite_and_deterministic(
    case: str, tiny: str, X: pd.DataFrame, y: np.ndarray, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = {"one-row": 1, "tiny": 4}.get(case, len(X))
    X, y = X.iloc[:rows].copy(), y[:rows].copy()
    if case in ("zero", "constant"):
        y[:] = -0.2 * (case == "constant")
    if case == "nulls":
        y[::2] = np.nan
    if case == "flat-features":
        X[[c for c in X.columns if c not in (*TEXT_COLUMNS, "pool", "slot")]] = 0.0
    if case == "no-text":
        X[list(TEXT_COLUMNS)] = ""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    values = [small(tiny, use_features=case != "no-features").fit(X, y).predict_value(X) for _ in range(2)]
    assert values[0].shape == (rows,)
    assert values[0].dtype == np.float64
    assert np.isfinite(values[0]).all()
    assert np.array_equal(values[0], values[1])
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)
    assert capfd.readouterr() == ("", "")
    if case in ("zero", "constant"):
        assert values[0] == pytest.approx(y, abs=1e-6)


def test_learns_words_that_no_feature_tells_and_only_for_their_sake(tiny: str, rows_of: Made, values_of: Made) -> None:
    X, new = rows_of(60), rows_of(20, seed=1)
    truth = values_of(new, 0.0)
    fitted = small(tiny, epochs=6).fit(X, values_of(X, 0.2))
    assert np.corrcoef(fitted.predict_value(new), truth)[0, 1] > 0.8
    features = X.drop(columns=[*TEXT_COLUMNS, "pool"])
    lgbm = load_selector("lgbm", random_state=0, n_jobs=1).fit(features, values_of(X, 0.2))
    assert abs(np.corrcoef(lgbm.predict_value(new[features.columns]), truth)[0, 1]) < 0.5


def test_each_row_is_read_for_itself(tiny: str, X: pd.DataFrame, y: np.ndarray) -> None:
    fitted = small(tiny).fit(X, y)
    values = fitted.predict_value(X)
    order = np.random.default_rng(0).permutation(len(X))
    assert fitted.predict_value(X.iloc[order]) == pytest.approx(values[order], abs=1e-5)
    encoder.CACHE.rows.clear()
    assert fitted.predict_value(X.iloc[40:45]) == pytest.approx(values[40:45], abs=1e-5)
    assert fitted.predict_value(X.iloc[:0]).shape == (0,)


def test_weights_and_rows_without_a_target(tiny: str, X: pd.DataFrame, y: np.ndarray) -> None:
    holes, weight = y.copy(), np.linspace(1, 5, len(y))
    holes[::3] = np.nan
    known = np.isfinite(holes)
    with_holes = small(tiny).fit(X, holes, sample_weight=weight).predict_value(X)
    without = small(tiny).fit(X[known], holes[known], sample_weight=weight[known]).predict_value(X)
    assert np.array_equal(with_holes, without)
    assert not np.array_equal(with_holes, small(tiny).fit(X, holes).predict_value(X))


def test_problems_that_stop_the_training_are_not_trained_on(
    tiny: str, X: pd.DataFrame, y: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def watch(net: Any, reader: Any, train: Any, held_out: Any, *args: Any, **kwargs: Any) -> Any:
        seen["parts"] = [{row.ids[: row.second].tobytes() for row in part.tokens} for part in (train, held_out)]
        return original(net, reader, train, held_out, *args, **kwargs)

    original = training.fine_tune
    monkeypatch.setattr(training, "fine_tune", watch)
    small(tiny).fit(X, y)
    train, held_out = seen["parts"]
    assert train and held_out and not train & held_out
    assert len(train | held_out) == X["question"].nunique()


def test_what_does_not_help_is_undone(tiny: str, X: pd.DataFrame) -> None:
    noise = np.random.default_rng(1).normal(0, 1, len(X))
    fitted = small(tiny, learning_rate=1.0, epochs=3).fit(X, noise)
    errors = dict(fitted.errors_)
    assert errors[fitted.best_step_] == min(errors.values())
    assert len(errors) <= 1 + 12
    wild = small(tiny, learning_rate=1.0, patience=1, epochs=9).fit(X, noise)
    assert len([step for step, _ in wild.errors_ if step > wild.best_step_]) <= 1
    if fitted.best_step_ == 0:
        linear = small(tiny, epochs=0).fit(X, noise)
        assert np.array_equal(fitted.predict_value(X), linear.predict_value(X))


class Killed(Exception):
    """Stands for a kill between two steps."""


def test_a_killed_fit_goes_on_as_if_it_had_not_been(
    tiny: str, X: pd.DataFrame, y: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(**changes: Any) -> TransformerSelector:
        return small(tiny, epochs=2, patience=99, **changes).fit(X, y)

    plain, steps, limit, step = fit(), [0], [9], training._step

    def dying(*args: Any) -> None:
        if steps[0] == limit[0]:
            raise Killed
        steps[0] += 1
        step(*args)

    monkeypatch.setattr(training, "_step", dying)
    with pytest.raises(Killed):
        fit(checkpoints=str(tmp_path))
    steps[0], limit[0] = 0, 99
    again = fit(checkpoints=str(tmp_path))
    assert again.errors_ == plain.errors_
    assert 0 < steps[0] <= plain.errors_[-1][0] - 8
    assert np.array_equal(again.predict_value(X), plain.predict_value(X))
    steps[0] = 0
    assert np.array_equal(fit(checkpoints=str(tmp_path)).predict_value(X), plain.predict_value(X))
    assert steps[0] == 0
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    fit(checkpoints=str(tmp_path))
    assert steps[0] == plain.errors_[-1][0]


@pytest.mark.parametrize("change", ["y", "text", "setting", "weight"])
def test_another_fit_has_another_checkpoint(
    change: str, tiny: str, X: pd.DataFrame, y: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DHD_CHECKPOINTS", str(tmp_path))
    small(tiny).fit(X, y)
    other, weight = X.copy(), np.ones(len(y))
    if change == "text":
        other.loc[7, "what_to_check"] = "the answer"
    if change == "weight":
        weight[3] = 2.0
    small(tiny, learning_rate=1e-3 if change == "setting" else 3e-3).fit(
        other, y + 0.01 * (change == "y"), sample_weight=weight
    )
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("epochs", [0, 12])
def test_a_saved_selector_predicts_the_same(
    epochs: int, tiny: str, X: pd.DataFrame, y: np.ndarray, tmp_path: Path
) -> None:
    fitted = small(tiny, epochs=epochs, patience=99).fit(X, y)
    assert bool(fitted.best_step_) == bool(epochs)
    fitted.save(tmp_path)
    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert kinds <= {".json", ".safetensors", ".txt"}
    back = TransformerSelector.load(tmp_path)
    assert back.predict_value(X) == pytest.approx(fitted.predict_value(X), abs=1e-6)
    assert (back.errors_, back.best_step_) == (fitted.errors_, fitted.best_step_)


@pytest.mark.parametrize("harm", ["format", "weights", "json", "layers", "nothing"])
def test_a_broken_folder_is_refused(harm: str, tiny: str, X: pd.DataFrame, y: np.ndarray, tmp_path: Path) -> None:
    if harm != "nothing":
        small(tiny, epochs=12, patience=99).fit(X, y).save(tmp_path)
    state = tmp_path / "transformer.json"
    if harm == "format":
        state.write_text(json.dumps(json.loads(state.read_text()) | {"format": 99}))
    if harm == "json":
        state.write_text("{}")
    if harm == "weights":
        (tmp_path / "transformer.safetensors").write_bytes(b"no")
    if harm == "layers":
        data = json.loads(state.read_text())
        data["parameters"]["trained_layers"] = 1
        state.write_text(json.dumps(data))
    with pytest.raises(DhdError, match="must be of format 1, got 99|cannot be read|must be those of the model"):
        TransformerSelector.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_length": 4000}, "'max_length' .* between 16 and 160"),
        ({"trained_layers": 3}, "'trained_layers' .* between 0 and 2"),
        ({"device": "abacus"}, "'device' .* got 'abacus'"),
        ({"precision": "int1"}, "'precision' .* got 'int1'"),
        ({"model": "/no/such/folder"}, "must be a folder or a Hub id"),
    ],
)
def test_bad_settings_are_named(
    changes: dict[str, Any], said: str, tiny: str, X: pd.DataFrame, y: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DhdError, match=said):
        small(tiny, **changes).fit(X, y)


def test_the_cache_forgets_the_oldest() -> None:
    cache = encoder.StateCache(limit=1000)
    for number in range(9):
        cache.put(bytes([number]), np.zeros(10), torch.zeros(40))
    assert list(cache.rows) == [bytes([5 + n]) for n in range(4)]
    assert cache.size == 4 * 240
