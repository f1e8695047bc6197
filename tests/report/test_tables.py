from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.report import tables


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.integers(1, 500))
def test_a_bootstrap_in_parts_is_the_one_at_once(means: list[float], at_once: int) -> None:
    values = np.asarray(means)
    drawn = values[np.random.default_rng(0).integers(0, len(values), (300, len(values)))].mean(axis=1)
    low, high = (f"{100 * end:.1f}" for end in np.quantile(drawn, [0.025, 0.975]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_AT_ONCE", at_once)
        assert tables._problem_bootstrap(values, 300) == (low, high)
