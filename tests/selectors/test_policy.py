"""The policy: ties, thresholds, and the tuned threshold against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_selectors.policy import KEEP_ALL, NEVER, RemoveWorst, load_policy

POLICY = RemoveWorst()


def arrays(values: list[list[float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, k = np.shape(values)
    return np.repeat(np.arange(n), k), np.tile(np.arange(k), n), np.asarray(values, dtype=float).ravel()


def test_removes_the_worst_below_the_threshold() -> None:
    pools, slots, values = arrays([[0.3, -0.2, 0.1], [0.3, 0.2, 0.1], [-0.5, -0.5, 0.0]])
    assert POLICY.choose(pools, slots, values, 0.0).tolist() == [1, KEEP_ALL, 0]


def test_a_value_at_the_threshold_is_kept_and_never_removes_nothing() -> None:
    pools, slots, values = arrays([[0.0, 0.0, 0.0]])
    assert POLICY.choose(pools, slots, values, 0.0).tolist() == [KEEP_ALL]
    assert POLICY.choose(pools, slots, values - 1e9, NEVER).tolist() == [KEEP_ALL]


def test_rows_may_come_in_any_order() -> None:
    pools, slots, values = arrays([[0.3, -0.2, -0.2], [0.3, 0.2, -0.1]])
    order = np.array([5, 2, 0, 4, 1, 3])
    assert POLICY.choose(pools[order], slots[order], values[order], 0.0).tolist() == [1, 2]


def test_equal_values_remove_nothing() -> None:
    pools, slots, values = arrays([[0.1] * 5] * 4)
    assert POLICY.tune(pools, slots, values, np.ones(20), np.ones(4)) == NEVER


def test_no_gain_keeps_all_and_unknown_outcomes_are_ignored() -> None:
    pools, slots, values = arrays([[-0.2, 0.1], [-0.1, 0.1]])
    assert POLICY.tune(pools, slots, values, np.zeros(4), np.ones(2)) == NEVER
    assert POLICY.tune(pools, slots, values, np.full(4, np.nan), np.ones(2)) == NEVER
    gain = np.array([np.nan, 0.0, 0.5, 0.0])
    threshold = POLICY.tune(pools, slots, values, gain, np.ones(2))
    assert POLICY.choose(pools, slots, values, threshold).tolist() == [0, 0]


def test_problems_count_equally_through_the_weights() -> None:
    pools, slots, values = arrays([[-0.2, 0.5], [-0.1, 0.5], [-0.1, 0.5]])
    gain = np.array([0.3, 0, -0.2, 0, -0.2, 0])
    assert POLICY.tune(pools, slots, values, gain, np.ones(3)) == pytest.approx(-0.15)
    lone = np.array([-0.2, 0, 0.3, 0, 0.3, 0])
    assert POLICY.tune(pools, slots, values, lone, np.array([1, 0.5, 0.5])) == pytest.approx(0.2)
    assert POLICY.tune(pools, slots, values, lone, np.array([1, 0.25, 0.25])) == NEVER


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=2, max_size=2),
        min_size=1,
        max_size=6,
    )
)
def test_tuning_equals_brute_force(world: list[list[tuple[int, int]]]) -> None:
    pools, slots, values = arrays([[v / 10 for v, _ in pool] for pool in world])
    gain = np.array([g for pool in world for _, g in pool], dtype=float)

    def earned(threshold: float) -> float:
        removed = POLICY.choose(pools, slots, values, threshold)
        return sum(gain[2 * n + slot] for n, slot in enumerate(removed) if slot != KEEP_ALL)

    distinct = np.unique(values)
    candidates = [NEVER, *(distinct[1:] + distinct[:-1]) / 2]
    tuned = POLICY.tune(pools, slots, values, gain, np.ones(len(world)))
    assert earned(tuned) == max(map(earned, candidates))
    best = next(c for c in candidates if earned(c) == earned(tuned))  # the lowest: it removes least
    assert np.array_equal(*(POLICY.choose(pools, slots, values, c) for c in (tuned, best)))


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(DhdError, match="Did you mean 'remove-worst'"):
        load_policy("remove-wurst")
    with pytest.raises(DhdError, match="'or-alone' is not known"):
        load_policy("or-alone")
