"""Every bound of `make calibration`, on smaller simulations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.bench.calibration.checks import Check, Kind, jointly, rate_check
from tests.bench.calibration.report import TEST, sections


@pytest.mark.slow
def test_every_number_is_within_its_bound(tmp_path: Path) -> None:
    found = [check for section in sections(TEST, tmp_path) for check in section.checks]
    outside = [check for check in found if not check.within]
    assert not outside, "\n".join(map(str, outside))
    assert {check.kind for check in found} == {"at most", "at least", "equal to", "more than"}


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("at most", (0.0, 0.5, 0.529), (0.531,)),
        ("at least", (0.5, 1.0), (0.499,)),
        ("equal to", (0.471, 0.529), (0.469, 0.531)),
        ("more than", (0.531,), (0.0, 0.5, 0.529)),
    ],
)
def test_a_check_can_fail(kind: Kind, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    def within(value: float) -> bool:
        return Check("what", "where", 100, value, 0.01, kind, 0.5).within

    assert all(map(within, inside))
    assert not any(map(within, (*outside, np.nan)))


def test_nothing_simulated_is_not_within() -> None:
    assert not rate_check("what", "where", np.array([], dtype=bool), "at most", 0.05).within


def test_many_equalities_may_be_off_by_more_and_one_by_no_more() -> None:
    check = Check("what", "where", 1, 0.0, 1.0, "equal to", 0.0)
    assert jointly([check])[0].errors == pytest.approx(3.0)
    assert 4.0 < jointly([check] * 87)[0].errors < 4.3
