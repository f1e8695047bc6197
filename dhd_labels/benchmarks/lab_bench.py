"""LAB-Bench: 741 multiple-choice problems that need no tool (Laurent et al., arXiv 2407.10362).

Of its eight subsets the paper uses ProtocolQA (108), SeqQA (600) and CloningScenarios (33). Takes a folder of subsets
with the authors' `*-public.jsonl` or the Hub's Parquet files, or the rows merged into one file of JSON lines; rows of
other subsets are counted as `other_subset`.

Options are the ideal and the distractors, without the official "Insufficient information" option, in the paper's
order: shuffled by a seed from (subset, id, ideal). Where the text of the ideal is among the distractors as well, one
letter would be a coin flip: either is right (`choice_any`). Options that mean the same in other words are not found.

The canary of a row stays in its metadata and never enters a question.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from pathlib import Path

from dhd_labels.benchmarks.fields import make_problem, optional, text, texts
from dhd_labels.benchmarks.files import Rows, read_rows
from dhd_labels.benchmarks.problem_set import Row, UnusableRowError
from dhd_labels.benchmarks.reader import Reader
from dhd_labels.benchmarks.registry import LAB_BENCH, facts
from dhd_labels.records import AnswerType, Problem

SUBSETS = ("ProtocolQA", "SeqQA", "CloningScenarios")
FILES = ("*/*-public.jsonl", "*/*.parquet", "*/*.jsonl", "*.parquet", "*.jsonl")
SUBSET = "subset"
_MAX_OPTIONS = 26
_CANARY_MARK = "canary guid"


def problem(row: Row, where: str, noted: Counter[str]) -> Problem:
    """Make the problem of a row; raises UnusableRowError."""
    subset, key = _subset(row, where), " ".join(text(row, "id", where).split())
    ideal = _collapsed(text(row, "ideal", where, blank=True))
    if not ideal:
        raise UnusableRowError("no_reference", f"The ideal of {where} is blank")
    distractors = [_collapsed(item) for item in texts(row, "distractors", where)]
    if not 1 <= len(distractors) < _MAX_OPTIONS:
        raise UnusableRowError(
            "bad_value", f"The 'distractors' of {where} must be 1 to {_MAX_OPTIONS - 1} texts, got {len(distractors)}"
        )
    options = _shuffled(subset, key, ideal, distractors)
    letters = [chr(65 + i) for i, option in enumerate(options) if option == ideal]
    noted["ideal_among_distractors"] += len(letters) > 1
    kind: AnswerType = "choice_any" if len(letters) > 1 else "choice"
    canary = text(row, "canary", where)
    question = _question(row, subset, where)
    if any(canary in part or _CANARY_MARK in part.lower() for part in (question, *options)):
        raise UnusableRowError("canary_in_question", f"The question of {where} must not hold the canary string")
    metadata = {name: optional(row, name, where) for name in ("subtask", "version")}
    return make_problem(
        facts(LAB_BENCH),
        f"{subset}:{key}",
        question,
        kind,
        " OR ".join(letters),
        Counter(),  # "B OR D" is our own writing here, not a slip of the file
        choices=options,
        metadata={"type": "mcq_letter", SUBSET: subset, "ideal": ideal, "canary": canary, **metadata},
    )


def _subset(row: Row, where: str) -> str:
    """Return the subset of a row: GitHub's rows name it in `tag`; the Hub's rows get it from their folder."""
    name = text(row, "tag", where)
    for subset in SUBSETS:
        if name.lower() == subset.lower():
            return subset
    raise UnusableRowError("other_subset", f"The row {where} is of {name!r}, which the paper does not use")


def _shuffled(subset: str, key: str, ideal: str, distractors: list[str]) -> tuple[str, ...]:
    options = [ideal, *distractors]
    digest = hashlib.sha256(f"{subset}||{key}||{ideal}".encode()).hexdigest()
    random.Random(int(digest[:16], 16)).shuffle(options)
    return tuple(options)


def _question(row: Row, subset: str, where: str) -> str:
    question = text(row, "question", where)
    if subset != "ProtocolQA":
        return question
    return f"Protocol:\n{text(row, 'protocol', where)}\n\nQuestion:\n{question}"


def _collapsed(value: str) -> str:
    return " ".join(value.split())


def _rows(file: Path) -> Rows:
    """Yield the rows of a file; those of the Hub have no `tag` and get the name of their folder, the subset."""
    for where, row in read_rows(file):
        if file.parent.name in SUBSETS and not isinstance(row, UnusableRowError):
            yield where, {"tag": file.parent.name, **row}
        else:
            yield where, row


def _wanted(file: Path) -> bool:
    """Leave the other subsets of a whole clone alone."""
    return file.parent.name in SUBSETS or not (file.parent.parent / SUBSETS[0]).is_dir()


READER = Reader(problem, FILES, SUBSET, wanted=_wanted, rows=_rows)
