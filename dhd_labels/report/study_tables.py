"""The tables of the sensitivity checks and of component masking."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dhd_labels.labels import NoAnswer, label_pool
from dhd_labels.records import CONDITIONS, Outcome
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.plan import study_of
from dhd_labels.report.table import Table

_CHANGES = {"order": "messages in reversed order", "integrator": "another integrator"}


class SensitivityTally:
    """How trajectory values move with the message order and with the integrator.

    Each changed value is compared with the original one of the same message from as many blocks (the first; under
    screened allocation only those of the screen, which every problem has whatever came of them). Mean
    shift: changed minus original. Exact sign: positive, zero or negative alike. Direction: the same sign, among
    messages whose values are both not zero.
    """

    def __init__(self, no_answer: NoAnswer) -> None:
        self._no_answer: NoAnswer = no_answer
        self._pairs: dict[str, list[tuple[float, float]]] = {change: [] for change in _CHANGES}

    def add(self, result: ProblemResult) -> None:
        """Take the values of a problem's messages."""
        for change, found in self._pairs.items():
            found += _value_pairs(result, change, self._no_answer)

    def table(self) -> Table:
        """Return one row a change that was tried."""
        rows = tuple(_sensitivity_row(change, found) for change, found in self._pairs.items() if found)
        columns = ("change", "messages", "mean shift, points", "exact sign %", "direction %", "of these not zero")
        note = "Trajectory values against those of the original order and integrator, over as many blocks."
        return Table("Sensitivity of trajectory values", columns, rows, note)


class MaskingTally:
    """Success by cell and condition: the mean over targets of the mean over graded draws, in percent."""

    def __init__(self) -> None:
        self._drawn: dict[str, dict[str, dict[Any, list[float]]]] = {}

    def add(self, result: ProblemResult) -> None:
        """Take the masked outcomes of a problem."""
        cells = {target.slot: target.cell or "by list" for target in result.targets}
        for outcome in result.masked:
            mask = outcome.replay.mask
            if mask and outcome.correct is not None:
                by_condition = self._drawn.setdefault(cells[mask.target], {})
                target = (result.problem.problem_id, mask.target)
                by_condition.setdefault(mask.condition, {}).setdefault(target, []).append(float(outcome.correct))

    def table(self) -> Table:
        """Return one row a cell."""
        rows = tuple(
            (
                cell,
                str(len({target for found in by_condition.values() for target in found})),
                *(_mean_percent(by_condition.get(condition, {}).values()) for condition in CONDITIONS),
            )
            for cell, by_condition in sorted(self._drawn.items())
        )
        columns = (
            "success %, by cell of the target",
            "targets",
            *(condition.replace("_", " ") for condition in CONDITIONS),
        )
        note = "Mean over targets. `repeat` is `full` again, byte for byte: their difference is noise."
        return Table("Component masking", columns, rows, note)


def _sensitivity_row(change: str, pairs: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    values = np.asarray(pairs)
    signs = np.sign(values)
    both = np.all(signs != 0, axis=1)
    same = signs[:, 0] == signs[:, 1]
    shift = f"{100 * np.mean(values[:, 1] - values[:, 0]):+.2f}"
    direction = f"{100 * np.mean(same[both]):.1f}" if both.any() else "-"
    return (_CHANGES[change], str(len(pairs)), shift, f"{100 * np.mean(same):.1f}", direction, str(both.sum()))


def _mean_percent(by_target: Iterable[list[float]]) -> str:
    means = [np.mean(draws) for draws in by_target]
    return f"{100 * np.mean(means):.1f}" if means else "-"


def _value_pairs(result: ProblemResult, change: str, no_answer: NoAnswer) -> list[tuple[float, float]]:
    """Return (original value, changed value) of the messages that have both."""
    changed = [o for o in result.outcomes if study_of(o.replay) == change]
    if not changed:
        return []
    blocks = {o.replay.block for o in changed}
    if result.screen_blocks:
        blocks &= set(range(result.screen_blocks))
        changed = [o for o in changed if o.replay.block in blocks]
    original = [o for o in result.outcomes if study_of(o.replay) == "blocks" and o.replay.block in blocks]
    return [
        (before, after)
        for before, after in zip(_values(result, original, no_answer), _values(result, changed, no_answer), strict=True)
        if before is not None and after is not None
    ]


def _values(result: ProblemResult, outcomes: Sequence[Outcome], no_answer: NoAnswer) -> list[float | None]:
    """Return the values of the five messages over all the blocks given."""
    found = label_pool(result.pool, result.proposals, outcomes, no_answer) if result.pool else []
    return [label.trajectory_value for label in found]
