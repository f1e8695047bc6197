"""What reading a benchmark gives: usable problems, and a count of everything else.

A row that cannot be used is counted by reason and the reading goes on. A file whose rows all lack a column is of
another version or schema, and that is an error.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dhd_labels.errors import DhdError, NothingMadeError, did_you_mean
from dhd_labels.records import Problem

Row = Mapping[str, Any]


class UnusableRowError(Exception):
    """A row that cannot become a problem: `reason` is what it is counted under, `column` one that it lacks."""

    def __init__(self, reason: str, text: str, column: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.column = column


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Usable problems in benchmark order.

    Attributes:
        problems: usable problems, ids unique.
        rows: rows read; usable plus excluded.
        excluded: reason -> rows left out.
        noted: slips of the upstream file that were read around, name -> rows. These rows are usable.
        examples: reason -> what was wrong with the first row left out for it.
        expected: rows that the published file has; None where nobody knows.
    """

    problems: tuple[Problem, ...]
    rows: int
    excluded: Mapping[str, int]
    noted: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    expected: int | None = None

    @property
    def by_answer_type(self) -> dict[str, int]:
        """Usable problems by answer type."""
        return dict(sorted(Counter(p.answer_type for p in self.problems).items()))

    @property
    def duplicates(self) -> int:
        """Rows left out because they repeat another one, or its id."""
        return self.excluded.get("duplicate", 0) + self.excluded.get("duplicate_id", 0)

    def cut(self, size: int | None) -> ProblemSet:
        """Keep at most `size` problems."""
        return replace(self, problems=self.problems[:size])

    def require_usable(self, name: str) -> ProblemSet:
        """Return the set itself.

        Raises:
            NothingMadeError: no problem is usable; the error says why.
        """
        if self.problems:
            return self
        reasons = [f"{reason}: {count} ({self.examples[reason]})" for reason, count in self.excluded.items()]
        raise NothingMadeError(
            f"The benchmark {name!r} has no usable problem: {'; '.join(reasons) or 'it has no rows'}"
        )


def collect(
    rows: Iterable[tuple[str, Row | UnusableRowError]],
    make: Callable[[Row, str, Counter[str]], Problem],
    *,
    subset: tuple[str, str] | None = None,
    rename_collisions: bool = True,
) -> ProblemSet:
    """Make problems of rows, count what cannot be used and give every problem an id of its own.

    Args:
        rows: (where, row) in file order; a row that could not even be read comes as the error.
        make: turns (row, where, noted) into a problem and counts what it read around in `noted`; raises
            UnusableRowError.
        subset: (metadata key, value) to keep.
        rename_collisions: whether different problems under one id are kept, each with a digest of its text in its id.
            Else the first one is kept and the others are counted as `duplicate_id`.

    Raises:
        DhdError: every row lacks a column, or no row is in the subset.
    """
    problems: list[Problem] = []
    tally = _Tally()
    for where, row in rows:
        tally.rows += 1
        try:
            if isinstance(row, UnusableRowError):
                raise row
            noted = Counter[str]()
            problem = make(row, where, noted)
        except UnusableRowError as error:
            tally.exclude(error.reason, str(error))
            tally.lacking[error.column] += 1
            continue
        tally.noted += noted
        problems.append(problem)
    tally.check_columns()
    if subset is not None:
        problems = _in_subset(problems, *subset, tally)
    problems = (_renamed if rename_collisions else _first_of_each_id)(problems, tally)
    seen = Counter((" ".join(p.question.split()), p.choices) for p in problems)
    tally.noted["repeated_question"] += sum(count - 1 for count in seen.values())
    return ProblemSet(
        tuple(problems),
        tally.rows,
        dict(sorted(tally.excluded.items())),
        {name: count for name, count in sorted(tally.noted.items()) if count},
        dict(sorted(tally.examples.items())),
    )


class _Tally:
    """Counts of one reading."""

    def __init__(self) -> None:
        self.rows = 0
        self.excluded: Counter[str] = Counter()
        self.noted: Counter[str] = Counter()
        self.lacking: Counter[str | None] = Counter()
        self.examples: dict[str, str] = {}

    def exclude(self, reason: str, text: str) -> None:
        self.excluded[reason] += 1
        self.examples.setdefault(reason, text)

    def check_columns(self) -> None:
        for column, count in self.lacking.items():
            if column is not None and count == self.rows:
                raise DhdError(
                    f"The column {column!r} is missing from every row ({self.examples['missing_column']}). "
                    "The file must be the upstream file, unchanged and of the pinned revision; is this another one?"
                )


def _in_subset(problems: list[Problem], key: str, value: str, tally: _Tally) -> list[Problem]:
    known = {p.metadata.get(key, "") for p in problems}
    if problems and value not in known:
        raise DhdError(f"The 'benchmark.subset' {value!r} is unknown. {did_you_mean(value, known - {''})}")
    kept = [p for p in problems if p.metadata.get(key) == value]
    for problem in problems:
        if problem.metadata.get(key) != value:
            tally.exclude("other_subset", f"{problem.problem_id} is not of {value!r}")
    return kept


def _first_of_each_id(problems: list[Problem], tally: _Tally) -> list[Problem]:
    kept: dict[str, Problem] = {}
    for problem in problems:
        if problem.problem_id in kept:
            tally.exclude("duplicate_id", f"the id {problem.problem_id!r} was used before")
        else:
            kept[problem.problem_id] = problem
    return list(kept.values())


def _renamed(problems: list[Problem], tally: _Tally) -> list[Problem]:
    """Drop rows that repeat an earlier one; give a digest to every id that stands for different problems.

    All problems of a collision are renamed, by their own text: the ids do not depend on the order of the rows.
    """
    kept: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        key = (problem.problem_id, _digest(problem))
        if key in kept:
            tally.exclude("duplicate", f"{problem.problem_id!r} was there before, word for word")
        else:
            kept[key] = problem
    shared = Counter(problem_id for problem_id, _ in kept)
    collisions = sum(count for count in shared.values() if count > 1)
    tally.noted["colliding_id"] += collisions
    if not collisions:
        return list(kept.values())
    return [replace(p, problem_id=f"{i}#{digest}") if shared[i] > 1 else p for (i, digest), p in kept.items()]


def _digest(problem: Problem) -> str:
    text = "\x1f".join((" ".join(problem.question.split()), problem.reference, *problem.choices))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
