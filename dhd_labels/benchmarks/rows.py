"""JSONL problems: the package's own quickstart set and a user's own file.

A line is an object with `id`, `question`, `reference`, `answer_type` (integer, number or choice) and, for a choice,
`choices`. Optional: `license`, `train_allowed`, `commercial_use`; other keys are kept as metadata.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from dhd_labels.benchmarks.problem_set import ProblemSet, problem_set
from dhd_labels.config import BenchmarkConfig
from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.records import AnswerType, Problem
from dhd_labels.text import storable

QUICKSTART = "quickstart"
_LICENSE = "apache-2.0"
_OWN = {"id", "question", "reference", "answer_type", "choices", "license", "train_allowed", "commercial_use"}


def read_quickstart(subset: str | None) -> ProblemSet:
    """Read the package's own problems; `subset` is a half (`tune`, `report`) or None for both."""
    text = resources.files("dhd_labels").joinpath("benchmarks", "quickstart.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    halves = {row["half"] for row in rows}
    if subset is not None and subset not in halves:
        raise DhdError(f"The 'benchmark.subset' {subset!r} is unknown. {did_you_mean(subset, halves)}")
    chosen = [row for row in rows if subset in (None, row["half"])]
    problems = [_problem(row, QUICKSTART, f"line {number}", _LICENSE) for number, row in enumerate(chosen, 1)]
    return problem_set(_interleave(problems), len(chosen), {})


def read_jsonl(config: BenchmarkConfig) -> ProblemSet:
    """Read a user's own problems.

    Raises:
        DhdError: no path, no such file, or a line that is not an object with the required keys (named by number).
    """
    if config.path is None:
        raise DhdError("The 'benchmark.path' must name a JSONL file for benchmark 'jsonl', got nothing")
    path = Path(config.path)
    try:
        # Not splitlines(): it would also split at U+2028, which JSON allows inside a string.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DhdError(f"The problem file {config.path!r} cannot be read: {error}") from None
    problems, excluded = [], Counter[str]()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _row(line, f"{path.name}:{number}")
        if config.subset is not None and row.get("half") != config.subset:
            excluded["other_subset"] += 1
            continue
        problems.append(_problem(row, "jsonl", f"{path.name}:{number}", "unknown"))
    return problem_set(problems, len(problems) + sum(excluded.values()), excluded)


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DhdError(f"The line {where} must be a JSON object: {error}") from None
    if not isinstance(row, dict):
        raise DhdError(f"The line {where} must be a JSON object, got {type(row).__name__}")
    return row


def _problem(row: dict[str, Any], benchmark: str, where: str, license_: str) -> Problem:
    for key in ("id", "question"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise DhdError(f"The {key!r} of {where} must be a non-empty string, got {row.get(key)!r}")
    kinds = get_args(AnswerType)
    if row.get("answer_type") not in kinds:
        hint = did_you_mean(str(row.get("answer_type")), kinds)
        raise DhdError(f"The 'answer_type' of {where} must be known, got {row.get('answer_type')!r}. {hint}")
    reference = row.get("reference")
    if reference is not None and (isinstance(reference, bool) or not isinstance(reference, str | int | float)):
        raise DhdError(f"The 'reference' of {where} must be a string or a number, got {reference!r}")
    choices = row.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(c, str) for c in choices) or len(choices) > 26:
        raise DhdError(f"The 'choices' of {where} must be a list of at most 26 strings, got {choices!r}")
    return Problem(
        problem_id=storable(f"{benchmark}:{row['id']}"),
        benchmark=benchmark,
        question=storable(row["question"].strip()),
        reference="" if reference is None else storable(str(reference)),
        answer_type=row["answer_type"],
        choices=tuple(map(storable, choices)),
        license=_license(row, where, license_),
        train_allowed=_flag(row, "train_allowed", where, True),
        commercial_use=_flag(row, "commercial_use", where, license_ == _LICENSE),
        metadata={storable(key): storable(str(value)) for key, value in row.items() if key not in _OWN},
    )


def _flag(row: dict[str, Any], key: str, where: str, default: bool) -> bool:
    value = row.get(key, default)
    if not isinstance(value, bool):  # bool("false") is True: a ban would become a permission
        raise DhdError(f"The {key!r} of {where} must be true or false, got {value!r}")
    return value


def _license(row: dict[str, Any], where: str, default: str) -> str:
    value = row.get("license", default)
    if not isinstance(value, str) or not value.strip():
        raise DhdError(f"The 'license' of {where} must be a non-empty string, got {value!r}")
    return storable(value.strip())


def _interleave(problems: Iterable[Problem]) -> list[Problem]:
    """Order problems round-robin over their bands, so that the first N of a run are a mix."""
    bands: dict[str, list[Problem]] = {}
    for problem in problems:
        bands.setdefault(problem.metadata.get("band", ""), []).append(problem)
    rounds = max((len(band) for band in bands.values()), default=0)
    return [band[i] for i in range(rounds) for band in bands.values() if i < len(band)]
