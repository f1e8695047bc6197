"""The result of a fit as data: measured, described in one plain sentence, and written as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dhd_labels.errors import DhdError, NothingMadeError
from dhd_selectors.base import Selector, is_privileged, is_upper_bound, needs_labels
from dhd_selectors.policy import Policy
from training.compare import Comparison, PlaceboGain, Spread
from training.crossfit import Decisions
from training.data import LabelData
from training.diagnostics import Calibration, Removal, Saved, calibration, confined, removals, saved
from training.estimands import Folds
from training.gain import Gain
from training.importance import Importance, importance
from training.placebos import placebos
from training.references import PRIVILEGED_REFERENCES, Study, references
from training.verdict import verdict

INTERVAL = (
    "95 %: problems resampled, percentiles, stretched about the estimate by Student's t and by the square root of "
    "`coupling`; holds 0 wherever the sign flip does not reject it"
)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a fit reports; gains are in points.

    `privileged` marks a selector that knows the verdicts, `upper_bound` one that knows the outcomes. `over_keep_all`
    has what each reference itself gains over keeping all. `test` says whether the test split alone was judged.
    """

    selector: str
    estimand: str
    policy: str
    seed: int
    folds: int
    repeats: int
    privileged: bool
    upper_bound: bool
    n_problems: int
    n_messages: int
    gains: tuple[Gain, ...]
    over_keep_all: tuple[Gain, ...]
    placebos: tuple[PlaceboGain, ...]
    spread: tuple[Spread, ...]
    removals: tuple[Removal, ...]
    saved: Saved | None
    calibration: Calibration | None
    importance: tuple[Importance, ...] | str
    excluded: dict[str, int]
    notes: tuple[str, ...] = ()
    test: bool = False

    @property
    def verdict(self) -> str:
        """Return one plain sentence on the gain over `keep-all`."""
        gained = [row.name for row in self.placebos if row.gain.ci_low is not None and row.gain.ci_low > 0.0]
        learned = next((gain for gain in self.gains if gain.reference == "learned-correct"), None)
        return verdict(
            self.gains[0],
            placebos=gained,
            learned=None if self.selector == "learned-correct" else learned,
            privileged=self.privileged,
            upper_bound=self.upper_bound,
            cross_fitted=self.folds > 1 and not self.test,
            same_problem=self.estimand == "same-problem",
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON-ready data; missing numbers are None."""
        return {
            "selector": self.selector,
            "estimand": self.estimand,
            "policy": self.policy,
            "seed": self.seed,
            "folds": self.folds,
            "repeats": self.repeats,
            "privileged": self.privileged,
            "upper_bound": self.upper_bound,
            "n_problems": self.n_problems,
            "n_messages": self.n_messages,
            "gains": [_row(gain) for gain in self.gains],
            "over_keep_all": [_row(gain) for gain in self.over_keep_all],
            "placebos": [
                {"name": row.name, **_row(row.gain), "may_gain": row.may_gain, "skipped": row.skipped or None}
                for row in self.placebos
            ],
            "spread": [_plain(row) for row in self.spread],
            "removals": [{**_plain(row), "share": row.share} for row in self.removals],
            "saved": None if self.saved is None else _plain(self.saved),
            "calibration": None if self.calibration is None else _plain(self.calibration),
            "importance": (
                self.importance if isinstance(self.importance, str) else [_plain(row) for row in self.importance]
            ),
            "interval_method": INTERVAL,
            "excluded": self.excluded,
            "notes": list(self.notes),
            "verdict": self.verdict,
        }


def measure(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    splits: Sequence[Folds],
    *,
    names: tuple[str, str, str],
    seed: int,
    jobs: int = 1,
    with_placebos: bool = True,
) -> Report:
    """Cross-fit a selector, its references and its placebos, and compare them.

    Args:
        selector: unfitted prototype.
        policy: turns values into decisions.
        data: messages and outcomes of the folds' problems.
        splits: whom to fit on and whom to decide for, once for each repeat.
        names: names of the selector, the estimand and the policy, for the report.
        seed: seed of everything random.
        jobs: threads of the references that are fitted.
        with_placebos: whether to fit the placebos, which takes four times as long as the selector alone.

    Raises:
        NothingMadeError: no held-out pool could be decided or compared.
    """
    study = Study(policy, data, splits, seed, jobs)
    decisions = study.decide(selector)
    excluded = (_fit_exclusions(data, splits) if needs_labels(selector) else {}) | decisions.uncovered
    compared = Comparison(study, decisions, names[1], learned=needs_labels(selector) and not is_upper_bound(selector))
    others = references(study, decisions) if len(decisions.pool) else ()
    gains = tuple(compared.gain(reference, n, excluded) for n, reference in enumerate(others))
    if all(gain.gain is None for gain in gains):
        raise NothingMadeError(f"No gain can be computed from these labels: {reasons(excluded)}.")
    held_out = np.unique(np.concatenate([fold.test for fold in splits[0].folds]))
    return Report(
        selector=names[0],
        estimand=names[1],
        policy=names[2],
        seed=seed,
        folds=len(splits[0].folds),
        repeats=len(splits),
        privileged=is_privileged(selector),
        upper_bound=is_upper_bound(selector),
        n_problems=int(data.pool_problem.iloc[held_out].nunique()),
        n_messages=int(data.rows[held_out].size),
        gains=gains,
        over_keep_all=tuple(compared.over_keep_all(others[0], other, n) for n, other in enumerate(others) if n),
        placebos=compared.placebos(placebos(study, selector), others[0].name) if with_placebos else (),
        spread=compared.spread(others),
        removals=removals(data, decisions),
        saved=saved(data, decisions),
        calibration=calibration(study, decisions),
        importance=importance(study, decisions, selector),
        excluded=excluded,
        test=bool((data.pools["split"].iloc[held_out] == "test").all()),
        notes=(
            *data.notes,
            *dict.fromkeys(note for split in splits for note in split.notes),
            *_confined(study, decisions),
        ),
    )


def reasons(excluded: dict[str, int]) -> str:
    """Return counted reasons as text."""
    return ", ".join(f"{reason} {count}" for reason, count in excluded.items()) or "no reason recorded"


def write_json(report: Report, path: Path) -> None:
    """Write a report as strict JSON (no NaN).

    Raises:
        DhdError: the file cannot be written.
    """
    text = json.dumps(report.as_json(), indent=2, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DhdError(f"The file of --json must be writable, got {str(path)!r}: {error.strerror}.") from error


def _confined(study: Study, decisions: Decisions) -> tuple[str, ...]:
    if not (found := confined(study, decisions)):
        return ()
    return (
        f"{found} of {len(decisions.action)} decisions were confined to recorded subsets; a saved rule would show "
        "another subset there, of which these gains say nothing. --replay asks the run's integrator for such subsets.",
    )


def _fit_exclusions(data: LabelData, splits: Sequence[Folds]) -> dict[str, int]:
    """Count the messages that could have been in a training part but may not or cannot be learned from."""
    training = np.zeros(data.n_pools, dtype=np.bool_)
    for split in splits:
        for fold in split.folds:
            training[fold.train] = True
    of_message = training[data.pool]
    counted = {
        "train_not_allowed": int((of_message & ~data.trainable).sum()),
        "no_trajectory_value": int((of_message & data.trainable & ~np.isfinite(data.y)).sum()),
    }
    return counted | ({"in_pool_effect_used": data.fallback} if data.fallback else {})


def _plain(row: Any) -> Any:
    """Return nested dataclasses as dictionaries and tuples as lists: what reading the JSON again gives."""
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: _plain(getattr(row, field.name)) for field in dataclasses.fields(row)}
    return [_plain(item) for item in row] if isinstance(row, tuple) else row


def _row(gain: Gain) -> dict[str, Any]:
    return {
        "reference": gain.reference,
        "gain": gain.gain,
        "ci_low": gain.ci_low,
        "ci_high": gain.ci_high,
        "p_value": gain.p_value,
        "n_problems": gain.n_problems,
        "p_method": gain.p_method or None,
        "coupling": gain.coupling,
        "privileged": gain.reference in PRIVILEGED_REFERENCES,
    }
