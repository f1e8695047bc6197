"""Grading: answers a second by kind, against comparing the strings, and how long hostile answers hold it up."""

from __future__ import annotations

import time

from rich.console import Console

from dhd_labels.grading.rules import grade
from dhd_labels.records import Problem
from dhd_labels.report.table import Table

_PER_KIND = 600
_SUMS = "".join(f"\\sum_{{{index}=1}}^{{n}}" for index in "abcd")
HOSTILE = {
    "power tower": ("1", "\\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}"),
    "100 kB": ("1", "1+" * 50_000 + "1"),
    "nested fractions": ("1", "\\frac{1}{" * 2_000 + "2" + "}" * 2_000),
    "sums of sums": (f"{_SUMS} \\ln(a+\\sqrt{{b+c+d}})", f"{_SUMS} \\ln(\\sqrt{{d+c+b}}+a)"),
}


def _problem(kind: str, reference: str) -> Problem:
    return Problem("bench", "bench", "", reference, kind, (), "", True, True)  # type: ignore[arg-type]


def _answers() -> dict[str, list[tuple[Problem, str]]]:
    """Return different answers of every kind, right and wrong, so that no cache helps."""
    numbers = range(1, _PER_KIND + 1)
    return {
        "letters": [(_problem("choices", "ACD"), f"({'ABCD'[n % 4]}), D and {'ABC'[n % 3]}") for n in numbers],
        "integers": [(_problem("integer", "3780"), f"N = {n + 3400:,}") for n in numbers],
        "decimals": [(_problem("number", "0.25"), f"$x = {n / 1000}$") for n in numbers],
        "quantities": [(_problem("quantity", "0.25 kJ/mol"), f"{n}\\ \\mathrm{{J\\,mol^{{-1}}}}") for n in numbers],
        "ranges": [(_problem("range", "0.1 to 0.3"), f"{n / 1000}") for n in numbers],
        "symbolic constants": [
            (_problem("expression", "\\frac{1}{2}+\\frac{\\sqrt{93}}{6}"), f"\\frac{{{n % 6}+\\sqrt{{{n}}}}}{{6}}")
            for n in numbers
        ],
        "symbolic functions": [
            (_problem("expression", f"(x+{n})^2"), f"x^2+{2 * n}x+{n * n - n % 2}") for n in range(1, _PER_KIND // 2)
        ],
        "sums": [
            (_problem("expression", "\\sum_{k=1}^{n} k"), f"\\frac{{n(n+{n % 3})}}{{2}}+{n}-{n}") for n in range(1, 61)
        ],
    }


def speed() -> Table:
    """Answers a second in one thread; the symbolic kinds use a worker process beside it."""
    grade(_problem("expression", "\\pi"), "\\pi+0")  # starts the worker
    grade(_problem("quantity", "1 km"), "1 m")  # loads the units
    rows = []
    for name, pairs in _answers().items():
        start = time.perf_counter()
        verdicts = [grade(problem, answer) for problem, answer in pairs]
        took = time.perf_counter() - start
        start = time.perf_counter()
        _ = [problem.reference == answer for problem, answer in pairs]
        bare = time.perf_counter() - start
        graded = sum(verdict.status == "graded" for verdict in verdicts)
        rows.append((name, str(len(pairs)), str(graded), f"{len(pairs) / took:,.0f}", f"{took / bare:,.0f}"))
    return Table(
        "Grading", ("answers", "given", "graded", "answers/s", "time, ratio to comparing strings"), tuple(rows)
    )


def hostile() -> Table:
    """How long an answer that would run away holds up grading, and whether the next one is graded."""
    rows = []
    for name, (reference, answer) in HOSTILE.items():
        start = time.perf_counter()
        status = grade(_problem("expression", reference), answer).status
        took = time.perf_counter() - start
        after = grade(_problem("expression", "\\sqrt{12}"), "2\\sqrt{3}").correct
        rows.append((name, status, f"{took:.3f}", str(after)))
    return Table("Hostile answers", ("answer", "status", "seconds", "next answer graded"), tuple(rows))


def main() -> None:
    """Print both tables."""
    console = Console(width=120)
    for table in (speed(), hostile()):
        console.print(table.to_rich())


if __name__ == "__main__":
    main()
