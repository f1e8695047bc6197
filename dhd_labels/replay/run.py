"""A run: recruit, write messages, replay. Resumable at any moment; only what is missing is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dhd_labels.benchmarks import ORACLE, read_problems, resolve_name
from dhd_labels.config import ROLE_NAMES, RunConfig, ScriptedConfig
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatEngine
from dhd_labels.errors import DhdError
from dhd_labels.oracle import World
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call, replay_call
from dhd_labels.records import POOL_SIZE, Pool, Problem
from dhd_labels.replay.calls import Call, Tally, execute
from dhd_labels.replay.collect import read_messages, read_roles
from dhd_labels.replay.directory import RunDirectory, begin
from dhd_labels.replay.lock import RunLock
from dhd_labels.replay.plan import count_calls, plan_replays
from dhd_labels.replay.salvage import salvage
from dhd_labels.replay.store import FILE_NAME, Store

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) after each settled call."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one invocation did. Totals of the run itself come from the store (`report.summary`)."""

    directory: RunDirectory
    tally: Tally
    excluded: Mapping[str, int]
    salvaged: int | None


def load_problems(config: RunConfig, limit: int | None = None) -> tuple[tuple[Problem, ...], Mapping[str, int]]:
    """Read the problems of a config, cut to `limit`; return them and the exclusions by reason."""
    worlds = [World(e.world, e.world_seed) for e in config.engines.values() if isinstance(e, ScriptedConfig)]
    if worlds and resolve_name(config.benchmark.name) != ORACLE:
        raise DhdError(
            f"The 'benchmark.name' must be {ORACLE!r} when a role is played by a scripted engine, which knows no other "
            f"world, got {config.benchmark.name!r}"
        )
    found = read_problems(config.benchmark, worlds[0] if worlds else None)
    return found.problems[:limit], found.excluded


def run(
    config: RunConfig,
    run_dir: Path,
    *,
    limit: int | None = None,
    salvage_store: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> RunReport:
    """Collect pools and replays for the problems of a config into a run directory.

    Args:
        config: what to measure.
        run_dir: created if missing; a run of the same config in it is gone on with.
        limit: only the first so many problems.
        salvage_store: move a damaged store aside and go on with the calls that can be read.
        progress: called after each settled call.

    Raises:
        DhdError: bad config, another config in the directory, a live run, a damaged store, a full disk.
    """
    problems, excluded = load_problems(config, limit)
    _make_folder(run_dir)
    with ExitStack() as stack:
        stack.enter_context(RunLock(run_dir))
        stored = (run_dir / FILE_NAME).exists()
        if stored and not salvage_store:
            Store.check_file(run_dir / FILE_NAME)  # before an engine is started: a broken store costs nothing
        engines = _open_engines(config, stack)
        directory = begin(run_dir, config, {name: engines[name].identity for name in ROLE_NAMES})
        saved = salvage(directory.store_path) if stored and salvage_store else None
        store = Store.create_or_open(directory.store_path)
        stack.callback(store.close)
        for ordinal, problem in enumerate(problems):
            store.add_problem(ordinal, problem)
        tally = Tally()
        _Stages(config, store, engines, directory.integrator, problems, tally, progress).run()
    return RunReport(directory, tally, excluded, saved)


@dataclass(frozen=True, slots=True)
class _Stages:
    """The three stages; each streams its calls through the engine of its role."""

    config: RunConfig
    store: Store
    engines: Mapping[str, ChatEngine]
    integrator: str
    problems: Sequence[Problem]
    tally: Tally
    progress: Progress

    def run(self) -> None:
        per_problem: dict[str, int] = {}
        for role, _, calls in count_calls(self.config):
            per_problem[role] = per_problem.get(role, 0) + calls
        self._stage("recruiter", self._recruit(), per_problem)
        self._stage("hypothesizer", self._hypothesize(), per_problem)
        self._form_pools()
        self._stage("integrator", self._replay(), per_problem)

    def _stage(self, role: str, calls: Iterator[Call], per_problem: Mapping[str, int]) -> None:
        total, done = per_problem[role] * len(self.problems), 0

        def tick() -> None:
            nonlocal done
            done += 1
            self.progress(role, done, total)

        execute(calls, self.engines[role], self.store, self.config.protocol.max_attempts, self.tally, tick)

    def _recruit(self) -> Iterator[Call]:
        for problem in self.problems:
            yield recruiter_call(self.config, problem.visible())

    def _hypothesize(self) -> Iterator[Call]:
        for problem in self.problems:
            roles, _ = read_roles(self.store.calls(problem.problem_id), problem.problem_id)
            if roles:
                yield from hypothesizer_calls(self.config, problem.visible(), roles)

    def _form_pools(self) -> None:
        """Cache the pool of every problem whose five messages are all usable."""
        for problem in self.problems:
            if self.store.pool(problem.problem_id) is None:
                calls = self.store.calls(problem.problem_id)
                roles, _ = read_roles(calls, problem.problem_id)
                messages = read_messages(calls, problem.problem_id, roles)
                if len(messages) == POOL_SIZE and all(m.status == "ok" for m in messages):
                    self.store.add_pool(Pool.of(problem.problem_id, self.config.actor, messages))

    def _replay(self) -> Iterator[Call]:
        for problem in self.problems:
            pool = self.store.pool(problem.problem_id)
            if pool:
                for replay in plan_replays(self.config, problem.problem_id, pool.pool_id, self.integrator):
                    yield replay_call(self.config, problem.visible(), pool, replay)


def _open_engines(config: RunConfig, stack: ExitStack) -> dict[str, ChatEngine]:
    """Start each engine that a role uses, once, and return the engine of every role."""
    opened: dict[str, ChatEngine] = {}
    for name in sorted({config.role(role).engine for role in ROLE_NAMES}):
        opened[name] = open_engine(config.engines[name])
        stack.callback(opened[name].close)
    return {role: opened[config.role(role).engine] for role in ROLE_NAMES}


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DhdError(f"The run directory {path} cannot be made: {error}") from None
