"""What screening must reach, on the worlds of its benchmark: discoveries for calls, calibration, unbiased effects."""

from __future__ import annotations

import numpy as np
import pytest

from dhd_labels.stats.families import NULLS
from dhd_labels.stats.multiplicity import Q
from tests.bench.screened import (
    LEVELS,
    NEAR,
    NULL_WORLDS,
    WAYS,
    biases,
    compare,
    false_alarms,
    found,
    kept,
    simulated,
    strong,
    worst_levels,
)
from tests.stats.worlds import screened

pytestmark = pytest.mark.slow
HALF = (2, 0.5)
"""Two screening blocks, and further ones up to half the calls of fixed allocation."""


@pytest.mark.parametrize("name", NEAR)
def test_two_screening_blocks_find_95_percent_with_half_the_calls(name: str) -> None:
    make, n_blocks = NEAR[name]
    c = compare(make, n_blocks, HALF, range(4))
    assert c.mixed <= 0.35 and c.calls <= 0.5
    assert c.fixed >= 100, "there must be something to find"
    assert c.both >= 0.95 * c.fixed
    assert c.false <= Q * c.screened + 3 * np.sqrt(Q * c.screened)


def test_one_screening_block_is_enough_only_where_effects_are_nearly_certain() -> None:
    certain, weaker = (compare(*NEAR[f"1 % noise, removal succeeds {rate} %"], (1, None), range(4))
                       for rate in ("1", "0 to 30"))  # fmt: skip
    assert certain.both >= 0.95 * certain.fixed and certain.calls <= 0.35
    assert 0.8 * weaker.fixed <= weaker.both < 0.95 * weaker.fixed


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NULL_WORLDS)
def test_where_no_message_matters_nothing_is_found_too_often(name: str, way: tuple[int, float | None]) -> None:
    problems = 4000
    for null in NULLS:
        for level, share in zip(LEVELS, worst_levels(NULL_WORLDS[name], way, null, problems, 3), strict=True):
            assert share <= level + 3 * np.sqrt(level * (1 - level) / problems), (null, level)
    times = 30
    assert false_alarms(NULL_WORLDS[name], way, 100, times) <= Q + 3 * np.sqrt(Q * (1 - Q) / times)


def test_the_same_tests_find_nine_of_ten_certain_effects() -> None:
    make, n_blocks = NEAR["1 % noise, removal succeeds 1 %"]
    data = make(np.random.default_rng(7), 1000, n_blocks)
    needed = set(np.flatnonzero((data.truth > 0.5).any(axis=1)).tolist())
    for way in ((1, None), HALF):
        assert len(found(data, kept(data.blocks, n_blocks, way)) & needed) >= 0.9 * len(needed) > 30


@pytest.mark.parametrize("screen_blocks", [1, 2])
def test_values_of_further_blocks_are_unbiased_and_those_of_all_blocks_are_not(screen_blocks: int) -> None:
    data = simulated(strong("unequal"))(np.random.default_rng(1), 40_000, 4)
    by = biases(data, screened(data.blocks, 4, None, screen_blocks), screen_blocks)
    for unbiased in ("further blocks (published)", "screen alone, all problems"):
        assert abs(by[unbiased].mean) < 3 * by[unbiased].error
    for reused in ("all blocks, problems that go on", "screen alone, problems that go on"):
        assert by[reused].mean > 4 * by[reused].error
