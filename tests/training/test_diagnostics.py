"""Messages lost and removed, what was saved, calibration and importance, against answers that are known."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from dhd_labels.simulate.worlds import scenario
from dhd_selectors.actions import ALONE, FULL, REMOVALS
from dhd_selectors.policy import RemoveWorst
from dhd_selectors.registry import load_selector
from tests.bench.calibration.cheap import cheap_world
from training.crossfit import Decisions
from training.data import LabelData
from training.diagnostics import calibration, clustered_slope, kept_slots, removals, saved
from training.estimands import make_folds
from training.importance import importance
from training.references import Study


@pytest.fixture(scope="module")
def data() -> LabelData:
    return cheap_world(scenario("mixed"), 40, 3, 1).data


def study_of(data: LabelData) -> Study:
    return Study(RemoveWorst(), data, [make_folds(data, "unseen-problem", 0)], 0)


def made(data: LabelData, pool: list[int], action: list[int], repeat: list[int] | None = None) -> Decisions:
    rows = np.array(pool, dtype=np.int64)
    zeros = np.zeros(len(rows), dtype=np.int64)
    repeats = zeros if repeat is None else np.array(repeat)
    return Decisions(rows, np.array(action, dtype=np.int64), zeros, repeats, data.success[rows], (), {})


def test_kept_slots() -> None:
    assert kept_slots(np.array([FULL, ALONE, REMOVALS[3]])).tolist() == [
        [True] * 5,
        [False] * 5,
        [True, True, True, False, True],
    ]


def test_removed_messages_are_counted_by_label_and_by_sign(data: LabelData) -> None:
    y = np.zeros(len(data.y))
    y[:10] = [0.5, -0.5, 0.0, np.nan, 0.1, -0.1, -0.2, 0.3, 0.0, 0.0]
    low, high = np.full(len(y), -1.0), np.full(len(y), 1.0)
    low[0], high[1] = 0.1, -0.1
    labels = data.labels.assign(ci_low=low, ci_high=high, n_blocks=3)
    known = dataclasses.replace(data, y=y, labels=labels)
    found = {row.kind: row for row in removals(known, made(known, [0, 1], [REMOVALS[0], ALONE]))}
    counts = {kind: (row.messages, row.removed) for kind, row in found.items()}
    assert counts == {
        "stable helpful": (1, 1),
        "stable harmful": (1, 0),
        "helpful by sign": (3, 2),
        "harmful by sign": (3, 2),
        "no difference": (3, 2),
        "no value": (1, 0),
    }
    assert found["helpful by sign"].share == 2 / 3
    twice = removals(known, made(known, [0, 1, 0, 1], [REMOVALS[0], ALONE, FULL, FULL], [0, 0, 1, 1]))
    assert [(row.messages, row.removed) for row in twice][2] == (3, 1), "means over repeats"
    one_block = dataclasses.replace(known, labels=labels.assign(n_blocks=1))
    assert removals(one_block, made(known, [0], [FULL]))[0].messages == 0, "one block is never stable"


def test_saved(data: LabelData) -> None:
    words = np.zeros(len(data.y))
    words[:10] = [10, 20, 30, 20, 20, 1, 1, 1, 1, 96]
    known = dataclasses.replace(data, X=data.X.assign(content_words=words))
    found = saved(known, made(known, [0, 1], [REMOVALS[0], ALONE]))
    assert found is not None
    assert (found.messages_shown, found.messages_hidden) == (2.0, 0.6)
    assert (found.pools_untouched, found.pools_alone, found.integrator_calls) == (0.0, 0.5, 0)
    assert found.words == pytest.approx(110 / 200)
    nothing = saved(known, made(known, [], []))
    assert nothing is None
    withheld = saved(dataclasses.replace(known, X=data.X.assign(content_words=0.0)), made(known, [0], [FULL]))
    assert withheld is not None and withheld.words is None


class Known(BaseEstimator):  # type: ignore[misc]
    """Predicts a multiple of one column."""

    threshold: ClassVar[float] = 0.0

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def fit(self, X: pd.DataFrame, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Known:
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        return self.factor * X["hedges"].to_numpy()


def hinted(data: LabelData, seed: int) -> LabelData:
    """The value of a message is its number of hedges, plus noise that messages of one problem share."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 1.0, data.n_pools)[data.pool]
    return dataclasses.replace(data, y=data.X["hedges"].to_numpy() + shared + rng.normal(0, 0.3, len(data.y)))


def test_slope_and_bins_of_a_known_line(data: LabelData) -> None:
    study = study_of(hinted(data, 0))
    for factor in (1.0, 2.0):
        found = calibration(study, study.decide(Known(factor)))
        assert found is not None and found.slope is not None
        assert found.slope == pytest.approx(1 / factor, abs=0.2 / factor)
        assert sum(row.n_messages for row in found.bins) == len(data.y)
        assert [row.predicted for row in found.bins] == sorted(row.predicted for row in found.bins)
    flat = calibration(study, study.decide(load_selector("keep-all")))
    assert flat is not None and flat.slope is None and len(flat.bins) == 1


def test_clustered_intervals_cover(data: LabelData) -> None:
    """Messages of a problem share their noise: an interval that took them as independent would miss far too often."""
    missed = np.zeros(2)
    turns = 200
    for seed in range(turns):
        world = hinted(data, seed)
        x = data.X["hedges"].to_numpy()
        slope, low, high = clustered_slope(x, world.y, world.problem_code)
        assert slope is not None and low is not None and high is not None
        found = calibration(study_of(world), made_by_known(world)) if seed < 60 else None
        missed[0] += not low <= 1.0 <= high
        if found is not None:
            least = found.bins[0]
            assert least.low is not None and least.high is not None
            missed[1] += not least.low <= 0.0 <= least.high
    assert missed[0] / turns <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / turns)
    assert missed[1] / 60 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)


def made_by_known(data: LabelData) -> Decisions:
    return study_of(data).decide(Known())


def test_importance_finds_the_only_column_that_is_used(data: LabelData) -> None:
    study = study_of(data)
    found = importance(study, study.decide(Known(-1.0)), Known(-1.0))
    assert not isinstance(found, str)
    assert [row.feature for row in found] == ["hedges"]
    assert 0.2 < found[0].changed <= 1.0
    assert found[0].changed_sd is not None and found[0].changed_sd > 0
    nothing = importance(study, study.decide(load_selector("keep-all")), load_selector("keep-all"))
    assert nothing == ()


def test_importance_in_points_is_what_the_column_earned(data: LabelData) -> None:
    """Removing the message with the most hedges gains 1; without the column another one goes."""
    hedges = data.X["hedges"].to_numpy()[data.rows]
    success = np.zeros_like(data.success)
    worst = hedges.argmax(axis=1)
    some = hedges.max(axis=1) > 0
    success[np.arange(data.n_pools)[some], np.array(REMOVALS)[worst[some]]] = 1.0
    study = study_of(dataclasses.replace(data, success=success))
    found = importance(study, study.decide(Known(-1.0)), Known(-1.0))
    assert not isinstance(found, str)
    assert found[0].lost == pytest.approx(100 * found[0].changed * some.mean(), rel=0.15)
