"""JSON lines in the package's own form: the quickstart set and a user's own file.

A line is an object with `id`, `question`, `reference`, `answer_type` (see `records.AnswerType`) and, for option
letters, `choices`. Optional: `license`, `train_allowed`, `commercial_use`, `redistribute_text`; other keys are kept as
metadata. A line that cannot be used is counted by reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from importlib import resources
from typing import Any, get_args

from dhd_labels.benchmarks.fields import check_letters, present
from dhd_labels.benchmarks.gold import read_gold
from dhd_labels.benchmarks.problem_set import ProblemSet, Row, UnusableRowError, collect
from dhd_labels.benchmarks.registry import RegistryFacts
from dhd_labels.errors import did_you_mean
from dhd_labels.grading.rules import grade
from dhd_labels.records import LETTER_TYPES, AnswerType, Problem
from dhd_labels.text import storable

SUBSET = "half"
_MAX_OPTIONS = 26
_FLAGS = ("train_allowed", "commercial_use", "redistribute_text")
_OWN = {"id", "question", "reference", "answer_type", "choices", "license", *_FLAGS}


def read_quickstart(entry: RegistryFacts, subset: str | None) -> ProblemSet:
    """Read the package's own problems; `subset` is a half (`tune`, `report`) or None for both."""
    text = resources.files("dhd_labels").joinpath("benchmarks", "quickstart.jsonl").read_text(encoding="utf-8")
    rows = [(f"line {number}", json.loads(line)) for number, line in enumerate(text.splitlines(), 1)]
    found = read_own(rows, entry, subset)
    return replace(found, problems=tuple(_interleave(found.problems)), expected=entry.rows)


def read_own(
    rows: Iterable[tuple[str, Row | UnusableRowError]], entry: RegistryFacts, subset: str | None
) -> ProblemSet:
    """Read rows in the package's own form; `entry` gives the licence of rows that state none.

    Raises:
        DhdError: every row lacks a required key, or no row is of the subset.
    """

    def make(row: Row, where: str, noted: Counter[str]) -> Problem:
        return _checked(_problem(row, where, entry), where)

    chosen = None if subset is None else (SUBSET, subset)
    return collect(rows, make, subset=chosen, rename_collisions=False)


def _problem(row: Row, where: str, entry: RegistryFacts) -> Problem:
    for key in ("id", "question"):
        value = present(row, key, where)
        if not isinstance(value, str) or not value.strip():
            raise _bad(key, where, "a non-empty string", value)
    kind, kinds = present(row, "answer_type", where), get_args(AnswerType)
    if kind not in kinds:
        hint = did_you_mean(str(kind), kinds)
        text = f"The 'answer_type' of {where} must be known, got {_shown(kind)}. {hint}"
        raise UnusableRowError("unknown_answer_type", text)
    reference = row.get("reference")
    if reference is not None and (isinstance(reference, bool) or not isinstance(reference, str | int | float)):
        raise _bad("reference", where, "a string or a number", reference)
    choices = row.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(c, str) for c in choices) or len(choices) > _MAX_OPTIONS:
        raise _bad("choices", where, f"a list of at most {_MAX_OPTIONS} strings", choices)
    commercial_use, train_allowed, redistribute_text = (
        _flag(row, key, where, default)
        for key, default in (
            ("commercial_use", bool(entry.commercial_use)),
            ("train_allowed", entry.train_allowed),
            ("redistribute_text", entry.redistribute_text),
        )
    )
    return Problem(
        problem_id=storable(f"{entry.name}:{row['id']}"),
        benchmark=entry.name,
        question=storable(row["question"].strip()),
        reference="" if reference is None else storable(str(reference)),
        answer_type=kind,
        choices=tuple(map(storable, choices)),
        license=_license(row, where, entry.license),
        train_allowed=train_allowed,
        commercial_use=commercial_use,
        redistribute_text=redistribute_text,
        metadata={storable(key): storable(str(value)) for key, value in row.items() if key not in _OWN},
    )


def _checked(problem: Problem, where: str) -> Problem:
    """Check the reference by the rule that will grade against it, before any call is paid for."""
    if not problem.reference.strip():
        raise UnusableRowError("no_reference", f"The 'reference' of {where} is blank")
    try:
        if problem.answer_type not in ("integer", "number", "choice"):
            problem = replace(problem, reference=read_gold(problem.answer_type, problem.reference, Counter()))
        if problem.answer_type in LETTER_TYPES and problem.choices:
            check_letters(problem.reference, len(problem.choices))
        if (verdict := grade(problem, problem.reference)).status == "gold_error":
            raise ValueError(verdict.reason)
    except ValueError as error:
        raise UnusableRowError("gold_error", f"The 'reference' of {where} is not usable: {error}") from None
    return problem


def _bad(key: str, where: str, rule: str, value: Any) -> UnusableRowError:
    return UnusableRowError("bad_value", f"The {key!r} of {where} must be {rule}, got {_shown(value)}")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def _flag(row: Row, key: str, where: str, default: bool) -> bool:
    value = row.get(key, default)
    if not isinstance(value, bool):  # bool("false") is True: a ban would become a permission
        raise _bad(key, where, "true or false", value)
    return value


def _license(row: Row, where: str, default: str) -> str:
    value = row.get("license", default)
    if not isinstance(value, str) or not value.strip():
        raise _bad("license", where, "a non-empty string", value)
    return storable(value.strip())


def _interleave(problems: Iterable[Problem]) -> list[Problem]:
    """Order problems round-robin over their bands, so that the first N of a run are a mix."""
    bands: dict[str, list[Problem]] = {}
    for problem in problems:
        bands.setdefault(problem.metadata.get("band", ""), []).append(problem)
    rounds = max((len(band) for band in bands.values()), default=0)
    return [band[i] for i in range(rounds) for band in bands.values() if i < len(band)]
