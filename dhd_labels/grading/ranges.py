"""Closed intervals as references: "6.00 : 7.30", "-1600 TO -1500", "0.90 TO 0.94 OR -0.94 TO -0.90", "3"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from dhd_labels.grading.dressing import unwrapped
from dhd_labels.grading.quantity import Quantity

# Keys typed from a scan: a letter O in a number, and "T0" for "TO".
_LETTER_O = re.compile(r"(?<=[0-9.])[Oo](?=[0-9.\s]|$)|(?:^|(?<=[\s.]))[Oo](?=\.?[0-9])")
_TO = re.compile(r"(?<=[0-9.])\s*(?:\bt[o0]\b|(?<=[0-9])t[o0](?=\s)|:)\s*(?=[-+.0-9])", re.IGNORECASE)
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_NUMBER = re.compile(
    r"[+-]?\s*(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval, low <= high."""

    low: Fraction
    high: Fraction

    def holds(self, given: Quantity) -> bool:
        """Whether a value lies inside; closed forms get their rounding error."""
        slack = Fraction(1, 10**9) * abs(given.value) if given.rounded else 0
        return self.low - slack <= given.value <= self.high + slack


def read_ranges(text: str) -> tuple[Interval, ...] | None:
    """Read a union of intervals; a plain number is an interval of one point. None if the text is none."""
    if len(text) > 200:
        return None
    found = []
    for part in _OR.split(unwrapped(text)):
        ends = [_number(end) for end in _TO.split(_LETTER_O.sub("0", part).strip())]
        if not 1 <= len(ends) <= 2:
            return None
        low, high = ends[0], ends[-1]
        if low is None or high is None:
            return None
        found.append(Interval(min(low, high), max(low, high)))
    return tuple(found)


def _number(text: str) -> Fraction | None:
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        return None
    return Fraction(re.sub(r"[,\s]", "", plain).rstrip("."))
