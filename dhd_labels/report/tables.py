"""The tables that `run`, `build` and the card show. All of them are functions of the collected results alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from dhd_labels.labels import CELLS, NoAnswer, identical_input_disagreement, identical_texts
from dhd_labels.records import POOL_SIZE, MessageLabel, Outcome
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.report.study_tables import masking_table, sensitivity_table
from dhd_labels.report.table import Table

COPIES = (
    "No two draws of one input differ in a single character: they look like copies, not like repeats, and then the "
    "blocks measure nothing that one draw does not."
)
ARM_FAMILIES = (
    "alone",
    "only i",
    *(f"prefix {k}" for k in range(1, POOL_SIZE)),
    "full",
    *(f"without i of {k}" for k in range(2, POOL_SIZE)),
    "without i",
    "subset",
)


def cell_table(labels: Sequence[MessageLabel]) -> Table:
    """Return the six cells: proposal correctness x direction of the single-draw K=5 effect."""
    counts = Counter(label.cell for label in labels)
    effects = ("helpful", "neutral", "harmful")
    rows = tuple(
        (proposal, *(str(counts[f"{proposal}_{effect}"]) for effect in effects)) for proposal in ("correct", "wrong")
    )
    outside = sum(label.cell not in CELLS for label in labels)
    note = f"{len(labels)} messages; {outside} in no cell (proposal without a verdict, or no graded pair)."
    return Table("Messages by proposal and single-draw effect (K=5)", ("proposal", *effects), rows, note)


def accuracy_table(results: Sequence[ProblemResult]) -> Table:
    """Return accuracy by arm family, and the rate of every status that is not graded.

    A `no_answer` counts as incorrect here and other ungraded outcomes are missing. The interval is a 95 % bootstrap
    over problems, since draws of one problem are not independent.
    """
    rows = []
    sorted_out = [_by_family(r.main_outcomes()) for r in results]
    for family in ARM_FAMILIES:
        per_problem = [found.get(family, []) for found in sorted_out]
        drawn = [outcome for outcomes in per_problem for outcome in outcomes]
        if not drawn:
            continue
        statuses = Counter[str](outcome.status for outcome in drawn)
        means = [np.mean(scores) for outcomes in per_problem if (scores := _scores(outcomes))]
        low, high = _problem_bootstrap(means)
        accuracy = f"{100 * np.mean(means):.1f}" if means else "-"
        other = ("no_answer", "truncated", "operational", "undetermined")
        again = _percent(sum(outcome.attempts > 1 for outcome in drawn), len(drawn))
        shares = (*(_percent(statuses[s], len(drawn)) for s in other), again)
        rows.append((family, str(len(drawn)), accuracy, f"[{low}, {high}]", *shares))
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
    shared = sum(len(r.main_outcomes()) - len({o.call_key for o in r.main_outcomes()}) for r in results)
    if shared:
        note += f" {shared} draws share the answer of another arm that shows the same messages."
    return Table("Accuracy by arm", columns, tuple(rows), note)


def _by_family(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(arm_family(outcome), []).append(outcome)
    return found


def disagreement_table(results: Iterable[ProblemResult]) -> Table:
    """Return how often two full draws of one block, the same input twice, end differently."""
    results = list(results)
    pairs = [identical_input_disagreement(result.main_outcomes()) for result in results]
    differ, compared = sum(d for d, _ in pairs), sum(n for _, n in pairs)
    texts = [identical_texts(result.main_outcomes()) for result in results]
    same, drawn = sum(s for s, _ in texts), sum(n for _, n in texts)
    row = (str(differ), str(compared), _percent(differ, compared), _wilson(differ, compared), f"{same} of {drawn}")
    columns = ("blocks that differ", "blocks compared", "rate %", "Wilson 95 %", "pairs of the same text")
    note = COPIES if drawn and same == drawn else ""
    return Table("Identical-input disagreement", columns, (row,), note)


def stability_table(labels: Sequence[MessageLabel]) -> Table:
    """Return stable and indeterminate messages by proposal."""
    kinds = ("stable_helpful", "indeterminate", "stable_harmful")
    proposal = {True: "correct", False: "wrong", None: "unknown"}
    rows = []
    for correct, name in proposal.items():
        of_kind = Counter[str](label.stability for label in labels if label.proposal_correct is correct)
        values = [v for x in labels if x.proposal_correct is correct and (v := x.trajectory_value) is not None]
        mean = f"{np.mean(values):+.3f}" if values else "-"
        rows.append((name, *(str(of_kind[kind]) for kind in kinds), mean))
    note = "Stable: the exact 95 % bootstrap interval over blocks excludes 0. With few blocks it covers badly."
    columns = ("proposal", "stable helpful", "indeterminate", "stable harmful", "mean trajectory value")
    return Table("Trajectory value", columns, tuple(rows), note)


def exclusion_table(results: Iterable[ProblemResult], excluded: Mapping[str, int] | None = None) -> Table:
    """Return everything that was left out, by reason: problems, messages' proposals, replays."""
    reasons = Counter({("problem", reason): count for reason, count in (excluded or {}).items()})
    for result in results:
        if result.pool is None:
            reasons["problem", f"{result.status}: {result.reason}"] += 1
            continue
        reasons["replay", "not run yet"] += result.planned - len(result.outcomes) - len(result.masked)
        for outcome in (*result.outcomes, *result.masked):
            if outcome.status != "graded":
                reasons["replay", f"{outcome.status}: {outcome.reason}"] += 1
        for proposal in result.proposals:
            if proposal.correct is None:
                reasons["proposal", proposal.status] += 1
    rows = tuple((kind, reason, str(count)) for (kind, reason), count in sorted(reasons.items()) if count)
    return Table("Left out, by reason", ("what", "reason", "count"), rows or (("nothing", "-", "0"),))


def all_labels(results: Iterable[ProblemResult], no_answer: NoAnswer) -> list[MessageLabel]:
    """Return the labels of every replayed pool, by the run's own integrator and the original order."""
    return [label for result in results for label in result.labels(result.main_outcomes(), no_answer)]


def result_tables(results: Sequence[ProblemResult], no_answer: NoAnswer) -> tuple[Table, ...]:
    """Return the tables of a run, in reading order, without the exclusions."""
    labels = all_labels(results, no_answer)
    tables = [cell_table(labels), stability_table(labels), accuracy_table(results), disagreement_table(results)]
    studies = (sensitivity_table(results, no_answer), masking_table(results))
    return (*tables, *(table for table in studies if table.rows))


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


def _problem_bootstrap(means: Sequence[Any], resamples: int = 4000) -> tuple[str, str]:
    """Return the ends of a percentile bootstrap over problems, in percent (seeded, so that a card is reproducible)."""
    if len(means) < 2:
        return "-", "-"
    rng = np.random.default_rng(0)
    values = np.asarray(means, dtype=float)
    drawn = values[rng.integers(0, len(values), (resamples, len(values)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{100 * low:.1f}", f"{100 * high:.1f}"


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f}" if total else "-"


def _wilson(count: int, total: int) -> str:
    if not total:
        return "-"
    ends = stats.binomtest(count, total).proportion_ci(method="wilson")
    return f"[{100 * ends.low:.1f}, {100 * ends.high:.1f}]"
