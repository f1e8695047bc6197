"""Checked access to the columns of an upstream row, and the problem made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dhd_labels.benchmarks.gold import read_gold
from dhd_labels.benchmarks.problem_set import Row, UnusableRowError
from dhd_labels.benchmarks.registry import RegistryFacts
from dhd_labels.records import LETTER_TYPES, AnswerType, Problem
from dhd_labels.text import storable


def present(row: Row, column: str, where: str) -> Any:
    """Return a value of a row.

    Raises:
        UnusableRowError: the row has no such column.
    """
    if column not in row:
        found = ", ".join(sorted(map(str, row)))[:200]
        raise UnusableRowError(
            "missing_column", f"The row {where} must have a column {column!r}, got only {found}", column
        )
    return row[column]


def text(row: Row, column: str, where: str, *, blank: bool = False) -> str:
    r"""Return a text of a row, stripped and with `\n` for line breaks; `blank` allows an empty or missing value.

    Raises:
        UnusableRowError: the column is missing, no text, or blank where it must not be.
    """
    value = present(row, column, where)
    if value is None and blank:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not (blank or value.strip()):
        shown = repr(value)[:100]
        raise UnusableRowError("bad_value", f"The {column!r} of {where} must be a non-empty text, got {shown}")
    return storable(value.replace("\r\n", "\n").replace("\r", "\n").strip())


def optional(row: Row, column: str, where: str) -> str:
    """Return a text of a row that may be missing or blank; raises UnusableRowError for any other value."""
    return text(row, column, where, blank=True) if column in row else ""


def texts(row: Row, column: str, where: str) -> list[str]:
    """Return a list of texts of a row.

    Raises:
        UnusableRowError: the column is missing or anything else.
    """
    value = present(row, column, where)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        shown = repr(value)[:100]
        raise UnusableRowError("bad_value", f"The {column!r} of {where} must be a list of texts, got {shown}")
    return [storable(item) for item in value]


def make_problem(
    entry: RegistryFacts,
    upstream_id: str,
    question: str,
    answer_type: AnswerType,
    gold: str,
    noted: Counter[str],
    *,
    choices: tuple[str, ...] = (),
    metadata: Mapping[str, str],
) -> Problem:
    """Make the problem of an upstream row under the licence of its benchmark.

    Raises:
        UnusableRowError: the gold is blank (`no_reference`), or not of its answer type or among the choices
            (`gold_error`).
    """
    problem_id = f"{entry.name}:{' '.join(upstream_id.split())}"
    if not gold.strip():
        raise UnusableRowError("no_reference", f"The gold of {problem_id} is blank")
    try:
        reference = read_gold(answer_type, gold, noted)
        if answer_type in LETTER_TYPES and choices:
            check_letters(reference, len(choices))
    except ValueError as error:
        raise UnusableRowError("gold_error", f"The gold of {problem_id} {error}") from None
    return Problem(
        problem_id=problem_id,
        benchmark=entry.name,
        question=question,
        reference=reference,
        answer_type=answer_type,
        choices=choices,
        license=entry.license,
        train_allowed=entry.train_allowed,
        commercial_use=entry.commercial_use,
        redistribute_text=entry.redistribute_text,
        metadata={key: value for key, value in metadata.items() if value},
    )


def check_letters(reference: str, options: int) -> None:
    """Check that a letter key names only options that there are.

    Raises:
        ValueError: it names another one.
    """
    last = chr(64 + options)
    if any(letter > last for letter in reference.replace(" OR ", "")):
        raise ValueError(f"must name options up to {last}, got {reference!r}")
