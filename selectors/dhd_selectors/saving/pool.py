"""One problem and its messages, as records or plain dictionaries, to what features and texts are made of.

Dictionaries use the column names of the data set's `messages` and `problems`; columns that no selector may see are
not read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.protocol.confidence import confidence_level, confidence_value
from dhd_labels.records import CONTENT_FIELDS, POOL_SIZE, AnswerType
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS
from dhd_selectors.features import Visible

Record = Any
"""A record of `dhd_labels.records`, another dataclass, a mapping, or a row of a frame."""

REQUIRED = ("proposed_answer", *CONTENT_FIELDS)
"""What a message must say; None or "" where it is not known."""
_READ = frozenset(
    ("slot", "role_name", *REQUIRED, "confidence", "confidence_text", "confidence_level", "confidence_value")
)
_LEVELS = ("", "low", "medium", "high")


def read_pool(problem: Record, messages: Iterable[Record] | pd.DataFrame) -> list[Visible]:
    """Return what a selector may see of each message, by slot.

    Args:
        problem: with `answer_type`; `benchmark` and `question` where they are known.
        messages: each with the fields of `REQUIRED`; `role_name`, `slot` and a confidence where they are known. Without
            slots the messages are in slot order. A confidence is the text `confidence` or `confidence_text`, or
            `confidence_level` and `confidence_value` as the data set has them.

    Raises:
        DhdError: a field is missing or of another kind, or the slots are not those of one pool.
    """
    about = _fields(problem, "problem")
    kind = _text(about, "answer_type", "problem")
    if kind not in get_args(AnswerType):
        raise DhdError(
            f"The 'answer_type' of the problem must be a known one, got {kind or None!r}. "
            + did_you_mean(kind, get_args(AnswerType))
        )
    of_problem = {
        "benchmark": _text(about, "benchmark", "problem"),
        "answer_type": kind,
        "question": _text(about, "question", "problem"),
    }
    listed = _rows(messages) if isinstance(messages, pd.DataFrame) else list(messages)
    if len(listed) > POOL_SIZE:
        raise DhdError(
            f"The messages must be at most {POOL_SIZE}, got {len(listed)}. Rules are learned from such pools."
        )
    read = [_message(_fields(message, f"message {n}"), n, of_problem) for n, message in enumerate(listed)]
    slots = [int(message.slot) for message in read]
    if len(set(slots)) < len(slots):
        raise DhdError(f"The messages must be of one pool, each with a slot of its own, got the slots {slots}.")
    return sorted(read, key=lambda message: message.slot)


def text_frame(pool: Sequence[Visible]) -> pd.DataFrame:
    """Return (n_messages, ...) the text columns of one pool, for selectors that read texts."""
    columns = {name: [getattr(message, name) for message in pool] for name in TEXT_COLUMNS}
    return pd.DataFrame(columns, dtype=object).assign(**{POOL_COLUMN: np.zeros(len(pool), dtype=np.int64)})


def _rows(messages: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows as dictionaries of what is read; a data set has three times as many columns."""
    return messages[[name for name in messages.columns if name in _READ]].to_dict("records")


def _message(fields: Mapping[str, Any], number: int, of_problem: Mapping[str, str]) -> Visible:
    what = f"message {number}"
    missing = [name for name in REQUIRED if name not in fields]
    if missing:
        raise DhdError(
            f"The {what} must have the fields {', '.join(REQUIRED)}, got none of {', '.join(missing)}. "
            "Write None where one is not known."
        )
    texts: dict[str, Any] = {name: _text(fields, name, what) for name in ("role_name", *REQUIRED)}
    return Visible(slot=_slot(fields, number), **{**of_problem, **texts, **_confidence(fields, what)})


def _confidence(fields: Mapping[str, Any], what: str) -> dict[str, Any]:
    stated = _text(fields, "confidence_text" if "confidence_text" in fields else "confidence", what)
    if "confidence_level" in fields or "confidence_value" in fields:
        level, value = _text(fields, "confidence_level", what), fields.get("confidence_value")
        value = None if _is_missing(value) else value
    else:
        level, value = confidence_level(stated) or "", confidence_value(stated)
    if level not in _LEVELS:
        raise DhdError(f"The 'confidence_level' of {what} must be low, medium, high or None, got {level!r}.")
    if value is not None and not (_is_number(value) and 0 <= value <= 1):
        raise DhdError(f"The 'confidence_value' of {what} must be a fraction from 0 to 1 or None, got {value!r}.")
    number = math.nan if value is None else float(value)
    return {"confidence_text": stated, "confidence_level": level, "confidence_value": number}


def _fields(record: Record, what: str) -> Mapping[str, Any]:
    if isinstance(record, Mapping):
        return record
    if isinstance(record, pd.Series):
        return {str(name): value for name, value in record.items()}
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    raise DhdError(f"The {what} must be a record, a dictionary or a row of a frame, got {type(record).__name__}.")


def _text(fields: Mapping[str, Any], name: str, what: str) -> str:
    value = fields.get(name)
    if _is_missing(value):
        return ""
    if not isinstance(value, str):
        raise DhdError(f"The {name!r} of {what} must be text or None, got {type(value).__name__} {value!r}.")
    return value


def _slot(fields: Mapping[str, Any], number: int) -> float:
    value = fields.get("slot", number)
    if not (_is_number(value) and 0 <= value < POOL_SIZE and int(value) == value):
        raise DhdError(
            f"The 'slot' of message {number} must be a whole number from 0 to {POOL_SIZE - 1}, got {value!r}."
        )
    return float(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and hasattr(value, "__float__")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
