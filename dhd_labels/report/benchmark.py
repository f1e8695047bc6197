"""What `problems` prints of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dhd_labels.benchmarks import ProblemSet, RegistryFacts
from dhd_labels.report.table import Table


def describe(entry: RegistryFacts, found: ProblemSet) -> dict[str, Any]:
    """Return the facts of a benchmark that was read, as plain data.

    `expected` is the number of rows of the published file, to be compared with `rows`; a permission is null where it is
    unsettled and true only if it holds for every usable problem.
    """
    problems = found.problems
    return {
        "benchmark": entry.name,
        "rows": found.rows,
        "expected": found.expected,
        "usable": len(problems),
        "by_answer_type": found.by_answer_type,
        "excluded": dict(found.excluded),
        "first_excluded": dict(found.examples),
        "noted": dict(found.noted),
        "duplicates": found.duplicates,
        "license": sorted({p.license for p in problems}),
        "train_allowed": all(p.train_allowed for p in problems),
        "commercial_use": _all(p.commercial_use for p in problems),
        "redistribute_text": all(p.redistribute_text for p in problems),
        "canary": entry.canary,
        "attribution": entry.attribution,
        "source": str(entry.upstream) if entry.upstream else None,
    }


def to_table(entry: RegistryFacts, found: ProblemSet) -> Table:
    """Return the same as a table for people."""
    facts = describe(entry, found)
    rows = [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in facts.items()]
    if found.expected not in (None, found.rows):
        rows.append(("warning", f"{found.rows} rows read, the published file has {found.expected}"))
    return Table(f"Benchmark {entry.name}", ("fact", "value"), tuple(rows))


def _all(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    return False if False in known else None if None in known else True
