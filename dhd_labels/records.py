"""The nouns of the protocol: problem, message, pool, arm, replay, outcome, label.

All records are frozen and slotted. Identifiers of pools and calls are SHA-256 digests of content, so the same content
has the same identifier on every machine. A missing result is a status with a reason, never 0 or False.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

POOL_SIZE = 5
"""Messages in a pool (paper: H5)."""

AnswerType = Literal["integer", "number", "choice", "choices", "choice_any", "quantity", "range", "expression", "text"]
"""What a problem asks for; it picks the grading rule. `benchmarks/gold.py` gives the form of the reference of each."""

LETTER_TYPES: tuple[AnswerType, ...] = ("choice", "choices", "choice_any")
"""One option letter, a set of letters, any one of several letters."""

MessageStatus = Literal["ok", "not_renderable", "parse_failed", "truncated", "empty", "server_error"]
OutcomeStatus = Literal["graded", "no_answer", "truncated", "operational", "undetermined"]
Stability = Literal["stable_helpful", "stable_harmful", "indeterminate"]
Order = Literal["original", "reversed"]
Condition = Literal["full", "repeat", "removal", "neutral", "answer_masked", "reasoning_masked"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
"""The six conditions of component masking, on one message of a full pool. `repeat` is `full` again, byte for byte."""
CONTENT_FIELDS = ("reasoning_direction", "key_idea", "critical_assumption", "what_to_check")


def content_id(value: object) -> str:
    """Return the SHA-256 hex digest of a JSON-serialisable value in canonical form."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def as_json(record: Any) -> dict[str, Any]:
    """Return a record as a plain dictionary (tuples become lists once dumped)."""
    return dataclasses.asdict(record)


def as_flat_json(record: Any) -> dict[str, Any]:
    """Return a slotted record without records in it as a plain dictionary: `as_json`, many times as fast."""
    return {name: getattr(record, name) for name in record.__slots__}


@dataclass(frozen=True, slots=True)
class VisibleProblem:
    """What an actor may see of a problem. It has no reference, so a prompt cannot leak one."""

    problem_id: str
    question: str
    choices: tuple[str, ...]
    answer_type: AnswerType


@dataclass(frozen=True, slots=True)
class Problem:
    """One benchmark problem with its reference answer and its licence.

    `choices` holds option texts in letter order. It is empty unless the answer is option letters, and also where the
    question itself shows the options. `commercial_use` is None where nobody knows. `metadata` has what the benchmark's
    own scorer needs; no actor sees it.
    """

    problem_id: str
    benchmark: str
    question: str
    reference: str
    answer_type: AnswerType
    choices: tuple[str, ...]
    license: str
    train_allowed: bool
    commercial_use: bool | None
    redistribute_text: bool = True
    metadata: Mapping[str, str] = field(default_factory=dict)

    def visible(self) -> VisibleProblem:
        """Return the part of the problem that actors may see."""
        return VisibleProblem(self.problem_id, self.question, self.choices, self.answer_type)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Problem:
        """Rebuild a problem from `as_json` output."""
        return cls(**{**data, "choices": tuple(data["choices"])})


@dataclass(frozen=True, slots=True)
class Role:
    """One of the five complementary roles that the recruiter names."""

    name: str
    lens: str


@dataclass(frozen=True, slots=True)
class Message:
    """One hypothesizer's structured message. `raw` is the model's whole text, unedited."""

    slot: int
    role_name: str
    lens: str
    proposed_answer: str
    reasoning_direction: str
    key_idea: str
    critical_assumption: str
    what_to_check: str
    confidence: str
    raw: str
    status: MessageStatus

    @property
    def renderable(self) -> bool:
        """Whether the integrator would see anything at all of this message; zero-width characters show nothing."""
        shown = (getattr(self, name) for name in (*CONTENT_FIELDS, "proposed_answer"))
        return any(not c.isspace() and unicodedata.category(c) != "Cf" for text in shown for c in text)


@dataclass(frozen=True, slots=True)
class Pool:
    """The five cached messages of one problem, in a fixed order. Never filtered, edited, reranked or regenerated."""

    pool_id: str
    problem_id: str
    actor: str
    messages: tuple[Message, ...]

    @staticmethod
    def identify(problem_id: str, actor: str, messages: Sequence[Message]) -> str:
        """Return the content id of a pool with these messages."""
        return content_id({"problem": problem_id, "actor": actor, "messages": [as_flat_json(m) for m in messages]})

    @classmethod
    def of(cls, problem_id: str, actor: str, messages: Sequence[Message]) -> Pool:
        """Make a pool whose id is the hash of its content."""
        return cls(cls.identify(problem_id, actor, messages), problem_id, actor, tuple(messages))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pool:
        """Rebuild a pool from `as_json` output.

        Raises:
            ValueError: the content does not match the stored id (edited by hand, or damaged).
        """
        messages = tuple(Message(**m) for m in data["messages"])
        if cls.identify(data["problem_id"], data["actor"], messages) != data["pool_id"]:
            raise ValueError(f"its messages do not hash to its id {data['pool_id'][:12]}...")
        return cls(data["pool_id"], data["problem_id"], data["actor"], messages)


@dataclass(frozen=True, slots=True)
class Arm:
    """Which messages the integrator may see.

    `kept` are slots, ascending; `k` is the prefix size before any removal; `removed` is the slot left out, if one was.
    Two arms may keep the same set (`only-0` and `prefix-1`), so an arm is known by its name.
    """

    name: str
    kept: tuple[int, ...]
    k: int
    removed: int | None = None

    @classmethod
    @functools.cache
    def alone(cls) -> Arm:
        """No message: an independent solve (K=0)."""
        return cls("alone", (), 0)

    @classmethod
    @functools.cache
    def only(cls, slot: int) -> Arm:
        """A single message."""
        return cls(f"only-{slot}", (slot,), 1)

    @classmethod
    @functools.cache
    def prefix(cls, k: int) -> Arm:
        """The first k messages; all five are called `full`."""
        return cls("full" if k == POOL_SIZE else f"prefix-{k}", tuple(range(k)), k)

    @classmethod
    @functools.cache
    def full(cls) -> Arm:
        """The whole pool."""
        return cls.prefix(POOL_SIZE)

    @classmethod
    @functools.cache
    def without(cls, slot: int, k: int = POOL_SIZE) -> Arm:
        """The first k messages but one."""
        return cls(f"without-{slot}-of-{k}", tuple(s for s in range(k) if s != slot), k, slot)

    @classmethod
    def subset(cls, slots: Sequence[int]) -> Arm:
        """Any set of slots, such as a selector's own choice."""
        kept = tuple(sorted(slots))
        return cls(f"subset-{'.'.join(map(str, kept))}" if kept else "subset-none", kept, POOL_SIZE)

    @property
    def kind(self) -> str:
        """The arm's name in tables of the data set; every subset is a `subset`."""
        return "subset" if self.name.startswith("subset-") else self.name


@dataclass(frozen=True, slots=True)
class Mask:
    """Which message of a replay is masked, and how."""

    target: int
    condition: Condition


@dataclass(frozen=True, slots=True)
class Replay:
    """One planned answer of an integrator.

    `block` and `position` are None outside matched blocks; in component masking `block` is the repeat. `call` names the
    answer inside its (order, block, draw): the arm, or the set of slots where arms that show the same messages share
    one call. `role` is the role that answers, `integrator` its model.
    """

    problem_id: str
    pool_id: str
    arm: Arm
    integrator: str
    order: Order
    block: int | None
    draw: int
    position: int | None
    call: str
    role: str = "integrator"
    mask: Mask | None = None

    @property
    def shown(self) -> tuple[int, ...]:
        """The slots of the messages in the order in which they are shown."""
        return self.arm.kept if self.order == "original" else self.arm.kept[::-1]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The graded end of a replay. `correct` is None exactly when `status` is not "graded".

    `call_key` is the key of the call that was answered: replays with equal keys share one answer. `canonical`
    names the class of equal answers that the answer belongs to. `attempts` counts the calls made for it, `text_digest`
    is that of the whole reply.
    """

    replay: Replay
    status: OutcomeStatus
    reason: str | None
    answer: str | None
    correct: bool | None
    finish_reason: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    seed: int
    model: str
    graded_by: str | None = None
    call_key: str = ""
    canonical: str = ""
    score: float | None = None
    attempts: int = 1
    text_digest: str = ""

    def __post_init__(self) -> None:
        if (self.correct is None) == (self.status == "graded"):
            raise ValueError(
                f"The 'correct' of {self.replay.arm.name} must be None exactly when not graded, "
                f"got {self.correct} with status {self.status!r}"
            )


@dataclass(frozen=True, slots=True)
class MessageLabel:
    """What is known of one message of a pool. Effects are success with minus success without: positive is helpful.

    Every number that can be missing has a `*_reason` beside it that is None exactly when the number is there.
    """

    pool_id: str
    slot: int
    proposal_status: str
    proposal_correct: bool | None
    single_effect: float | None
    single_effect_reason: str | None
    in_pool_effect: float | None
    in_pool_effect_reason: str | None
    trajectory_value: float | None
    trajectory_value_reason: str | None
    ci_low: float | None
    ci_high: float | None
    n_blocks: int
    screen_blocks: int
    stability: Stability
    cell: str | None
    stable_cell: str | None
