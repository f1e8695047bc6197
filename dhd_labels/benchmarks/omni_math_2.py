r"""Omni-MATH-2, filtered: the 4,181 of its 4,428 problems that carry no tag (Ballon et al., arXiv 2601.19532).

Takes the Hub's JSON lines (`problem, answer, tags, id`), the rows that the paper's authors ship already filtered
(`question, answer_number`; their ids are digests of the question), or rows of the original Omni-MATH, which has
neither ids nor tags: those are read unfiltered and counted as `untagged`.

Upstream declares no answer type. A gold that is one integer is an `integer`; words without mathematics are a `text`;
anything else is an `expression`, taken as it stands. A gold that is visibly cut off (an open brace, "OR" at the end)
is a `gold_error`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter

from dhd_labels.benchmarks.fields import make_problem, optional, present, text, texts
from dhd_labels.benchmarks.gold import read_number
from dhd_labels.benchmarks.problem_set import ProblemSet, Row, UnusableRowError
from dhd_labels.benchmarks.reader import Reader
from dhd_labels.benchmarks.registry import OMNI_MATH_2, RegistryFacts, facts
from dhd_labels.records import AnswerType, Problem

FILES = ("Omni-Math-2.jsonl", "all.jsonl", "*.jsonl")
SUBSET = "source"
_WRAPPERS = (
    re.compile(r"\$\$(.*)\$\$", re.DOTALL),
    re.compile(r"\$([^$]*)\$", re.DOTALL),
    re.compile(r"\\\[(.*)\\\]", re.DOTALL),
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\boxed\s*\{(.*)\}", re.DOTALL),
)
_DOUBLED = re.compile(r"\\\\(?=(?:circ|d?frac|sqrt|pi|times|cdot|infty|leq?|geq?|pm|text|binom)(?![A-Za-z]))")
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mbox)\s*\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-z]{2,}")
_MATHEMATICS = re.compile(r"[\d\\^_=<>+*/|()\[\]{}]")
_FIGURE = re.compile(r"\[asy\]|\b(?:figure|diagram)s?\b", re.IGNORECASE)


def problem(row: Row, where: str, noted: Counter[str]) -> Problem:
    """Make the problem of a row; raises UnusableRowError."""
    shipped = "question" in row and "problem" not in row
    question = text(row, "question" if shipped else "problem", where)
    upstream = text(row, "answer_number" if shipped else "answer", where, blank=True)
    tags = _tags(row, where, shipped, noted)
    if tags:
        raise UnusableRowError("tagged", f"The row {where} is tagged {', '.join(tags)}")
    gold = _repaired(upstream, noted)
    noted["mentions_figure"] += _FIGURE.search(question) is not None
    value = unwrapped(gold)
    if not value:
        raise UnusableRowError("no_reference", f"The answer of {where} is blank")
    kind = answer_type(value)
    if kind != "integer":
        _check_whole(value, where)
    key = text(row, "id", where) if "id" in row else hashlib.sha256(question.encode()).hexdigest()[:12]
    domain = row.get("domain")
    return make_problem(
        facts(OMNI_MATH_2),
        key,
        question,
        kind,
        value if kind == "integer" else gold,
        noted,
        metadata={
            "answer": upstream,
            SUBSET: optional(row, "source", where),
            "domain": "; ".join(map(str, domain)) if isinstance(domain, list) else "",
            "difficulty": optional(row, "difficulty", where),
        },
    )


def unwrapped(gold: str) -> str:
    r"""Return a gold without the dollars, `\[ \]` and boxes around the whole of it."""
    value = gold.strip()
    for _ in range(4):
        for wrapper in _WRAPPERS:
            found = wrapper.fullmatch(value)
            if found and found[1].count("{") == found[1].count("}"):
                value = found[1].strip()
    return value


def answer_type(value: str) -> AnswerType:
    """Return the answer type of an unwrapped gold."""
    try:
        if "." not in read_number(value, Counter()):
            return "integer"
    except ValueError:
        pass
    bare = _TEXT_COMMAND.sub(r"\1", value)
    return "text" if _WORD.search(bare) and not _MATHEMATICS.search(bare) else "expression"


def _tags(row: Row, where: str, shipped: bool, noted: Counter[str]) -> list[str]:
    if shipped:
        return []
    if "tags" not in row and "id" not in row:
        noted["untagged"] += 1
        return []
    tags = present(row, "tags", where)
    # Parquet readers and hand-made files write an empty list in other ways as well.
    return [] if tags in (None, "", "[]") else texts(row, "tags", where)


def _repaired(gold: str, noted: Counter[str]) -> str:
    # In an environment a doubled backslash is a line break.
    fixed = gold if "\\begin" in gold else _DOUBLED.sub(r"\\", gold)
    noted["doubled_backslash"] += fixed != gold
    return fixed


def _check_whole(value: str, where: str) -> None:
    bare = value.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
    if bare.count("{") != bare.count("}") or re.search(r"(?:\bOR|\bor|\band|[=(\\])$", bare):
        raise UnusableRowError("gold_error", f"The answer of {where} is cut off: {value[:80]!r}")


def _expected(entry: RegistryFacts, found: ProblemSet) -> int | None:
    """Return the rows of the whole file, or of the filtered one where not one row is tagged."""
    whole = "tagged" in found.excluded or "untagged" in found.noted
    return entry.rows if whole else entry.rows_usable


READER = Reader(problem, FILES, SUBSET, expected=_expected)
