"""Placebos: what they leave to be learned, and that they vanish where no message matters."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from dhd_labels.simulate.worlds import scenario
from dhd_selectors.actions import FULL
from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.policy import RemoveWorst
from dhd_selectors.registry import load_selector
from tests.bench.calibration.cheap import cheap_world
from training.data import LabelData
from training.estimands import make_folds
from training.placebos import MAY_GAIN, NAMES, only_columns, placebos, pool_columns, slot_columns
from training.references import Study


def study_of(data: LabelData) -> Study:
    return Study(RemoveWorst(), data, [make_folds(data, "unseen-problem", 0)], 0)


@pytest.fixture(scope="module")
def data() -> LabelData:
    return cheap_world(scenario("null"), 30, 2, 3).data


def gain(study: Study, name: str, selector: Any) -> float:
    decisions = next(row for row in placebos(study, selector) if row.name == name).decisions
    assert decisions is not None
    row = np.arange(len(decisions.pool))
    return float((decisions.success[row, decisions.action] - decisions.success[:, FULL]).mean())


def test_columns(data: LabelData) -> None:
    names = data.X.columns
    assert list(names[slot_columns(data)]) == ["slot"]
    pool_level = set(names[pool_columns(data)])
    assert "pool_top_share" in pool_level
    assert not pool_level & {"slot", "hedges", "answer_agreement"}
    reduced = only_columns(data, slot_columns(data)).X
    assert list(reduced.columns) == list(names)
    assert (reduced.drop(columns="slot") == 0.0).all(axis=None)
    assert (reduced["slot"] == data.X["slot"]).all()


def test_rules_have_no_placebo_and_text_readers_say_why(data: LabelData) -> None:
    study = study_of(data)
    assert placebos(study, load_selector("drop-wrong")) == ()

    class Reader(LightGBMSelector):
        uses_text = True

        def fit(self, X: Any, y: Any, **given: Any) -> Any:
            return super().fit(X[list(data.X.columns)], y, **given)

        def predict_value(self, X: Any) -> Any:
            return super().predict_value(X[list(data.X.columns)])

    texts = dataclasses.replace(data, texts=_texts(data))
    made = {row.name: row for row in placebos(study_of(texts), Reader(n_estimators=2))}
    assert tuple(made) == NAMES == tuple(MAY_GAIN)
    assert all((made[name].decisions is None) == name.endswith("-only") for name in NAMES)
    assert "reads texts" in made["slot-only"].skipped


def _texts(data: LabelData) -> Any:
    from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS

    frame = data.X[[]].assign(**dict.fromkeys(TEXT_COLUMNS, ""))
    return frame.astype(object).assign(**{POOL_COLUMN: data.pool})


class Taught(BaseEstimator):  # type: ignore[misc]
    """Needs outcomes and verdicts to be fitted, and a verdict to decide; keeps what it was fitted on."""

    requires: ClassVar[tuple[str, ...]] = ("pool_right",)
    requires_for_fit: ClassVar[tuple[str, ...]] = ("proposal_correct", "trajectory_value", "n_blocks")
    threshold: ClassVar[float] = 0.0

    def fit(self, X: Any, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Taught:
        self.rows_, self.y_, self.labels_ = X.index.to_numpy(), y, labels
        return self

    def predict_value(self, X: Any, labels: Any) -> Any:
        return np.zeros(len(X))


@pytest.mark.parametrize("estimand", ["unseen-problem", "same-problem"])
@pytest.mark.parametrize("name", ["shuffled-within-problem", "shuffled-across-problems"])
def test_what_only_fitting_needs_is_shuffled_with_the_targets(data: LabelData, name: str, estimand: str) -> None:
    study = Study(RemoveWorst(), data, [make_folds(data, estimand, 0)], 0)
    decisions = next(row for row in placebos(study, Taught()) if row.name == name).decisions
    assert decisions is not None
    for fitted in decisions.fits:
        assert fitted is not None
        seen: Any = fitted.selector
        own = data.labels.iloc[seen.rows_]
        np.testing.assert_array_equal(seen.labels_["trajectory_value"], seen.y_)
        assert not seen.labels_["proposal_correct"].equals(own["proposal_correct"])
        assert seen.labels_["pool_right"].tolist() == own["pool_right"].tolist(), "it stays true of the pool"
        assert seen.labels_["n_blocks"].isna().all() == (estimand == "same-problem")


def harmful_slot(data: LabelData) -> LabelData:
    """Removing slot 2 always helps, and no other message does anything."""
    success = np.full_like(data.success, 0.5)
    success[:, FULL ^ 4] = 1.0
    y = np.where(data.slot == 2, -0.5, 0.0)
    return dataclasses.replace(data, success=success, y=y)


def test_slot_only_finds_a_slot_and_a_shuffle_within_does_not(data: LabelData) -> None:
    study = study_of(harmful_slot(data))
    selector = LightGBMSelector(n_estimators=30, learning_rate=0.2)
    assert gain(study, "slot-only", selector) == 0.5
    assert gain(study, "shuffled-within-problem", selector) < 0.3
    assert gain(study, "pool-only", selector) == 0.0, "all messages of a pool look alike: the lowest slot goes"


def harmful_pools(data: LabelData) -> LabelData:
    """Removing any message helps in pools with a large top share, and harms in the others."""
    share = data.X["pool_top_share"].to_numpy()
    bad = share > np.median(share)
    success = np.full_like(data.success, 0.5)
    pools = bad[data.rows[:, 0]]
    for slot in range(5):
        success[:, FULL ^ (1 << slot)] = np.where(pools, 1.0, 0.0)
    return dataclasses.replace(data, success=success, y=np.where(bad, -0.5, 0.5))


def test_pool_level_value_survives_a_shuffle_within_the_problem_only() -> None:
    data = harmful_pools(cheap_world(scenario("null"), 120, 2, 4).data)
    study = study_of(data)
    selector = LightGBMSelector(n_estimators=30, learning_rate=0.2)
    largest = float((data.success[:, FULL ^ 1] == 1.0).mean()) / 2
    assert gain(study, "shuffled-within-problem", selector) == pytest.approx(largest, abs=0.03)
    assert gain(study, "pool-only", selector) == pytest.approx(largest, abs=0.03)
    assert gain(study, "shuffled-across-problems", selector) < largest / 2
    assert gain(study, "slot-only", selector) <= 0.0
