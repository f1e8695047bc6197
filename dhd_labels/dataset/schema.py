"""The columns of the data set, each documented once.

The Parquet files, the `datasets.Features` and the card's column tables all come from the tables below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

SCHEMA_VERSION = "4"
SPLITS = ("train", "validation", "test")
ColumnType = Literal[
    "string", "large_string", "bool", "int8", "int32", "int64", "float64", "list<int8>", "list<string>"
]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its storage type (all are nullable) and what it means.

    `reason` names the column that says why a number is null; a number that is not finite is stored so.
    """

    name: str
    type: ColumnType
    doc: str
    reason: str | None = None


_RUN = Column("run", "string", "run that the row comes from: name of its config and the start of its digest")
_IDENTITY = (
    _RUN,
    Column("pool_id", "string", "SHA-256 of the five messages, the problem and the actor"),
    Column("problem_id", "string", "stable id of the problem; the unit of every split, fold and interval"),
    Column("benchmark", "string", "benchmark the problem comes from"),
    Column("actor", "string", "model that wrote the roles and messages"),
    Column("integrator", "string", "model that solved with and without the messages"),
    Column("order", "string", "message order shown to the integrator: `original` (by slot) or `reversed`"),
)
_LICENCE = (
    Column("license", "string", "licence of the problem text"),
    Column("train_allowed", "bool", "whether a model may be trained on this row"),
    Column("commercial_use", "bool", "whether the row may be used commercially; null where that is unsettled"),
    Column("attribution", "string", "whom to name when the row is used; null where nobody is named"),
    Column(
        "canary", "string", "string by which corpora leave the row out; it stays with the row and out of every prompt"
    ),
)
_TEXTS = (
    Column("text_withheld", "string", "why texts of the row are null although there are some; null where all are here"),
    Column(
        "replaced_characters",
        "int32",
        "characters U+FFFD in the texts of the row: each stands for one that no UTF-8 file can hold",
    ),
)

_OUTCOME = (
    Column("status", "string", "`graded`, `no_answer`, `truncated`, `operational` or `undetermined`"),
    Column("reason", "string", "why the outcome is not graded, or a doubt about its verdict"),
    Column("answer", "large_string", "extracted answer, as it was written"),
    Column("correct", "bool", "verdict; null unless graded"),
    Column(
        "score", "float64", "score of the verdict (equals `correct` under strict grading); null unless graded", "reason"
    ),
    Column("graded_by", "string", "rule that decided, or `evaluator`; null without an answer"),
    Column("finish_reason", "string", "why the model stopped"),
    Column("prompt_tokens", "int32", "tokens of the prompt"),
    Column("cached_tokens", "int32", "prompt tokens served from the prefix cache"),
    Column("completion_tokens", "int32", "tokens written"),
    Column("seed", "int64", "sampling seed of the call"),
    Column("model", "string", "model id that came back"),
    Column("attempts", "int32", "calls made for this answer; more than one when a reply failed or had no final part"),
    Column("call_key", "string", "SHA-256 of the call; rows with equal keys share one answer and were paid for once"),
    *_TEXTS,
)

MESSAGES = (
    *_IDENTITY,
    Column("slot", "int8", "0-based place of the message in the pool"),
    Column("role_name", "large_string", "role that the recruiter gave to the writer"),
    Column("lens", "large_string", "reasoning lens of that role"),
    Column("proposed_answer", "large_string", "the message's own answer"),
    Column("reasoning_direction", "large_string", "how the message says to go about it"),
    Column("key_idea", "large_string", "its key idea"),
    Column("critical_assumption", "large_string", "what it assumes"),
    Column("what_to_check", "large_string", "what it says to check"),
    Column("confidence_text", "large_string", "self-reported confidence, as written"),
    Column("confidence_level", "string", "`high`, `medium` or `low`; null when unclear"),
    Column(
        "confidence_value",
        "float64",
        "a stated number as a fraction of 1; null when none is stated",
        "confidence_reason",
    ),
    Column("confidence_reason", "string", "why `confidence_level` or `confidence_value` is null"),
    Column("message_status", "string", "`ok` for every replayed message"),
    Column(
        "recruiter_tokens", "int32", "tokens of the recruiter's call, prompt and reply; one call for all five messages"
    ),
    Column("writer_tokens", "int32", "tokens of the call that wrote this message, prompt and reply"),
    Column("proposal_status", "string", "`graded`, or why the proposed answer has no verdict"),
    Column("proposal_correct", "bool", "whether the proposed answer is right; null unless graded"),
    Column(
        "single_effect",
        "float64",
        "success with only this message minus success alone; mean over recorded draws",
        "single_effect_reason",
    ),
    Column("single_effect_reason", "string", "why `single_effect` is null"),
    Column(
        "in_pool_effect",
        "float64",
        "success with the full pool minus success without this message, one draw against one; mean over recorded "
        "draws (unmatched ones, else draw 0 of each block; of the first `screen_blocks` blocks where that is not 0)",
        "in_pool_effect_reason",
    ),
    Column("in_pool_effect_reason", "string", "why `in_pool_effect` is null"),
    Column(
        "trajectory_value",
        "float64",
        "mean over matched blocks of (mean of the two full draws minus the draw without the message); blocks from "
        "number `screen_blocks` on",
        "trajectory_value_reason",
    ),
    Column("trajectory_value_reason", "string", "why `trajectory_value` is null"),
    Column(
        "ci_low",
        "float64",
        "lower end of the 95 % bootstrap interval over blocks (exact resampling)",
        "interval_reason",
    ),
    Column("ci_high", "float64", "upper end of that interval", "interval_reason"),
    Column("interval_reason", "string", "why `ci_low` or `ci_high` is null"),
    Column("n_blocks", "int32", "complete blocks behind the trajectory value"),
    Column(
        "screen_blocks",
        "int32",
        "first blocks, that decided how many more a problem gets and are not used for the trajectory value; 0 where "
        "every problem gets the same number",
    ),
    Column("stability", "string", "`stable_helpful`, `stable_harmful` or `indeterminate`; one block is never stable"),
    Column("cell", "string", "proposal (`correct`/`wrong`) x sign of the single-draw K=5 effect, e.g. `wrong_helpful`"),
    Column("stable_cell", "string", "proposal x stability; null when indeterminate or the proposal is unknown"),
    *_TEXTS,
    *_LICENCE,
)

REPLAYS = (
    *_IDENTITY,
    Column("arm", "string", "`alone`, `prefix-3`, `only-0`, `without-2-of-5`, `full` or `subset`"),
    Column("kept", "list<int8>", "slots of the messages shown, ascending"),
    Column("k", "int8", "prefix size before any removal"),
    Column("removed", "int8", "slot left out, if one was"),
    Column("block", "int32", "number of the matched block, from 0; null outside blocks"),
    Column("draw", "int32", "draw of this arm in its block, or overall outside blocks"),
    Column("position", "int32", "place in the shuffled order of the block; null outside blocks"),
    *_OUTCOME,
    *_LICENCE,
)

PROBLEMS = (
    _RUN,
    Column("problem_id", "string", "stable id of the problem"),
    Column("benchmark", "string", "benchmark the problem comes from"),
    Column("question", "large_string", "problem text; null where it may not be redistributed"),
    Column("choices", "list<string>", "option texts in letter order; empty unless a choice"),
    Column("answer_type", "string", "declared type that picks the grading rule"),
    Column("reference", "large_string", "reference answer; null where it may not be redistributed"),
    Column("pool_status", "string", "`ok`, or why the problem has no labelled pool"),
    Column("pool_reason", "string", "details of that status"),
    *_TEXTS,
    *_LICENCE,
)

MASKING = (
    *_IDENTITY,
    Column("slot", "int8", "0-based place of the masked message (the target)"),
    Column("cell", "string", "stable cell that the target was chosen from by rule; null when it was named in a list"),
    Column(
        "condition",
        "string",
        "`full`, `repeat` (`full` again, byte for byte), `removal`, `neutral` (no content left, as many words), "
        "`answer_masked` or `reasoning_masked`",
    ),
    Column(
        "changed", "bool", "whether the prompt differs from `full`; false for an answer mask on a message without one"
    ),
    Column("answer_restated", "bool", "whether the reasoning still shows the answer when the answer is masked"),
    Column("repeat", "int32", "repeat of all conditions on this target"),
    Column("draw", "int32", "draw of this condition in its repeat"),
    Column("position", "int32", "place in the shuffled order of the repeat"),
    *_OUTCOME,
    *_LICENCE,
)

CONFIGS: Mapping[str, tuple[Column, ...]] = {
    "messages": MESSAGES,
    "replays": REPLAYS,
    "problems": PROBLEMS,
    "masking": MASKING,
}
DEFAULT_CONFIG = "messages"


def arrow_schema(config: str) -> pa.Schema:
    """Return the Arrow schema of a config, with the `datasets` feature metadata that loaders read."""
    return features(config).arrow_schema


def features(config: str) -> datasets.Features:
    """Return the explicit `datasets.Features` of a config."""
    import datasets

    def feature(kind: ColumnType) -> Any:
        if kind.startswith("list<"):
            return datasets.List(datasets.Value(kind[5:-1]))
        return datasets.Value(kind)

    return datasets.Features({column.name: feature(column.type) for column in CONFIGS[config]})
