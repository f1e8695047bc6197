"""From the store to records: roles, pool, outcomes of each problem. A pure function of the store and the config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatReply
from dhd_labels.grading.extract import extract_answer
from dhd_labels.grading.rules import grade
from dhd_labels.protocol.parse import parse_message, parse_roles
from dhd_labels.protocol.reasoning import split_reasoning
from dhd_labels.protocol.roles import hypothesizer_ticket, recruiter_ticket, replay_ticket
from dhd_labels.records import POOL_SIZE, Message, Outcome, OutcomeStatus, Pool, Problem, Replay, Role
from dhd_labels.replay.plan import plan_replays
from dhd_labels.replay.store import CallRow, Store

Calls = Mapping[str, Sequence[CallRow]]


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """Everything known of one problem. `pool` is None unless `status` is "ok"; `reason` says what is missing."""

    problem: Problem
    status: str
    reason: str | None
    roles: tuple[Role, ...]
    messages: tuple[Message, ...]
    pool: Pool | None
    outcomes: tuple[Outcome, ...]
    planned: int


def collect(store: Store, config: RunConfig, integrator: str) -> Iterator[ProblemResult]:
    """Yield the result of every problem of the run, in benchmark order. One problem is in memory at a time."""
    for problem in store.problems():
        yield collect_problem(store, config, integrator, problem)


def collect_problem(store: Store, config: RunConfig, integrator: str, problem: Problem) -> ProblemResult:
    """Return the result of one problem."""
    calls = store.calls(problem.problem_id)
    roles, why_no_roles = read_roles(calls, problem.problem_id)
    messages = read_messages(calls, problem.problem_id, roles)
    pool = store.pool(problem.problem_id)
    if pool is None:
        reason = why_no_roles or _why_no_messages(messages)
        status = "no_roles" if why_no_roles else "no_pool"
        return ProblemResult(problem, status, reason, roles, messages, None, (), 0)
    planned = plan_replays(config, problem.problem_id, pool.pool_id, integrator)
    outcomes = tuple(outcome for replay in planned if (outcome := _outcome(replay, problem, calls)))
    return ProblemResult(problem, "ok", None, roles, pool.messages, pool, outcomes, len(planned))


def read_roles(calls: Calls, problem_id: str) -> tuple[tuple[Role, ...], str | None]:
    """Return the recruiter's five roles, or none and the reason."""
    rows = calls.get(recruiter_ticket(problem_id))
    if not rows:
        return (), "the recruiter was not asked yet"
    reply = rows[-1].reply
    if reply.status != "ok":
        return (), f"recruiter: {reply.status}"
    roles, reason = parse_roles(reply.text)
    return roles, f"recruiter: {reason}" if reason else None


def read_messages(calls: Calls, problem_id: str, roles: Sequence[Role]) -> tuple[Message, ...]:
    """Return the messages that were asked for so far, usable or not."""
    found = []
    for slot, role in enumerate(roles):
        rows = calls.get(hypothesizer_ticket(problem_id, slot))
        if rows:
            found.append(parse_message(rows[-1].reply, slot, role))
    return tuple(found)


def _why_no_messages(messages: Sequence[Message]) -> str:
    bad = [f"message {m.slot}: {m.status}" for m in messages if m.status != "ok"]
    missing = POOL_SIZE - len(messages)
    return (
        "; ".join(bad + ([f"{missing} messages not asked for yet"] if missing else [])) or "the pool was not formed yet"
    )


def _outcome(replay: Replay, problem: Problem, calls: Calls) -> Outcome | None:
    """Return the graded outcome of a replay, or None if it was not sent yet."""
    rows = calls.get(replay_ticket(replay))
    if not rows:
        return None
    row = rows[-1]
    status, reason, answer, correct = judge_reply(row.reply, problem)
    return Outcome(
        replay=replay,
        status=status,
        reason=reason,
        answer=answer,
        correct=correct,
        finish_reason=row.reply.finish_reason,
        prompt_tokens=row.reply.prompt_tokens,
        cached_tokens=row.reply.cached_tokens,
        completion_tokens=row.reply.completion_tokens,
        seed=row.seed,
        model=row.reply.model,
    )


def judge_reply(reply: ChatReply, problem: Problem) -> tuple[OutcomeStatus, str | None, str | None, bool | None]:
    """Extract and grade one integrator reply; return status, reason, answer and verdict."""
    if reply.status == "truncated":
        return "truncated", "token limit", None, None
    if reason := _operational(reply):
        return "operational", reason, None, None
    found = extract_answer(reply.text)
    if found.answer is None:
        status: OutcomeStatus = "truncated" if found.status == "truncated" else "no_answer"
        return status, "cut-off box" if status == "truncated" else "no box and no answer cue", None, None
    verdict = grade(problem, found.answer)
    return verdict.status, verdict.reason, verdict.canonical, verdict.correct


def _operational(reply: ChatReply) -> str | None:
    """Return why a reply has no final part to grade, or None. That is never a wrong answer."""
    if reply.status not in ("ok", "empty"):
        return reply.status
    split = split_reasoning(reply.text)
    if split.final.strip() and reply.status == "ok":
        return None
    thought = bool(reply.completion_tokens or reply.reasoning or split.reasoning)
    return split.problem or ("empty_final_with_tokens" if thought else "empty")
