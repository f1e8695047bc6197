"""Rows in the schemas of the upstream files, with texts of our own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dhd_labels.benchmarks import ProblemSet, read_problems
from dhd_labels.config import BenchmarkConfig

CANARY = "NOT FOR TRAINING. canary GUID test:0000"

ROWS: Mapping[str, Mapping[str, Any]] = {
    "omni-math-2": {
        "id": 1, "problem": "What is $1+1$?", "solution": "Two.", "answer": "2", "tags": [], "source": "own",
        "domain": ["Mathematics -> Algebra"], "difficulty": 1.5,
    },
    "jeebench": {
        "description": "Exam 1", "index": 7, "subject": "math", "type": "MCQ",
        "question": "Which?\n\n(A) one\n\n(B) two\n\n(C) three\n\n(D) four", "gold": "B",
    },
    "scibench": {
        "problem_text": " How far?\r\n", "answer_latex": " 3.52", "answer_number": "3.52",
        "unit": "$10^{-3} \\mathrm{~m}$", "source": "calculus", "problemid": " 1.2", "comment": " first part only ",
    },
    "lab-bench": {
        "id": "00000000-0001", "tag": "seqqa", "version": "1.0", "question": "Which base?", "ideal": "adenine",
        "distractors": ["guanine", "thymine", "cytosine"], "canary": CANARY,
    },
    "mascqa": {
        "Question Info": "G-1", "Question Type": "MCQS", "Correct Answer": "A", "TOPIC": "Thermo",
        "QUESTION": "['Which?\\n', '(A) one (B) two (C) three (D) four']", "Corresponding Value": "one",
    },
}  # fmt: skip


def row(name: str, /, **changes: Any) -> dict[str, Any]:
    """Return a good row with changes; spaces in a column name are written as underscores."""
    good = dict(ROWS[name])
    names = {column.replace(" ", "_"): column for column in good}
    return {**good, **{names.get(column, column): value for column, value in changes.items()}}


def read(folder: Path, name: str, rows: Iterable[object], **config: Any) -> ProblemSet:
    """Read rows from a file of JSON lines; a string is written as it is."""
    file = folder / "rows.jsonl"
    file.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), encoding="utf-8")
    return read_problems(BenchmarkConfig(name=name, path=str(file), **config))
