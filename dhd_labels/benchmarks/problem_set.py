"""What reading a benchmark gives: usable problems, and a count of everything else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dhd_labels.grading.rules import grade
from dhd_labels.records import Problem


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """Usable problems in benchmark order. `rows` counts what was read, `excluded` says what was left out and why."""

    problems: tuple[Problem, ...]
    rows: int
    excluded: Mapping[str, int]

    @property
    def by_answer_type(self) -> dict[str, int]:
        """Usable problems by answer type."""
        return dict(sorted(Counter(p.answer_type for p in self.problems).items()))

    def cut(self, size: int | None) -> ProblemSet:
        """Keep at most `size` problems."""
        return replace(self, problems=self.problems[:size])


def problem_set(problems: Iterable[Problem], rows: int, excluded: Mapping[str, int]) -> ProblemSet:
    """Check references by the grading rule and drop repeated ids, before any call is paid for."""
    reasons = Counter(excluded)
    usable: dict[str, Problem] = {}
    for problem in problems:
        if problem.problem_id in usable:
            reasons["duplicate_id"] += 1
        elif not problem.reference.strip():
            reasons["no_reference"] += 1
        elif not _gradable(problem):
            reasons["unreadable_reference"] += 1
        else:
            usable[problem.problem_id] = problem
    return ProblemSet(tuple(usable.values()), rows or len(usable), dict(sorted(reasons.items())))


def _gradable(problem: Problem) -> bool:
    try:
        return grade(problem, problem.reference).correct is True
    except ValueError:
        return False
