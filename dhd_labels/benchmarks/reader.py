"""What the reader of an upstream benchmark consists of, and how it is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dhd_labels.benchmarks.files import Rows, read_rows
from dhd_labels.benchmarks.problem_set import ProblemSet, Row, collect
from dhd_labels.benchmarks.registry import RegistryFacts
from dhd_labels.records import Problem


def _published_rows(entry: RegistryFacts, found: ProblemSet) -> int | None:
    return entry.rows


@dataclass(frozen=True, slots=True)
class Reader:
    """How the upstream files of a benchmark become problems.

    Attributes:
        make: turns (row, where, noted) into a problem; see `problem_set.collect`.
        files: patterns of the files in a folder; the first one with a hit decides.
        subset_key: metadata key that `benchmark.subset` selects by.
        wanted: leaves files of a folder alone that are not of the benchmark.
        rows: reads one file.
        expected: rows that the published file has, given what was read of it.
    """

    make: Callable[[Row, str, Counter[str]], Problem]
    files: tuple[str, ...]
    subset_key: str
    wanted: Callable[[Path], bool] = lambda file: True
    rows: Callable[[Path], Rows] = read_rows
    expected: Callable[[RegistryFacts, ProblemSet], int | None] = _published_rows

    def read(self, files: Sequence[Path], entry: RegistryFacts, subset: str | None) -> ProblemSet:
        """Read the files in order.

        Raises:
            DhdError: a file cannot be read or is of another schema, or no row is of the subset.
        """
        rows = (found for file in files for found in self.rows(file))
        chosen = None if subset is None else (self.subset_key, subset)
        result = collect(rows, self.make, subset=chosen)
        return replace(result, expected=self.expected(entry, result))
