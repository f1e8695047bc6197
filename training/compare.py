"""Gains of one set of decisions: over every reference, of the references themselves, of placebos, and by repeat."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dhd_selectors.actions import FULL
from dhd_selectors.base import BoolArray, FloatArray
from training.coupling import coupling
from training.crossfit import Decisions
from training.gain import POINTS, Gain, estimate, paired
from training.placebos import MAY_GAIN, Placebo
from training.references import Reference, Study, chosen, judged

_GAINS, _OVERS, _PLACEBOS = 0, 100, 200  # streams of random numbers that must not be shared


@dataclass(frozen=True, slots=True)
class PlaceboGain:
    """What a placebo gained over keeping all, or why it was not made; `may_gain` says where it need not vanish."""

    name: str
    gain: Gain
    may_gain: str
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """The gain over a reference in each repeated split, in points, and their standard deviation."""

    reference: str
    gains: tuple[float, ...]
    sd: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares the success of decisions with that of references, by problem.

    `learned` says whether the decisions depend on outcomes of other folds.
    """

    study: Study
    decisions: Decisions
    estimand: str
    learned: bool

    def gain(self, reference: Reference, number: int, excluded: dict[str, int]) -> Gain:
        """Return the selector's gain over a reference, and count the decisions that cannot be compared."""
        success = chosen(judged(self.study, self.decisions), self.decisions.action)
        learned = self.learned or reference.learned
        return self._estimate(self.decisions, success, reference, learned, _GAINS + number, excluded)

    def over_keep_all(self, keep_all: Reference, other: Reference, number: int) -> Gain:
        """Return what another reference gains over keeping all; the row is named by that reference."""
        found = self._estimate(self.decisions, other.success, keep_all, other.learned, _OVERS + number, {})
        return dataclasses.replace(found, reference=other.name)

    def placebos(self, made: Sequence[Placebo], reference: str) -> tuple[PlaceboGain, ...]:
        """Return what each placebo gains over keeping all."""
        return tuple(self._placebo(placebo, reference, number) for number, placebo in enumerate(made))

    def _placebo(self, placebo: Placebo, reference: str, number: int) -> PlaceboGain:
        if placebo.decisions is None:
            nothing = Gain(reference, None, None, None, None, 0)
            return PlaceboGain(placebo.name, nothing, MAY_GAIN[placebo.name], placebo.skipped)
        decisions = placebo.decisions
        table = judged(self.study, decisions)
        kept = Reference(reference, table[:, FULL], learned=False)
        success = chosen(table, decisions.action)
        gain = self._estimate(decisions, success, kept, self.learned, _PLACEBOS + number, {})
        return PlaceboGain(placebo.name, gain, MAY_GAIN[placebo.name])

    def spread(self, others: Sequence[Reference]) -> tuple[Spread, ...]:
        """Return the gain over each reference in each repeat; nothing where there is one."""
        repeats = np.unique(self.decisions.repeat)
        if len(repeats) < 2:
            return ()
        success = chosen(judged(self.study, self.decisions), self.decisions.action)
        rows = []
        for other in others:
            found = [self._mean(success, other.success, self.decisions.repeat == repeat) for repeat in repeats]
            known = tuple(value for value in found if value is not None)
            if len(known) > 1:
                rows.append(Spread(other.name, known, float(np.std(known, ddof=1))))
        return tuple(rows)

    def _mean(self, success: FloatArray, other: FloatArray, rows: BoolArray) -> float | None:
        problem = self.study.data.pool_problem.iloc[self.decisions.pool[rows]]
        found = paired(success[rows], other[rows], problem, "", per_decision=self._per_decision)
        return POINTS * float(found.total.sum() / found.count.sum()) if len(found.total) else None

    def _estimate(
        self, decisions: Decisions, success: FloatArray, other: Reference, learned: bool, stream: int,
        excluded: dict[str, int],
    ) -> Gain:  # fmt: skip
        problem = self.study.data.pool_problem.iloc[decisions.pool]
        found = paired(success, other.success, problem, other.name, per_decision=self._per_decision)
        excluded.update(found.excluded)
        factor = coupling(self.study.splits[0].folds, self.study.data.n_pools) if learned else 1.0
        return estimate(found, other.name, np.random.default_rng([self.study.seed, stream]), factor)

    @property
    def _per_decision(self) -> bool:
        return self.estimand == "same-problem"
