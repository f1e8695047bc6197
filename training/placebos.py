"""Placebos: the same selector on evidence or columns that should be worth nothing.

Each of them goes through the same folds, tuning and policy as the selector, and is judged by the same draws. Where no
message matters all must vanish; elsewhere some may gain, and say something:

| placebo | what is left to learn | may gain when |
|---|---|---|
| `shuffled-within-problem` | which pools gain, not which message | removing any message of some pools pays |
| `shuffled-across-problems` | nothing of single pools | removing a message pays on average over all pools |
| `slot-only` | the place of a message | places differ in value |
| `pool-only` | columns that are equal for all messages of a pool | removing any message of some pools pays |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dhd_selectors.base import BoolArray, Selector, needs_labels, uses_text
from training.crossfit import Decisions
from training.data import LabelData
from training.evidence import Shuffle
from training.references import Study

NAMES = ("shuffled-within-problem", "shuffled-across-problems", "slot-only", "pool-only")
MAY_GAIN = {
    "shuffled-within-problem": "where removing any message of some pools pays: the value of the pool survives",
    "shuffled-across-problems": "where removing a message pays on average over all pools",
    "slot-only": "where places in the pool differ in value",
    "pool-only": "where removing any message of some pools pays",
}
"""Where a placebo need not vanish; where no message matters, it must."""
_SHUFFLES: dict[str, Shuffle] = {
    "shuffled-within-problem": "within-problem",
    "shuffled-across-problems": "across-problems",
}


@dataclass(frozen=True, slots=True)
class Placebo:
    """One placebo: its decisions, or why there are none."""

    name: str
    decisions: Decisions | None
    skipped: str = ""


def placebos(study: Study, selector: Selector) -> tuple[Placebo, ...]:
    """Cross-fit every placebo of a selector; a selector that learns nothing has none."""
    if not needs_labels(selector):
        return ()
    return tuple(_placebo(study, selector, name) for name in NAMES)


def _placebo(study: Study, selector: Selector, name: str) -> Placebo:
    if name in _SHUFFLES:
        return Placebo(name, study.decide(selector, shuffle=_SHUFFLES[name]))
    if uses_text(selector):
        return Placebo(name, None, "the selector reads texts, which cannot be reduced to these columns")
    kept = _KEPT[name](study.data)
    if not kept.any():
        return Placebo(name, None, "there is no such column")
    return Placebo(name, dataclasses.replace(study, data=only_columns(study.data, kept)).decide(selector))


def only_columns(data: LabelData, kept: BoolArray) -> LabelData:
    """Return the data with every other column of X set to 0, so that a selector still finds the columns it knows."""
    values = np.where(kept, data.X.to_numpy(), 0.0)
    return dataclasses.replace(data, X=pd.DataFrame(values, index=data.X.index, columns=data.X.columns))


def slot_columns(data: LabelData) -> BoolArray:
    """Return (n_features,) which column is the slot."""
    return (data.X.columns == "slot").astype(bool)


def pool_columns(data: LabelData) -> BoolArray:
    """Return (n_features,) which columns are equal for all messages of every pool."""
    values = data.X.to_numpy()
    same = (values == values[data.rows[data.pool, 0]]).all(axis=0)
    kept: BoolArray = same
    return kept


_KEPT: dict[str, Callable[[LabelData], BoolArray]] = {"slot-only": slot_columns, "pool-only": pool_columns}
