"""The estimator of the gain: by hand, against brute force, and on worlds with a known answer."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.data import ALONE, ARMS, FULL, LabelData, assemble, success_of
from training.gain import (
    EXACT_UP_TO,
    bootstrap_interval,
    estimate,
    paired_differences,
    reference_actions,
    sign_flip_p,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture
def small(kit: Any) -> LabelData:
    """Two problems; the first has two pools (two integrators). Slots 1 and 2 of each pool are graded wrong."""
    verdicts = {0: True, 1: False, 2: False, 3: None, 4: True}
    messages, replays = [], []
    for problem, integrator in (("p0", "i"), ("p0", "j"), ("p1", "i")):
        own = {"integrator": integrator}
        messages += [kit.message(problem, s, proposal_correct=c, **own) for s, c in verdicts.items()]
        draws = {("p0", "i"): ("full", 1, 0), ("p0", "j"): ("full", 1, 1), ("p1", "i"): ("full", 0, 0)}
        arm, *full = draws[problem, integrator]
        replays += [kit.replay(problem, arm, bool(c), draw=d, **own) for d, c in enumerate(full)]
        replays += [kit.replay(problem, f"without-{s}-of-5", s == 1, **own) for s in range(5)]
    replays += [
        kit.replay("p0", "alone", True, block=None),
        kit.replay("p0", "alone", None, block=None, draw=1, status="no_answer"),
        kit.replay("p0", "alone", None, block=None, draw=2, status="operational"),
        kit.replay("p1", "alone", None, block=None, status="truncated"),
        kit.replay("p1", "full", True, block=None, draw=9),  # a nested draw, outside the matched blocks
        kit.replay("p1", "prefix-3", True, block=None),
    ]
    problems = [{"problem_id": p, "answer_type": "integer", "question": None} for p in ("p0", "p1")]
    return assemble(kit.frame("messages", messages), kit.frame("replays", replays), kit.frame("problems", problems))


def test_success_by_the_accuracy_rule(small: LabelData) -> None:
    assert ARMS[FULL] == "full"
    assert ARMS[ALONE] == "alone"
    assert small.success[:, FULL].tolist() == [0.5, 1.0, 0.0]
    assert small.success[:, 2].tolist() == [1.0, 1.0, 1.0]
    assert small.success[0, ALONE] == 0.5
    assert np.isnan(small.success[1:, ALONE]).all()
    assert small.removal_gain[:5].tolist() == [-0.5, 0.5, -0.5, -0.5, -0.5]


def test_blocks_that_only_some_problems_got_score_nothing(kit: Any) -> None:
    """p0 was screened by its first block and went on; p1 has two blocks like every other problem."""
    messages = [kit.message(p, s, screen_blocks=n) for p, n in (("p0", 1), ("p1", 0)) for s in range(5)]
    replays = [kit.replay(p, arm, block == 0, block=block) for p in ("p0", "p1") for block in (0, 1)
               for arm in ("full", *(f"without-{s}-of-5" for s in range(5)))]  # fmt: skip
    replays += [kit.replay("p0", "alone", True, block=None)]
    problems = [{"problem_id": p, "answer_type": "integer", "question": None} for p in ("p0", "p1")]
    data = assemble(kit.frame("messages", messages), kit.frame("replays", replays), kit.frame("problems", problems))
    assert (data.success[0] == 1.0).all()
    assert (np.delete(data.success[1], ALONE) == 0.5).all()


def test_status_decides_success(kit: Any) -> None:
    statuses = ["graded", "graded", "no_answer", "truncated", "operational", "undetermined"]
    rows = [
        kit.replay("p", "full", c) | {"status": s} for s, c in zip(statuses, [True, False] + [None] * 4, strict=True)
    ]
    expected = [1.0, 0.0, 0.0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(success_of(kit.frame("replays", rows)), expected)


def test_differences_average_pools_then_problems(small: LabelData) -> None:
    remove_first_wrong = np.full(3, 2)
    against_all = paired_differences(small, remove_first_wrong, "keep-all")
    assert against_all.values.tolist() == [0.25, 1.0]
    assert against_all.excluded == {}
    assert paired_differences(small, remove_first_wrong, "drop-wrong").values.tolist() == [0.0, 0.0]


def test_pools_without_an_outcome_are_counted(small: LabelData) -> None:
    against_alone = paired_differences(small, np.full(3, 2), "alone")
    assert against_alone.values.tolist() == [0.5]
    assert against_alone.excluded == {"no_outcome_of_reference_arm:alone": 2}
    alone = paired_differences(small, np.full(3, ALONE), "alone")
    assert alone.values.tolist() == [0.0]
    assert alone.excluded == {"no_outcome_of_chosen_arm:alone": 2}


def test_references(small: LabelData) -> None:
    assert reference_actions("keep-all", small).tolist() == [FULL] * 3
    assert reference_actions("alone", small).tolist() == [ALONE] * 3
    assert reference_actions("drop-wrong", small).tolist() == [2] * 3


def test_keep_all_gains_exactly_nothing(kit: Any) -> None:
    data = kit.simulate(20, 0).data
    row = estimate(paired_differences(data, np.zeros(20, dtype=int), "keep-all").values, "keep-all", rng())
    assert (row.gain, row.ci_low, row.ci_high, row.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_points_and_missing_numbers() -> None:
    row = estimate(np.array([0.1, 0.3]), "alone", rng())
    assert row.gain == pytest.approx(20.0)
    assert row.ci_low == pytest.approx(10.0)
    assert row.ci_high == pytest.approx(30.0)
    assert row.p_value == 0.5
    lone = estimate(np.array([0.1]), "alone", rng())
    assert (lone.gain, lone.ci_low, lone.p_value, lone.n_problems) == (10.0, None, None, 1)
    assert estimate(np.zeros(0), "alone", rng()).gain is None


def two_sided_by_brute_force(values: list[float]) -> float:
    sums = [
        sum(s * v for s, v in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    return float(np.mean([abs(s) >= abs(sum(values)) - 1e-9 for s in sums]))


@settings(deadline=None)
@given(st.lists(st.sampled_from([-0.3, -0.1, 0.0, 0.1, 0.2, 0.7]), min_size=1, max_size=8))
def test_sign_flip_is_exact(values: list[float]) -> None:
    assert sign_flip_p(np.array(values), rng()) == pytest.approx(two_sided_by_brute_force(values))


def test_sign_flip_by_sampling_agrees_with_the_exact_one() -> None:
    values = rng(1).normal(0.2, 0.5, EXACT_UP_TO)
    exact = sign_flip_p(values, rng())
    padded = np.concatenate([values, np.full(1, 1e-9)])  # one more problem that changes no sum: sampled, not enumerated
    assert sign_flip_p(padded, rng(), n_flips=40_000) == pytest.approx(exact, abs=0.01)
    assert sign_flip_p(np.ones(60), rng()) == 1 / 10_001


def test_bootstrap_matches_the_normal_interval() -> None:
    values = rng(2).normal(0.1, 0.4, 400)
    low, high = bootstrap_interval(values, rng())
    half = 1.96 * values.std() / np.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.004)
    assert high == pytest.approx(values.mean() + half, abs=0.004)
    assert bootstrap_interval(values, rng(5)) == bootstrap_interval(values, rng(5))


def test_a_known_gain_is_recovered_without_bias(kit: Any) -> None:
    """Removing message 0 adds 0.15 to success in every pool: choosing that arm gains 15 points on average."""

    def first_hurts(_: np.random.Generator, hedges: np.ndarray) -> np.ndarray:
        return np.tile([-0.15, 0.1, 0.0, 0.0, 0.1], (len(hedges), 1))

    gains, covered = [], 0
    for seed in range(25):
        data = kit.simulate(40, seed, value=first_hurts, n_blocks=3).data
        row = estimate(paired_differences(data, np.ones(40, dtype=int), "keep-all").values, "keep-all", rng(seed))
        gains.append(row.gain)
        covered += row.ci_low <= 15.0 <= row.ci_high
    assert np.mean(gains) == pytest.approx(15.0, abs=3 * np.std(gains) / 5)
    assert covered >= 21


def test_exclusions_do_not_bias_the_paired_gain(small: LabelData) -> None:
    """A pool leaves a comparison as a pair, never only one side of it."""
    hidden = dataclasses.replace(small, success=small.success.copy())
    hidden.success[1, FULL] = np.nan
    difference = paired_differences(hidden, np.full(3, 2), "keep-all")
    assert difference.values.tolist() == [0.5, 1.0]
    assert difference.excluded == {"no_outcome_of_reference_arm:keep-all": 1}
