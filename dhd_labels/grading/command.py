"""`grade IN.jsonl` and `extract IN.jsonl`: one result a line, in order; a line that cannot be used says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, get_args

from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.grading.dressing import squash
from dhd_labels.grading.extract import extract_answer
from dhd_labels.grading.rules import Mode, grade_by
from dhd_labels.records import AnswerType, Problem

_OWN_TYPES = (*get_args(AnswerType), "option_text")
# Upstream names of answer types. Keys that decide more than the type ("C OR D", "A,C") are looked at in `rule_name`.
_TYPES: dict[str, dict[str, str]] = {
    "jeebench": {"mcq": "choice", "mcq(multiple)": "choices", "integer": "integer", "numeric": "number"},
    "scibench": {
        "numeric": "number", **dict.fromkeys(("numeric_with_unit", "currency", "percent", "angle"), "quantity"),
    },
    "lab-bench": {"mcq": "choice", "mcq_letter": "choice", "mcq_option_text": "option_text"},
    "mascqa": {"num": "range", "mcqs": "choice", "match": "choice", "mcqs-num": "choice"},
    "omni-math-2": {
        **dict.fromkeys(
            ("fraction", "angle", "list", "tuple", "plus_minus", "expression", "integer", "labelled_pair", "function",
             "condition", "interval", "inequality", "set", "equation", "number", "numeric"),
            "expression",
        ),
        "text": "text", "text_set": "text",
    },
}  # fmt: skip


def rule_name(benchmark: str, answer_type: str, gold: str) -> str:
    """Return the rule for a benchmark's own name of an answer type, or for one of ours.

    Raises:
        DhdError: nobody calls an answer type so.
    """
    kind = answer_type.strip().casefold().replace(" ", "_")
    upstream = _TYPES.get(benchmark, {})
    rule = upstream.get(kind) or (kind if kind in _OWN_TYPES else None)
    if rule is None:
        # Without a benchmark an upstream name still means one thing, or is refused.
        meanings = {names[kind] for names in _TYPES.values() if kind in names}
        rule = meanings.pop() if len(meanings) == 1 and benchmark not in _TYPES else None
    if rule is None:
        known = sorted({*_OWN_TYPES, *upstream})
        raise DhdError(f"The 'answer_type' must be known, got {answer_type!r}. {did_you_mean(kind, known)}")
    if rule == "choice" and " or " in f" {squash(gold)} ":
        return "choice_any"
    return "choices" if rule == "choice" and sum(c.isalpha() for c in gold) > 1 else rule


def grading_mode(name: str) -> Mode:
    """Return a mode of grading by its name.

    Raises:
        DhdError: there is none of that name.
    """
    for mode in get_args(Mode):
        if name == mode:
            return cast(Mode, mode)
    raise DhdError(f"The '--mode' must be strict or official, got {name!r}")


def grade_line(row: dict[str, Any], mode: Mode) -> dict[str, Any]:
    """Return what `grade` adds to a line: status, correct, score, rule, canonical, reason."""
    benchmark = str(row.get("benchmark", "")).strip().casefold().replace("_", "-")
    gold, candidate = _text(row, "gold"), _text(row, "candidate")
    choices = row.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise DhdError(f"The 'choices' must be a list of strings, got {choices!r}")
    rule = rule_name(benchmark, str(row.get("answer_type", "")), gold)
    declared = cast(AnswerType, "text" if rule == "option_text" else rule)
    problem = Problem(
        problem_id="",
        benchmark=benchmark,
        question=str(row.get("question") or ""),
        reference=gold,
        answer_type=declared,
        choices=tuple(choices),
        license="",
        train_allowed=False,
        commercial_use=False,
    )
    verdict = grade_by(rule, problem, candidate, mode)
    return {
        "status": verdict.status,
        "correct": verdict.correct,
        "score": verdict.score,
        "rule": verdict.rule,
        "canonical": verdict.canonical,
        "reason": verdict.reason,
    }


def extract_line(row: dict[str, Any]) -> dict[str, Any]:
    """Return what `extract` says of a line: answer and status."""
    declared = row.get("answer_type")
    kind = None if declared is None else rule_name(str(row.get("benchmark", "")), str(declared), "")
    found = extract_answer(_text(row, "text"), kind)
    return {"answer": found.answer, "status": found.status}


def run_lines(path: Path, work: Callable[[dict[str, Any]], dict[str, Any]], keep: bool) -> Iterator[tuple[str, bool]]:
    """Return a JSON line for every line of a file, and whether the line could be used; the file is read at once.

    Args:
        path: JSONL, one object a line; blank lines are skipped.
        work: what to do with an object.
        keep: whether the line's own keys come back with the result.

    Raises:
        DhdError: the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DhdError(f"The file {str(path)!r} cannot be read: {error}") from None
    return _results(path.name, lines, work, keep)


def _results(
    name: str, lines: list[str], work: Callable[[dict[str, Any]], dict[str, Any]], keep: bool
) -> Iterator[tuple[str, bool]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row: dict[str, Any] = {}
        try:
            row = _object(line)
            result, usable = work(row), True
        except DhdError as error:
            result, usable = _unusable(f"{name}:{number}: {error}", keep), False
        except Exception as error:  # a line costs its own verdict, never the file's
            result, usable = _unusable(f"{name}:{number}: grader_error: {type(error).__name__}: {error}", keep), False
        yield _dumped(row if keep else {}, result), usable


def _unusable(reason: str, keep: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"status": "undetermined" if keep else "no_answer", "reason": reason}
    return result | ({"correct": None, "score": None, "rule": None} if keep else {"answer": None})


def _dumped(row: dict[str, Any], result: dict[str, Any]) -> str:
    try:
        return json.dumps({**row, **result}, ensure_ascii=True, allow_nan=False)
    except (ValueError, RecursionError):
        # Such as 1e999, which is read as an infinity that JSON cannot hold.
        kept = {key: repr(value)[:200] for key, value in row.items()}
        return json.dumps({**kept, **result}, ensure_ascii=True, allow_nan=False)


def _object(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise DhdError(f"The line must be a JSON object: {error}") from None
    if not isinstance(row, dict):
        raise DhdError(f"The line must be a JSON object, got {type(row).__name__}")
    return row


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DhdError(f"The {key!r} must be a string or a number, got {value!r}")
    return str(value)


def write_results(
    path: Path,
    out: Path | None,
    work: Callable[[dict[str, Any]], dict[str, Any]],
    keep: bool,
    say: Callable[[str], None],
) -> int:
    """Write all results to a file, or say them; return how many lines could not be used.

    Raises:
        DhdError: the input cannot be read, or the output cannot be written.
    """
    failed = 0
    if out is None:
        for line, usable in run_lines(path, work, keep):
            say(line)
            failed += not usable
        return failed
    try:
        # The input is read before the output is opened: both may be one file.
        results = run_lines(path, work, keep)
        with out.open("w", encoding="utf-8") as file:
            for line, usable in results:
                file.write(line + "\n")
                file.flush()
                failed += not usable
    except OSError as error:
        raise DhdError(f"The file {str(out)!r} cannot be written: {error}") from None
    return failed
