"""Intervals against published digits, formulas and their own coverage."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from fact_files import Facts, find_facts
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from dhd_labels.stats.intervals import (
    block_bootstrap,
    cluster_bootstrap,
    cluster_sums,
    contrast,
    resampled_ratios,
    wilson,
)

RNG = np.random.default_rng


@pytest.fixture
def facts() -> Facts:
    return find_facts()


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(pair: tuple[int, int]) -> None:
    expected = binomtest(*pair).proportion_ci(method="wilson")
    low, high = wilson(*pair)
    assert (float(low), float(high)) == (pytest.approx(expected.low, abs=1e-12), pytest.approx(expected.high))


def test_wilson_of_no_trials_is_missing_and_nonsense_is_refused() -> None:
    low, high = wilson([0, 1], [0, 2])
    assert np.isnan([low[0], high[0]]).all() and np.isfinite([low[1], high[1]]).all()
    with pytest.raises(ValueError, match="must be in 0..trials"):
        wilson(3, 2)


def test_published_shares_and_flip_rates_are_reproduced_to_the_digit(facts: Facts) -> None:
    rows = list(csv.DictReader(facts.path("paper/flip_direction.csv").read_text(encoding="utf-8").splitlines()))
    helpful, harmful, eligible = (
        np.array([int(row[key]) for row in rows]) for key in ("helpful", "harmful", "eligible")
    )
    top = np.array([helpful, helpful + harmful]).T
    bottom = np.array([helpful + harmful, eligible]).T
    for row, numerators, denominators in zip(rows, top, bottom, strict=True):
        share, rate = cluster_bootstrap(numerators[None], denominators[None], RNG(0), n_resamples=10)
        assert share.value is not None and rate.value is not None
        assert f"{100 * share.value:.4f}" == row["helpful_share_among_flips_pct"]
        assert f"{100 * rate.value:.4f}" == row["flip_rate_pct"]
        assert (share.low, share.reason) == (None, "one problem has no spread")


def world(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Problems of 1 to 9 rows whose rows share the luck of their problem; the true ratio is 0.4."""
    size = rng.integers(1, 10, n)
    rate = rng.choice([0.1, 0.7], n)
    problem = np.repeat(np.arange(n), size)
    return (rng.random(len(problem)) < rate[problem]).astype(float), problem, size.astype(float)


@pytest.mark.slow
def test_the_clustered_interval_covers_and_the_one_over_rows_does_not() -> None:
    rng, worlds, n = RNG(11), 400, 80
    missed = {"problems": 0, "rows": 0, "blocks": 0}
    for _ in range(worlds):
        rows, problem, size = world(rng, n)
        over = {
            "problems": cluster_bootstrap(cluster_sums(rows, problem, n), size, rng, n_resamples=600)[0],
            "rows": cluster_bootstrap(rows, np.ones(len(rows)), rng, n_resamples=600)[0],
            "blocks": block_bootstrap(rows, np.ones(len(rows)), problem, rng, n_resamples=300),
        }
        for name, found in over.items():
            assert found.low is not None and found.high is not None
            missed[name] += not found.low <= 0.4 <= found.high
    allowed = 0.05 + 3 * np.sqrt(0.05 * 0.95 / worlds)
    assert missed["problems"] / worlds <= allowed
    assert missed["blocks"] / worlds <= allowed
    assert missed["rows"] / worlds > 2 * allowed


def test_few_kinds_and_many_kinds_give_the_same_distribution() -> None:
    rng = RNG(3)
    top, bottom = rng.integers(0, 3, 300).astype(float), rng.integers(1, 3, 300).astype(float)
    nudged = top + 1e-9 * np.arange(300)  # no two alike
    few, many = resampled_ratios(top, bottom, rng), resampled_ratios(nudged, bottom, rng)
    assert np.quantile(few, [0.025, 0.5, 0.975]) == pytest.approx(np.quantile(many, [0.025, 0.5, 0.975]), rel=0.01)


def test_the_bootstrap_spread_of_a_mean_is_its_standard_error() -> None:
    values = RNG(0).normal(size=500)
    spread = resampled_ratios(values, np.ones(500), RNG(1)).std()
    assert spread == pytest.approx(values.std() / np.sqrt(500), rel=0.04)


def test_strata_hold_the_number_of_problems_of_each_benchmark() -> None:
    top, strata = np.repeat([0.0, 1.0], [30, 70]), np.repeat(["a", "b"], [30, 70])
    (found,) = cluster_bootstrap(top, np.ones(100), RNG(0), strata)
    assert (found.value, found.low, found.reason) == (0.7, None, "no variation between problems")
    (free,) = cluster_bootstrap(top, np.ones(100), RNG(0))
    assert free.low is not None and free.low < 0.7


def test_block_bootstrap_of_unequal_problems_keeps_to_the_blocks_of_each() -> None:
    """Every block of a problem is alike, so drawing blocks adds no noise: as the clustered bootstrap."""
    size = np.array([1, 4, 2, 5, 3] * 8)
    problem = np.repeat(np.arange(40), size)
    rows = problem % 7 / 6
    blocks = block_bootstrap(rows, np.ones(len(rows)), problem, RNG(5))
    (clusters,) = cluster_bootstrap(cluster_sums(rows, problem, 40), size, RNG(6))
    assert blocks.value == pytest.approx(clusters.value)
    assert (blocks.low, blocks.high) == (pytest.approx(clusters.low, abs=0.01), pytest.approx(clusters.high, abs=0.01))


def test_block_bootstrap_of_one_problem_a_stratum_has_the_noise_of_blocks() -> None:
    rows = np.tile([0.0, 0.0, 1.0, 1.0, 1.0], 60)
    problem = np.repeat(np.arange(60), 5)
    found = block_bootstrap(rows, np.ones(300), problem, RNG(0))
    assert found.low is not None and found.high is not None
    half = 1.96 * np.sqrt(0.24 / 300)
    assert (found.low, found.high) == (pytest.approx(0.6 - half, abs=0.01), pytest.approx(0.6 + half, abs=0.01))


def test_a_contrast_uses_the_pairs() -> None:
    base = RNG(2).normal(size=200)
    top = np.stack([base + 0.1 + 0.01 * RNG(3).normal(size=200), base], axis=1)
    found = contrast(top, np.ones((200, 2)), RNG(4))
    assert found.low is not None and found.high is not None
    assert found.value == pytest.approx(0.1, abs=0.005)
    assert found.high - found.low < 0.01


def test_what_cannot_be_computed_is_missing_with_a_reason() -> None:
    (nothing,) = cluster_bootstrap(np.zeros(3), np.zeros(3), RNG(0))
    assert (nothing.value, nothing.low, nothing.n, nothing.reason) == (None, None, 0, "nothing to divide by")
    (one,) = cluster_bootstrap([1.0, 0.0], [2.0, 0.0], RNG(0))
    assert (one.value, one.low, one.n, one.reason) == (0.5, None, 1, "one problem has no spread")
    (rare,) = cluster_bootstrap([1.0, 0.0, *[0.0] * 8], [1.0, 2.0, *[0.0] * 8], RNG(0), n_resamples=2000)
    assert rare.undefined > 50 and rare.low is not None
    with pytest.raises(ValueError, match="must be finite"):
        cluster_bootstrap([np.nan], [1.0], RNG(0))


def test_equal_seeds_give_equal_intervals() -> None:
    values = RNG(0).normal(size=50)
    assert cluster_bootstrap(values, np.ones(50), RNG(1)) == cluster_bootstrap(values, np.ones(50), RNG(1))
