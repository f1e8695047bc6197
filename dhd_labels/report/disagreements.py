"""Where a rule and the evaluator decide the same answer differently: each is a label to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dhd_labels.config import RunConfig
from dhd_labels.grading.grader import grade_by_rules
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.judge import EVALUATOR
from dhd_labels.report.table import Table
from dhd_labels.text import one_line

SHOWN = 20
"""Disagreements that a table lists; the data says how many there are."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One class of equal answers with two verdicts."""

    problem_id: str
    reference: str
    answer: str
    rule: bool
    evaluator: bool


def find_disagreements(config: RunConfig, result: ProblemResult) -> Iterator[Disagreement]:
    """Yield the answers to a problem that a rule decides otherwise than the evaluator, one of each class.

    Only where the evaluator judges every answer (`grading: evaluator`) do both decide.
    """
    if config.grading != EVALUATOR:
        return
    judged = {g.canonical: g for g in result.graded() if g.graded_by == EVALUATOR and g.correct is not None}
    problem = result.problem
    for graded in judged.values():
        rule, evaluator = grade_by_rules(problem, graded.answer, config.grading_mode).correct, graded.correct
        if rule is not None and evaluator is not None and rule != evaluator:
            yield Disagreement(problem.problem_id, problem.reference, graded.answer, rule, evaluator)


def disagreement_rows(found: list[Disagreement]) -> Table:
    """Return the first disagreements as a table."""
    word = {True: "correct", False: "wrong"}
    rows = tuple(
        (d.problem_id, one_line(d.reference, 40), one_line(d.answer, 40), word[d.rule], word[d.evaluator])
        for d in found[:SHOWN]
    )
    note = f"{len(found)} in all." if len(found) > SHOWN else ""
    columns = ("problem", "reference", "answer", "by rule", "by evaluator")
    return Table("Rule and evaluator disagree", columns, rows, note)
