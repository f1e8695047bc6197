"""The result of a fit as data: measured, described in one plain sentence, printed, and written as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dhd_labels.errors import DhdError, NothingMadeError
from dhd_selectors.base import Selector, is_privileged, needs_labels
from dhd_selectors.policy import Policy
from training.crossfit import Decisions, cross_fit, joined
from training.data import LabelData
from training.estimands import Folds
from training.evidence import Shuffle
from training.gain import PRIVILEGED_REFERENCES, REFERENCES, Gain, estimate, paired_differences

MIN_PROBLEMS = 50
"""Fewest problems for a conclusion. With 50 problems, five blocks and a removal in half of the pools, the
noise of the draws alone gives an interval of up to +-5 points; published gains are 1 to 3 points."""
PLACEBO = "shuffled-targets"
_PLACEBO_STREAM = 1_000


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a fit reports; gains are in points, `privileged` marks one that knows the verdicts."""

    selector: str
    estimand: str
    policy: str
    seed: int
    folds: int
    privileged: bool
    n_problems: int
    n_messages: int
    gains: tuple[Gain, ...]
    placebos: tuple[tuple[str, Gain], ...]
    excluded: dict[str, int]

    @property
    def verdict(self) -> str:
        """Return one plain sentence on the gain over `keep-all`."""
        placebo = next((gain for _, gain in self.placebos if gain.reference == self.gains[0].reference), None)
        return verdict(self.gains[0], placebo, cross_fitted=self.folds > 1)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON-ready data; missing numbers are None."""
        return {
            "selector": self.selector,
            "estimand": self.estimand,
            "policy": self.policy,
            "seed": self.seed,
            "folds": self.folds,
            "privileged": self.privileged,
            "n_problems": self.n_problems,
            "n_messages": self.n_messages,
            "gains": [_row(gain) for gain in self.gains],
            "placebos": [{"name": name, **_row(gain)} for name, gain in self.placebos],
            "excluded": self.excluded,
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
) -> Report:
    """Cross-fit a selector and its placebo, and compare both with the reference policies.

    Args:
        selector: unfitted prototype.
        policy: turns values into decisions.
        data: messages and outcomes of the folds' problems.
        splits: whom to fit on and whom to decide for, once for each repeat.
        names: names of the selector, the estimand and the policy, for the report.
        seed: seed of everything random.

    Raises:
        NothingMadeError: no held-out pool could be decided or compared.
    """
    decisions = _decisions(selector, policy, data, splits, seed)
    folds = splits[0].folds
    held_out = np.zeros(data.n_pools, dtype=np.bool_)
    for fold in folds:
        held_out[fold.test] = True
    excluded = _fit_exclusions(data, splits) if needs_labels(selector) else {}
    excluded.update(decisions.uncovered)
    gains = _compare(data, decisions, seed, excluded)
    if all(gain.gain is None for gain in gains):
        raise NothingMadeError(f"No gain can be computed from these labels: {_reasons(excluded)}.")
    placebos: tuple[tuple[str, Gain], ...] = ()
    if needs_labels(selector):
        placebo = _decisions(selector, policy, data, splits, seed, "across-problems")
        placebos = tuple((PLACEBO, gain) for gain in _compare(data, placebo, seed + _PLACEBO_STREAM, {}))
    return Report(
        selector=names[0],
        estimand=names[1],
        policy=names[2],
        seed=seed,
        folds=len(folds),
        privileged=is_privileged(selector),
        n_problems=int(data.pool_problem[held_out].nunique()),
        n_messages=int(held_out[data.pool].sum()),
        gains=gains,
        placebos=placebos,
        excluded=excluded,
    )


def verdict(gain: Gain, placebo: Gain | None = None, *, cross_fitted: bool = False) -> str:
    """Return what a gain over its reference does and does not show.

    Args:
        gain: the selector's gain.
        placebo: the placebo's gain over the same reference; None for fixed rules, which have no placebo.
        cross_fitted: whether the intervals ignore that folds are coupled (see `training.gain`).
    """
    if gain.gain is None:
        return f"No comparison with {gain.reference} was possible."
    if gain.n_problems < MIN_PROBLEMS or gain.ci_low is None or gain.ci_high is None:
        return (
            f"Too few problems to conclude anything: {gain.n_problems}, and at least {MIN_PROBLEMS} are "
            "needed. The numbers show that the pipeline works, not that the selector does."
        )
    span = f"{gain.gain:+.2f} points, 95 % interval {gain.ci_low:+.2f} to {gain.ci_high:+.2f}"
    if gain.ci_low <= 0.0 <= gain.ci_high:
        return f"No evidence of a gain over {gain.reference} ({span})."
    if gain.gain < 0.0:
        return f"A loss against {gain.reference} ({span})."
    return f"A gain over {gain.reference} ({span}).{_doubt(placebo, cross_fitted)}"


def _doubt(placebo: Gain | None, cross_fitted: bool) -> str:
    if placebo is None:
        return ""
    if placebo.ci_low is not None and placebo.ci_low > 0.0:
        return " But the placebo gains too, so removing messages helps whatever was learned about them."
    return " Confirm it on the test split with --test." if cross_fitted else ""


def render(report: Report, console: Console) -> None:
    """Print a report as a table with its verdict; `*` marks what is privileged."""
    name = _marked(report.selector, privileged=report.privileged)
    title = f"Gain of {name}, {report.estimand}, {report.policy}, in points"
    table = Table(title=title, title_justify="left")
    table.add_column("compared with")
    for column in ("gain", "95 % interval", "p", "problems"):
        table.add_column(column, justify="right")
    for gain in report.gains:
        table.add_row(_reference(gain), *_cells(gain))
    for _, gain in report.placebos:
        table.add_row(f"placebo: {_reference(gain)}", *_cells(gain), style="dim")
    console.print(table)
    console.print("* privileged: knows which proposals are right")
    console.print(
        f"held-out problems {report.n_problems}, messages {report.n_messages}, folds {report.folds}, seed {report.seed}"
    )
    if report.excluded:
        console.print(f"excluded: {_reasons(report.excluded)}")
    console.print(report.verdict, style="bold")


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


def _decisions(
    selector: Selector,
    policy: Policy,
    data: LabelData,
    splits: Sequence[Folds],
    seed: int,
    shuffle: Shuffle | None = None,
) -> Decisions:
    return joined(
        [
            cross_fit(selector, policy, data, split.folds, seed=seed, repeat=repeat, shuffle=shuffle)
            for repeat, split in enumerate(splits)
        ]
    )


def _compare(data: LabelData, decisions: Decisions, seed: int, excluded: dict[str, int]) -> tuple[Gain, ...]:
    gains = []
    for number, reference in enumerate(REFERENCES):
        differences = paired_differences(data, decisions, reference)
        excluded.update(differences.excluded)
        gains.append(estimate(differences.values, reference, np.random.default_rng([seed, number])))
    return tuple(gains)


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


def _reference(gain: Gain) -> str:
    return _marked(gain.reference, privileged=gain.reference in PRIVILEGED_REFERENCES)


def _marked(name: str, *, privileged: bool) -> str:
    return f"{name}*" if privileged else name


def _reasons(excluded: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in excluded.items()) or "no reason recorded"


def _row(gain: Gain) -> dict[str, Any]:
    return {
        "reference": gain.reference,
        "gain": gain.gain,
        "ci_low": gain.ci_low,
        "ci_high": gain.ci_high,
        "p_value": gain.p_value,
    }


def _cells(gain: Gain) -> tuple[str, str, str, str]:
    if gain.gain is None:
        return "-", "-", "-", "0"
    interval = "-" if gain.ci_low is None else f"{gain.ci_low:+.2f} to {gain.ci_high:+.2f}"
    p_value = "-" if gain.p_value is None else f"{gain.p_value:.4f}"
    return f"{gain.gain:+.2f}", interval, p_value, str(gain.n_problems)
