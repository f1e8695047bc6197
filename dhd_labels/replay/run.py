"""A run: probe, recruit, write messages, replay, judge, screen, mask. Resumable; only what is missing is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dhd_labels.config import RunConfig, VllmConfig
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatEngine
from dhd_labels.errors import DhdError
from dhd_labels.grading.grader import Graded
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call, replay_call
from dhd_labels.records import POOL_SIZE, Pool, Problem, Replay
from dhd_labels.replay.allocate import allocate
from dhd_labels.replay.calls import Call, Tally, execute, merge
from dhd_labels.replay.collect import ProblemResult, blocks_of, collect_problem, read_messages, read_roles
from dhd_labels.replay.cost import Budget, CostLimitError, check_prices
from dhd_labels.replay.directory import RunDirectory, begin, check_models, write_run_file
from dhd_labels.replay.judge import EVALUATOR, evaluator_calls
from dhd_labels.replay.lock import RunLock
from dhd_labels.replay.plan import (
    Part,
    Studies,
    call_of,
    choose_studies,
    first_problems,
    part_of,
    plan_replays,
)
from dhd_labels.replay.probe import CALLS, PROBES, run_probe
from dhd_labels.replay.problems import in_prompt_order, load_problems
from dhd_labels.replay.salvage import salvage
from dhd_labels.replay.schedule import merged, sending_order
from dhd_labels.replay.store import FILE_NAME, Store
from dhd_labels.replay.targets import check_targets, choose_targets, why_not_yet

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) after each settled call."""
REPLAYING = ("integrator", "other_integrator")


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one invocation did. Totals of the run itself come from the store (`report.summary`).

    `note` says what could not be done yet, `stopped` why the run ended before its end.
    """

    directory: RunDirectory
    tally: Tally
    excluded: Mapping[str, int]
    salvaged: int | None
    note: str = ""
    stopped: str = ""


def run(
    config: RunConfig,
    run_dir: Path,
    *,
    limit: int | None = None,
    max_cost: float | None = None,
    salvage_store: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> RunReport:
    """Collect pools and replays for the problems of a config into a run directory.

    Args:
        config: what to measure.
        run_dir: created if missing; a run of the same config in it is gone on with.
        limit: only so many problems; those that take part in most studies first, from every benchmark in turn.
        max_cost: end before the calls in the store cost more than this, by the prices of `plan.prices`.
        salvage_store: move a damaged store aside and go on with the calls that can be read.
        progress: called after each settled call.

    Raises:
        DhdError: bad config, another config in the directory, a live run, a damaged store, a full disk, a model that is
            not the declared one, a server on which the planned repeats would be copies.
    """
    every, excluded = load_problems(config)
    check_targets(config, (problem.problem_id for problem in every))
    _check_noise(config)
    if max_cost is not None:
        check_prices(config)
    _make_folder(run_dir)
    with ExitStack() as stack:
        stack.enter_context(RunLock(run_dir))
        stored = (run_dir / FILE_NAME).exists()
        if stored and not salvage_store:
            Store.check_file(run_dir / FILE_NAME)  # before an engine is started: a broken store costs nothing
        engines = _open_engines(config, stack)
        directory = begin(run_dir, config, {name: engines[name].identity for name in config.bound_roles})
        saved = salvage(directory.store_path) if stored and salvage_store else None
        store = Store.create_or_open(directory.store_path)
        stack.callback(store.close)
        directory.bind(store)
        check_models(directory, store)
        write_run_file(directory)
        studies = choose_studies(config, every, store.all_studies())
        problems = in_prompt_order(config, first_problems(config, every, studies, limit))
        ordinals = {problem.problem_id: ordinal for ordinal, problem in enumerate(every)}
        with store.one_commit():
            for problem in problems:
                store.add_problem(ordinals[problem.problem_id], problem, studies[problem.problem_id])
        tally = Tally()
        budget = None if max_cost is None else Budget.of(config, store, max_cost)
        stages = _Stages(config, store, engines, directory.models, problems, every, tally, progress, budget)
        stopped = ""
        try:
            stages.run()
        except CostLimitError as limit_reached:
            stopped = str(limit_reached)
        check_models(directory, store)
    return RunReport(directory, tally, excluded, saved, "; ".join(stages.notes), stopped)


@dataclass(slots=True)
class _Stages:
    """The stages of a run; each streams its calls through the engine of its role. `notes` are for the user."""

    config: RunConfig
    store: Store
    engines: Mapping[str, ChatEngine]
    models: Mapping[str, str]
    problems: Sequence[Problem]
    every: Sequence[Problem]
    tally: Tally
    progress: Progress
    budget: Budget | None = None
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        self._probe()
        self._stage("recruiter", self._recruit(), len(self.problems))
        self._stage("hypothesizer", self._hypothesize(), POOL_SIZE * len(self.problems))
        self._form_pools()
        for role in REPLAYING:
            self._replay(role, role, "first")
        self._evaluate("evaluator")
        if self.config.screen_blocks:
            self._note(allocate(self.config, self.store, self._results, len(self.every)))
            self._replay("integrator", "further blocks", "further")
            self._evaluate("evaluator, further blocks")
        if self.config.masking:
            self._choose_targets()
            self._replay("integrator", "masking", "masked")
            self._evaluate("evaluator, masking")

    def _note(self, text: str) -> None:
        if text:
            self.notes.append(text)

    def _stage(self, role: str, calls: Iterator[Call], total: int, name: str | None = None) -> None:
        tick = self._ticker(name or role, total)
        attempts = self.config.protocol.max_attempts
        execute(calls, self.engines[role], self.store, attempts, self.tally, tick, self.budget)

    def _ticker(self, stage: str, total: int) -> Callable[[], None]:
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            self.progress(stage, done, total)

        return tick

    def _probe(self) -> None:
        prompts = min(self.config.probe_prompts, len(self.every))
        for role in REPLAYING:
            if prompts and role in self.engines:
                tick = self._ticker(PROBES[role], CALLS * prompts)
                run_probe(self.config, self.every, role, self.engines[role], self.store, self.tally, tick, self.budget)

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
        with self.store.one_commit():
            for problem in self.problems:
                if self.store.pool(problem.problem_id) is None:
                    calls = self.store.calls(problem.problem_id)
                    roles, _ = read_roles(calls, problem.problem_id)
                    messages = read_messages(calls, problem.problem_id, roles)
                    if len(messages) == POOL_SIZE and all(m.status == "ok" for m in messages):
                        self.store.add_pool(Pool.of(problem.problem_id, self.config.actor, messages))

    def _replay(self, role: str, stage: str, part: Part) -> None:
        """Make the calls of a replaying role and part; arms that share a call are asked for once."""
        if role not in self.engines:
            return
        pools = [problem for problem in self.problems if self.store.pool(problem.problem_id)]
        shapes: dict[tuple[Studies, int, int], int] = {}
        total = 0
        for problem in pools:
            problem_id = problem.problem_id
            targets, blocks = len(self.store.targets(problem_id)), blocks_of(self.config, self.store, problem_id)
            shape = (self.store.studies(problem_id), targets, blocks)
            if shape not in shapes:
                shapes[shape] = len({call_of(replay) for replay in self._planned(problem, "", role, part)})
            total += shapes[shape]

        def calls() -> Iterator[Call]:
            for problem in pools:
                pool = self.store.pool(problem.problem_id)
                if pool:
                    ordered = sending_order(self._planned(problem, pool.pool_id, role, part))
                    groups = merged(ordered) if self.config.protocol.merge_draws else ([replay] for replay in ordered)
                    for group in groups:
                        yield from merge([replay_call(self.config, problem.visible(), pool, r) for r in group])

        if total:
            self._stage(role, calls(), total, stage)

    def _planned(self, problem: Problem, pool_id: str, role: str, part: Part) -> Iterator[Replay]:
        problem_id = problem.problem_id
        studies, targets = self.store.studies(problem_id), self.store.targets(problem_id)
        blocks = blocks_of(self.config, self.store, problem_id)
        for replay in plan_replays(self.config, problem_id, pool_id, self.models, studies, targets, blocks):
            if replay.role == role and part_of(self.config, replay) == part:
                yield replay

    def _evaluate(self, stage: str) -> None:
        """Have the evaluator judge every different answer that waits for it."""
        if "evaluator" not in self.engines:
            return
        total = sum(len({graded.canonical for graded in answers}) for _, answers in self._waiting())
        if total:
            self._stage("evaluator", self._judge(), total, stage)

    def _waiting(self) -> Iterator[tuple[Problem, list[Graded]]]:
        """Yield the answers to each problem that wait for a verdict; read again where needed rather than held."""
        for result in self._results():
            judged = [g for g in result.graded() if g.graded_by == EVALUATOR and g.correct is None]
            yield result.problem, list({(graded.canonical, graded.answer): graded for graded in judged}.values())

    def _judge(self) -> Iterator[Call]:
        for problem, answers in self._waiting():
            yield from evaluator_calls(self.config, problem, answers, self.store.calls(problem.problem_id))

    def _choose_targets(self) -> None:
        when = why_not_yet(self._results(), len(self.every), self.config.protocol.max_attempts)
        if when:
            self._note(f"masked messages are chosen by rule {when}")
        for target in choose_targets(self.config, self._results(), self.store.targets(), by_rule=not when):
            self.store.add_target(target)

    def _results(self) -> Iterator[ProblemResult]:
        """Yield what is known of each problem; read twice rather than held."""
        for problem in self.problems:
            yield collect_problem(self.store, self.config, self.models, problem)


def _check_noise(config: RunConfig) -> None:
    """Refuse a declaration that is known to be false. No error of the config: what was run so stays readable."""
    for role in set(REPLAYING) & set(config.bound_roles):
        engine = config.engine_of(role)
        if config.noise == "batch_invariant" and isinstance(engine, VllmConfig) and not engine.batch_invariant:
            raise DhdError(
                f"The 'engines.{config.role(role).engine}.batch_invariant' must be true under noise regime "
                "'batch_invariant', got false: without it vLLM's answers depend on the batch. On a machine that does "
                "not offer it, use 'noise: sampled'"
            )


def _open_engines(config: RunConfig, stack: ExitStack) -> dict[str, ChatEngine]:
    """Start each engine that a role uses, once, and return the engine of every role."""
    opened: dict[str, ChatEngine] = {}
    for name in sorted({config.role(role).engine for role in config.bound_roles}):
        opened[name] = open_engine(config.engines[name])
        stack.callback(opened[name].close)
    return {role: opened[config.role(role).engine] for role in config.bound_roles}


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DhdError(f"The run directory {path} cannot be made: {error}") from None
