"""Screening: what it gives, that its tests stay valid, and which effects it may report."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.errors import DhdError
from dhd_labels.stats.allocation import all_effects, later_effects, next_blocks, screen_effects
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.exact_null import problem_tests
from dhd_labels.stats.families import FAMILIES, NULLS, Null
from dhd_labels.stats.multiplicity import discoveries
from tests.stats.worlds import drawn, near_deterministic, noisy, screened

RNG = np.random.default_rng
histories = st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=4), min_size=1, max_size=12)


def test_everyone_gets_a_first_block_before_anyone_gets_a_second() -> None:
    assert next_blocks([[3], [], [7], []], budget=10, max_blocks=5) == [0, 1, 0, 1]
    assert next_blocks([[3], [], []], budget=1, max_blocks=5) == [0, 1, 0]


def test_only_mixed_first_blocks_go_on_the_most_mixed_first() -> None:
    assert next_blocks([[0], [6], [3], [7], [5]], budget=100, max_blocks=5) == [0, 4, 4, 0, 4]
    assert next_blocks([[0], [6], [3], [7], [5]], budget=6, max_blocks=5) == [0, 0, 4, 0, 2]


def test_the_first_block_decides_so_an_interrupted_allocation_goes_on_alike() -> None:
    once = next_blocks([[6], [3], [7], [2]], budget=7, max_blocks=5)
    assert once == [0, 4, 0, 3]
    assert next_blocks([[6], [3, 7], [7], [2, 0, 7]], budget=7 - 3, max_blocks=5) == [0, 3, 0, 1]


def test_a_longer_screen_gives_everyone_two_blocks_and_goes_on_where_either_is_mixed() -> None:
    assert next_blocks([[3], [], [7]], budget=9, max_blocks=5, screen_blocks=2) == [1, 2, 1]
    assert next_blocks([[3], [], [7]], budget=2, max_blocks=5, screen_blocks=2) == [1, 1, 0]
    assert next_blocks([[3, 7], [0, 7], [7, 6]], budget=9, max_blocks=5, screen_blocks=2) == [3, 0, 3]


@given(histories, st.integers(0, 40), st.integers(1, 6))
def test_never_more_than_the_budget_or_the_most_and_none_where_not_mixed(
    counts: list[list[int]], budget: int, most: int
) -> None:
    given_now = next_blocks(counts, budget, most)
    assert sum(given_now) <= budget
    for history, more in zip(counts, given_now, strict=True):
        assert more >= 0 and len(history) + more <= max(most, len(history))
        assert more == 0 or history[0] not in (0, 7)


@given(histories, st.integers(0, 40))
def test_swapping_successes_and_failures_changes_nothing(counts: list[list[int]], budget: int) -> None:
    mirrored = [[7 - count for count in history] for history in counts]
    assert next_blocks(counts, budget, 5) == next_blocks(mirrored, budget, 5)


def test_what_is_out_of_range_is_refused() -> None:
    for counts, budget, most, screen in (
        ([[8]], 1, 5, 1),
        ([[-1]], 1, 5, 1),
        ([[3]], -1, 5, 1),
        ([[3]], 1, 0, 1),
        ([[3]], 1, 5, 6),
        ([[3]], 1, 5, 0),
    ):
        with pytest.raises(DhdError, match="The .* must be"):
            next_blocks(counts, budget, most, screen)


@pytest.mark.parametrize("null", NULLS)
def test_under_the_null_a_screened_p_is_exactly_as_rare_as_it_says(null: Null) -> None:
    """Conditional validity, by enumeration: given all counts, every arrangement is as likely, screened or not."""
    counts = (3, 6)
    everything = []
    for first, second in itertools.product(*(itertools.combinations(range(7), count) for count in counts)):
        block = np.zeros((2, 7), dtype=int)
        block[0, list(first)] = 1
        block[1, list(second)] = 1
        everything.append(block)
    blocks = screened(Blocks.of(np.array(everything)), 2)
    assert (blocks.per_pool == 2).all()  # the same for all arrangements: counts alone decide
    p = problem_tests(blocks, np.zeros((len(everything), 5), dtype=int), "any", null).p
    for level in np.unique(p):
        assert (p <= level).mean() <= level + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
def test_screened_tests_are_calibrated_under_the_null_with_stopped_problems_in(null: Null) -> None:
    rng, n = RNG(31), 6000
    rates = np.repeat(rng.choice([0.01, 0.3, 0.6, 0.85, 0.99], (n, 1)), 7, axis=1)
    whole, codes = drawn(rng, rates, 5), rng.integers(0, 2, (n, 5))
    for budget in (None, n + n // 2):
        blocks = screened(whole, 5, budget)
        assert 0 < (blocks.per_pool == 1).sum() < n
        for family in FAMILIES:
            found = problem_tests(blocks, codes, family, null)
            assert len(found.p) + sum(found.excluded.values()) == n
            for level in (0.01, 0.05, 0.1):
                rare = (found.p <= level).mean()
                assert rare <= level + 3 * np.sqrt(level * (1 - level) / len(found.p)), (budget, family, level)


@pytest.mark.slow
def test_a_rule_that_looks_at_p_would_not_be_calibrated() -> None:
    """The check above can fail: stopping where p is smallest makes small p too frequent."""
    rng, n, level = RNG(32), 6000, 0.2
    whole, codes = drawn(rng, np.full((n, 7), 0.8), 5), np.zeros((n, 5), dtype=int)
    p = np.min([problem_tests(whole.where(whole.number <= last), codes, "any", "seven").p for last in range(5)], axis=0)
    assert (p <= level).mean() > level + 3 * np.sqrt(level * (1 - level) / n)


@pytest.mark.slow
@pytest.mark.parametrize(("effect", "screen_blocks"), [(0.98, 1), (0.92, 2)])
def test_screening_finds_what_fixed_allocation_finds_with_half_the_calls(effect: float, screen_blocks: int) -> None:
    """Two in a hundred full draws disagree, as published; a weaker effect needs a second block of screening."""
    rng, fixed_found, both_found, calls, mixed = RNG(33), 0, 0, [], []
    for _ in range(6):
        rates, _ = near_deterministic(rng, 1000, 0.05, effect=effect)
        whole = drawn(rng, rates, 5)
        mixed.append(np.isin(whole.counts, range(1, 7)).reshape(1000, 5).any(axis=1).mean())
        codes = np.zeros((1000, 5), dtype=int)
        kept = screened(whole, 5, screen_blocks=screen_blocks)
        fixed, some = (discoveries(problem_tests(b, codes, "wrong_helpful", "seven")).bh for b in (whole, kept))
        fixed_found += len(fixed)
        both_found += len(set(some) & set(fixed))
        calls.append(len(kept.pool) / len(whole.pool))
    assert np.mean(mixed) <= 0.35
    assert fixed_found > 100
    assert both_found >= 0.95 * fixed_found
    assert np.max(calls) <= 0.52 if screen_blocks == 2 else np.max(calls) <= 0.35


@pytest.mark.slow
def test_later_and_first_blocks_are_unbiased_and_reusing_the_screen_is_not() -> None:
    rng, n = RNG(34), 60_000
    rates, _ = noisy(rng, n, 1.0, effect=0.25)
    rates[:, :] = np.where(np.arange(7) == 2, 0.8, 0.95)
    truth = np.array([0.15, 0, 0, 0, 0])
    blocks = screened(drawn(rng, rates, 3), 3)
    assert 0.3 < (blocks.per_pool == 1).mean() < 0.8

    def error(values: np.ndarray) -> tuple[float, float]:
        return float(values[:, 0].mean() - truth[0]), float(values[:, 0].std() / np.sqrt(len(values)))

    first, later, reused = screen_effects(blocks), later_effects(blocks), all_effects(blocks)
    for unbiased in (first, later):
        off, standard_error = error(unbiased.values)
        assert abs(off) < 3 * standard_error
    going_on = np.isin(reused.pool, later.pool)
    off, standard_error = error(reused.values[going_on])
    assert off > 10 * standard_error
    alone = screen_effects(blocks.where(np.isin(blocks.pool, later.pool)))
    chance = len(later.pool) / n
    assert alone.values[:, 0].mean() == pytest.approx(truth[0] / chance, rel=0.05)


def test_effects_count_what_they_leave_out() -> None:
    whole = Blocks.of(np.tile([1, 1, 0, 1, 1, 1, 1], (3, 3, 1)))
    blocks = whole.where((whole.pool == 0) | ((whole.pool == 1) & (whole.number == 2)))
    later, first = later_effects(blocks), screen_effects(blocks)
    assert (later.pool.tolist(), later.n_blocks.tolist()) == ([0, 1], [2, 1])
    assert later.excluded == {"no_complete_block": 1}
    assert (first.pool.tolist(), first.excluded) == ([0], {"no_complete_block": 2})
    assert first.values[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert all_effects(blocks).n_blocks.tolist() == [3, 1]
