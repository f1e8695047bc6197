"""One measured number against what it must be, with the standard error of the simulation that measured it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np

from dhd_labels.report.table import Table

ERRORS = 3
"""Standard errors that a simulation may be off by."""
Kind = Literal["at most", "at least", "equal to", "more than"]
_FITS: dict[Kind, Callable[[float, float], bool]] = {
    "at most": lambda off, slack: off <= slack,
    "at least": lambda off, slack: off >= 0,
    "equal to": lambda off, slack: abs(off) <= slack,
    "more than": lambda off, slack: off > slack,
}
"""What (measured - bound) must be, given so many standard errors. A power has to reach its bound without help."""


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the report.

    Attributes:
        what: the estimand.
        where: world and null that were simulated.
        n: independent simulations (or problems) behind the number; `unit` names them.
        value: the measured number.
        error: its standard error; where the bound is a rate, that of a rate which equals it.
        kind: how value and bound must compare, within `errors` standard errors.
        bound: the bound.
        unit: what n counts.
        errors: standard errors that it may be off by.
    """

    what: str
    where: str
    n: int
    value: float
    error: float
    kind: Kind
    bound: float
    unit: str = "problems"
    errors: float = ERRORS

    @property
    def within(self) -> bool:
        """Whether it is; a number that is missing never is."""
        return bool(np.isfinite(self.value)) and _FITS[self.kind](self.value - self.bound, self.errors * self.error)


def rate_check(what: str, where: str, hits: np.ndarray, kind: Kind, bound: float, unit: str = "problems") -> Check:
    """Return the check of a share of independent (n,) hits."""
    n = len(hits)
    value = float(np.mean(hits)) if n else np.nan
    return Check(what, where, n, value, float(np.sqrt(bound * (1 - bound) / max(n, 1))), kind, bound, unit)


def mean_check(what: str, where: str, values: np.ndarray, kind: Kind, bound: float, unit: str = "data sets") -> Check:
    """Return the check of a mean of independent (n,) values."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return Check(what, where, len(values), float(np.mean(values)), error, kind, bound, unit)


def jointly(checks: Iterable[Check]) -> list[Check]:
    """Return checks of which some one is outside by chance no more often than a single one at `ERRORS` would be.

    Of a hundred right numbers that must be equal to something, one in four reports has one beyond 3 SE (Bonferroni).
    """
    found = list(checks)
    tail = (1 - NormalDist().cdf(ERRORS)) / max(1, len(found))
    return [replace(check, errors=NormalDist().inv_cdf(1 - tail)) for check in found]


def report(title: str, checks: Sequence[Check], note: str = "") -> Table:
    """Return checks as a table."""
    columns = ("estimand", "world, null", "n", "measured", "SE", "must be", "")
    rows = tuple(
        (c.what, c.where, f"{c.n:,} {c.unit}", f"{c.value:.4f}", f"{c.error:.4f}", _bound(c), _verdict(c))
        for c in checks
    )
    return Table(title, columns, rows, note)


def _bound(check: Check) -> str:
    sign = {"at most": "+", "equal to": "±", "more than": "+", "at least": ""}[check.kind]
    return f"{check.kind} {check.bound:.4f}" + (f" {sign} {check.errors:.3g} SE" if sign else "")


def _verdict(check: Check) -> str:
    return "within" if check.within else "OUTSIDE"
