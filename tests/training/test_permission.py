"""Rows that may not be trained on leave the training folds, unless somebody says in words why they may stay."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dhd_labels.errors import DhdError
from dhd_selectors.actions import ALONE
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.policy import RemoveWorst
from training import fit
from training.crossfit import fit_fold
from training.data import LabelData, assemble
from training.estimands import make_folds
from training.evidence import Shuffle
from training.permission import parse_permissions, with_permissions
from training.references import best_fixed_action


def closed(kit: Any) -> LabelData:
    """Every third problem is of a benchmark that may not be trained on."""
    world = kit.simulate(15, 0)
    third = world.messages["problem_id"].str[1:].astype(int) % 3 == 0
    messages = world.messages.assign(benchmark=np.where(third, "lab-bench", "b"), train_allowed=~third.to_numpy())
    return assemble(messages, world.replays, world.problems)


def model(data: LabelData) -> str:
    fold = make_folds(data, "unseen-problem", 0).folds[0]
    fitted = fit_fold(LightGBMSelector(n_estimators=3), RemoveWorst(), data, fold, seed=(0,))
    text: str = fitted.selector.booster_.model_to_string()  # type: ignore[union-attr]
    return text


def test_a_permission_opens_its_benchmark_and_is_told(kit: Any) -> None:
    data = closed(kit)
    assert int((~data.trainable).sum()) == 25
    assert with_permissions(data, {}).notes == ()
    opened = with_permissions(data, parse_permissions(["lab-bench= written permission of the authors "]))
    assert opened.trainable.all()
    assert opened.notes == (
        "25 messages of lab-bench are trained on against `train_allowed`, by permission: written permission of the "
        "authors",
    )
    assert model(opened) != model(data)
    assert (~data.trainable).sum() == 25, "the data that were given stay as they are"
    with pytest.raises(DhdError, match="no benchmark 'lab-bnech'. Did you mean 'lab-bench'"):
        with_permissions(data, {"lab-bnech": "a b"})


@pytest.mark.parametrize("text", ["", "lab-bench", "=a reason", "b=", "b=  ", "b=yes", "b=1 2 3", "b=- -"])
def test_a_blank_reason_is_refused(text: str) -> None:
    with pytest.raises(DhdError, match="must be"):
        parse_permissions([text])


def test_a_benchmark_is_named_once() -> None:
    assert parse_permissions(["a=one reason", "b=a = b holds"]) == {"a": "one reason", "b": "a = b holds"}
    with pytest.raises(DhdError, match="'a' twice"):
        parse_permissions(["a=one reason", "a=another reason"])


def test_an_unwritable_json_costs_no_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("fitted")

    monkeypatch.setattr(fit, "fit_and_measure", never)
    (tmp_path / "file").write_text("", encoding="utf-8")
    for place in (tmp_path, tmp_path / "file" / "gains.json"):
        assert fit.main(["--selector", "keep-all", "--labels", "x", "--json", str(place)]) == 2
        assert "must be writable" in capsys.readouterr().err
    fit.check_writable(tmp_path / "new" / "gains.json")
    assert not (tmp_path / "new" / "gains.json").exists()
    fit.check_writable(tmp_path / "file")
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize("shuffle", [None, "within-problem", "across-problems"])
def test_no_outcome_of_barred_rows_reaches_a_fit_a_placebo_or_a_reference(kit: Any, shuffle: Shuffle | None) -> None:
    data = closed(kit)
    barred = ~data.open_pools
    success = data.success.copy()
    success[barred] = np.where(np.arange(32) == ALONE, 100.0, -success[barred])
    changed = dataclasses.replace(data, success=success, y=np.where(data.trainable, data.y, 7.0))
    for before, after in zip(*(make_folds(d, "unseen-problem", 0).folds for d in (data, changed)), strict=True):
        assert best_fixed_action(data, before) == best_fixed_action(changed, after)
        one, other = (
            fit_fold(LightGBMSelector(n_estimators=3), RemoveWorst(caution=0.0), d, f, seed=(0,), shuffle=shuffle)
            for d, f in ((data, before), (changed, after))
        )
        assert one is not None and other is not None and one.thresholds == other.thresholds
        np.testing.assert_array_equal(one.selector.predict_value(data.X), other.selector.predict_value(data.X))


def test_one_barred_message_closes_its_pool(kit: Any) -> None:
    world = kit.simulate(3, 0)
    allowed = world.messages["train_allowed"].to_numpy().copy()
    allowed[6] = False
    data = assemble(world.messages.assign(train_allowed=allowed), world.replays, world.problems)
    assert data.open_pools.tolist() == [True, False, True]
    assert data.trainable.sum() == 10
