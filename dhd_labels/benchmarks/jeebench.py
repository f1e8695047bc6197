"""JEEBench: 515 problems of the entrance exam JEE Advanced (Arora et al., EMNLP 2023).

Takes the authors' `dataset.json` (on the Hub `test.json`) or the same rows as JSON lines. Options stand inside the
question; where they can be split safely they become `choices`, else (five rows, counted as `options_in_question`) the
question keeps them and `choices` is empty. The four upstream types become `choice`, `choices` (also for the seven
keys of one letter), `integer` and `number`; the upstream name is in the metadata as `type`.
"""

from __future__ import annotations

from collections import Counter

from dhd_labels.benchmarks.fields import make_problem, text
from dhd_labels.benchmarks.options import split_options
from dhd_labels.benchmarks.problem_set import Row, UnusableRowError
from dhd_labels.benchmarks.reader import Reader
from dhd_labels.benchmarks.registry import JEEBENCH, facts
from dhd_labels.errors import did_you_mean
from dhd_labels.records import LETTER_TYPES, AnswerType, Problem

FILES = ("dataset.json", "data/dataset.json", "test.json", "jeebench.json", "*.jsonl")
SUBSET = "subject"
TYPES: dict[str, AnswerType] = {
    "MCQ": "choice",
    "MCQ(multiple)": "choices",
    "Integer": "integer",
    "Numeric": "number",
}


def problem(row: Row, where: str, noted: Counter[str]) -> Problem:
    """Make the problem of a row; raises UnusableRowError."""
    kind, gold = text(row, "type", where), text(row, "gold", where, blank=True)
    if kind not in TYPES:
        hint = did_you_mean(kind, TYPES)
        raise UnusableRowError("unknown_answer_type", f"The 'type' of {where} must be known, got {kind!r}. {hint}")
    question = text(row, "question", where)
    choices: tuple[str, ...] = ()
    if TYPES[kind] in LETTER_TYPES:
        question, choices = split_options(question)
        noted["options_in_question"] += not choices
    exam, index = text(row, "description", where), text(row, "index", where)
    return make_problem(
        facts(JEEBENCH),
        f"{exam}:{index}",
        question,
        TYPES[kind],
        gold,
        noted,
        choices=choices,
        metadata={"type": kind, "gold": gold, SUBSET: text(row, "subject", where), "exam": exam},
    )


READER = Reader(problem, FILES, SUBSET)
