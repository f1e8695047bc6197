"""The evaluator: one call for each class of equal answers to a problem, and its verdicts from the store.

Answers that a rule knows to be equal are one class, whoever gave them; one of them is shown to the evaluator as it was
written, and its verdict holds for all. So the same answer never gets two verdicts. The evaluator is shown the reference
and the answer; neither the question, nor an agent's reasoning, nor which arm it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatReply
from dhd_labels.grading.grader import Graded, Grader, grade_by_rules
from dhd_labels.grading.verdict import Verdict, read_verdict
from dhd_labels.protocol.evaluator import evaluator_turns
from dhd_labels.protocol.prompts import grammar_for, load_prompt
from dhd_labels.records import Problem
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.calls import Call
from dhd_labels.replay.plan import derive_seed

Calls = Mapping[str, Sequence[CallRow]]
EVALUATOR = "evaluator"
NOT_ASKED = "the evaluator was not asked yet"
TWO_VERDICTS = "the evaluator gave two verdicts; its last one counts"


def evaluator_ticket(problem_id: str, canonical: str, answer: str) -> str:
    """Return the ticket of the verdict on a class of answers, given for the one that is shown."""
    return f"{_class_ticket(problem_id, canonical)}{_digest(answer)}"


def evaluator_call(config: RunConfig, problem: Problem, canonical: str, answer: str) -> Call:
    """Return the call that judges an answer for its class."""
    role = config.role(EVALUATOR)
    return Call(
        ticket=evaluator_ticket(problem.problem_id, canonical, answer),
        role=EVALUATOR,
        problem_id=problem.problem_id,
        turns=evaluator_turns(load_prompt(role.prompt), problem.reference, answer, problem.answer_type),
        decoding=role,
        grammar=grammar_for(role.grammar, problem.visible()),
        seed=partial(derive_seed, config.seed, problem.problem_id, EVALUATOR, answer),
        accepts=lambda reply: _verdict(reply).correct is not None,
    )


def evaluator_calls(config: RunConfig, problem: Problem, graded: Iterable[Graded], calls: Calls) -> Iterator[Call]:
    """Yield one call for each class of answers to judge: of the member that was asked already, else of any."""
    classes: dict[str, set[str]] = {}
    for verdict in graded:
        if verdict.graded_by == EVALUATOR:
            classes.setdefault(verdict.canonical, set()).add(verdict.answer)
    for canonical, answers in sorted(classes.items()):
        asked = [a for a in sorted(answers) if evaluator_ticket(problem.problem_id, canonical, a) in calls]
        yield evaluator_call(config, problem, canonical, (asked or sorted(answers))[0])


def grader_for(config: RunConfig, calls: Calls) -> Grader:
    """Return the grader of a run for a problem whose stored calls are given."""
    by_rules = partial(grade_by_rules, mode=config.grading_mode)
    if config.grading == "rules":
        return by_rules

    def grade(problem: Problem, answer: str) -> Graded:
        verdict = by_rules(problem, answer)
        if config.grading != EVALUATOR and verdict.status != "undetermined":
            return verdict
        unjudged = dataclasses.replace(verdict, status="undetermined", correct=None, score=None, graded_by=EVALUATOR)
        prefix = _class_ticket(problem.problem_id, verdict.canonical)
        return _from_store([rows for ticket, rows in sorted(calls.items()) if ticket.startswith(prefix)], unjudged)

    return grade


def _from_store(found: Sequence[Sequence[CallRow]], unjudged: Graded) -> Graded:
    """Return the class's verdict: the first readable one."""
    verdicts = [_verdict(rows[-1].reply) for rows in found if rows]
    for verdict in verdicts:
        if verdict.correct is not None:
            flag, score = TWO_VERDICTS if verdict.conflict else None, float(verdict.correct)
            return dataclasses.replace(unjudged, status="graded", reason=flag, correct=verdict.correct, score=score)
    if not verdicts:
        return dataclasses.replace(unjudged, reason=NOT_ASKED)
    return dataclasses.replace(unjudged, status="operational", reason=f"evaluator: {verdicts[-1].reason}")


def _class_ticket(problem_id: str, canonical: str) -> str:
    return f"{problem_id}/evaluator/{_digest(canonical)}/"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _verdict(reply: ChatReply) -> Verdict:
    """Return the verdict of a reply; a reply that failed or was cut off has none, whatever it says."""
    if reply.status != "ok":
        return Verdict("unreadable", None, reply.status)
    return read_verdict(reply.text)
