"""From simulated arrays to Arrow tables with the columns of a real data set."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from dhd_labels.dataset.schema import Column
from dhd_labels.dataset.splits import Split, split_of
from dhd_labels.dataset.write import extended_schema
from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.columns import Index, join, numerals, table, take, unit_rows, unless_negative
from dhd_labels.simulate.label_arrays import label_arrays
from dhd_labels.simulate.outcomes import ARMS, BLOCK_ARMS, STATUS, Outcomes, unit_pools
from dhd_labels.simulate.pools import other_number
from dhd_labels.simulate.texts import message_texts, questions
from dhd_labels.simulate.worlds import MISSING_REASONS, World

if TYPE_CHECKING:
    import pyarrow as pa

LICENSE = "apache-2.0"
TRUE_VALUE = Column(
    "true_value",
    "float64",
    "true trajectory value (simulated only): success probability with the full pool minus that without the message",
)
EXTRA_COLUMNS: Mapping[str, Sequence[Column]] = {"messages": (TRUE_VALUE,)}
SPLITS: tuple[Split, ...] = get_args(Split)
_READ = ("confidence_level", "confidence_reason")
"""What is read from a message and is no part of it."""
_PROMPT_TOKENS, _CHARS_A_TOKEN = 150, 4


def chunk_tables(
    world: World, outcomes: Outcomes, first: int, rng: np.random.Generator, run: str = "simulated"
) -> dict[str, dict[Split, pa.Table]]:
    """Return the tables of a chunk of problems by config and split; random texts and answers are drawn here.

    Args:
        world: the parameters.
        outcomes: pools and outcomes of the chunk.
        first: number of the chunk's first problem.
        rng: source of randomness.
        run: name of the run that the rows are of.
    """
    n_problems = len(outcomes.pools) // world.actors
    asked = questions(range(first, first + n_problems))
    split = np.array([SPLITS.index(split_of(question)) for question in asked])
    texts = message_texts(outcomes.pools, rng)
    chunk = _Chunk(world, outcomes, first, asked, texts, _pool_ids(world, texts, first), run)
    found = {
        "messages": (_messages(chunk), chunk.unit_problem.repeat(POOL_SIZE)),
        "replays": _replays(chunk, rng),
        "problems": (_problems(chunk), np.arange(n_problems)),
    }
    return {config: _by_split(table, split[problem]) for config, (table, problem) in found.items()}


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk of problems, and where its units come from."""

    world: World
    outcomes: Outcomes
    first: int
    questions: Sequence[str]
    texts: Mapping[str, pa.Array]
    pool_ids: pa.Array
    run: str

    @property
    def unit_pool(self) -> Index:
        return unit_pools(self.world, self.outcomes.pools)

    @property
    def unit_problem(self) -> Index:
        return self.unit_pool // self.world.actors

    def problem_ids(self, problem: Index) -> pa.Array:
        return take([problem_id(self.world, self.first + n) for n in range(len(self.questions))], problem)

    def benchmarks(self, problem: Index) -> pa.Array:
        names = [benchmark_name(n) for n in range(self.world.benchmarks)]
        return take(names, (problem + self.first) % self.world.benchmarks)

    def identity(self, unit: Index) -> dict[str, pa.Array]:
        """Return the identity columns of rows that belong to these units."""
        pool, problem = self.unit_pool[unit], self.unit_problem[unit]
        return {
            "run": take([self.run], np.zeros_like(unit)),
            "pool_id": self.pool_ids.take(pool),
            "problem_id": self.problem_ids(problem),
            "benchmark": self.benchmarks(problem),
            "actor": take([actor_name(n) for n in range(self.world.actors)], pool % self.world.actors),
            "integrator": self.integrators(unit),
            "order": take(["original"], np.zeros_like(unit)),
        }

    def integrators(self, unit: Index) -> pa.Array:
        scales = len(self.world.integrator_scales)
        return take([integrator_name(n) for n in range(scales)], unit % scales)


def problem_id(world: World, number: int) -> str:
    """Return the id of the problem of this number."""
    return f"{benchmark_name(number % world.benchmarks)}:{number:07d}"


def benchmark_name(number: int) -> str:
    """Return the name of a simulated benchmark."""
    return f"simulated-{number + 1}"


def actor_name(number: int) -> str:
    """Return the model id of a simulated actor."""
    return f"simulated-actor-{number + 1}"


def integrator_name(number: int) -> str:
    """Return the model id of a simulated integrator."""
    return f"simulated-integrator-{number + 1}"


def _messages(chunk: _Chunk) -> pa.Table:
    """Return the rows of all messages, unit by unit."""
    import pyarrow as pa

    units = len(chunk.unit_pool)
    row_pool = (chunk.unit_pool[:, None] * POOL_SIZE + np.arange(POOL_SIZE)).ravel()
    correct = chunk.outcomes.pools.correct[chunk.unit_pool]
    labels = label_arrays(chunk.outcomes, correct)
    number = correct.size
    columns: dict[str, Any] = {
        **chunk.identity(np.arange(units).repeat(POOL_SIZE)),
        "slot": np.tile(np.arange(POOL_SIZE), units),
        **{name: column.take(pa.array(row_pool)) for name, column in chunk.texts.items()},
        "recruiter_tokens": np.full(number, 2 * _PROMPT_TOKENS),
        "writer_tokens": (_PROMPT_TOKENS + _message_tokens(chunk)[chunk.unit_pool]).ravel(),
        "message_status": take(["ok"], np.zeros(number, int)),
        "proposal_status": take(["graded", "no_answer"], (correct < 0).ravel().astype(int)),
        "proposal_correct": take([False, True, None], correct.ravel() % 3),
        **{field.name: getattr(labels, field.name).ravel() for field in dataclasses.fields(labels)},
        "interval_reason": labels.trajectory_value_reason.ravel(),
        **_licence(number),
        TRUE_VALUE.name: chunk.outcomes.true_value.ravel(),
    }
    return _table("messages", columns)


def _replays(chunk: _Chunk, rng: np.random.Generator) -> tuple[pa.Table, Index]:
    """Return the rows of all outcomes, unit by unit in plan order, and the problem of each row."""
    outcomes = chunk.outcomes
    units, blocks, _ = outcomes.blocks.shape
    draws = outcomes.main.shape[2]
    place = rng.random(outcomes.blocks.shape).argsort(axis=2)
    main_arm = np.arange(len(ARMS)).repeat(draws)
    arm = unit_rows(main_arm, np.array(BLOCK_ARMS)[place])
    code = unit_rows(outcomes.main.reshape(units, -1), np.take_along_axis(outcomes.blocks, place, axis=2))
    draw = unit_rows(np.tile(np.arange(draws), len(ARMS)), (place == 1).astype(int))
    block = unit_rows(np.full(len(main_arm), -1), np.broadcast_to(np.arange(blocks)[:, None], place.shape))
    position = unit_rows(np.full(len(main_arm), -1), np.broadcast_to(np.arange(place.shape[2]), place.shape))
    unit = np.arange(units).repeat(arm.size // units)
    columns: dict[str, Any] = {
        **chunk.identity(unit),
        "arm": take([a.kind for a in ARMS], arm),
        "kept": take([list(a.kept) for a in ARMS], arm),
        "k": take([a.k for a in ARMS], arm),
        "removed": take([a.removed for a in ARMS], arm),
        "block": unless_negative(block),
        "draw": draw,
        "position": unless_negative(position),
        **_outcome(chunk, unit, arm, code, rng),
        **_licence(len(unit)),
    }
    return _table("replays", columns), chunk.unit_problem[unit]


def _outcome(chunk: _Chunk, unit: Index, arm: Index, code: Index, rng: np.random.Generator) -> dict[str, Any]:
    """Return the outcome columns of rows: status, answer, verdict, tokens."""
    import pyarrow as pa

    status = np.maximum(-code, 0)
    answered = (code >= 0) | (status == STATUS.index("undetermined"))
    failed = status == STATUS.index("operational")
    finish = np.select([status == STATUS.index("truncated"), failed], [1, 2], 0)
    calls = pa.array(np.arange(len(unit)) + chunk.first * (len(unit) // len(chunk.questions)))
    return {
        "status": take(STATUS, status),
        "reason": take([None, *(MISSING_REASONS[name] for name in STATUS[1:])], status),
        "answer": numerals(_answers(chunk, unit, code, rng), answered),
        "correct": take([False, True, None], np.where(code >= 0, code, 2)),
        "score": np.where(code >= 0, code, np.nan),
        "graded_by": take(["integer", None], (~answered).astype(int)),
        "finish_reason": take(["stop", "length", None], finish),
        "prompt_tokens": _prompt_tokens(chunk)[unit, arm],
        "cached_tokens": np.zeros(len(unit), int),
        "completion_tokens": np.where(failed, 0, rng.integers(150, 900, len(unit))),
        "seed": rng.integers(0, 2**31, len(unit)),
        "model": chunk.integrators(unit),
        "attempts": np.ones(len(unit), int),
        "call_key": join("simulated-call-", calls.cast(pa.string())),
    }


def _answers(chunk: _Chunk, unit: Index, code: Index, rng: np.random.Generator) -> Index:
    """Return the answer behind every outcome: the reference, the popular error or any other number."""
    pool = chunk.unit_pool[unit]
    reference, popular = chunk.outcomes.pools.reference[pool], chunk.outcomes.pools.popular_error[pool]
    wrong = np.where(rng.random(len(unit)) < chunk.world.same_error, popular, other_number(reference, rng))
    return np.where(code == 1, reference, wrong)


def _message_tokens(chunk: _Chunk) -> Index:
    """Return (n_pools, 5) tokens of each message: a quarter of its characters."""
    import pyarrow.compute as pc

    fields = ("role_name", "proposed_answer", "reasoning_direction", "key_idea", "critical_assumption", "what_to_check")
    found: Index = sum(pc.utf8_length(chunk.texts[name]).to_numpy() for name in fields).reshape(-1, POOL_SIZE)
    return found // _CHARS_A_TOKEN


def _prompt_tokens(chunk: _Chunk) -> Index:
    """Return (n_units, n_arms) tokens of the prompt: a constant and the messages shown."""
    shown = np.array([[slot in arm.kept for arm in ARMS] for slot in range(POOL_SIZE)])
    found: Index = (_PROMPT_TOKENS + _message_tokens(chunk) @ shown)[chunk.unit_pool]
    return found


def _problems(chunk: _Chunk) -> pa.Table:
    number = np.arange(len(chunk.questions))
    columns: dict[str, Any] = {
        "run": take([chunk.run], np.zeros_like(number)),
        "problem_id": chunk.problem_ids(number),
        "benchmark": chunk.benchmarks(number),
        "question": list(chunk.questions),
        "choices": [[]] * len(number),
        "answer_type": take(["integer"], np.zeros_like(number)),
        "reference": numerals(chunk.outcomes.pools.reference[:: chunk.world.actors], np.ones(len(number), bool)),
        "pool_status": take(["ok"], np.zeros_like(number)),
        "pool_reason": take([None], np.zeros_like(number)),
        **_licence(len(number)),
    }
    return _table("problems", columns)


def _pool_ids(world: World, texts: Mapping[str, pa.Array], first: int) -> pa.Array:
    """Return the SHA-256 of each pool: its problem, its actor and its messages."""
    import pyarrow as pa

    shown = [column for name, column in texts.items() if column.type == pa.string() and name not in _READ]
    joined = join(*shown, separator="\x1f").to_pylist()
    pools = len(joined) // POOL_SIZE
    ids = [
        hashlib.sha256(
            "\x1e".join(
                (
                    problem_id(world, first + pool // world.actors),
                    actor_name(pool % world.actors),
                    *joined[pool * POOL_SIZE : (pool + 1) * POOL_SIZE],
                )
            ).encode()
        ).hexdigest()
        for pool in range(pools)
    ]
    return pa.array(ids)


def _licence(rows: int) -> dict[str, pa.Array]:
    """Return the licence columns; all texts are ours, and none has a character that UTF-8 lacks."""
    nothing = np.zeros(rows, int)
    return {
        "license": take([LICENSE], nothing),
        "train_allowed": take([True], nothing),
        "commercial_use": take([True], nothing),
        "attribution": take([None], nothing).cast("string"),
        "canary": take([None], nothing).cast("string"),
        "text_withheld": take([None], nothing).cast("string"),
        "replaced_characters": nothing,
    }


def _table(config: str, columns: Mapping[str, Any]) -> pa.Table:
    return table(columns, extended_schema(config, EXTRA_COLUMNS.get(config, ())))


def _by_split(rows: pa.Table, split: Index) -> dict[Split, pa.Table]:
    return {name: rows.filter(split == number) for number, name in enumerate(SPLITS)}
