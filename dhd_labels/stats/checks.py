"""Do the labels of a data set follow from its replays? All of them are computed again and compared.

A data set whose label, interval, stability or cell was edited, or whose replays were, is refused with the name of the
record: no table is made of numbers that contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dhd_labels.errors import DhdError
from dhd_labels.labels import NoAnswer
from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.label_arrays import Labels, label_arrays
from dhd_labels.stats.frames import NO_ANSWER, FloatArray, SmallIntArray, Units, effect_success, name_unit

NUMBERS = ("single_effect", "in_pool_effect", "trajectory_value", "ci_low", "ci_high", "n_blocks")
WORDS = ("stability", "cell", "stable_cell")
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Checked:
    """Labels computed from the outcomes, and the rule that they follow (`outcomes.no_answer` of the run)."""

    labels: Labels
    no_answer: NoAnswer


@dataclass(frozen=True, slots=True)
class _Drawn:
    main: SmallIntArray
    full: FloatArray
    without: FloatArray


def check_labels(units: Units) -> Checked:
    """Return the labels of all units, having compared them with those that the data set states.

    The rule for `no_answer` is no column of the data set; the one that reproduces every stated label is taken.

    Raises:
        DhdError: a stated label does not follow from the replays under either rule.
    """
    labels = _labels(units, "missing")
    wrong = _differences(units, labels)
    if not len(wrong):
        return Checked(labels, "missing")
    if any((codes == NO_ANSWER).any() for codes in (units.main, units.full, units.without)):
        other = _labels(units, "incorrect")
        if not len(_differences(units, other)):
            return Checked(other, "incorrect")
    raise DhdError(_explain(units, labels, wrong))


def _labels(units: Units, no_answer: NoAnswer) -> Labels:
    wrong = no_answer == "incorrect"
    main = np.where(units.main == NO_ANSWER, np.int8(0), units.main) if wrong else units.main
    full, without = (effect_success(codes, no_answer_is_wrong=wrong) for codes in (units.full, units.without))
    return label_arrays(_Drawn(main, full, without), units.proposal, units.screen)


def _differences(units: Units, labels: Labels) -> npt.NDArray[np.int64]:
    """Return (n,) the messages, unit * 5 + slot, of which some stated label differs."""
    wrong = np.zeros(len(units) * POOL_SIZE, dtype=np.bool_)
    for name in (*NUMBERS, *WORDS):
        wrong |= _differs(units.labels[name], getattr(labels, name).ravel())
    return np.flatnonzero(wrong)


def _differs(stated: Any, found: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    import pandas as pd

    if found.dtype == object:
        both = pd.factorize(np.concatenate([stated.astype(object).to_numpy(), found]))[0]
        return np.asarray(both[: len(found)] != both[len(found) :], dtype=np.bool_)
    numbers = stated.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(~np.isclose(numbers, found, rtol=0.0, atol=_TOLERANCE, equal_nan=True), dtype=np.bool_)


def _explain(units: Units, labels: Labels, wrong: npt.NDArray[np.int64]) -> str:
    unit, slot = divmod(int(wrong[0]), POOL_SIZE)
    stated = units.labels.iloc[wrong[0]]
    for name in (*NUMBERS, *WORDS):
        found = getattr(labels, name).ravel()[wrong[:1]]
        if _differs(units.labels[name].iloc[wrong[:1]], found).any():
            said, is_so = (_shown(value) for value in (stated[name], found[0]))
            break
    return (
        f"The {name!r} of slot {slot} of {name_unit(units.keys, unit)} must be {is_so}, which follows from its "
        f"replays, got {said} ({len(wrong)} such messages). The data set was edited, or its files are of two builds; "
        "build it again from its run."
    )


def _shown(value: Any) -> str:
    return "null" if value is None or value != value else str(value)  # NaN is the only value unlike itself
