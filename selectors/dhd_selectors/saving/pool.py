"""One problem and its messages, as records or plain dictionaries, to the frame that features are made of.

Dictionaries use the column names of the data set's `messages` and `problems`; columns that no selector may see are
not read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import pandas as pd

from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.protocol.confidence import confidence_level, confidence_value
from dhd_labels.records import CONTENT_FIELDS, POOL_SIZE, AnswerType

Record = Any
"""A record of `dhd_labels.records`, another dataclass, a mapping, or a row of a frame."""

REQUIRED = ("proposed_answer", *CONTENT_FIELDS)
"""What a message must say; None or "" where it is not known."""
_LEVELS = ("low", "medium", "high")
_CONSTANT = {"pool_id": "pool", "integrator": "", "order": "original"}


def pool_frame(problem: Record, messages: Iterable[Record] | pd.DataFrame) -> pd.DataFrame:
    """Return (n_messages, ...) rows by slot, with the columns that features and texts come from.

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
    shared = {
        **_CONSTANT,
        "benchmark": _text(about, "benchmark", "problem"),
        "answer_type": kind,
        "question": _text(about, "question", "problem"),
    }
    listed = messages.to_dict("records") if isinstance(messages, pd.DataFrame) else list(messages)
    if len(listed) > POOL_SIZE:
        raise DhdError(f"The messages must be at most {POOL_SIZE}, got {len(listed)}. Rules are learned from such pools.")
    rows = [_message(_fields(message, f"message {n}"), n) for n, message in enumerate(listed)]
    _check_slots([row["slot"] for row in rows])
    columns = [*shared, "slot", "role_name", *REQUIRED, "confidence_text", "confidence_level", "confidence_value"]
    ordered = sorted(rows, key=lambda row: row["slot"])
    frame = pd.DataFrame([shared | row for row in ordered], columns=pd.Index(columns), dtype=object)
    return frame.astype({"slot": "int64", "confidence_value": "float64"})


def _message(fields: Mapping[str, Any], number: int) -> dict[str, Any]:
    what = f"message {number}"
    missing = [name for name in REQUIRED if name not in fields]
    if missing:
        raise DhdError(
            f"The {what} must have the fields {', '.join(REQUIRED)}, got none of {', '.join(missing)}. "
            "Write None where one is not known."
        )
    return {
        "slot": _slot(fields, number),
        "role_name": _text(fields, "role_name", what),
        **{name: _text(fields, name, what) for name in REQUIRED},
        **_confidence(fields, what),
    }


def _confidence(fields: Mapping[str, Any], what: str) -> dict[str, Any]:
    stated = _text(fields, "confidence_text" if "confidence_text" in fields else "confidence", what)
    if "confidence_level" not in fields and "confidence_value" not in fields:
        return {
            "confidence_text": stated,
            "confidence_level": confidence_level(stated),
            "confidence_value": confidence_value(stated),
        }
    level, value = _text(fields, "confidence_level", what) or None, fields.get("confidence_value")
    if level is not None and level not in _LEVELS:
        raise DhdError(f"The 'confidence_level' of {what} must be low, medium, high or None, got {level!r}.")
    value = None if _is_missing(value) else value
    if value is not None and not (_is_number(value) and 0 <= value <= 1):
        raise DhdError(f"The 'confidence_value' of {what} must be a fraction from 0 to 1 or None, got {value!r}.")
    return {"confidence_text": stated, "confidence_level": level, "confidence_value": value}


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


def _slot(fields: Mapping[str, Any], number: int) -> int:
    value = fields.get("slot", number)
    if not (_is_number(value) and 0 <= value < POOL_SIZE and int(value) == value):
        raise DhdError(f"The 'slot' of message {number} must be a whole number from 0 to {POOL_SIZE - 1}, got {value!r}.")
    return int(value)


def _check_slots(slots: list[int]) -> None:
    if len(set(slots)) < len(slots):
        raise DhdError(f"The messages must be of one pool, each with a slot of its own, got the slots {slots}.")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and hasattr(value, "__float__")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
