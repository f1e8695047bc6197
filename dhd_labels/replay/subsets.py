"""Replays of subsets that a selector chose after the run, through the run's own engine, store and grading.

They are planned as `protocol.subsets` would plan them, so one key is one call here too: what the store answered is
never asked again, and a run that is interrupted goes on. The data set of the run does not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dhd_labels.config import load_config
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatEngine
from dhd_labels.errors import DhdError
from dhd_labels.grading.grader import Graded
from dhd_labels.protocol.roles import replay_call
from dhd_labels.records import Outcome, Pool, Problem, Replay
from dhd_labels.replay.calls import Call, Tally, execute
from dhd_labels.replay.collect import read_outcome
from dhd_labels.replay.directory import RUN_FILE, RunDirectory, begin, check_models, open_run
from dhd_labels.replay.judge import EVALUATOR, evaluator_calls, grader_for
from dhd_labels.replay.lock import RunLock
from dhd_labels.replay.plan import plan_subset
from dhd_labels.replay.store import Store

Wanted = Mapping[str, Collection[tuple[int, ...]]]
"""Pool id -> sets of slots."""
_ROLE = "integrator"


def find_run(config: str) -> RunDirectory:
    """Return a run by its directory, or by the preset or YAML file whose run is in `runs/<name>`.

    Raises:
        DhdError: there is no such run.
    """
    path = Path(config).expanduser()
    if not (path / RUN_FILE).is_file() and not path.is_dir():
        path = Path("runs") / load_config(config).name
    return open_run(path)


def pools_of(directory: RunDirectory) -> dict[str, str]:
    """Return pool id -> problem id of the pools in a run's store.

    Raises:
        DhdError: there is no store, or it is damaged.
    """
    store = directory.open_store()
    try:
        found = {problem.problem_id: store.pool(problem.problem_id) for problem in store.problems()}
    finally:
        store.close()
    return {pool.pool_id: problem_id for problem_id, pool in found.items() if pool}


def replay_subsets(directory: RunDirectory, wanted: Wanted) -> tuple[list[Outcome], Tally]:
    """Answer, grade and return every draw of these subsets; what the store has is not asked again.

    Args:
        directory: the run that the pools belong to.
        wanted: pools of the run, and the sets of slots to show of each.

    Returns:
        Outcomes, also of calls that failed; `subset_draws` of the config for each set. And what was asked.

    Raises:
        DhdError: a live run, a damaged store, another model than that of the run.
    """
    with ExitStack() as stack:
        stack.enter_context(RunLock(directory.path))
        engines = _engines(directory, stack)
        begin(
            directory.path,
            directory.config,
            {**directory.identities, **{name: e.identity for name, e in engines.items()}},
        )
        store = directory.open_store()
        stack.callback(store.close)
        work = _Work(directory, store, wanted)
        tally, attempts = Tally(), directory.config.protocol.max_attempts
        execute(work.calls(), engines[_ROLE], store, attempts, tally, _silent)
        if EVALUATOR in engines:
            execute(work.judging(), engines[EVALUATOR], store, attempts, tally, _silent)
        check_models(directory, store)
        return list(work.outcomes()), tally


@dataclass(frozen=True)
class _Work:
    """The replays that are wanted, with their problems and pools."""

    directory: RunDirectory
    store: Store
    wanted: Wanted

    @cached_property
    def replays(self) -> list[tuple[Problem, Pool, tuple[Replay, ...]]]:
        config, found = self.directory.config, []
        for problem in self.store.problems():
            pool = self.store.pool(problem.problem_id)
            if pool is not None and pool.pool_id in self.wanted:
                sets = sorted(self.wanted[pool.pool_id])
                plans = (plan_subset(config, problem.problem_id, pool.pool_id, self.directory.models, s) for s in sets)
                found.append((problem, pool, tuple(replay for plan in plans for replay in plan)))
        missing = set(self.wanted) - {pool.pool_id for _, pool, _ in found}
        if missing:
            raise DhdError(f"The run {self.directory.path} must hold the pools to replay, but has no {min(missing)}.")
        return found

    def calls(self) -> Iterator[Call]:
        for problem, pool, replays in self.replays:
            for replay in replays:
                yield replay_call(self.directory.config, problem.visible(), pool, replay)

    def outcomes(self) -> Iterator[Outcome]:
        for problem, _, replays in self.replays:
            yield from self._of(problem, replays)

    def judging(self) -> Iterator[Call]:
        for problem, _, replays in self.replays:
            waiting = [o for o in self._of(problem, replays) if o.graded_by == EVALUATOR and o.correct is None]
            graded = [_verdict(o) for o in waiting]
            yield from evaluator_calls(self.directory.config, problem, graded, self.store.calls(problem.problem_id))

    def _of(self, problem: Problem, replays: tuple[Replay, ...]) -> Iterator[Outcome]:
        calls = self.store.calls(problem.problem_id)
        grader = grader_for(self.directory.config, calls)
        for replay in replays:
            if outcome := read_outcome(replay, problem, calls, grader):
                yield outcome


def _verdict(outcome: Outcome) -> Graded:
    return Graded(
        outcome.status,
        outcome.reason,
        outcome.answer or "",
        outcome.correct,
        outcome.graded_by or "",
        outcome.canonical,
        outcome.score,
    )


def _engines(directory: RunDirectory, stack: ExitStack) -> dict[str, ChatEngine]:
    """Start the engines of the roles that are needed, each once."""
    config = directory.config
    roles = [role for role in (_ROLE, EVALUATOR) if role in config.bound_roles]
    opened = {name: open_engine(config.engines[name]) for name in sorted({config.role(role).engine for role in roles})}
    for engine in opened.values():
        stack.callback(engine.close)
    return {role: opened[config.role(role).engine] for role in roles}


def _silent() -> None:
    """Show no progress."""
