"""A stored call as a record and as a row with a digest, so that a damaged row is never taken for an answer."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dhd_labels.engines.base import ChatReply
from dhd_labels.text import storable


@dataclass(frozen=True, slots=True)
class CallRow:
    """One stored call: an attempt at a ticket, with the reply as it came."""

    ticket: str
    attempt: int
    key: str
    role: str
    problem_id: str
    seed: int
    reply: ChatReply


SELECT = (
    "SELECT ticket, attempt, key, role, problem_id, seed, status, text, reasoning, finish_reason, prompt_tokens, "
    "cached_tokens, completion_tokens, model, error, digest FROM calls"
)


def read_row(row: tuple[Any, ...]) -> CallRow:
    """Return the call of a row that was selected by `SELECT`.

    Raises:
        sqlite3.DatabaseError: the row is not what was written.
    """
    *values, digest = row
    if digest != _digest(values):
        raise sqlite3.DatabaseError(f"the stored call {values[0]!r} is not what was written")
    ticket, attempt, key, role, problem_id, seed, *reply = values
    return CallRow(ticket, attempt, key, role, problem_id, seed, ChatReply(*reply))


def row_values(row: CallRow) -> tuple[Any, ...]:
    """Return the values of a row, with the time and the digest, in the order of the table."""
    reply = row.reply
    values = (
        row.ticket, row.attempt, row.key, row.role, row.problem_id, row.seed, reply.status, storable(reply.text),
        reply.reasoning and storable(reply.reasoning), reply.finish_reason, reply.prompt_tokens, reply.cached_tokens,
        reply.completion_tokens, reply.model, reply.error and storable(reply.error),
    )  # fmt: skip
    return (*values, time.time(), _digest(values))


def _digest(values: Sequence[Any]) -> str:
    """Return a digest of a row, so that a damaged one is never taken for an answer."""
    return hashlib.sha256(repr(tuple(values)).encode("utf-8", "surrogatepass")).hexdigest()
