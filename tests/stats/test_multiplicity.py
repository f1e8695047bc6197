"""Adjusted p-values against known ones and against the rate that they promise."""

from __future__ import annotations

import numpy as np
import pytest

from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.exact_null import problem_tests
from dhd_labels.stats.multiplicity import adjust, discoveries

# Benjamini and Hochberg (1995), section 3.2: fifteen p-values, four rejected at q = 0.05.
THROMBOLYSIS = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
]  # fmt: skip


def test_the_example_of_benjamini_and_hochberg() -> None:
    bh, by = adjust(THROMBOLYSIS)
    assert (bh <= 0.05).sum() == 4
    assert bh[:4] == pytest.approx([0.0015, 0.003, 0.0095, 0.035625])
    harmonic = sum(1 / k for k in range(1, 16))
    assert by == pytest.approx(np.minimum(1, bh * harmonic))
    assert (by <= 0.05).sum() == 3


def test_no_test_is_no_discovery_and_nonsense_is_refused() -> None:
    assert [len(adjusted) for adjusted in adjust([])] == [0, 0]
    for wrong in ([0.5, float("nan")], [-0.1], [1.1]):
        with pytest.raises(ValueError, match=r"must be in 0\.\.1"):
            adjust(wrong)


def with_effects(rng: np.random.Generator, n: int, share: float) -> tuple[Blocks, np.ndarray]:
    outcomes = (rng.random((n, 7, 7)) < rng.uniform(0.5, 0.98, (n, 1, 1))).astype(int)
    true = rng.random(n) < share
    outcomes[true] = rng.random((int(true.sum()), 7, 7)) < 0.97
    outcomes[true, :, 2] = rng.random((int(true.sum()), 7)) < 0.03
    return Blocks.of(outcomes), true


@pytest.mark.slow
def test_the_false_discovery_rate_is_held_and_effects_are_found() -> None:
    rng, false, power = np.random.default_rng(12), [], []
    for _ in range(60):
        blocks, true = with_effects(rng, 150, 0.1)
        found = discoveries(problem_tests(blocks, np.zeros((150, 5), dtype=int), "wrong_helpful", "seven"), q=0.1)
        false.append((~true[found.bh]).sum() / max(1, len(found.bh)))
        power.append(true[found.bh].sum() / true.sum())
        assert set(found.by) <= set(found.bh)
    assert np.mean(false) <= 0.1 + 3 * np.std(false) / np.sqrt(60)
    assert np.mean(power) >= 0.9


def test_ineligible_pools_are_no_part_of_the_family() -> None:
    blocks, _ = with_effects(np.random.default_rng(1), 40, 0.5)
    codes = np.zeros((40, 5), dtype=int)
    codes[10:] = 1
    found = discoveries(problem_tests(blocks, codes, "wrong_helpful", "seven"))
    assert (found.n_tests, found.excluded, len(found.p_bh)) == (10, {"no_target_slot": 30}, 10)
    assert set(found.bh) <= set(range(10))
