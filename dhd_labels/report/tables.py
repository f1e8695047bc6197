"""The tables that `build` and the card show. All of them are functions of the collected results alone."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from dhd_labels.labels import CELLS, NoAnswer, identical_input_disagreement, identical_texts
from dhd_labels.records import POOL_SIZE, MessageLabel, Outcome
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.report.study_tables import MaskingTally, SensitivityTally
from dhd_labels.report.table import Table

COPIES = (
    "No two draws of one input differ in a single character: they look like copies, not like repeats, and then the "
    "blocks measure nothing that one draw does not."
)
ACCURACY = "Accuracy by arm"
_AT_ONCE = 1_000_000
"""Draws that a bootstrap holds at once."""
ARM_FAMILIES = (
    "alone",
    "only i",
    *(f"prefix {k}" for k in range(1, POOL_SIZE)),
    "full",
    *(f"without i of {k}" for k in range(2, POOL_SIZE)),
    "without i",
    "subset",
)


class ResultTally:
    """Everything that the tables of a run need of its results, which are taken one by one and not kept.

    What grows with the run is a few numbers a problem: its mean success by arm, and its trajectory values.
    """

    def __init__(self, no_answer: NoAnswer) -> None:
        self._no_answer: NoAnswer = no_answer
        self._cells, self._stability = CellTally(), StabilityTally()
        self._accuracy, self._disagreement = AccuracyTally(), DisagreementTally()
        self._sensitivity, self._masking = SensitivityTally(no_answer), MaskingTally()
        self._exclusions = ExclusionTally()

    def add(self, result: ProblemResult) -> None:
        """Take the result of the next problem."""
        main = result.main_outcomes()
        for label in result.labels(main, self._no_answer):
            self._cells.add(label)
            self._stability.add(label)
        self._accuracy.add(result.unselected_outcomes())
        self._disagreement.add(result.unselected_outcomes())
        self._sensitivity.add(result)
        self._masking.add(result)
        self._exclusions.add(result)

    def leave_out(self, reason: str) -> None:
        """Count a problem that was left out as a whole."""
        self._exclusions.leave_out(reason)

    def tables(self) -> tuple[Table, ...]:
        """Return the tables of a run, in reading order, without the exclusions."""
        tables = (tally.table() for tally in (self._cells, self._stability, self._accuracy, self._disagreement))
        studies = (self._sensitivity.table(), self._masking.table())
        return (*tables, *(table for table in studies if table.rows))

    def exclusions(self) -> Table:
        """Return everything that was left out, by reason."""
        return self._exclusions.table()


class CellTally:
    """The six cells: proposal correctness x direction of the single-draw K=5 effect."""

    def __init__(self) -> None:
        self._counts: Counter[str | None] = Counter()

    def add(self, label: MessageLabel) -> None:
        """Count the label of a message."""
        self._counts[label.cell] += 1

    def table(self) -> Table:
        """Return messages by cell."""
        effects = ("helpful", "neutral", "harmful")
        rows = tuple(
            (proposal, *(str(self._counts[f"{proposal}_{effect}"]) for effect in effects))
            for proposal in ("correct", "wrong")
        )
        outside = self._counts.total() - sum(self._counts[cell] for cell in CELLS)
        total = self._counts.total()
        note = f"{total} messages; {outside} in no cell (proposal without a verdict, or no graded pair)."
        return Table("Messages by proposal and single-draw effect (K=5)", ("proposal", *effects), rows, note)


class StabilityTally:
    """Stable and indeterminate messages by proposal."""

    _KINDS = ("stable_helpful", "indeterminate", "stable_harmful")
    _PROPOSAL: Mapping[bool | None, str] = {True: "correct", False: "wrong", None: "unknown"}

    def __init__(self) -> None:
        self._counts: Counter[tuple[bool | None, str]] = Counter()
        self._values = {correct: array("d") for correct in self._PROPOSAL}
        self._screened = False

    def add(self, label: MessageLabel) -> None:
        """Take the label of a message."""
        self._screened = self._screened or label.screen_blocks > 0
        self._counts[label.proposal_correct, label.stability] += 1
        if label.trajectory_value is not None:
            self._values[label.proposal_correct].append(label.trajectory_value)

    def table(self) -> Table:
        """Return messages and mean trajectory value by proposal."""
        rows = []
        for correct, name in self._PROPOSAL.items():
            values = self._values[correct]
            mean = f"{np.mean(values):+.3f}" if values else "-"
            rows.append((name, *(str(self._counts[correct, kind]) for kind in self._KINDS), mean))
        note = "Stable: the exact 95 % bootstrap interval over blocks excludes 0. With few blocks it covers badly."
        if self._screened:
            note += " The mean is that of the problems that went on after screening; stopped ones are indeterminate."
        columns = ("proposal", "stable helpful", "indeterminate", "stable harmful", "mean trajectory value")
        return Table("Trajectory value", columns, tuple(rows), note)


class AccuracyTally:
    """Accuracy by arm family, and the rate of every status that is not graded.

    A `no_answer` counts as incorrect here and other ungraded outcomes are missing. The interval is a 95 % bootstrap
    over problems, since draws of one problem are not independent.
    """

    def __init__(self) -> None:
        self._means = {family: array("d") for family in ARM_FAMILIES}
        self._statuses: dict[str, Counter[str]] = {family: Counter() for family in ARM_FAMILIES}
        self._asked_again: Counter[str] = Counter()
        self._shared = 0

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Take the outcomes of a problem."""
        for family, drawn in _by_family(outcomes).items():
            self._statuses[family].update(outcome.status for outcome in drawn)
            self._asked_again[family] += sum(outcome.attempts > 1 for outcome in drawn)
            if scores := _scores(drawn):
                self._means[family].append(float(np.mean(scores)))
        self._shared += len(outcomes) - len({outcome.call_key for outcome in outcomes})

    def table(self) -> Table:
        """Return accuracy with its interval, and the other statuses, by arm family."""
        rows = tuple(self._row(family) for family in ARM_FAMILIES if self._statuses[family])
        columns = (
            "arm",
            "draws",
            "accuracy %",
            "95 % interval",
            "no answer %",
            "truncated %",
            "operational %",
            "undetermined %",
            "asked again %",
        )
        note = "Mean over problems; the interval resamples problems."
        if self._shared:
            note += f" {self._shared} draws share the answer of another arm that shows the same messages."
        return Table(ACCURACY, columns, rows, note)

    def _row(self, family: str) -> tuple[str, ...]:
        means, statuses = np.asarray(self._means[family]), self._statuses[family]
        drawn = statuses.total()
        low, high = _problem_bootstrap(means)
        accuracy = f"{100 * np.mean(means):.1f}" if len(means) else "-"
        other = ("no_answer", "truncated", "operational", "undetermined")
        shares = (*(_percent(statuses[s], drawn) for s in other), _percent(self._asked_again[family], drawn))
        return (family, str(drawn), accuracy, f"[{low}, {high}]", *shares)


def _by_family(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(arm_family(outcome), []).append(outcome)
    return found


class DisagreementTally:
    """How often two full draws of one block, the same input twice, end differently."""

    def __init__(self) -> None:
        self._differ = self._compared = self._same = self._drawn = 0

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Count the blocks of a problem."""
        differ, compared = identical_input_disagreement(outcomes)
        same, drawn = identical_texts(outcomes)
        self._differ += differ
        self._compared += compared
        self._same += same
        self._drawn += drawn

    def table(self) -> Table:
        """Return the rate with its interval."""
        differ, compared = self._differ, self._compared
        texts = f"{self._same} of {self._drawn}"
        row = (str(differ), str(compared), _percent(differ, compared), _wilson(differ, compared), texts)
        columns = ("blocks that differ", "blocks compared", "rate %", "Wilson 95 %", "pairs of the same text")
        note = COPIES if self._drawn and self._same == self._drawn else ""
        return Table("Identical-input disagreement", columns, (row,), note)


class ExclusionTally:
    """Everything that was left out, by reason: problems, messages' proposals, replays."""

    def __init__(self) -> None:
        self._reasons: Counter[tuple[str, str]] = Counter()

    def leave_out(self, reason: str) -> None:
        """Count a problem that was left out as a whole."""
        self._reasons["problem", reason] += 1

    def add(self, result: ProblemResult) -> None:
        """Count what a problem lacks."""
        reasons = self._reasons
        if result.pool is None:
            reasons["problem", f"{result.status}: {result.reason}"] += 1
            return
        if result.why_no_further:
            reasons["trajectory values of a problem", result.why_no_further] += 1
        reasons["replay", "not run yet"] += result.planned - len(result.outcomes) - len(result.masked)
        for outcome in (*result.outcomes, *result.masked):
            if outcome.status != "graded":
                reasons["replay", f"{outcome.status}: {outcome.reason}"] += 1
        for proposal in result.proposals:
            if proposal.correct is None:
                reasons["proposal", proposal.status] += 1

    def table(self) -> Table:
        """Return counts by reason."""
        rows = tuple((kind, reason, str(count)) for (kind, reason), count in sorted(self._reasons.items()) if count)
        return Table("Left out, by reason", ("what", "reason", "count"), rows or (("nothing", "-", "0"),))


def arm_family(outcome: Outcome) -> str:
    """Return which row of the accuracy table an outcome belongs to."""
    arm = outcome.replay.arm
    if arm.removed is not None:
        return "without i" if arm.k == POOL_SIZE else f"without i of {arm.k}"
    if arm.name.startswith("only-"):
        return "only i"
    return f"prefix {arm.k}" if arm.name.startswith("prefix-") else arm.kind


def _scores(outcomes: Iterable[Outcome]) -> list[float]:
    scores: list[float] = []
    for outcome in outcomes:
        if outcome.correct is not None:
            scores.append(float(outcome.correct))
        elif outcome.status == "no_answer":
            scores.append(0.0)
    return scores


def _problem_bootstrap(means: np.ndarray[Any, np.dtype[np.float64]], resamples: int = 4000) -> tuple[str, str]:
    """Return the ends of a percentile bootstrap over problems, in percent (seeded, so that a card is reproducible)."""
    if len(means) < 2:
        return "-", "-"
    rng = np.random.default_rng(0)
    drawn = np.empty(resamples)
    some = max(1, _AT_ONCE // len(means))
    for start in range(0, resamples, some):  # a whole campaign's resamples at once would take gigabytes
        count = min(some, resamples - start)
        drawn[start : start + count] = means[rng.integers(0, len(means), (count, len(means)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{100 * low:.1f}", f"{100 * high:.1f}"


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}" if total else "-"


def _wilson(count: int, total: int) -> str:
    if not total:
        return "-"
    ends = stats.binomtest(count, total).proportion_ci(method="wilson")
    return f"[{100 * ends.low:.1f}, {100 * ends.high:.1f}]"
