"""The number of repeatable effects: the rule, its exact null and its drawn null."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.labels import bootstrap_interval, stability_of
from dhd_labels.stats import repeatable
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.families import FAMILIES, NULLS, Family, Null, placements, target_slots
from dhd_labels.stats.pooled import _convolved, _keys, pooled_test, simulated_counts, stability_codes
from dhd_labels.stats.repeatable import HARMFUL, HELPFUL, automaton, canonical, family_counts, stable_counts

NAMES = ("indeterminate", "stable_helpful", "stable_harmful")
RNG = np.random.default_rng


@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.integers(-2, 2), min_size=n, max_size=n)))
def test_the_automaton_is_the_rule_of_the_labels(twice: list[int]) -> None:
    code = automaton(len(twice)).classify(np.array([twice]) + 2)[0]
    effects = [effect / 2 for effect in twice]
    assert NAMES[code] == stability_of(bootstrap_interval(effects), len(effects))


def test_codes_of_pools_with_different_numbers_of_blocks() -> None:
    whole = Blocks.of(RNG(0).integers(0, 2, (30, 6, 7)))
    blocks = whole.where(whole.number < whole.pool % 7)
    codes = stability_codes(blocks)
    assert {0, 1, 2} == set(codes.ravel().tolist())
    for pool, slot in itertools.product(range(30), range(5)):
        effects = (blocks.effects[blocks.pool == pool, slot] / 2).tolist()
        expected = stability_of(bootstrap_interval(effects), len(effects)) if effects else "indeterminate"
        assert NAMES[codes[pool, slot]] == expected


def enumerated(outcomes: np.ndarray, null: Null) -> Counter[tuple[int, int]]:
    """Return how many arrangements of all blocks have so many (stable helpful, stable harmful) messages."""
    start = 0 if null == "seven" else 2
    options = []
    for block in outcomes:
        made = []
        for places in itertools.combinations(range(start, 7), int(block[start:].sum())):
            row = block.copy()
            row[start:] = 0
            row[list(places)] = 1
            made.append(row[:2].sum() - 2 * row[2:])
        options.append(made)
    found: Counter[tuple[int, int]] = Counter()
    for effects in itertools.product(*options):
        codes = automaton(len(outcomes)).classify(np.stack(effects, axis=1) + 2)
        found[int((codes == HELPFUL).sum()), int((codes == HARMFUL).sum())] += 1
    return found


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize(
    "rows",
    [
        [[1, 1, 0, 1, 1, 1, 1], [1, 0, 0, 1, 1, 1, 1]],
        [[1] * 7, [1, 1, 0, 1, 1, 1, 1], [1, 1, 0, 0, 1, 1, 1], [1, 1, 0, 1, 1, 1, 1]],
        [[0, 0, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1, 0]],
    ],
)
def test_the_null_number_is_that_of_all_arrangements(rows: list[list[int]], null: Null) -> None:
    blocks = Blocks.of([rows])
    everything = np.ones((1, 5), dtype=bool)
    ((laws, _, _),) = _keys(blocks, everything, everything, np.array([True]), null)
    table, expected = stable_counts(laws), enumerated(np.array(rows), null)
    assert table is not None and len(expected) > 1
    for (up, down), times in expected.items():
        assert table[up, down] == pytest.approx(times / expected.total(), rel=1e-12)
    assert table.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("helpful", "harmful"), [(1, 0), (0, 2), (2, 3), (1, 2), (5, 5)])
def test_family_counts_average_over_the_places_of_the_tested_slots(helpful: int, harmful: int) -> None:
    for up, down in [(1, 0), (2, 1), (0, 3), (3, 2)]:
        codes = [HELPFUL] * up + [HARMFUL] * down + [0] * (5 - up - down)
        hits = Counter(
            sum(codes[s] == HELPFUL for s in one) + sum(codes[s] == HARMFUL for s in other)
            for one, other in placements(helpful, harmful)
        )
        expected = [hits[n] / hits.total() for n in range(6)]
        assert family_counts(helpful, harmful)[up, down].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("laws", [((-1, 6),) * 5, ((-1, 2), (-1, 3), (-1, 4), (-1, 5), (-1, 6)), ((2, 4),) * 4])
def test_draws_agree_with_the_exact_number(laws: tuple[tuple[int, int], ...]) -> None:
    draws, laws = 200_000, canonical(laws)
    table = stable_counts(laws)
    assert table is not None
    for helpful, harmful in [(2, 0), (1, 3), (5, 5)]:
        exact = np.einsum("ud,udn->n", table, family_counts(helpful, harmful))
        drawn = np.bincount(simulated_counts(laws, helpful, harmful, draws, RNG(1)), minlength=6) / draws
        assert (np.abs(drawn - exact) < 5 * np.sqrt(exact * (1 - exact) / draws) + 1e-9).all()


def world(rng: np.random.Generator, n: int, base: float, effect: float, share: float) -> tuple[Blocks, np.ndarray]:
    """Pools in which a share of the messages in slot 0, all of them wrong, are needed."""
    outcomes = (rng.random((n, 5, 7)) < base).astype(np.int8)
    needed = np.flatnonzero(rng.random(n) < share)
    outcomes[needed, :, 2] = rng.random((len(needed), 5)) < base - effect
    codes = rng.integers(0, 2, (n, 5))
    codes[:, 0] = 0
    return Blocks.of(outcomes), codes


@pytest.mark.parametrize("null", NULLS)
def test_exact_and_drawn_agree_and_both_find_an_effect(null: Null, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, codes = world(RNG(4), 150, 0.9, 0.5, 0.05)
    exact = pooled_test(blocks, codes, "wrong_helpful", null, RNG(0))
    assert (exact.method, exact.draws) == ("exact", None)
    monkeypatch.setattr(repeatable, "MAX_STATES", 60)
    for cache in (stable_counts, repeatable._joint):
        cache.cache_clear()
    drawn = pooled_test(blocks, codes, "wrong_helpful", null, RNG(0), draws=4000)
    for cache in (stable_counts, repeatable._joint):
        cache.cache_clear()
    assert (drawn.method, drawn.draws, drawn.statistic) == ("monte_carlo", 4000, exact.statistic)
    assert drawn.p == pytest.approx(exact.p, abs=5 * np.sqrt(max(exact.p, 1e-4) / 4000) + 1 / 4001)
    assert drawn.expected == pytest.approx(exact.expected, rel=0.05)


def test_a_strong_effect_has_a_tiny_p_that_is_not_zero() -> None:
    outcomes = np.ones((400, 5, 7), dtype=int)
    outcomes[:, :, 2] = 0
    found = pooled_test(Blocks.of(outcomes), np.zeros((400, 5), dtype=int), "wrong_helpful", "seven", RNG(0))
    assert found.statistic == 400
    assert 0 < found.p < 1e-30


def test_pools_that_cannot_be_tested_are_counted() -> None:
    blocks = Blocks.of(np.ones((3, 2, 7), dtype=int))
    found = pooled_test(blocks.where(blocks.pool != 1), [[0] * 5, [0] * 5, [1] * 5], "wrong_helpful", "seven", RNG(0))
    assert (found.n_pools, found.n_messages, found.statistic, found.p) == (1, 5, 0, 1.0)
    assert found.excluded == {"no_target_slot": 1, "no_complete_block": 1}
    nothing = pooled_test(blocks, [[-1] * 5] * 3, "off_diagonal", "seven", RNG(0))
    assert (nothing.n_pools, nothing.p, nothing.expected) == (0, 1.0, 0.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_total_is_the_convolution_of_single_pools(family: Family) -> None:
    blocks, codes = world(RNG(8), 3, 0.7, 0.4, 0.5)
    sides = target_slots(codes, family)
    total, _, left = _convolved(_keys(blocks, *sides, np.ones(3, dtype=bool), "seven"))
    by_hand = np.ones(1)
    for pool in range(3):
        single, _, _ = _convolved(_keys(blocks, *sides, np.arange(3) == pool, "seven"))
        by_hand = np.convolve(by_hand, single)
    assert not left
    assert total == pytest.approx(by_hand[: len(total)], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("null", NULLS)
def test_under_the_null_the_pooled_p_is_no_more_often_small_than_it_says(null: Null) -> None:
    rng, n = RNG(9), 400
    found = []
    for _ in range(n):
        outcomes = rng.random((25, 5, 7)) < rng.uniform(0.4, 0.95, (25, 1, 1))
        found.append(pooled_test(Blocks.of(outcomes), rng.integers(0, 2, (25, 5)), "off_diagonal", null, rng).p)
    for level in (0.05, 0.1, 0.3):
        share = np.mean(np.array(found) <= level)
        assert share <= level + 3 * np.sqrt(level * (1 - level) / n)
        assert share > level / 4  # a test that never rejects would be calibrated too
