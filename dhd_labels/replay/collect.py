"""From the store to records: roles, pool, outcomes of each problem. A pure function of the store and the config."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatReply
from dhd_labels.errors import DhdError
from dhd_labels.grading.extract import extract_answer
from dhd_labels.grading.grader import Graded, Grader
from dhd_labels.labels import NO_BLOCK, STOPPED, UNDECIDED, NoAnswer, Proposal, grade_proposal, label_pool
from dhd_labels.protocol.parse import parse_message, parse_roles
from dhd_labels.protocol.reasoning import split_reasoning
from dhd_labels.protocol.roles import hypothesizer_ticket, recruiter_ticket, replay_ticket
from dhd_labels.records import POOL_SIZE, Message, MessageLabel, Outcome, Pool, Problem, Replay, Role
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.judge import grader_for
from dhd_labels.replay.plan import Models, Target, plan_replays
from dhd_labels.replay.store import Store

Calls = Mapping[str, Sequence[CallRow]]


@dataclass(frozen=True, slots=True)
class ProblemResult:
    """Everything known of one problem. `pool` is None unless `status` is "ok"; `reason` says what is missing.

    `proposals` are the verdicts on the messages' own answers, in slot order (empty without a pool). `outcomes` are
    those of whole messages, `masked` those of component masking of the `targets`; `planned` counts both,
    `planned_masked` the latter. Without a pool, `asked` is the most calls made for one of its parts. `screen_blocks`
    is the number of matched blocks that decide how many more there are (0: none do), `further_blocks` the number of
    these, None until it is decided. Tokens are those of the calls that made the pool, prompt and reply; None where the
    server did not count.
    """

    problem: Problem
    status: str
    reason: str | None
    roles: tuple[Role, ...]
    messages: tuple[Message, ...]
    pool: Pool | None
    proposals: tuple[Proposal, ...]
    outcomes: tuple[Outcome, ...]
    masked: tuple[Outcome, ...]
    planned: int
    targets: tuple[Target, ...] = ()
    planned_masked: int = 0
    asked: int = 0
    screen_blocks: int = 0
    further_blocks: int | None = 0
    recruiter_tokens: int | None = None
    writer_tokens: tuple[int | None, ...] = ()

    def groups(self) -> dict[tuple[str, str], tuple[Outcome, ...]]:
        """Return the outcomes by (integrator, order): a label belongs to one such group. The main one comes first."""
        found: dict[tuple[str, str], list[Outcome]] = {}
        for outcome in self.outcomes:
            found.setdefault((outcome.replay.integrator, outcome.replay.order), []).append(outcome)
        return {group: tuple(outcomes) for group, outcomes in found.items()}

    def graded(self) -> Iterator[Graded]:
        """Yield the verdict on every answer: of the messages, and of the outcomes."""
        yield from (proposal.graded for proposal in self.proposals if proposal.graded)
        for o in (*self.outcomes, *self.masked):
            if o.answer is not None and o.graded_by:
                yield Graded(o.status, o.reason, o.answer, o.correct, o.graded_by, o.canonical, o.score)

    def main_outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcomes of the run's own integrator with the messages in their original order."""
        return tuple(o for o in self.outcomes if (o.replay.role, o.replay.order) == ("integrator", "original"))

    def unselected_outcomes(self) -> tuple[Outcome, ...]:
        """Return the main outcomes without the blocks that only some problems got because of their outcomes."""
        if not self.screen_blocks:
            return self.main_outcomes()
        return tuple(o for o in self.main_outcomes() if o.replay.block is None or o.replay.block < self.screen_blocks)

    def labels(self, outcomes: Sequence[Outcome], no_answer: NoAnswer) -> list[MessageLabel]:
        """Return the labels of the messages from a group of outcomes; none without a pool."""
        if self.pool is None:
            return []
        # Sensitivity checks have a fixed number of blocks: nothing decides about them.
        main = all((o.replay.role, o.replay.order) == ("integrator", "original") for o in outcomes)
        screen = self.screen_blocks if main else 0
        why_none = (screen and self.why_no_further) or NO_BLOCK
        return label_pool(self.pool, self.proposals, outcomes, no_answer, screen, why_none)

    @property
    def why_no_further(self) -> str:
        """Why there is no block besides those of the screen; empty where there are some, or no screen."""
        if self.further_blocks is None:
            return UNDECIDED
        return STOPPED if self.screen_blocks and not self.further_blocks else ""


def collect(store: Store, config: RunConfig, models: Models) -> Iterator[ProblemResult]:
    """Yield the result of every problem of the run, in benchmark order. One problem is in memory at a time."""
    for problem in store.problems():
        yield collect_problem(store, config, models, problem)


def collect_problem(store: Store, config: RunConfig, models: Models, problem: Problem) -> ProblemResult:
    """Return the result of one problem."""
    problem_id = problem.problem_id
    calls = store.calls(problem_id)
    roles, why_no_roles = read_roles(calls, problem_id)
    pool = store.pool(problem_id)
    if pool is None:
        messages = read_messages(calls, problem_id, roles)
        reason = why_no_roles or _why_no_messages(messages)
        status = "no_roles" if why_no_roles else "no_pool"
        asked = max(map(len, calls.values()), default=0)
        return ProblemResult(problem, status, reason, roles, messages, None, (), (), (), 0, asked=asked)
    grader = grader_for(config, calls)
    targets = store.targets(problem_id)
    studies = store.studies(problem_id)
    blocks = blocks_of(config, store, problem_id)
    screen = config.screen_blocks if studies.blocks else 0
    undecided = screen and store.blocks(problem_id) is None
    planned = plan_replays(config, problem_id, pool.pool_id, models, studies, targets, blocks)
    outcomes = [outcome for replay in planned if (outcome := read_outcome(replay, problem, calls, grader))]
    return ProblemResult(
        problem,
        "ok",
        None,
        roles,
        pool.messages,
        pool,
        tuple(grade_proposal(problem, message, grader) for message in pool.messages),
        tuple(o for o in outcomes if o.replay.mask is None),
        tuple(o for o in outcomes if o.replay.mask is not None),
        len(planned),
        tuple(targets),
        sum(replay.mask is not None for replay in planned),
        screen_blocks=screen,
        further_blocks=None if undecided else blocks - screen if screen else 0,
        recruiter_tokens=_tokens(calls, recruiter_ticket(problem_id)),
        writer_tokens=tuple(_tokens(calls, hypothesizer_ticket(problem_id, m.slot)) for m in pool.messages),
    )


def blocks_of(config: RunConfig, store: Store, problem_id: str) -> int:
    """Return how many matched blocks a problem is to get, as far as that is decided.

    Raises:
        DhdError: the recorded decision is none that this run makes.
    """
    fewest, most = config.screen_blocks, config.protocol.blocks
    decided = store.blocks(problem_id) if fewest else None
    if decided is not None and not fewest <= decided <= most:
        raise DhdError(
            f"The matched blocks that {store.path} records for problem {problem_id!r} must be {fewest} to {most}, got "
            f"{decided}: the store was edited. Restore it, or use a new --run-dir."
        )
    return decided or fewest or most


def _tokens(calls: Calls, ticket: str) -> int | None:
    """Return the tokens of the last call of a ticket."""
    reply = calls[ticket][-1].reply if calls.get(ticket) else None
    if reply is None or reply.prompt_tokens is None or reply.completion_tokens is None:
        return None
    return reply.prompt_tokens + reply.completion_tokens


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


def read_outcome(replay: Replay, problem: Problem, calls: Calls, grader: Grader) -> Outcome | None:
    """Return the graded outcome of a replay, or None if it was not sent yet."""
    rows = calls.get(replay_ticket(replay))
    if not rows:
        return None
    row = rows[-1]
    graded = judge_reply(row.reply, problem, grader)
    return Outcome(
        replay=replay,
        status=graded.status,
        reason=graded.reason,
        answer=graded.answer or None,
        correct=graded.correct,
        finish_reason=row.reply.finish_reason,
        prompt_tokens=row.reply.prompt_tokens,
        cached_tokens=row.reply.cached_tokens,
        completion_tokens=row.reply.completion_tokens,
        seed=row.seed,
        model=row.reply.model,
        graded_by=graded.graded_by or None,
        call_key=row.key,
        canonical=graded.canonical,
        score=graded.score,
        attempts=len(rows),
        text_digest=hashlib.sha256(row.reply.text.encode()).hexdigest()[:16],
    )


def judge_reply(reply: ChatReply, problem: Problem, grader: Grader) -> Graded:
    """Extract and grade one integrator reply. Without an answer to grade, `answer` and `graded_by` are empty."""
    answer = reply_answer(reply, problem.answer_type)
    return answer if isinstance(answer, Graded) else grader(problem, answer)


def reply_answer(reply: ChatReply, answer_type: str) -> str | Graded:
    """Return the answer of a declared type that a reply gives, or the outcome of a reply that gives none."""
    if reply.status == "truncated":
        return Graded("truncated", "token limit", "", None, "")
    if reason := _operational(reply):
        return Graded("operational", reason, "", None, "")
    found = extract_answer(reply.text, answer_type)
    if found.answer is not None:
        return found.answer
    if found.status == "truncated":
        return Graded("truncated", "cut-off box", "", None, "")
    return Graded("no_answer", "no box and no answer cue", "", None, "")


def _operational(reply: ChatReply) -> str | None:
    """Return why a reply has no final part to grade, or None. That is never a wrong answer."""
    if reply.status not in ("ok", "empty"):
        return reply.status
    split = split_reasoning(reply.text)
    if split.final.strip() and reply.status == "ok":
        return None
    thought = bool(reply.completion_tokens or reply.reasoning or split.reasoning)
    return split.problem or ("empty_final_with_tokens" if thought else "empty")
