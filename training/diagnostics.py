"""What the decisions did besides gaining: messages lost and removed, what was saved, and calibration."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from dhd_labels.records import POOL_SIZE
from dhd_selectors.actions import ALONE, FULL, REMOVALS, SINGLES
from dhd_selectors.base import BoolArray, FloatArray, IntArray
from dhd_selectors.policy import KeepBest, OrAlone, RemoveWorst
from training.crossfit import Decisions, Fitted, decide, values_of
from training.data import LabelData
from training.estimands import Fold
from training.gain import small_sample
from training.references import Study

N_BINS = 10
_REACHABLE: Mapping[type, list[int]] = {
    RemoveWorst: list(REMOVALS),
    OrAlone: [*REMOVALS, ALONE],
    KeepBest: list(SINGLES),
}
"""What a policy can choose besides keeping all; any subset where it is not listed."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Messages of one kind in the decided pools, and how many of them were removed; means over repeated splits."""

    kind: str
    messages: float
    removed: float

    @property
    def share(self) -> float | None:
        """Return the share that was removed; None without a message of that kind."""
        return self.removed / self.messages if self.messages else None


@dataclass(frozen=True, slots=True)
class Saved:
    """What the decisions hid from the integrator, over all decided pools; `words` is None where texts are withheld.

    A decision saves no call of the integrator: it is asked once whatever it is shown, and the messages have been
    written.
    """

    messages_shown: float
    messages_hidden: float
    pools_untouched: float
    pools_alone: float
    words: float | None
    integrator_calls: int = 0


@dataclass(frozen=True, slots=True)
class Bin:
    """Messages with similar predictions: mean predicted and observed value, with the interval of the latter."""

    predicted: float
    observed: float
    low: float | None
    high: float | None
    n_messages: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Observed against predicted values of held-out messages; the slope is 1 for predictions in the right unit."""

    slope: float | None
    slope_low: float | None
    slope_high: float | None
    bins: tuple[Bin, ...]


def removals(data: LabelData, decisions: Decisions) -> tuple[Removal, ...]:
    """Count helpful and harmful messages that were removed, by stable label and by the sign of the trajectory value."""
    messages = data.rows[decisions.pool]
    removed = ~kept_slots(decisions.action)
    n_repeats = max(len(np.unique(decisions.repeat)), 1)

    def row(kind: str, of_kind: BoolArray) -> Removal:
        marked = of_kind[messages]
        return Removal(kind, float(marked.sum()) / n_repeats, float((marked & removed).sum()) / n_repeats)

    low, high = (_column(data, name) for name in ("ci_low", "ci_high"))
    enough = _column(data, "n_blocks") >= 2
    return (
        row("stable helpful", enough & (low > 0)),
        row("stable harmful", enough & (high < 0)),
        row("helpful by sign", data.y > 0),
        row("harmful by sign", data.y < 0),
        row("no difference", data.y == 0),
        row("no value", np.isnan(data.y)),
    )


def kept_slots(action: IntArray) -> BoolArray:
    """Return (n, 5) whether a decision shows each slot."""
    return (action[:, None] >> np.arange(POOL_SIZE) & 1).astype(bool)


def saved(data: LabelData, decisions: Decisions) -> Saved | None:
    """Return what was hidden from the integrator; None where nothing was decided."""
    n = len(decisions.pool)
    if not n:
        return None
    shown = kept_slots(decisions.action)
    words = data.X["content_words"].to_numpy()[data.rows[decisions.pool]] if "content_words" in data.X else np.zeros(1)
    total = float(words.sum())
    return Saved(
        messages_shown=float(shown.sum()) / n,
        messages_hidden=float((~shown).mean()),
        pools_untouched=float((decisions.action == FULL).mean()),
        pools_alone=float((decisions.action == ALONE).mean()),
        words=float((words * ~shown).sum()) / total if total else None,
    )


def confined(study: Study, decisions: Decisions) -> int:
    """Count the decisions that would have been other ones, had every subset been recorded: those of a saved rule."""
    reachable = _REACHABLE.get(type(study.policy))
    if reachable is not None and study.data.recorded[:, reachable].all():
        return 0
    every = dataclasses.replace(study.data, recorded=np.ones_like(study.data.recorded))
    return sum(
        int((decide(fitted, study.policy, every, fold) != decide(fitted, study.policy, study.data, fold)).sum())
        for fitted, fold in fitted_folds(study, decisions)
    )


def calibration(study: Study, decisions: Decisions) -> Calibration | None:
    """Return how predictions for held-out messages compare with what the judging draws say of them.

    Bins hold equally many messages. Intervals are 95 %, with the variance clustered by problem and Student's t.
    """
    parts = [_predicted(study, fitted, fold) for fitted, fold in fitted_folds(study, decisions)]
    if not parts:
        return None
    predicted, observed, problem = (np.concatenate(part) for part in zip(*parts, strict=True))
    known = np.isfinite(observed)
    predicted, observed, problem = predicted[known], observed[known], problem[known]
    if not len(predicted):
        return None
    slope = clustered_slope(predicted, observed, problem)
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, N_BINS + 1)))
    place = np.searchsorted(edges[1:-1], predicted, side="right")
    return Calibration(*slope, tuple(_bin(place == n, predicted, observed, problem) for n in np.unique(place)))


def clustered_slope(x: FloatArray, y: FloatArray, cluster: IntArray) -> tuple[float | None, float | None, float | None]:
    """Return the least-squares slope of y on x and its 95 % interval, clustered; None where x does not vary."""
    centred = x - x.mean()
    total = float(centred @ centred)
    if total <= 1e-18 * max(len(x), 1) or np.ptp(x) <= 1e-12:
        return None, None, None
    slope = float(centred @ y) / total
    scores = centred * (y - y.mean() - slope * centred)
    half = _half_width(scores, cluster, total)
    return slope, *((None, None) if half is None else (slope - half, slope + half))


def _bin(inside: BoolArray, predicted: FloatArray, observed: FloatArray, problem: IntArray) -> Bin:
    mean, n = float(observed[inside].mean()), int(inside.sum())
    half = _half_width(observed[inside] - mean, problem[inside], float(n))
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return Bin(float(predicted[inside].mean()), mean, low, high, n)


def _half_width(scores: FloatArray, cluster: IntArray, scale: float) -> float | None:
    """Return 1.96 (Student's t) clustered standard errors of sum(scores) / scale; None with one cluster."""
    _, code = np.unique(cluster, return_inverse=True)
    sums = np.bincount(code, scores)
    if len(sums) < 2:
        return None
    return float(1.959964 * small_sample(len(sums)) * np.sqrt((sums**2).sum()) / scale)


def fitted_folds(study: Study, decisions: Decisions) -> Iterator[tuple[Fitted, Fold]]:
    """Yield every fit with its fold."""
    folds = [fold for split in study.splits for fold in split.folds]
    for fitted, fold in zip(decisions.fits, folds, strict=True):
        if fitted is not None:
            yield fitted, fold


def _predicted(study: Study, fitted: Fitted, fold: Fold) -> tuple[FloatArray, FloatArray, IntArray]:
    rows = study.data.rows[fold.test].ravel()
    return values_of(fitted, study.data, fold), fold.judge.y[rows], study.data.problem_code[rows]


def _column(data: LabelData, name: str) -> FloatArray:
    if name not in data.labels:
        return np.full(len(data.y), np.nan)
    return data.labels[name].to_numpy(dtype=np.float64, na_value=np.nan)
