"""Labels against hand counts, brute force and a world with known truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import message, outcome, pool, problem

from dhd_labels.grading.grader import grade_by_rules
from dhd_labels.labels import (
    Proposal,
    block_effects,
    bootstrap_interval,
    grade_proposal,
    identical_input_disagreement,
    label_pool,
    stability_of,
)
from dhd_labels.records import Arm, Outcome

PROPOSALS = [Proposal("graded", True)] * 5
effects = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=5)


def block(number: int, full: tuple[bool | None, bool | None], removed: list[bool | None]) -> list[Outcome]:
    def draw(arm: Arm, index: int, correct: bool | None) -> Outcome:
        return outcome(arm, number, index, correct, "graded" if correct is not None else "truncated")

    return [draw(Arm.full(), i, c) for i, c in enumerate(full)] + [
        draw(Arm.without(s), 0, c) for s, c in enumerate(removed)
    ]


def test_trajectory_value_is_the_mean_over_blocks_of_full_minus_removal() -> None:
    outcomes = block(0, (True, False), [False, True, True, False, True])
    outcomes += block(1, (True, True), [False, True, False, True, True])
    labels = label_pool(pool(), PROPOSALS, outcomes, "missing")
    assert [label.trajectory_value for label in labels] == [0.75, -0.25, 0.25, 0.25, -0.25]
    assert [label.n_blocks for label in labels] == [2] * 5


def test_order_of_outcomes_does_not_matter() -> None:
    outcomes = block(0, (True, False), [False] * 5) + block(1, (True, True), [True, False, True, False, True])
    shuffled = [outcomes[i] for i in np.random.default_rng(0).permutation(len(outcomes))]
    assert label_pool(pool(), PROPOSALS, outcomes, "missing") == label_pool(pool(), PROPOSALS, shuffled, "missing")


def test_a_lost_draw_costs_its_own_block_and_shifts_no_pair() -> None:
    outcomes = block(0, (True, True), [None] + [True] * 4) + block(1, (True, True), [False] * 5)
    first, second = label_pool(pool(), PROPOSALS, outcomes, "missing")[:2]
    assert (first.trajectory_value, first.n_blocks) == (1.0, 1)
    assert (second.trajectory_value, second.n_blocks) == (0.5, 2)


def test_missing_stays_missing_with_a_reason() -> None:
    label = label_pool(pool(), PROPOSALS, [], "missing")[0]
    assert label.trajectory_value is None and label.trajectory_value_reason == "no complete block"
    assert label.single_effect is None and label.single_effect_reason == "no graded draw of only-0"
    assert label.in_pool_effect is None and label.in_pool_effect_reason
    assert label.cell is None and label.stability == "indeterminate"


def test_no_answer_is_missing_unless_the_setting_says_incorrect() -> None:
    outcomes = [outcome(Arm.full(), 0, 0, True), outcome(Arm.full(), 0, 1, True)]
    outcomes.append(outcome(Arm.without(0), 0, 0, None, "no_answer"))
    assert label_pool(pool(), PROPOSALS, outcomes, "missing")[0].trajectory_value is None
    assert label_pool(pool(), PROPOSALS, outcomes, "incorrect")[0].trajectory_value == 1.0


@pytest.mark.parametrize("status", ["truncated", "operational", "undetermined"])
def test_other_ungraded_outcomes_are_missing_under_both_settings(status: str) -> None:
    outcomes = [outcome(Arm.full(), 0, d, True) for d in (0, 1)] + [outcome(Arm.without(0), 0, 0, None, status)]
    for setting in ("missing", "incorrect"):
        assert label_pool(pool(), PROPOSALS, outcomes, setting)[0].trajectory_value is None  # type: ignore[arg-type]


def test_single_effect_is_only_minus_alone() -> None:
    outcomes = [outcome(Arm.alone(), None, d, d == 0) for d in range(4)] + [outcome(Arm.only(0), None, 0, True)]
    assert label_pool(pool(), PROPOSALS, outcomes, "missing")[0].single_effect == 0.75


def test_cell_uses_one_draw_and_in_pool_effect_the_mean() -> None:
    outcomes = block(0, (True, False), [False] * 5) + block(1, (False, True), [True] * 5)
    label = label_pool(pool(), PROPOSALS, outcomes, "missing")[0]
    assert label.cell == "correct_helpful"
    assert label.in_pool_effect == 0.0


def test_unmatched_draws_come_before_blocks_for_the_single_draw_effect() -> None:
    outcomes = block(0, (True, True), [False] * 5)
    outcomes += [outcome(Arm.full(), None, 0, False), outcome(Arm.without(0), None, 0, True)]
    label = label_pool(pool(), PROPOSALS, outcomes, "missing")[0]
    assert (label.in_pool_effect, label.cell) == (-1.0, "correct_harmful")


@pytest.mark.parametrize(
    ("answer", "status", "correct"),
    [
        ("7", "graded", True),
        ("8", "graded", False),
        ("", "no_answer", None),
        ("blue", "undetermined", None),
        ("I do not know", "no_answer", None),
        ("\\boxed{\\text{unknown}}", "no_answer", None),
    ],
)
def test_an_unreadable_proposal_is_unknown_never_wrong(answer: str, status: str, correct: bool | None) -> None:
    found = grade_proposal(problem(), message(0, proposed_answer=answer), grade_by_rules)
    assert (found.status, found.correct) == (status, correct)


@given(effects)
def test_bootstrap_is_exact(values: list[float]) -> None:
    means = sorted(np.mean(draw) for draw in itertools.product(values, repeat=len(values)))
    tail = 0.025 * len(means)
    low = means[max(0, int(np.ceil(tail - 1e-9)) - 1)]
    high = means[len(means) - max(1, int(np.ceil(tail - 1e-9)))]
    found = bootstrap_interval(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@given(effects)
def test_mirrored_effects_mirror_the_interval(values: list[float]) -> None:
    one, other = bootstrap_interval(values), bootstrap_interval([-v for v in values])
    assert (one.low, one.high) == (pytest.approx(-other.high), pytest.approx(-other.low))


@given(effects)
def test_interval_contains_the_mean_and_one_block_is_never_stable(values: list[float]) -> None:
    found = bootstrap_interval(values)
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9
    assert stability_of(bootstrap_interval(values[:1]), 1) == "indeterminate"


def test_stability_needs_the_whole_interval_on_one_side() -> None:
    assert stability_of(bootstrap_interval([1, 1, 0.5]), 3) == "stable_helpful"
    assert stability_of(bootstrap_interval([-1, -0.5]), 2) == "stable_harmful"
    assert stability_of(bootstrap_interval([1, 0, 0, 0]), 4) == "indeterminate"


def test_identical_inputs_are_compared_inside_their_block() -> None:
    outcomes = block(0, (True, False), [True] * 5) + block(1, (True, True), [True] * 5)
    outcomes += block(2, (True, None), [True] * 5)
    assert identical_input_disagreement(outcomes) == (1, 2)


def test_a_block_with_one_full_draw_is_incomplete() -> None:
    assert block_effects({("full", 0, 0): 1.0, ("without-0-of-5", 0, 0): 0.0}, 0) == []
