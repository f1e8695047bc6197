"""Screened allocation: which problems get further matched blocks, decided once and recorded.

The rule is `stats.allocation.next_blocks`. It sees the number of successes of each screening block and nothing else of
its answers: a symmetric function of the seven, so the exact tests, which permute them, stay valid. That holds for what
is missing too: a block with an answer that will not come counts as barely mixed at least, `max(1, min(successes,
failures))`, whichever arm it was. Problems are given in the order of a hash, so that a budget favours none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dhd_labels.config import RunConfig
from dhd_labels.labels import success
from dhd_labels.records import Outcome
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.plan import hash_rank
from dhd_labels.replay.store import Store
from dhd_labels.replay.targets import may_still_come, why_not_yet
from dhd_labels.stats.allocation import next_blocks
from dhd_labels.stats.blocks import DRAWS


def allocate(config: RunConfig, store: Store, results: Callable[[], Iterable[ProblemResult]], problems: int) -> str:
    """Decide about every problem that can be decided about, and record it; return what is left open and why.

    Without `replay.further_blocks` each problem stands alone and is decided as soon as its screen is answered. With it,
    problems compete, so all are decided at once, when every problem of the benchmarks is run and answered. A recorded
    decision stays, also when answers or their grading change later, and counts against the budget.

    Args:
        config: the run.
        store: where decisions are recorded.
        results: what is known of each problem of this run; read several times rather than held.
        problems: how many problems the benchmarks have.
    """
    budget = config.replay.further_blocks
    if budget is not None and (when := why_not_yet(results(), problems, config.protocol.max_attempts)):
        return f"further blocks are given {when}"
    counts: dict[str, list[int]] = {}
    waiting = given = 0
    for result in results():
        given += result.further_blocks or 0
        if result.pool is None or result.further_blocks is not None:
            continue
        found = screen_counts(config, result)
        if found is None:
            waiting += 1
        else:
            counts[result.problem.problem_id] = found
    decided = decide(config, counts, None if budget is None else max(0, budget - given))
    with store.one_commit():
        for problem_id, blocks in decided.items():
            store.decide_blocks(problem_id, blocks)
    if waiting:
        return f"further blocks of {waiting} problems are decided once their screening blocks are answered: run again"
    return ""


def decide(config: RunConfig, counts: Mapping[str, Sequence[int]], budget: int | None) -> dict[str, int]:
    """Return how many matched blocks each problem gets, the screening ones included. Pure.

    Args:
        config: the run.
        counts: problem_id -> the counts of its screening blocks.
        budget: further blocks that may still be given; None for any number.
    """
    screen, most = config.screen_blocks, config.protocol.blocks
    order = sorted(counts, key=lambda problem_id: hash_rank(config, problem_id))
    left = len(counts) * (most - screen) if budget is None else budget
    more = next_blocks([counts[problem_id] for problem_id in order], left, most, screen)
    return {problem_id: screen + blocks for problem_id, blocks in zip(order, more, strict=True)}


def screen_counts(config: RunConfig, result: ProblemResult) -> list[int] | None:
    """Return the count of each screening block, or None while an answer or a verdict may still come."""
    blocks: list[list[Outcome]] = [[] for _ in range(config.screen_blocks)]
    for outcome in result.main_outcomes():
        if outcome.replay.block is not None and outcome.replay.block < config.screen_blocks:
            blocks[outcome.replay.block].append(outcome)
    most = config.protocol.max_attempts
    if any(len(b) < DRAWS or any(may_still_come(o.reason, o.attempts, most) for o in b) for b in blocks):
        return None
    return [_count([success(o, config.outcomes.no_answer) for o in block]) for block in blocks]


def _count(values: Sequence[float | None]) -> int:
    """Return the successes of a block; of an incomplete one, a count that is as mixed as what is known, and mixed."""
    known = [value for value in values if value is not None]
    successes = round(sum(known))
    return successes if len(known) == DRAWS else max(1, min(successes, len(known) - successes))
