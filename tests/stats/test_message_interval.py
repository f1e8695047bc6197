"""The exact chances of a per-message interval against draws and the stated limits."""

from __future__ import annotations

import numpy as np
import pytest

from dhd_labels.labels import bootstrap_interval
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.message_interval import message_interval
from dhd_labels.stats.pooled import stability_codes


def test_draws_have_the_same_chances() -> None:
    rng, n = np.random.default_rng(0), 20_000
    outcomes = rng.random((n, 5, 7)) < 0.7
    outcomes[:, :, 2] = rng.random((n, 5)) < 0.4
    blocks, exact = Blocks.of(outcomes), message_interval(5, 0.7, 0.4)
    codes = stability_codes(blocks)[:, 0]
    assert [(codes == 1).mean(), (codes == 2).mean()] == pytest.approx(
        [exact.stable_helpful, exact.stable_harmful], abs=0.015
    )
    effects = blocks.effects[:, 0].reshape(n, 5)[:4000] / 2
    ends = [bootstrap_interval(row.tolist()) for row in effects]
    covered = np.mean([end.low - 1e-9 <= 0.3 <= end.high + 1e-9 for end in ends])
    assert covered == pytest.approx(exact.coverage, abs=0.025)


def test_five_blocks_cover_badly_and_call_noise_stable_as_stated() -> None:
    """Protocol: known limits. 79 to 100 % where a message does nothing or something; up to 14 % of nulls stable."""
    null = {rate: message_interval(5, rate, rate) for rate in np.linspace(0.05, 0.95, 19)}
    stable = {rate: chances.stable_helpful + chances.stable_harmful for rate, chances in null.items()}
    assert max(stable.values()) == pytest.approx(0.14, abs=0.01)
    assert min(c.coverage for c in null.values()) > 0.79
    assert message_interval(5, 0.99, 0.99).coverage > 0.99


def test_chances_are_chances_and_mirror() -> None:
    one, other = message_interval(4, 0.8, 0.3), message_interval(4, 0.2, 0.7)
    assert one.stable_helpful == pytest.approx(other.stable_harmful)
    assert one.coverage == pytest.approx(other.coverage)
    assert message_interval(1, 1.0, 0.0).stable_helpful == 0.0
    assert message_interval(5, 1.0, 0.0).stable_helpful == 1.0
    with pytest.raises(ValueError, match=r"The removal_rate must be in 0\.\.1"):
        message_interval(5, 0.5, 1.5)
