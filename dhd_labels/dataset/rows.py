"""From the results of a run to the rows of the data set. Pure: same store, same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dhd_labels.dataset.terms import Terms, Withholding, licence_columns
from dhd_labels.labels import NoAnswer
from dhd_labels.protocol.confidence import confidence_level, confidence_reason, confidence_value
from dhd_labels.protocol.masking import mask_message, restates_answer
from dhd_labels.records import Mask, MessageLabel, Outcome, Pool, Problem, as_json
from dhd_labels.replay.collect import ProblemResult

_EVERYTHING = Terms()


def rows_of(
    run: str, result: ProblemResult, no_answer: NoAnswer, terms: Terms = _EVERYTHING
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows that one problem of a run adds to each config, without the texts that `terms` keep out."""
    common = {"run": run, "replaced_characters": None, **licence_columns(result.problem)}
    withholding = Withholding(result.problem, terms)
    found = {
        "messages": message_rows(result, no_answer),
        "replays": replay_rows(result),
        "problems": [problem_row(result)],
        "masking": masking_rows(result),
    }
    return {config: [withholding.apply({**row, **common}) for row in rows] for config, rows in found.items()}


def message_rows(result: ProblemResult, no_answer: NoAnswer) -> Iterator[dict[str, Any]]:
    """Yield one row a (message, integrator, order) of a pool that was replayed."""
    if result.pool:
        for (integrator, order), outcomes in result.groups().items():
            identity = _identity(result.problem, result.pool, integrator, order)
            for label in result.labels(outcomes, no_answer):
                yield {
                    **_message_row(result.problem, result.pool, label, identity),
                    "recruiter_tokens": result.recruiter_tokens,
                    "writer_tokens": result.writer_tokens[label.slot] if result.writer_tokens else None,
                }


def replay_rows(result: ProblemResult) -> Iterator[dict[str, Any]]:
    """Yield one row an outcome of whole messages, in plan order."""
    if result.pool:
        for outcome in result.outcomes:
            yield _replay_row(result.problem, result.pool, outcome)


def masking_rows(result: ProblemResult) -> Iterator[dict[str, Any]]:
    """Yield one row an outcome of component masking, in plan order."""
    cells = {target.slot: target.cell for target in result.targets}
    for outcome in result.masked:
        if result.pool and (mask := outcome.replay.mask):
            yield _masking_row(result.problem, result.pool, outcome, mask, cells.get(mask.target))


def problem_row(result: ProblemResult) -> dict[str, Any]:
    """Return the row of a problem, also of one without a pool."""
    problem = result.problem
    return {
        "problem_id": problem.problem_id,
        "benchmark": problem.benchmark,
        "question": problem.question,
        "choices": list(problem.choices),
        "answer_type": problem.answer_type,
        "reference": problem.reference,
        "pool_status": result.status,
        "pool_reason": result.reason,
    }


def _message_row(problem: Problem, pool: Pool, label: MessageLabel, identity: Mapping[str, Any]) -> dict[str, Any]:
    message = as_json(pool.messages[label.slot])
    confidence = message.pop("confidence")
    del message["raw"]
    status = message.pop("status")
    return {
        **identity,
        **message,
        "confidence_text": confidence,
        "confidence_level": confidence_level(confidence),
        "confidence_value": confidence_value(confidence),
        "confidence_reason": confidence_reason(confidence),
        "message_status": status,
        **as_json(label),
        "interval_reason": label.trajectory_value_reason,
    }


def _replay_row(problem: Problem, pool: Pool, outcome: Outcome) -> dict[str, Any]:
    replay = outcome.replay
    return {
        **_identity(problem, pool, replay.integrator, replay.order),
        "arm": replay.arm.kind,
        "kept": list(replay.arm.kept),
        "k": replay.arm.k,
        "removed": replay.arm.removed,
        "block": replay.block,
        "draw": replay.draw,
        "position": replay.position,
        **_outcome(outcome),
    }


def _masking_row(problem: Problem, pool: Pool, outcome: Outcome, mask: Mask, cell: str | None) -> dict[str, Any]:
    replay, message = outcome.replay, pool.messages[mask.target]
    return {
        **_identity(problem, pool, replay.integrator, replay.order),
        "slot": mask.target,
        "cell": cell,
        "condition": mask.condition,
        "changed": mask.condition == "removal" or mask_message(message, mask.condition) != message,
        "answer_restated": restates_answer(message),
        "repeat": replay.block,
        "draw": replay.draw,
        "position": replay.position,
        **_outcome(outcome),
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "answer": outcome.answer,
        "correct": outcome.correct,
        "score": outcome.score,
        "graded_by": outcome.graded_by,
        "finish_reason": outcome.finish_reason,
        "prompt_tokens": outcome.prompt_tokens,
        "cached_tokens": outcome.cached_tokens,
        "completion_tokens": outcome.completion_tokens,
        "seed": outcome.seed,
        "model": outcome.model,
        "attempts": outcome.attempts,
        "call_key": outcome.call_key,
    }


def _identity(problem: Problem, pool: Pool, integrator: str, order: str) -> Mapping[str, Any]:
    return {
        "pool_id": pool.pool_id,
        "problem_id": problem.problem_id,
        "benchmark": problem.benchmark,
        "actor": pool.actor,
        "integrator": integrator,
        "order": order,
    }
