"""The exact test against enumeration of every arrangement, Monte Carlo draws and stated floors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.exact_null import (
    best_floor,
    extreme_chance,
    problem_tests,
    removals_null,
    seven_null,
    signed_maximum,
)
from dhd_labels.stats.families import FAMILIES, NULLS, Family, Null, target_slots

SIDES = [(h, c) for h in range(6) for c in range(6 - h) if h + c] + [(5, 5)]
small_blocks = st.lists(st.lists(st.integers(0, 1), min_size=7, max_size=7), min_size=1, max_size=3)
proposals = st.lists(st.sampled_from([1, 0, -1]), min_size=5, max_size=5)


def arrangements(block: np.ndarray, null: Null) -> Iterator[np.ndarray]:
    """Every distinct arrangement of a block, with its multiplicity of one."""
    start = 0 if null == "seven" else 2
    ones = int(block[start:].sum())
    for places in itertools.combinations(range(start, 7), ones):
        made = block.copy()
        made[start:] = 0
        made[list(places)] = 1
        yield made


def brute_force(blocks: np.ndarray, slots: np.ndarray, family: Family, null: Null) -> tuple[float, float]:
    """Return p and the floor, from all arrangements of all blocks."""
    helpful, harmful = target_slots(slots[None], family)

    def statistic(made: np.ndarray) -> int:
        effects = (made[:, :2].sum(axis=1, keepdims=True) - 2 * made[:, 2:]).sum(axis=0)
        return int(signed_maximum(effects[None], helpful, harmful)[0])

    null_values = [
        statistic(np.array(made)) for made in itertools.product(*[list(arrangements(b, null)) for b in blocks])
    ]
    reached, largest = statistic(blocks), max(null_values)
    n = len(null_values)
    return sum(v >= reached for v in null_values) / n, sum(v == largest for v in null_values) / n


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("family", FAMILIES)
@given(small_blocks, proposals)
def test_p_and_floor_are_those_of_all_arrangements(
    family: Family, null: Null, rows: list[list[int]], slots: list[int]
) -> None:
    blocks, codes = np.array(rows[:2]), np.array(slots)
    found = problem_tests(Blocks.of(blocks[None]), codes[None], family, null)
    if len(found.p) == 0:
        assert not np.logical_or(*target_slots(codes[None], family)).any()
        assert found.excluded == {"no_target_slot": 1}
        return
    p, floor = brute_force(blocks, codes, family, null)
    assert (found.p[0], found.floor[0]) == (pytest.approx(p, rel=1e-12), pytest.approx(floor, rel=1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("family", FAMILIES)
def test_three_blocks_agree_with_all_arrangements_too(family: Family, null: Null) -> None:
    blocks = np.array([[1, 1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0], [1, 1, 0, 1, 1, 1, 1]])
    codes = np.array([0, 1, 0, -1, 1])
    found = problem_tests(Blocks.of(blocks[None]), codes[None], family, null)
    p, floor = brute_force(blocks, codes, family, null)
    assert (found.p[0], found.floor[0]) == (pytest.approx(p, rel=1e-12), pytest.approx(floor, rel=1e-12))


def shuffled(block: np.ndarray, null: Null, draws: int, rng: np.random.Generator) -> np.ndarray:
    start = 0 if null == "seven" else 2
    made = np.repeat(block[None], draws, axis=0)
    made[:, start:] = rng.permuted(made[:, start:], axis=1)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
def test_five_blocks_agree_with_a_million_draws(null: Null) -> None:
    rng, draws = np.random.default_rng(7), 1_000_000
    blocks = np.array([[1, 1, 0, 1, 1, 0, 1], [1, 0, 0, 1, 1, 1, 0], [1, 1, 0, 0, 1, 1, 1], [0, 1, 0, 0, 1, 0, 0]])
    blocks = np.concatenate([blocks, [[1, 1, 0, 1, 1, 1, 1]]])
    codes = np.array([[0, 0, 1, 1, -1]])
    total = np.zeros((draws, 5), dtype=np.int64)
    for block in blocks:
        made = shuffled(block.astype(np.int8), null, draws, rng)
        total += made[:, :2].sum(axis=1, keepdims=True) - 2 * made[:, 2:]
    for family in FAMILIES:
        sides = target_slots(codes, family)
        reached = signed_maximum(Blocks.of(blocks[None]).effects.sum(axis=0, keepdims=True), *sides)[0]
        drawn = float((signed_maximum(total, *sides) >= reached).mean())
        p = problem_tests(Blocks.of(blocks[None]), codes, family, null).p[0]
        assert abs(drawn - p) < 5 * np.sqrt(p * (1 - p) / draws) + 1e-9, family


@pytest.mark.parametrize(("n_blocks", "slots", "stated"), [(5, 1, 6e-5), (5, 5, 3e-4), (6, 5, 4e-5), (7, 5, 6e-6)])
def test_a_perfect_lone_effect_cannot_go_below_the_stated_floor(n_blocks: int, slots: int, stated: float) -> None:
    """Protocol: known limits. Blocks of six successes: everything succeeds but the removal of the one message."""
    floor = seven_null((6,) * n_blocks, slots, 0).floor
    assert float(f"{floor:.0e}") == stated
    block = [1, 1, 0, 1, 1, 1, 1]
    codes = [[0] * slots + [1] * (5 - slots)]
    found = problem_tests(Blocks.of([[block] * n_blocks]), codes, "wrong_helpful", "seven")
    assert found.p[0] == found.floor[0] == floor
    assert found.statistic[0] == 1.0


def test_the_floor_of_the_removal_test_is_the_stated_one() -> None:
    assert removals_null((4,) * 5, 10, 5, 0).floor == pytest.approx(1.6e-3)
    assert best_floor(5, 5, 0, "removals") == pytest.approx(1.6e-3)


@pytest.mark.parametrize(("helpful", "harmful"), SIDES)
def test_the_best_floor_is_the_smallest_of_all_counts(helpful: int, harmful: int) -> None:
    for n_blocks in (1, 2, 3):
        of_counts = {
            counts: seven_null(counts, helpful, harmful).floor
            for counts in itertools.combinations_with_replacement(range(8), n_blocks)
        }
        assert best_floor(n_blocks, helpful, harmful, "seven") == pytest.approx(min(of_counts.values()), rel=1e-9)
        for counts, floor in of_counts.items():
            mixed = [count for count in counts if 0 < count < 7]
            (chance,) = extreme_chance(np.array([mixed], dtype=int), helpful, harmful)
            assert chance == pytest.approx(floor, rel=1e-9), counts
        of_removals = [
            removals_null(counts, full, helpful, harmful).floor
            for n_mixed in range(n_blocks + 1)
            for counts in itertools.combinations_with_replacement(range(1, 5), n_mixed)
            for full in range(-2 * (n_blocks - n_mixed), 2 * n_blocks + 1)
        ]
        assert best_floor(n_blocks, helpful, harmful, "removals") == pytest.approx(min(of_removals), rel=1e-9)


@pytest.mark.parametrize("counts", [(1, 2, 3, 4, 5), (3, 3, 3, 4, 4), (6, 6, 6, 6, 6)])
def test_mirrored_outcomes_swap_helpful_and_harmful(counts: tuple[int, ...]) -> None:
    mirrored = tuple(sorted(7 - count for count in counts))
    one, other = seven_null(counts, 2, 1), seven_null(mirrored, 1, 2)
    assert one.values.tolist() == other.values.tolist()
    assert one.tail == pytest.approx(other.tail, rel=1e-12)


def test_many_blocks_stay_exact_where_integers_no_longer_fit() -> None:
    found = seven_null((6,) * 14, 1, 0)
    assert found.floor == pytest.approx(7.0**-14, rel=1e-12)
    assert found.tail[0] == 1.0


def test_only_pools_without_target_or_block_are_ineligible_and_p_of_one_stays() -> None:
    outcomes = np.ones((3, 2, 7), dtype=int)
    blocks = Blocks.of(outcomes)
    blocks = blocks.where(blocks.pool != 1)
    codes = [[0] * 5, [0] * 5, [1, 1, 1, -1, -1]]
    found = problem_tests(blocks, codes, "wrong_helpful", "seven")
    assert (found.pool.tolist(), found.p.tolist(), found.floor.tolist()) == ([0], [1.0], [1.0])
    assert found.excluded == {"no_target_slot": 1, "no_complete_block": 1}
    assert problem_tests(blocks, codes, "any", "seven").pool.tolist() == [0, 2]


def test_pools_may_have_different_numbers_of_blocks() -> None:
    rng = np.random.default_rng(1)
    outcomes, codes = rng.integers(0, 2, (6, 4, 7)), rng.integers(-1, 2, (6, 5))
    whole = Blocks.of(outcomes)
    kept = whole.where(whole.number < 1 + whole.pool % 4)
    found = problem_tests(kept, codes, "any", "seven")
    for pool, p in zip(found.pool, found.p, strict=True):
        alone = Blocks.of(outcomes[[pool], : 1 + pool % 4])
        assert problem_tests(alone, codes[[pool]], "any", "seven").p[0] == p


@pytest.mark.parametrize("null", NULLS)
def test_under_the_null_small_p_are_no_more_frequent_than_they_say(null: Null) -> None:
    rng, n = np.random.default_rng(3), 4000
    outcomes = rng.random((n, 5, 7)) < rng.uniform(0.3, 0.95, (n, 1, 1))
    codes = rng.integers(0, 2, (n, 5))
    for family in FAMILIES:
        found = problem_tests(Blocks.of(outcomes), codes, family, null)
        for level in (0.01, 0.05, 0.1):
            share = (found.p <= level).mean()
            assert share <= level + 3 * np.sqrt(level * (1 - level) / len(found.p)), (family, level)
        assert (found.p >= found.floor).all() and (found.floor >= found.best_floor * (1 - 1e-12)).all()


def test_a_pool_size_effect_alone_rejects_under_seven_and_not_under_removals() -> None:
    """Known limit: five messages help more than four, whichever four. Only the removal test does not care."""
    rng, n = np.random.default_rng(5), 1500
    outcomes = np.concatenate([rng.random((n, 5, 2)) < 0.97, rng.random((n, 5, 5)) < 0.55], axis=2)
    codes = np.zeros((n, 5), dtype=int)
    seven, removals = (problem_tests(Blocks.of(outcomes), codes, "any", null) for null in NULLS)
    assert (seven.p <= 0.05).mean() > 0.3
    assert (removals.p <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)


def test_a_true_effect_is_found() -> None:
    rng, n = np.random.default_rng(6), 400
    outcomes = (rng.random((n, 5, 7)) < 0.95).astype(int)
    outcomes[:, :, 2] = rng.random((n, 5)) < 0.05
    found = problem_tests(Blocks.of(outcomes), np.zeros((n, 5), dtype=int), "wrong_helpful", "seven")
    assert (found.p <= 0.01).mean() > 0.9


def test_a_statistic_that_no_data_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of"):
        seven_null((6, 6), 1, 0).p_value(99)
