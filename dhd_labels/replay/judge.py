"""The evaluator: one call for each different answer to a problem, whoever gave it, and its verdicts from the store.

The ticket of a call is (problem, canonical answer), so the same answer never gets two verdicts. The evaluator is shown
the reference and the answer; neither the question, nor an agent's reasoning, nor which arm it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatReply
from dhd_labels.grading.grader import Graded, Grader, grade_by_rules
from dhd_labels.grading.verdict import Verdict, read_verdict
from dhd_labels.protocol.evaluator import evaluator_turns
from dhd_labels.protocol.prompts import grammar_for, load_prompt
from dhd_labels.records import Problem
from dhd_labels.replay.calls import Call
from dhd_labels.replay.plan import derive_seed
from dhd_labels.replay.store import CallRow

Calls = Mapping[str, Sequence[CallRow]]
NOT_ASKED = "the evaluator was not asked yet"
TWO_VERDICTS = "the evaluator gave two verdicts; its last one counts"


def evaluator_ticket(problem_id: str, answer: str) -> str:
    """Return the ticket of the verdict on a canonical answer."""
    return f"{problem_id}/evaluator/{hashlib.sha256(answer.encode()).hexdigest()[:24]}"


def evaluator_call(config: RunConfig, problem: Problem, answer: str) -> Call:
    """Return the call that judges a canonical answer to a problem."""
    role = config.role("evaluator")
    return Call(
        ticket=evaluator_ticket(problem.problem_id, answer),
        role="evaluator",
        problem_id=problem.problem_id,
        turns=evaluator_turns(load_prompt(role.prompt), problem.reference, answer, problem.answer_type),
        decoding=role,
        grammar=grammar_for(role.grammar, problem.visible()),
        seed=partial(derive_seed, config.seed, problem.problem_id, "evaluator", answer),
        accepts=lambda reply: _verdict(reply).correct is not None,
    )


def grader_for(config: RunConfig, calls: Calls) -> Grader:
    """Return the grader of a run for a problem whose stored calls are given."""
    if config.grading == "rules":
        return grade_by_rules

    def grade(problem: Problem, answer: str) -> Graded:
        verdict = grade_by_rules(problem, answer)
        if not _is_for_evaluator(config, verdict):
            return verdict
        return _from_store(calls.get(evaluator_ticket(problem.problem_id, verdict.answer)), verdict.answer)

    return grade


def _is_for_evaluator(config: RunConfig, by_rule: Graded) -> bool:
    return config.grading == "evaluator" or by_rule.status == "undetermined"


def _from_store(rows: Sequence[CallRow] | None, answer: str) -> Graded:
    if not rows:
        return Graded("undetermined", NOT_ASKED, answer, None, "evaluator")
    verdict = _verdict(rows[-1].reply)
    if verdict.correct is None:
        return Graded("operational", f"evaluator: {verdict.reason}", answer, None, "evaluator")
    flag = TWO_VERDICTS if verdict.conflict else None
    return Graded("graded", flag, answer, verdict.correct, "evaluator")


def _verdict(reply: ChatReply) -> Verdict:
    """Return the verdict of a reply; a reply that failed or was cut off has none, whatever it says."""
    if reply.status != "ok":
        return Verdict("unreadable", None, reply.status)
    return read_verdict(reply.text)
