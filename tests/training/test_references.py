"""References: decided on the same pools, folds and draws as the selector, checked by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from dhd_labels.simulate.worlds import scenario
from dhd_selectors.actions import ALONE, FULL, REMOVALS, SINGLES
from dhd_selectors.policy import load_policy
from dhd_selectors.registry import load_selector
from tests.bench.calibration.cheap import cheap_world
from training.data import LabelData
from training.estimands import make_folds
from training.references import (
    REFERENCES,
    Reference,
    Study,
    best_fixed_action,
    judged,
    references,
    success_of_other,
)

SCENARIO = scenario("mixed")


def study_of(data: LabelData, estimand: str = "unseen-problem", repeats: int = 1) -> Study:
    splits = [make_folds(data, estimand, (0, repeat)) for repeat in range(repeats)]
    return Study(load_policy("remove-worst"), data, splits, 0)


@pytest.fixture(scope="module")
def data() -> LabelData:
    return cheap_world(SCENARIO, 40, 3, 1).data


@pytest.fixture(scope="module")
def found(data: LabelData) -> dict[str, Reference]:
    study = study_of(data)
    return {row.name: row for row in references(study, study.decide(load_selector("keep-all")))}


def test_every_reference_has_an_outcome_for_every_decision(data: LabelData, found: dict[str, Reference]) -> None:
    assert tuple(found) == REFERENCES
    assert all(row.success.shape == (data.n_pools,) and np.isfinite(row.success).all() for row in found.values())


def test_fixed_references_and_the_exact_random_one(data: LabelData, found: dict[str, Reference]) -> None:
    study = study_of(data)
    pool = study.decide(load_selector("keep-all")).pool
    np.testing.assert_array_equal(found["keep-all"].success, data.success[pool, FULL])
    np.testing.assert_array_equal(found["alone"].success, data.success[pool, ALONE])
    six = data.success[pool][:, [FULL, *REMOVALS]]
    np.testing.assert_allclose(found["random"].success, six.mean(axis=1))
    assert not any(found[name].learned for name in ("keep-all", "alone", "random", "drop-wrong"))
    assert found["best-fixed"].learned and found["learned-correct"].learned


def test_drop_wrong_removes_the_first_wrong_message(data: LabelData, found: dict[str, Reference]) -> None:
    pool = study_of(data).decide(load_selector("keep-all")).pool
    correct = data.labels["proposal_correct"].to_numpy(dtype=float, na_value=np.nan)[data.rows]
    for row, number in enumerate(pool):
        wrong = np.flatnonzero(correct[number] == 0.0)
        action = REMOVALS[wrong[0]] if len(wrong) else FULL
        assert found["drop-wrong"].success[row] == data.success[number, action]


def test_drop_wrong_is_the_same_under_every_policy(data: LabelData, found: dict[str, Reference]) -> None:
    other = dataclasses.replace(study_of(data), policy=load_policy("keep-best"))
    again = {row.name: row for row in references(other, other.decide(load_selector("keep-all")))}
    np.testing.assert_array_equal(again["drop-wrong"].success, found["drop-wrong"].success)


def test_best_fixed_is_chosen_by_the_training_part_alone(data: LabelData) -> None:
    fold = study_of(data).splits[0].folds[0]
    for better, expected in ((1.0, ALONE), (-1.0, FULL)):
        success = data.success.copy()
        success[:, ALONE] = success[:, FULL] + better
        success[fold.test, ALONE] = success[fold.test, FULL] - 100 * better
        changed = dataclasses.replace(data, success=success)
        first = make_folds(changed, "unseen-problem", (0, 0)).folds[0]
        assert best_fixed_action(changed, first) == expected


def test_best_fixed_keeps_all_when_equal_or_when_alone_is_unknown(data: LabelData) -> None:
    for value in (data.success[:, FULL], np.nan):
        success = data.success.copy()
        success[:, ALONE] = value
        fold = make_folds(dataclasses.replace(data, success=success), "unseen-problem", 0).folds[0]
        assert best_fixed_action(data, fold) == FULL


def test_other_decisions_are_joined_by_pool_fold_and_repeat(data: LabelData) -> None:
    study = study_of(data, repeats=2)
    selector = load_selector("drop-wrong")
    decisions = study.decide(selector)
    order = np.random.default_rng(0).permutation(len(decisions.pool))[:-3]
    shuffled = dataclasses.replace(
        decisions,
        pool=decisions.pool[order],
        action=decisions.action[order],
        fold=decisions.fold[order],
        repeat=decisions.repeat[order],
        success=decisions.success[order],
    )
    joined = success_of_other(study, decisions, shuffled)
    own = judged(study, decisions)[np.arange(len(decisions.pool)), decisions.action]
    known = np.isfinite(joined)
    assert (~known).sum() == 3
    np.testing.assert_array_equal(joined[known], own[known])


def test_same_problem_knows_alone_from_its_own_draws(data: LabelData) -> None:
    study = study_of(data, "same-problem")
    decisions = study.decide(load_selector("keep-all"))
    assert np.isnan(decisions.success[:, ALONE]).all(), "blocks say nothing of it"
    np.testing.assert_array_equal(judged(study, decisions)[:, ALONE], data.success[decisions.pool, ALONE])


def test_without_verdicts_learned_correct_is_missing_and_the_others_stand(data: LabelData) -> None:
    labels = data.labels.assign(proposal_correct=pd.array([None] * len(data.y), dtype="boolean"), pool_right=0.0)
    study = study_of(dataclasses.replace(data, labels=labels))
    rows = {row.name: row for row in references(study, study.decide(load_selector("confidence")))}
    assert np.isnan(rows["learned-correct"].success).all()
    np.testing.assert_array_equal(rows["drop-wrong"].success, rows["keep-all"].success)


def test_same_problem_knows_every_subset_outside_blocks_from_its_own_draws(data: LabelData) -> None:
    success = data.success.copy()
    success[:, SINGLES] = 0.25
    study = study_of(dataclasses.replace(data, success=success), "same-problem")
    decisions = study.decide(load_selector("keep-all"))
    table = judged(study, decisions)
    assert (table[:, SINGLES] == 0.25).all()
    np.testing.assert_array_equal(table[:, [FULL, *REMOVALS]], decisions.success[:, [FULL, *REMOVALS]])


def test_a_training_part_without_verdicts_leaves_one_reference_out_and_stops_nothing(data: LabelData) -> None:
    study = study_of(data)
    first, selector = study.splits[0].folds[0], load_selector("keep-all")
    correct = data.labels["proposal_correct"].where(np.isin(data.pool, first.test))  # known in one fold alone
    blind = dataclasses.replace(data, labels=data.labels.assign(proposal_correct=correct))
    study = study_of(blind)
    decisions = study.decide(selector)
    found = {row.name: row.success for row in references(study, decisions)}
    np.testing.assert_array_equal(np.isnan(found.pop("learned-correct")), decisions.fold == 0)
    assert all(np.isfinite(success).all() for success in found.values())
