"""The replay plan of a problem: which arms, blocks and draws, in which order. Pure and deterministic.

A run is made of studies. `main`: unmatched arms of every problem. `blocks`: matched blocks, of some problems. `order`
and `integrator`: the same blocks with the messages reversed, or with another integrator. `masking`: chosen messages
with a part of them masked.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dhd_labels.config import RunConfig
from dhd_labels.records import CONDITIONS, POOL_SIZE, Arm, Mask, Order, Problem, Replay

FULL_DRAWS = 2
"""Full-pool draws in a block (paper: two, so that identical-input disagreement can be measured)."""
Study = Literal["main", "blocks", "order", "integrator", "masking"]
Part = Literal["first", "further", "masked"]
"""When a replay is made: at first, once the screen has decided, or once the stable effects are known."""
Cell = tuple[Arm, int, Mask | None]
Models = Mapping[str, str]
"""Model id of each integrating role."""


@dataclass(frozen=True, slots=True, order=True)
class Studies:
    """What a problem takes part in, besides `main`."""

    blocks: bool = True
    order: bool = False
    integrator: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A message chosen for component masking, and the cell it was chosen from (None: by list)."""

    problem_id: str
    slot: int
    cell: str | None


NOTHING_RECORDED: Mapping[str, Studies] = {}


def derive_seed(*parts: object) -> int:
    """Return a 31-bit sampling seed that depends on nothing but its parts."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def choose_studies(
    config: RunConfig, problems: Iterable[Problem], recorded: Mapping[str, Studies] = NOTHING_RECORDED
) -> dict[str, Studies]:
    """Return what each problem takes part in; what is recorded of a problem stays, and counts.

    The problems of a benchmark are ranked by a hash of (run seed, problem id). The first `repeat_problems` get the
    blocks, and the first few of these the sensitivity checks, so that every check is compared with blocks of the same
    problem. The choice depends on the whole benchmark: give all its problems, also when only some are run.
    """
    by_benchmark: dict[str, list[str]] = {}
    for problem in problems:
        by_benchmark.setdefault(problem.benchmark, []).append(problem.problem_id)
    limits = study_limits(config)
    chosen: dict[str, Studies] = {}
    for ids in by_benchmark.values():
        known = {problem_id: recorded[problem_id] for problem_id in ids if problem_id in recorded}
        chosen |= known
        parts = ("blocks", "order", "integrator")
        taken = [sum(getattr(studies, name) for studies in known.values()) for name in parts]
        left = tuple(limit - count for limit, count in zip(limits, taken, strict=True))
        ranked = sorted((i for i in ids if i not in known), key=lambda problem_id: hash_rank(config, problem_id))
        for rank, problem_id in enumerate(ranked):
            chosen[problem_id] = studies_at(left, rank)
    return chosen


def first_problems(
    config: RunConfig, problems: Sequence[Problem], studies: Mapping[str, Studies], limit: int | None
) -> tuple[Problem, ...]:
    """Return the problems of a run that is cut to `limit`, in the order of the benchmarks.

    When only some problems take part in every study, these come first, from every benchmark in turn: so a small run
    tries all that the whole one would do. A larger limit adds problems and takes none away.
    """
    if limit is None or limit >= len(problems):
        return tuple(problems)
    by_benchmark: dict[str, list[Problem]] = {}
    for problem in problems:
        by_benchmark.setdefault(problem.benchmark, []).append(problem)
    if len(set(studies.values())) > 1:
        for found in by_benchmark.values():
            found.sort(key=lambda problem: hash_rank(config, problem.problem_id))
    turns = itertools.zip_longest(*by_benchmark.values())
    chosen = [problem.problem_id for turn in turns for problem in turn if problem][:limit]
    return tuple(problem for problem in problems if problem.problem_id in set(chosen))


def hash_rank(config: RunConfig, problem_id: str) -> tuple[int, str]:
    """Return a sort key that puts problems in an order that has nothing to do with them."""
    return derive_seed(config.seed, "repeat", problem_id), problem_id


def study_limits(config: RunConfig) -> tuple[float, float, float]:
    """Return how many problems of a benchmark get the blocks, the reversed order and the other integrator."""
    checks = (config.sensitivity.order, config.sensitivity.integrator)
    repeated = config.protocol.repeat_problems
    order, integrator = (float(check.problems) if check else 0.0 for check in checks)
    return (float("inf") if repeated is None else repeated, order, integrator)


def studies_at(limits: Sequence[float], rank: int) -> Studies:
    """Return what the problem of a rank in its benchmark takes part in."""
    blocks, order, integrator = (rank < limit for limit in limits)
    return Studies(blocks, blocks and order, blocks and integrator)


def plan_replays(
    config: RunConfig, problem_id: str, pool_id: str, models: Models, studies: Studies, targets: Sequence[Target] = (),
    blocks: int | None = None,
) -> tuple[Replay, ...]:  # fmt: skip
    """Return the replays of one pool, in the order in which they are to be sent.

    Several replays may name one call (`protocol.share`): they show the integrator the same messages in the same words.

    Args:
        config: the run.
        problem_id: whose pool it is.
        pool_id: the pool.
        models: model id of each integrating role.
        studies: what the problem takes part in.
        targets: its messages that are masked.
        blocks: matched blocks of this problem, `protocol.blocks` when not given. The draws of a block, their order and
            their calls do not depend on how many blocks there are.
    """
    place = _Place(config, problem_id, pool_id, models)
    planned = list(_main(place))
    if studies.blocks:
        planned += _blocks(place, config.protocol.blocks if blocks is None else blocks, "integrator", "original")
    if studies.order and config.sensitivity.order:
        planned += _blocks(place, config.sensitivity.order.blocks, "integrator", "reversed")
    if studies.integrator and config.sensitivity.integrator:
        planned += _blocks(place, config.sensitivity.integrator.blocks, "other_integrator", "original")
    for target in targets:
        planned += _masking(place, target.slot)
    return tuple(planned)


def plan_subset(
    config: RunConfig, problem_id: str, pool_id: str, models: Models, slots: Sequence[int]
) -> tuple[Replay, ...]:
    """Return the replays of one set of messages that the config does not list, as if it were in `protocol.subsets`."""
    place, arm = _Place(config, problem_id, pool_id, models), Arm.subset(slots)
    call = _shared_name(arm) if config.protocol.share else arm.name
    return tuple(place.replay(arm, draw, call=call) for draw in range(config.protocol.subset_draws))


def study_of(replay: Replay) -> Study:
    """Return the study that a replay belongs to."""
    if replay.mask:
        return "masking"
    if replay.role == "other_integrator":
        return "integrator"
    if replay.order == "reversed":
        return "order"
    return "main" if replay.block is None else "blocks"


def part_of(config: RunConfig, replay: Replay) -> Part:
    """Return when a replay is made."""
    if replay.mask:
        return "masked"
    if config.screen_blocks and study_of(replay) == "blocks" and (replay.block or 0) >= config.screen_blocks:
        return "further"
    return "first"


def replay_seed(config: RunConfig, replay: Replay, attempt: int) -> int:
    """Return the sampling seed of a replay: from (problem, call, block, draw), and the attempt when it is a retry.

    Replays of another order, integrator or masking condition have seeds of their own.
    """
    apart: tuple[object, ...] = ()
    if (replay.order, replay.role) != ("original", "integrator"):
        apart += (replay.order, replay.role)
    if replay.mask:
        apart += ("mask", replay.mask.target, replay.mask.condition)
    retry = (attempt,) if attempt else ()
    return derive_seed(config.seed, replay.problem_id, replay.call, replay.block, replay.draw, *apart, *retry)


def plan_shape(config: RunConfig, studies: Studies, targets: int = 0, blocks: int | None = None) -> tuple[Replay, ...]:
    """Return the replays of any problem with these studies, without its ids: for counting."""
    models = {"integrator": "integrator", "other_integrator": "other_integrator"}
    return plan_replays(config, "", "", models, studies, [Target("", slot, None) for slot in range(targets)], blocks)


def call_of(replay: Replay) -> tuple[str, str, Mask | None, int | None, str, int]:
    """Return what tells the call of a replay from every other call of its pool; the role comes first."""
    return (replay.role, replay.order, replay.mask, replay.block, replay.call, replay.draw)


def count_calls(replays: Iterable[Replay]) -> Counter[str]:
    """Return distinct calls by role."""
    return Counter(role for role, *_ in {call_of(replay) for replay in replays})


def describe(config: RunConfig) -> list[str]:
    """Return what is replayed, study by study, in sentences for the card."""
    p = config.protocol
    draws = (
        (p.alone_draws, "with no message"),
        (p.only_draws, "with each single message"),
        (p.prefix_draws, "with the first K messages, K = 1 to 5"),
        (p.without_draws, "with one of the first K messages left out, K = 2 to 5"),
        (p.subset_draws if p.subsets else 0, f"with each of {len(p.subsets)} further sets of messages"),
    )
    arms = [f"{count} {'draw' if count == 1 else 'draws'} {what}" for count, what in draws if count]
    found = [f"Unmatched arms, each problem: {'; '.join(arms)}."] if arms else []
    if arms and p.share:
        found[0] += " Arms that show the same messages share one answer (`call_key`)."
    if p.blocks:
        whose = "each problem" if p.repeat_problems is None else f"{p.repeat_problems} problems a benchmark"
        found.append(
            f"Matched blocks, {whose}: {'at most ' if config.screen_blocks else ''}{p.blocks}, each of {FULL_DRAWS} "
            "draws with the full pool and one without each message, in a shuffled, stored order."
        )
        found += _describe_screen(config)
    checks = {
        "The messages in reversed order": config.sensitivity.order,
        "Another integrator": config.sensitivity.integrator,
    }
    found += [f"{what}: {c.blocks} blocks on {c.problems} problems a benchmark." for what, c in checks.items() if c]
    if config.masking:
        found.append(f"Component masking: six conditions on chosen messages, {config.masking.repeats} repeats.")
    if p.renumber:
        found.append(
            "Shown messages are numbered 1, 2, ... anew in each arm, as in the paper, so a removal renames others."
        )
    return found


def _describe_screen(config: RunConfig) -> list[str]:
    screen, most = config.screen_blocks, config.replay.further_blocks
    if not screen:
        return []
    first = "block" if screen == 1 else f"{screen} blocks"
    budget = "" if most is None else f", the most mixed problems first, at most {most} further blocks together"
    return [
        f"Screened allocation: the first {first} of every problem decided, by the number of successes alone, whether "
        f"it got further ones (`screen_blocks`): only where a block was neither all right nor all wrong{budget}. "
        "Trajectory values, intervals and stability are those of the further blocks; problems without any have none, "
        "with the reason, and stay in the denominator of every test. Block numbers from `screen_blocks` on are the "
        "further ones."
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """The pool that a plan is made for."""

    config: RunConfig
    problem_id: str
    pool_id: str
    models: Models

    def replay(
        self, arm: Arm, draw: int, *, block: int | None = None, position: int | None = None, call: str | None = None,
        role: str = "integrator", order: Order = "original", mask: Mask | None = None,
    ) -> Replay:  # fmt: skip
        return Replay(
            self.problem_id, self.pool_id, arm, self.models[role], order, block, draw, position, call or arm.name, role,
            mask,
        )  # fmt: skip

    def shuffled(self, cells: list[Cell], *names: object) -> Iterator[tuple[int, Cell]]:
        """Yield the cells of a block with their places, shuffled by a seed that is theirs alone.

        So cache and batch state cannot favour an arm; the place of a draw in that order is its `position`.
        """
        random.Random(derive_seed(self.config.seed, self.problem_id, "order", *names)).shuffle(cells)
        yield from enumerate(cells)


def _main(place: _Place) -> Iterator[Replay]:
    """Yield the unmatched arms: alone, single messages, growing prefixes, removals from each prefix, other subsets."""
    p = place.config.protocol
    arms: list[tuple[Arm, int]] = [(Arm.alone(), p.alone_draws)]
    arms += [(Arm.only(slot), p.only_draws) for slot in range(POOL_SIZE)]
    arms += [(Arm.prefix(k), p.prefix_draws) for k in range(1, POOL_SIZE + 1)]
    arms += [(Arm.without(slot, k), p.without_draws) for k in range(2, POOL_SIZE + 1) for slot in range(k)]
    arms += [(Arm.subset(slots), p.subset_draws) for slots in p.subsets]
    for arm, draws in arms:
        call = _shared_name(arm) if p.share else arm.name
        yield from (place.replay(arm, draw, call=call) for draw in range(draws))


def _shared_name(arm: Arm) -> str:
    return f"set-{'.'.join(map(str, arm.kept))}" if arm.kept else Arm.alone().name


def _blocks(place: _Place, blocks: int, role: str, order: Order) -> Iterator[Replay]:
    """Yield matched blocks: two full draws and five removals, shuffled inside each block."""
    names = () if (role, order) == ("integrator", "original") else (role, order)
    for block in range(blocks):
        cells: list[Cell] = [(Arm.full(), draw, None) for draw in range(FULL_DRAWS)]
        cells += [(Arm.without(slot), 0, None) for slot in range(POOL_SIZE)]
        for position, (arm, draw, _) in place.shuffled(cells, block, *names):
            yield place.replay(arm, draw, block=block, position=position, role=role, order=order)


def _masking(place: _Place, target: int) -> Iterator[Replay]:
    """Yield the six conditions of a target, `full` and `repeat` twice, shuffled inside each repeat (8 calls).

    Where a repeat would be a copy, `full` is drawn once and `repeat` not at all (5 calls).
    """
    masking = place.config.masking
    if masking is None:
        return
    copies = place.config.noise == "batch_invariant"
    conditions = [condition for condition in CONDITIONS if not (copies and condition == "repeat")]
    twice = 1 if copies else FULL_DRAWS
    for repeat in range(masking.repeats):
        cells: list[Cell] = []
        for condition in conditions:
            arm = Arm.without(target) if condition == "removal" else Arm.full()
            draws = twice if condition in ("full", "repeat") else 1
            cells += [(arm, draw, Mask(target, condition)) for draw in range(draws)]
        for position, (arm, draw, mask) in place.shuffled(cells, repeat, "mask", target):
            yield place.replay(arm, draw, block=repeat, position=position, mask=mask)
