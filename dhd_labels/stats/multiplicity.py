"""Adjusting many tests at once: Benjamini-Hochberg and Benjamini-Yekutieli, over the pools of one named family.

Both hold the false discovery rate, the expected share of false ones among the rejected: BH when the tests are
independent or positively dependent (pools are independent, so it applies), BY under any dependence, at a price of
about log(n). What is adjusted together is one family of one null over all eligible pools; p = 1 stays in, and
what was left out is counted beside it. The adjusting itself is `scipy.stats.false_discovery_control`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dhd_labels.stats.arrays import FloatArray, IntArray
from dhd_labels.stats.exact_null import ProblemTests
from dhd_labels.stats.families import Family, Null

Q = 0.05
"""The false discovery rate of the protocol."""


@dataclass(frozen=True, slots=True)
class Discoveries:
    """The adjusted tests of one family.

    Attributes:
        p_bh: (n_tests,) adjusted p, in the order of the tests.
        p_by: (n_tests,) the same by BY.
        bh: pools whose p_bh is at most q.
        by: pools whose p_by is at most q.
        excluded: pools that were not eligible, by reason.
    """

    family: Family
    null: Null
    q: float
    n_tests: int
    p_bh: FloatArray
    p_by: FloatArray
    bh: IntArray
    by: IntArray
    excluded: Mapping[str, int]


def discoveries(tests: ProblemTests, q: float = Q) -> Discoveries:
    """Adjust the tests of one family and return what is found at a false discovery rate of q."""
    p_bh, p_by = adjust(tests.p)
    return Discoveries(
        tests.family, tests.null, q, len(tests.p), p_bh, p_by,
        tests.pool[p_bh <= q], tests.pool[p_by <= q], tests.excluded,
    )  # fmt: skip


def adjust(p: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return p adjusted by BH and by BY, each (n,), for n >= 0 tests.

    Raises:
        ValueError: a p is outside 0..1 or missing; leave ineligible tests out, do not pass them as NaN.
    """
    from scipy.stats import false_discovery_control

    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"The p-values must be in 0..1, got {values[~((values >= 0) & (values <= 1))][0]}")
    if len(values) == 0:
        return values, values.copy()
    bh, by = (np.asarray(false_discovery_control(values, method=method)) for method in ("bh", "by"))
    return bh, by
