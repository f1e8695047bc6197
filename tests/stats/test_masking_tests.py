"""The paired exact test of masking: against enumeration, and the same for every version of any library."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.stats.tables.studies import METHOD, sign_flip

RNG = np.random.default_rng(0)
DIFFERENCES = st.lists(st.builds(Fraction, st.integers(-6, 6), st.integers(1, 6)), max_size=9)


def enumerated(differences: list[Fraction]) -> float:
    observed = abs(sum(differences))
    flips = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum((s * d for s, d in zip(signs, differences, strict=True)), Fraction(0))) for signs in flips]
    return sum(total >= observed for total in sums) / len(sums)


@given(DIFFERENCES)
def test_p_is_that_of_all_sign_flips(differences: list[Fraction]) -> None:
    p, method = sign_flip(differences, RNG)
    assert p == pytest.approx(enumerated(differences))
    assert method == METHOD


@given(DIFFERENCES)
def test_zeros_and_the_side_do_not_matter(differences: list[Fraction]) -> None:
    p = sign_flip(differences, RNG)[0]
    assert sign_flip([*differences, Fraction(0)], RNG)[0] == pytest.approx(p)
    assert sign_flip([-d for d in differences], RNG)[0] == pytest.approx(p)


def test_paired_differences_with_zeros_have_one_pinned_p() -> None:
    """Seven of ten differ, six one way: 2 (1 + 7) / 2^7, whatever the defaults of a library are."""
    differences = [Fraction(d) for d in (1, 1, 1, 0, 0, 1, -1, 0, 1, 1)]
    assert sign_flip(differences, RNG)[0] == pytest.approx(2 * (1 + 7) / 2**7)


def test_a_grid_too_large_to_count_is_drawn_and_says_so() -> None:
    primes = (101, 103, 107, 109, 113)
    differences = [Fraction(p - 50, p) for p in primes]
    p, method = sign_flip(differences, np.random.default_rng(1))
    assert "draws" in method
    assert p == pytest.approx(enumerated(differences), abs=0.005)


def test_nothing_that_differs_is_no_evidence() -> None:
    assert sign_flip([Fraction(0)] * 4, RNG)[0] == sign_flip([], RNG)[0] == 1.0
