"""The four estimands: what each fold learns from and judges, and refusals where there is too little."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhd_labels.errors import DhdError, NothingMadeError
from training.data import LabelData, assemble
from training.estimands import Fold, make_folds, problem_groups
from training.evidence import all_evidence


def world_of(
    kit: Any, integrators: tuple[str, ...] = ("i",), benchmarks: tuple[str, ...] = ("b",), n: int = 12
) -> LabelData:
    """Every problem under every integrator; problems are dealt to the benchmarks."""
    world = kit.simulate(n, 0, n_blocks=3)

    def grown(frame: pd.DataFrame) -> pd.DataFrame:
        number = frame["problem_id"].str[1:].astype(int) % len(benchmarks)
        frame = frame.assign(benchmark=number.map(dict(enumerate(benchmarks))))
        return pd.concat([frame.assign(integrator=name) for name in integrators], ignore_index=True)

    return assemble(grown(world.messages), grown(world.replays), world.problems)


@pytest.mark.parametrize(("n", "expected"), [(2, 2), (3, 3), (5, 5), (7, 5), (53, 5)])
def test_groups_partition_the_problems(n: int, expected: int) -> None:
    problems = [f"p{i}" for i in range(n)]
    groups = problem_groups(problems * 3, seed=1)
    assert len(groups) == expected
    assert sorted(p for group in groups for p in group) == sorted(problems)
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    assert min(map(len, groups)) > 0


def test_groups_depend_on_the_seed_and_nothing_else() -> None:
    problems = [f"p{i}" for i in range(30)]
    assert problem_groups(problems, 1) == problem_groups(problems[::-1], 1)
    assert problem_groups(problems, 1) != problem_groups(problems, 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.integers(2, 30))
def test_more_folds_than_groups_never_make_an_empty_one(n: int, wanted: int) -> None:
    groups = problem_groups([f"p{i}" for i in range(n)], 0, wanted)
    assert len(groups) == min(n, wanted) and all(groups)


def test_unseen_problem_keeps_all_pools_of_a_problem_together(kit: Any) -> None:
    data = world_of(kit, integrators=("i", "j"))
    found = make_folds(data, "unseen-problem", 0)
    assert found.notes == ()
    assert sorted(np.concatenate([fold.test for fold in found.folds])) == list(range(data.n_pools))
    for fold in found.folds:
        assert len(fold.test) == 2 * data.pool_problem.iloc[fold.test].nunique()
        assert sorted([*fold.train, *fold.test]) == list(range(data.n_pools))


def test_fewer_problems_than_folds_is_said(kit: Any) -> None:
    assert make_folds(kit.simulate(3, 0).data, "unseen-problem", 0).notes == ("3 folds, as there are only 3 problems",)


def test_unseen_benchmark_leaves_one_out(kit: Any) -> None:
    data = world_of(kit, benchmarks=("a", "b", "c"))
    folds = make_folds(data, "unseen-benchmark", 0).folds
    assert [fold.name for fold in folds] == ["benchmark a", "benchmark b", "benchmark c"]
    for fold, name in zip(folds, "abc", strict=True):
        assert set(data.pools["benchmark"].iloc[fold.test]) == {name}
        assert set(data.pools["benchmark"].iloc[fold.train]) == set("abc") - {name}


def test_unseen_integrator_holds_out_the_integrator_and_the_problems(kit: Any) -> None:
    data = world_of(kit, integrators=("i", "j", "k"))
    folds = make_folds(data, "unseen-integrator", 0).folds
    assert len(folds) == 15
    judged = np.concatenate([fold.test for fold in folds])
    assert sorted(judged) == list(range(data.n_pools)), "every pool is judged once"
    for fold in folds:
        test, train = data.pools.iloc[fold.test], data.pools.iloc[fold.train]
        assert test["integrator"].nunique() == 1
        assert not set(test["integrator"]) & set(train["integrator"])
        assert not set(test["problem_id"]) & set(train["problem_id"])


@pytest.mark.parametrize("estimand", ["unseen-problem", "unseen-benchmark", "unseen-integrator"])
def test_the_test_split_is_judged_and_never_learned_from(kit: Any, estimand: str) -> None:
    data = world_of(kit, integrators=("i", "j"), benchmarks=("a", "b"))
    in_test = data.pool_problem.isin(["p0001", "p0004", "p0006"])
    data = dataclasses.replace(data, pools=data.pools.assign(split=np.where(in_test, "test", "train")))
    found = make_folds(data, estimand, 0, test=True)
    judged = np.concatenate([fold.test for fold in found.folds])
    assert sorted(judged) == np.flatnonzero(in_test).tolist()
    for fold in found.folds:
        assert not in_test.to_numpy()[fold.train].any()


def test_too_few_are_refused(kit: Any) -> None:
    lone = kit.simulate(1, 0).data
    with pytest.raises(NothingMadeError, match="2 problems or more, got 1"):
        make_folds(lone, "unseen-problem", 0)
    data = kit.simulate(6, 0).data
    with pytest.raises(NothingMadeError, match=r"2 benchmarks or more, got 1 \(quickstart\)"):
        make_folds(data, "unseen-benchmark", 0)
    with pytest.raises(NothingMadeError, match=r"2 integrators or more, got 1 \(i\)"):
        make_folds(data, "unseen-integrator", 0)
    with pytest.raises(NothingMadeError, match="2 complete matched blocks"):
        make_folds(kit.simulate(6, 0, n_blocks=1).data, "same-problem", 0)
    with pytest.raises(DhdError, match="--test is for"):
        make_folds(data, "same-problem", 0, test=True)
    with pytest.raises(NothingMadeError, match="test split holds no messages"):
        make_folds(data, "unseen-problem", 0, test=True)


def test_integrators_that_share_no_problem_need_problems_on_both_sides(kit: Any) -> None:
    data = world_of(kit, n=2)
    data = dataclasses.replace(data, pools=data.pools.assign(integrator=["i", "j"]))
    found = make_folds(data, "unseen-integrator", 0)
    assert len(found.folds) == 2
    assert any("2 of 4 integrator folds are empty" in note for note in found.notes)


def test_a_fold_that_judges_what_it_learned_is_refused(kit: Any) -> None:
    data = kit.simulate(4, 0).data
    evidence = all_evidence(data)
    with pytest.raises(AssertionError, match="both parts"):
        Fold(np.array([0, 1]), np.array([1, 2]), evidence, evidence).check(data)
    with pytest.raises(AssertionError, match="empty part"):
        Fold(np.array([0, 1]), np.array([], dtype=int), evidence, evidence).check(data)
    first, second = make_folds(data, "same-problem", 0).folds[:2]
    with pytest.raises(AssertionError, match="both parts"):
        dataclasses.replace(first, judge=second.judge).check(data)


def test_problems_with_the_same_question_are_in_one_fold(kit: Any) -> None:
    world = kit.simulate(12, 0)
    asked = ["What is 2 + 2?", "what is  2+2", None, None, "_", "_", *(f"Question {n}" for n in "abcdef")]
    benchmark = np.where(world.messages["problem_id"].str[1:].astype(int) % 2 == 0, "one", "two")
    data = assemble(world.messages.assign(benchmark=benchmark), world.replays, world.problems.assign(question=asked))
    assert data.pool_group.tolist()[:6] == ["p0000", "p0000", "p0002", "p0003", "p0004", "p0005"]
    for seed in range(5):
        for fold in make_folds(data, "unseen-problem", seed).folds:
            assert len({0, 1} & set(fold.test)) != 1
    for fold in make_folds(data, "unseen-benchmark", 0).folds:
        assert not {0, 1} & set(fold.train), "the other benchmark asks the same"
    with pytest.raises(AssertionError, match="in both parts"):
        fold = make_folds(data, "unseen-problem", 0).folds[0]
        dataclasses.replace(fold, train=np.array([0]), test=np.array([1])).check(data)
    split = dataclasses.replace(data, pools=data.pools.assign(split=np.where(np.arange(12) == 1, "test", "train")))
    fold = make_folds(split, "unseen-problem", 0, test=True).folds[0]
    assert fold.test.tolist() == [1] and fold.train.tolist() == list(range(2, 12))
