"""What a run will cost, before it is paid for. No network, no model.

Calls are counted exactly from the same plan that drives `run`; where answers decide about further calls (the evaluator,
screened allocation), as the most that it can be. Tokens are estimates: prompts are rendered with stand-in
messages of the expected length and measured in characters. The problems of a benchmark that is not on disk are taken
from the registry: their number, and one problem of the median length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dhd_labels.benchmarks import NotOnDiskError, facts, resolve_name
from dhd_labels.config import BenchmarkConfig, RunConfig
from dhd_labels.engines.address import place_of
from dhd_labels.engines.base import Turn
from dhd_labels.errors import DhdError
from dhd_labels.protocol.evaluator import evaluator_turns
from dhd_labels.protocol.prompts import load_prompt
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call, replay_call
from dhd_labels.records import POOL_SIZE, Arm, Message, Pool, Problem, Replay, Role
from dhd_labels.replay.plan import (
    Studies,
    call_of,
    choose_studies,
    first_problems,
    plan_shape,
    studies_at,
    study_limits,
    study_of,
)
from dhd_labels.replay.probe import CALLS
from dhd_labels.replay.problems import read_source
from dhd_labels.replay.run_plan import CHARACTERS_A_TOKEN, OUTPUT_TOKENS, RolePlan, RunPlan, SourcePlan, StudyPlan
from dhd_labels.replay.schedule import merged, sending_order

REPLAYING = ("integrator", "other_integrator")
FURTHER = "further blocks"
"""The blocks that screened allocation may give, as a study of its own in the plan."""


def plan_run(config: RunConfig, limit: int | None = None) -> RunPlan:
    """Count the calls of a run and estimate its tokens.

    Args:
        config: the run.
        limit: as in `run`.

    Raises:
        DhdError: a benchmark on disk cannot be read.
    """
    total = _Totals(config)
    sources = [_read(config, source) for source in config.sources]
    counts = allot([len(source) for source in sources], limit)
    for source, count in zip(sources, counts, strict=True):
        source.add_to(total, count)
    total.add_further_blocks()
    total.add_masking(whole=sum(counts) == sum(map(len, sources)), listed=_listed_targets(config, sources, limit))
    roles = tuple(total.role(name) for name in config.bound_roles)
    probed = min(config.probe_prompts, sum(map(len, sources))) * sum(role in config.bound_roles for role in REPLAYING)
    plans = tuple(source.plan(count) for source, count in zip(sources, counts, strict=True))
    return RunPlan(config.name, plans, total.studies(), roles, dict(total.arms), CALLS * probed)


def _listed_targets(config: RunConfig, sources: Sequence[_Source], limit: int | None) -> int:
    """Return how many of the listed targets a limited run masks: those of the problems that it takes."""
    targets = config.masking.targets if config.masking else ()
    problems = [problem for source in sources for problem in source.problems if not source.typical]
    if limit is None or any(source.typical for source in sources):
        return len(targets)
    taken = {p.problem_id for p in first_problems(config, problems, choose_studies(config, problems), limit)}
    return sum(target.problem_id in taken for target in targets)


def allot(sizes: Sequence[int], limit: int | None) -> list[int]:
    """Return how many problems of each benchmark a limited run takes: one of each in turn."""
    counts = [0] * len(sizes)
    left = sum(sizes) if limit is None else min(limit, sum(sizes))
    while left:
        for place, size in enumerate(sizes):
            if left and counts[place] < size:
                counts[place] += 1
                left -= 1
    return counts


@dataclass(frozen=True, slots=True)
class _Source:
    """The problems of one benchmark: those that were read, or so many typical ones."""

    name: str
    problems: tuple[Problem, ...]
    typical: int
    excluded: Mapping[str, int]

    def __len__(self) -> int:
        return self.typical or len(self.problems)

    def add_to(self, total: _Totals, count: int) -> None:
        """Add the first problems. Which of them get the blocks does not change the counts, so any order will do."""
        limits = study_limits(total.config)
        if self.typical:
            for studies, times in Counter(studies_at(limits, rank) for rank in range(count)).items():
                total.add(self.problems[0], studies, times)
        else:
            for rank, problem in enumerate(self.problems[:count]):
                total.add(problem, studies_at(limits, rank), 1)

    def plan(self, count: int) -> SourcePlan:
        """Return what the plan says of the benchmark."""
        return SourcePlan(self.name, count, dict(self.excluded), bool(self.typical))


def _read(config: RunConfig, source: BenchmarkConfig) -> _Source:
    name = resolve_name(source.name)
    try:
        found = read_source(config, source, fetch=False)
    except NotOnDiskError:
        return _from_registry(name, source)
    return _Source(name, found.problems, 0, found.excluded)


def _from_registry(name: str, source: BenchmarkConfig) -> _Source:
    known = facts(name)
    if known.rows_usable is None or known.median_prompt_characters is None:
        raise DhdError(f"The 'path' of benchmark {source.name!r} must be set: nothing is known of it without its file")
    text = "x" * known.median_prompt_characters
    typical = Problem(f"{name}:typical", name, text, "0", "integer", (), "", True, True)
    count = min(known.rows_usable, source.size or known.rows_usable)
    return _Source(name, (typical,), count, {"not usable": (known.rows or count) - known.rows_usable})


@dataclass(slots=True)
class _Tokens:
    """Characters of a role's prompts: one call a comparison, shared calls, and what a perfect prefix cache computes."""

    calls: int = 0
    unshared: int = 0
    shared: int = 0
    computed: int = 0

    def add(self, calls: int, unshared: int, shared: int, computed: int) -> None:
        self.calls += calls
        self.unshared += unshared
        self.shared += shared
        self.computed += computed


@dataclass(frozen=True, slots=True)
class _Shape:
    """The replays of a role in a plan, reduced to what sizes need.

    A prompt is a head, the shown messages and a tail. `lengths[n]` counts replays that show n messages, `requests[n]`
    the prompts that are sent for their `calls`, fewer where draws are merged. `heads` are alone prompts and prompts
    with messages that a cache computes at least once, `messages` and `tails` the messages and tails that follow another
    text.
    """

    lengths: Mapping[int, int]
    requests: Mapping[int, int]
    calls: int
    alone: bool
    heads: int
    messages: int
    tails: int

    @classmethod
    def of(cls, config: RunConfig, replays: list[Replay]) -> _Shape:
        calls = sending_order(replays)
        requests = merged(calls) if config.protocol.merge_draws else ([call] for call in calls)
        # A masked message is other text than the message itself.
        prompts = {tuple((slot, _text_of(replay, slot)) for slot in replay.shown) for replay in replays}
        prefixes = {prompt[:size] for prompt in prompts for size in range(1, len(prompt) + 1)}
        return cls(
            Counter(len(replay.shown) for replay in replays),
            Counter(len(draws[0].shown) for draws in requests),
            len(calls),
            () in prompts,
            int(any(prompts)),
            len(prefixes),
            len(prompts - {()}),
        )


def _text_of(replay: Replay, slot: int) -> str:
    if replay.mask is None or replay.mask.target != slot or replay.mask.condition in ("full", "repeat"):
        return ""
    return replay.mask.condition


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Characters of a problem's prompts."""

    recruiter: int
    hypothesizer: int
    hypothesizer_common: int
    alone: int
    alone_common: int
    head: int
    message: int
    tail: int

    def prompt(self, messages: int) -> int:
        """Return the characters of an integrator's prompt."""
        return self.head + messages * self.message + self.tail if messages else self.alone

    def computed(self, shape: _Shape) -> int:
        """Return the characters that a cache that never forgets leaves to compute: each distinct prefix once."""
        first = self.alone if shape.alone else 0
        head = (self.head - (self.alone_common if shape.alone else 0)) * shape.heads
        return first + head + shape.messages * self.message + shape.tails * self.tail


@dataclass(slots=True)
class _Totals:
    config: RunConfig
    by_role: dict[str, _Tokens] = field(default_factory=dict)
    by_study: dict[str, list[int]] = field(default_factory=dict)
    arms: Counter[str] = field(default_factory=Counter)
    shapes: dict[Studies, list[Replay]] = field(default_factory=dict)
    reduced: dict[tuple[Studies, str], _Shape] = field(default_factory=dict)
    by_studies: Counter[Studies] = field(default_factory=Counter)
    problems: int = 0
    answers: int = 0
    further: _Tokens = field(default_factory=_Tokens)
    typical: _Sizes | None = None

    def __post_init__(self) -> None:
        self.by_role = {role: _Tokens() for role in self.config.bound_roles}

    def add(self, problem: Problem, studies: Studies, times: int) -> None:
        """Add problems of one size that take part in these studies."""
        sizes = _measure(self.config, problem)
        self.typical = self.typical or sizes
        self.problems += times
        self.by_studies[studies] += times
        self.by_role["recruiter"].add(times, *(3 * [times * sizes.recruiter]))
        written = times * POOL_SIZE * sizes.hypothesizer
        common = times * (POOL_SIZE - 1) * sizes.hypothesizer_common
        self.by_role["hypothesizer"].add(times * POOL_SIZE, written, written, written - common)
        for role in REPLAYING:
            self._replay(role, self._shape(studies, role), sizes, times)
        self._count(self.shapes[studies], times)
        if self.config.screen_blocks and studies.blocks:
            # Of one further block. Its prompts are those of the first block, which a cache has.
            shape = _Shape.of(self.config, self._further_replays())
            blocks = times * (self.config.protocol.blocks - self.config.screen_blocks)
            unshared = sum(count * sizes.prompt(shown) for shown, count in shape.lengths.items())
            self.further.add(blocks, blocks * unshared, blocks * unshared, 0)

    def _further_replays(self) -> list[Replay]:
        """Return the replays of one further block."""
        first = self.config.screen_blocks
        planned = plan_shape(self.config, Studies(), blocks=first + 1)
        return [replay for replay in planned if study_of(replay) == "blocks" and replay.block == first]

    def add_further_blocks(self) -> None:
        """Add the most further blocks that screened allocation can give; which problems get them is not known yet."""
        most, limit = self.further.calls, self.config.replay.further_blocks
        blocks = most if limit is None else min(most, limit)
        if not blocks:
            return
        one = self._further_replays()
        calls = blocks * len(one)
        self.by_role["integrator"].add(
            calls, self.further.unshared * blocks // most, self.further.shared * blocks // most, 0
        )
        self.answers += calls
        for replay in one:
            self.arms[_family(replay)] += blocks
        problems = sum(times for studies, times in self.by_studies.items() if studies.blocks)
        self.by_study[FURTHER] = [min(problems, blocks), calls, calls]

    def add_masking(self, *, whole: bool, listed: int) -> None:
        """Add the masked replays; which messages they mask is known only once the blocks of a whole run are graded."""
        masking = self.config.masking
        if masking is None or self.typical is None:
            return
        repeated = sum(times for studies, times in self.by_studies.items() if studies.blocks)
        by_rule = min(sum(masking.cases.values()), POOL_SIZE * repeated) if whole else 0
        cases = by_rule + listed
        if not cases:
            return
        planned = [r for r in plan_shape(self.config, Studies(False), 1) if r.mask]
        self._replay("integrator", _Shape.of(self.config, planned), self.typical, cases)
        self._count(planned, cases)

    def role(self, name: str) -> RolePlan:
        """Return calls and tokens of a role."""
        binding, engine = self.config.role(name), self.config.engine_of(name)
        found = self._evaluator() if name == "evaluator" else self.by_role[name]
        expected = min(self.config.plan.output_tokens.get(name, OUTPUT_TOKENS[name]), binding.max_tokens)
        return RolePlan(
            role=name,
            model=engine.public_name,
            host=place_of(self.config.engines[binding.engine]),
            calls=found.calls,
            at_most=name == "evaluator" or (name == "integrator" and bool(self.further.calls)),
            prompt_tokens_unshared=found.unshared // CHARACTERS_A_TOKEN,
            prompt_tokens=found.shared // CHARACTERS_A_TOKEN,
            prompt_tokens_computed=found.computed // CHARACTERS_A_TOKEN,
            output_tokens=found.calls * expected,
            output_tokens_max=found.calls * binding.max_tokens,
            price=self.config.plan.prices.get(binding.engine),
        )

    def studies(self) -> tuple[StudyPlan, ...]:
        """Return comparisons and calls by study."""
        return tuple(
            StudyPlan(study, units, comparisons, calls, at_most=study == FURTHER)
            for study, (units, comparisons, calls) in self.by_study.items()
        )

    def _shape(self, studies: Studies, role: str) -> _Shape:
        if studies not in self.shapes:
            self.shapes[studies] = list(plan_shape(self.config, studies, blocks=self.config.screen_blocks or None))
        if (studies, role) not in self.reduced:
            self.reduced[studies, role] = _Shape.of(self.config, [r for r in self.shapes[studies] if r.role == role])
        return self.reduced[studies, role]

    def _replay(self, role: str, shape: _Shape, sizes: _Sizes, times: int) -> None:
        if role in self.by_role:
            unshared = sum(count * sizes.prompt(shown) for shown, count in shape.lengths.items())
            shared = sum(count * sizes.prompt(shown) for shown, count in shape.requests.items())
            calls = shape.calls
            self.by_role[role].add(times * calls, times * unshared, times * shared, times * sizes.computed(shape))
            self.answers += times * calls

    def _count(self, replays: list[Replay], times: int) -> None:
        for replay in replays:
            self.arms[_family(replay)] += times
        for study in dict.fromkeys(study_of(replay) for replay in replays):
            inside = [replay for replay in replays if study_of(replay) == study]
            counts = self.by_study.setdefault(study, [0, 0, 0])
            counts[0] += times
            counts[1] += times * len(inside)
            counts[2] += times * len({call_of(replay) for replay in inside})

    def _evaluator(self) -> _Tokens:
        """Return the most that the evaluator can be asked: every answer and every proposal another one."""
        calls = self.answers + POOL_SIZE * self.problems
        prompt = load_prompt(self.config.role("evaluator").prompt)
        one, other = (_text(evaluator_turns(prompt, "1" * 20, digit * 20, "number")) for digit in "12")
        common = _common(one, other)
        size = calls * len(one)
        return _Tokens(calls, size, size, size - max(0, calls - 1) * common)


def _measure(config: RunConfig, problem: Problem) -> _Sizes:
    """Render the prompts of a problem that tell the sizes of all others."""
    visible = problem.visible()
    stand_in = _StandIn(config, problem)
    recruiter = _text(recruiter_call(config, visible).turns)
    hypothesizers = [_text(call.turns) for call in hypothesizer_calls(config, visible, stand_in.roles[:2])]
    alone, full, without = (
        _text(replay_call(config, visible, stand_in.pool, replay).turns) for replay in stand_in.replays()
    )
    message = len(full) - len(without)
    # The heads of both prompts end where their first messages, of slots 0 and 1, begin to differ.
    head = _common(full, without)
    return _Sizes(
        len(recruiter),
        len(hypothesizers[0]),
        _common(*hypothesizers),
        len(alone),
        _common(alone, full),
        head,
        message,
        len(full) - head - POOL_SIZE * message,
    )


@dataclass(frozen=True)
class _StandIn:
    """Roles and messages of the expected length that stand in for those that are not written yet."""

    config: RunConfig
    problem: Problem

    @cached_property
    def roles(self) -> list[Role]:
        """Five roles with names and lenses of equal length."""
        return [Role(f"{slot} reader", f"{slot}" + "x" * 60) for slot in range(POOL_SIZE)]

    @cached_property
    def pool(self) -> Pool:
        """Five messages of equal length."""
        size = max(1, self.config.plan.message_tokens * CHARACTERS_A_TOKEN - 100)
        text = ("some words " * (size // 11 + 1))[:size]
        messages = [
            Message(s, r.name, r.lens, "0", text, "", "", "", "high", "", "ok") for s, r in enumerate(self.roles)
        ]
        return Pool("", self.problem.problem_id, self.config.actor, tuple(messages))

    def replays(self) -> Iterator[Replay]:
        """Yield alone, full, and full without its first message."""
        for arm in (Arm.alone(), Arm.full(), Arm.without(0)):
            yield Replay(self.problem.problem_id, "", arm, "", "original", None, 0, None, arm.name)


def _text(turns: Iterable[Turn]) -> str:
    return "\n".join(turn.content for turn in turns)


def _common(one: str, other: str) -> int:
    """Return the length of the longest common prefix."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _family(replay: Replay) -> str:
    """Return the name of an arm for counting, e.g. `without i of 3`, with its study when that is not the main one."""
    arm = replay.arm
    if replay.mask:
        return f"masking: {replay.mask.condition}"
    if arm.removed is not None:
        name = f"without i of {arm.k}"
    elif arm.name.startswith("only-"):
        name = "only i"
    else:
        name = f"prefix {arm.k}" if arm.name.startswith("prefix-") else arm.kind
    study = study_of(replay)
    return name if study == "main" else f"{study}: {name}"
