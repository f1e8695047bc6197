"""The policies: ties, thresholds, recorded subsets only, and tuned thresholds against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_labels.records import Arm
from dhd_selectors.actions import (
    ACTION_OF_ARM,
    ALONE,
    FULL,
    N_ACTIONS,
    REMOVALS,
    SINGLES,
    action_name,
    action_of,
    slots_of,
)
from dhd_selectors.policy import NEVER, POLICY_NAMES, KeepBest, OrAlone, Policy, RemoveUpTo, RemoveWorst, load_policy

POLICY = RemoveWorst()
BOLD = RemoveWorst(caution=0.0)


def arrays(values: list[list[float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, k = np.shape(values)
    return np.repeat(np.arange(n), k), np.tile(np.arange(k), n), np.asarray(values, dtype=float).ravel()


def everything(n: int) -> np.ndarray:
    return np.ones((n, N_ACTIONS), dtype=bool)


def removal_success(gain: list[list[float]]) -> np.ndarray:
    """Success 0 of the full pool, and these gains of removing a slot; everything else unknown."""
    success = np.full((len(gain), N_ACTIONS), np.nan)
    success[:, FULL] = 0.0
    for slot in range(len(gain[0])):
        success[:, REMOVALS[slot]] = [row[slot] for row in gain]
    return success


def test_actions_are_the_slots_that_are_kept() -> None:
    assert (FULL, ALONE) == (31, 0)
    assert ACTION_OF_ARM["without-1-of-5"] == FULL ^ 2 == REMOVALS[1]
    assert ACTION_OF_ARM["only-3"] == 8 == SINGLES[3]
    assert ACTION_OF_ARM["prefix-2"] == ACTION_OF_ARM["full"] >> 3 == 3
    assert ACTION_OF_ARM["without-0-of-2"] == ACTION_OF_ARM["only-1"]
    for action in range(N_ACTIONS):
        assert action_of(slots_of(action)) == action
        name = action_name(action)
        assert ACTION_OF_ARM.get(name, action) == action
        assert name in ACTION_OF_ARM or name == Arm.subset(slots_of(action)).name


def test_removes_the_worst_below_the_threshold() -> None:
    pools, slots, values = arrays([[0.3, -0.2, 0.1], [0.3, 0.2, 0.1], [-0.5, -0.5, 0.0]])
    assert POLICY.choose(pools, slots, values, everything(3), (0.0,)).tolist() == [REMOVALS[1], FULL, REMOVALS[0]]


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_a_value_at_the_threshold_is_kept_and_never_removes_nothing(name: str) -> None:
    policy = load_policy(name)
    pools, slots, values = arrays([[0.0] * 5])
    assert policy.choose(pools, slots, values, everything(1), policy.pinned(0.0)).tolist() == [FULL]
    assert policy.choose(pools, slots, values - 1e9, everything(1), policy.pinned(NEVER)).tolist() == [FULL]


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_rows_may_come_in_any_order(name: str) -> None:
    policy = load_policy(name)
    rng = np.random.default_rng(0)
    pools, slots, values = arrays(rng.normal(-0.1, 0.3, (20, 5)).tolist())
    order = rng.permutation(100)
    success = rng.random((20, N_ACTIONS))
    for thresholds in (policy.pinned(0.0), policy.tune(pools, slots, values, success, np.ones(20))):
        first = policy.choose(pools, slots, values, everything(20), thresholds)
        again = policy.choose(pools[order], slots[order], values[order], everything(20), thresholds)
        assert np.array_equal(first, again)
    again = policy.tune(pools[order], slots[order], values[order], success, np.ones(20))
    assert again == policy.tune(pools, slots, values, success, np.ones(20))


@pytest.mark.parametrize("name", [*POLICY_NAMES, "remove-up-to-4"])
def test_equal_values_change_nothing(name: str) -> None:
    policy = load_policy(name)
    pools, slots, values = arrays([[0.1] * 5] * 40)
    success = np.ones((40, N_ACTIONS))
    success[:, FULL] = 0.0
    thresholds = policy.tune(pools, slots, values, success, np.ones(40))
    assert (policy.choose(pools, slots, values, everything(40), thresholds) == FULL).all()


@pytest.mark.parametrize("name", [*POLICY_NAMES, "remove-up-to-5"])
@pytest.mark.parametrize("seed", range(4))
def test_only_recorded_subsets_are_chosen(name: str, seed: int) -> None:
    policy, rng = load_policy(name), np.random.default_rng(seed)
    pools, slots, values = arrays(rng.normal(-0.5, 0.5, (200, 5)).tolist())
    recorded = rng.random((200, N_ACTIONS)) < 0.3
    recorded[:50] = False
    chosen = policy.choose(pools, slots, values, recorded, policy.pinned(0.0))
    assert (recorded[np.arange(200), chosen] | (chosen == FULL)).all()
    assert (chosen[:50] == FULL).all()
    assert (chosen != FULL).any()


def test_no_gain_keeps_all_and_unknown_outcomes_are_ignored() -> None:
    pools, slots, values = arrays([[-0.2, 0.1], [-0.1, 0.1]])
    assert BOLD.tune(pools, slots, values, removal_success([[0, 0], [0, 0]]), np.ones(2)) == (NEVER,)
    unknown = np.full((2, N_ACTIONS), np.nan)
    assert BOLD.tune(pools, slots, values, unknown, np.ones(2)) == (NEVER,)
    thresholds = BOLD.tune(pools, slots, values, removal_success([[np.nan, 0.0], [0.5, 0.0]]), np.ones(2))
    assert BOLD.choose(pools, slots, values, everything(2), thresholds).tolist() == [REMOVALS[0], REMOVALS[0]]


def test_problems_count_equally_through_the_weights() -> None:
    pools, slots, values = arrays([[-0.2, 0.5], [-0.1, 0.5], [-0.1, 0.5]])
    first_only = removal_success([[0.3, 0], [-0.2, 0], [-0.2, 0]])
    assert BOLD.tune(pools, slots, values, first_only, np.ones(3)) == (pytest.approx(-0.15),)
    others = removal_success([[-0.2, 0], [0.3, 0], [0.3, 0]])
    assert BOLD.tune(pools, slots, values, others, np.array([1, 0.5, 0.5])) == (pytest.approx(0.2),)
    assert BOLD.tune(pools, slots, values, others, np.array([1, 0.25, 0.25])) == (NEVER,)


def all_removals(values: np.ndarray, most: int, threshold: float) -> tuple[int, ...]:
    """The removed slots by brute force: most worth, then fewest, then the lowest."""
    sets = [s for size in range(most + 1) for s in itertools.combinations(range(5), size)]
    worth = [sum(threshold - values[i] for i in s) for s in sets]
    return sets[int(np.argmax(worth))]


@settings(deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=5, max_size=5), st.integers(1, 5), st.integers(-3, 3))
def test_removing_several_takes_the_most_worth_set(values: list[int], most: int, threshold: int) -> None:
    pools, slots, row = arrays([[float(v) for v in values]])
    chosen = RemoveUpTo(most).choose(pools, slots, row, everything(1), (float(threshold),))[0]
    assert slots_of(FULL ^ int(chosen)) == all_removals(row, most, float(threshold))
    if most == 1:
        assert chosen == RemoveWorst().choose(pools, slots, row, everything(1), (float(threshold),))[0]


def test_or_alone_and_keep_best() -> None:
    pools, slots, values = arrays(
        [[-0.3, -0.3, -0.3, -0.3, 0.2], [-0.3, 0.3, 0.3, 0.3, 0.2], [0.1, 0.1, 0.4, 0.1, 0.4]]
    )
    assert OrAlone().choose(pools, slots, values, everything(3), (0.0, -0.1)).tolist() == [ALONE, REMOVALS[0], FULL]
    best = KeepBest().choose(pools, slots, values, everything(3), (0.0,))
    assert best.tolist() == [SINGLES[4], FULL, FULL]
    assert KeepBest().choose(pools, slots, values, everything(3), (1.0,)).tolist() == [16, 2, 4], (
        "lowest slot of equals"
    )


def earned(policy: Policy, thresholds: tuple[float, ...], arguments: tuple, success: np.ndarray) -> float:
    pools, slots, values = arguments
    chosen = policy.choose(pools, slots, values, np.isfinite(success), thresholds)
    return float(np.nansum(success[np.arange(len(success)), chosen] - success[:, FULL]))


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=2, max_size=2),
        min_size=1,
        max_size=6,
    )
)
def test_tuning_equals_brute_force(world: list[list[tuple[int, int]]]) -> None:
    given_values = arrays([[v / 10 for v, _ in pool] for pool in world])
    success = removal_success([[float(g) for _, g in pool] for pool in world])
    distinct = np.unique(given_values[2])
    candidates = [(NEVER,), *((cut,) for cut in (distinct[1:] + distinct[:-1]) / 2)]
    tuned = BOLD.tune(*given_values, success, np.ones(len(world)))
    gains = [earned(BOLD, candidate, given_values, success) for candidate in candidates]
    assert earned(BOLD, tuned, given_values, success) == max(gains)
    best = candidates[gains.index(max(gains))]  # the lowest: it removes least
    known = np.isfinite(success)
    assert np.array_equal(*(BOLD.choose(*given_values, known, c) for c in (tuned, best)))


@pytest.mark.parametrize("policy", [RemoveUpTo(2, 0.0), OrAlone(0.0), KeepBest(0.0)])
def test_other_policies_tune_to_the_best_of_their_thresholds(policy: Policy) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arguments = arrays(rng.integers(-3, 4, (12, 5)).astype(float).tolist())
        success = rng.integers(-2, 3, (12, N_ACTIONS)).astype(float)
        tuned = policy.tune(*arguments, success, np.ones(12))
        cuts = [NEVER, *np.arange(-3.05, 3.1, 0.05)]
        second = tuned[1:]  # `or-alone` tunes removing first, then going alone
        if isinstance(policy, OrAlone):
            removing = [earned(RemoveWorst(), (cut,), arguments, success) for cut in cuts]
            assert earned(RemoveWorst(), tuned[:1], arguments, success) == max(removing)
            options = [earned(policy, (tuned[0], cut), arguments, success) for cut in cuts]
        else:
            options = [earned(policy, (cut, *second), arguments, success) for cut in cuts]
        assert earned(policy, tuned, arguments, success) == pytest.approx(max(options))


def test_caution_wants_evidence() -> None:
    """One lucky pool moves nothing; a hundred do."""
    lone = arrays([[-0.2, 0.1], [0.3, 0.4]])
    assert POLICY.tune(*lone, removal_success([[0.5, 0], [0, 0]]), np.ones(2)) == (NEVER,)
    many = arrays([[-0.2, 0.1]] * 100 + [[0.3, 0.4]])
    assert POLICY.tune(*many, removal_success([[0.5, 0.0]] * 101), np.ones(101)) > (NEVER,)


def test_caution_follows_noise_less_often() -> None:
    acted = {0.0: 0, 1.0: 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        arguments = arrays(rng.normal(0, 1, (60, 5)).tolist())
        success = rng.binomial(5, 0.5, (60, N_ACTIONS)) / 5
        for caution in acted:
            acted[caution] += RemoveWorst(caution).tune(*arguments, success, np.ones(60)) != (NEVER,)
    assert acted[1.0] < 0.8 * acted[0.0]


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(DhdError, match="Did you mean 'remove-worst'"):
        load_policy("remove-wurst")
    with pytest.raises(DhdError, match="'x' is not known"):
        load_policy("x")
    for number in ("6", "99"):
        with pytest.raises(DhdError, match="between 1 and 5"):
            load_policy(f"remove-up-to-{number}")
    with pytest.raises(DhdError, match="not known"):
        load_policy("remove-up-to-0")
    assert load_policy("remove-up-to-1") == RemoveWorst()
    assert load_policy("remove-up-to-3") == RemoveUpTo(3)
