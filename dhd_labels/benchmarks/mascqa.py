"""MaScQA: 650 problems of materials science, 649 of them unique (Zaki et al., Digital Discovery 2024).

Takes the authors' `all_QA.xlsx` (first sheet) or the same columns as JSON lines. Options stand inside the question;
where they can be split safely they become `choices`, else (counted as `options_in_question`) the question keeps them
and `choices` is empty.

Of the letter keys (the upstream type is in the metadata as `type`), one letter is a `choice`, several are `choices`,
and "C OR D" is `choice_any`. Of the numeric ones, a plain number is a `number` and `a to b` is a `range`: also `a :
b`, unions, and "T0" and "48O" for "TO" and "480". "Marks to all" is no key: such rows are excluded as `void_key`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter

from dhd_labels.benchmarks.fields import make_problem, optional, text
from dhd_labels.benchmarks.gold import is_void, read_letters, read_number
from dhd_labels.benchmarks.options import split_options
from dhd_labels.benchmarks.problem_set import Row, UnusableRowError
from dhd_labels.benchmarks.reader import Reader
from dhd_labels.benchmarks.registry import MASCQA, facts
from dhd_labels.errors import did_you_mean
from dhd_labels.records import AnswerType, Problem

FILES = ("all_QA.xlsx", "notebooks/all_QA.xlsx", "*.xlsx", "*.jsonl")
SUBSET = "topic"
LETTERS = ("MCQS", "MATCH", "MCQS-NUM")
TYPES = (*LETTERS, "NUM")
_FIGURE = re.compile(r"\b(?:figures?|images?|diagrams?)\b", re.IGNORECASE)


def problem(row: Row, where: str, noted: Counter[str]) -> Problem:
    """Make the problem of a row; raises UnusableRowError."""
    key, kind = text(row, "Correct Answer", where, blank=True), text(row, "Question Type", where)
    if kind not in TYPES:
        hint = did_you_mean(kind, TYPES)
        raise UnusableRowError(
            "unknown_answer_type", f"The 'Question Type' of {where} must be known, got {kind!r}. {hint}"
        )
    if is_void(key):
        raise UnusableRowError("void_key", f"The key of {where} is {key!r}: it has no answer")
    question = _question(text(row, "QUESTION", where))
    choices: tuple[str, ...] = ()
    noted["mentions_figure"] += _FIGURE.search(question) is not None
    if kind in LETTERS:
        question, choices = split_options(question)
        noted["options_in_question"] += not choices
    return make_problem(
        facts(MASCQA),
        text(row, "Question Info", where),
        question,
        _answer_type(kind, key),
        key,
        noted,
        choices=choices,
        metadata={
            "type": kind,
            "gold": key,
            SUBSET: optional(row, "TOPIC", where),
            "corresponding_value": optional(row, "Corresponding Value", where),
        },
    )


def _answer_type(kind: str, key: str) -> AnswerType:
    try:
        if kind in LETTERS:
            return read_letters(key, Counter())[0]
        read_number(key, Counter())
    except ValueError:
        return "choice" if kind in LETTERS else "range"
    return "number"


def _question(cell: str) -> str:
    """Return the lines of a question; the cell holds a list of strings as Python writes it."""
    if not cell.startswith("["):
        return cell
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in LaTeX that Python does not know
            lines = ast.literal_eval(cell)  # reads literals only; nothing is run
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return cell
    if not isinstance(lines, list):
        return cell
    return "\n".join(line for item in lines if (line := str(item).strip()))


READER = Reader(problem, FILES, SUBSET)
