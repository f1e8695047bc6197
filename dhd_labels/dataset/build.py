"""Build a data set folder from run directories. The stores in, Parquet and a card out; no model is asked.

Each run has files of its own, whose bytes depend on that run alone: adding a run to a data set, or giving the runs in
another order, leaves the files of the others as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dhd_labels.dataset import rows
from dhd_labels.dataset.card import BenchmarkFacts, render
from dhd_labels.dataset.facts import benchmark_facts, card_facts
from dhd_labels.dataset.header import part_name
from dhd_labels.dataset.results import results_of
from dhd_labels.dataset.splits import split_of as split_of_text
from dhd_labels.dataset.terms import Terms
from dhd_labels.dataset.write import DatasetWriter, writing_dataset
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.records import Problem
from dhd_labels.replay.collect import ProblemResult, collect
from dhd_labels.replay.directory import RunDirectory, check_models
from dhd_labels.replay.probe import ProbeResult, read_probes
from dhd_labels.replay.servers import Served
from dhd_labels.report import tables
from dhd_labels.report.table import Table

_REASONS = 5
"""Problems that are named when there is nothing to build."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What `build` wrote: how many problems, the id of the first, and the tables of the card."""

    problems: int
    first: str
    tables: tuple[Table, ...]
    exclusions: Table


def run_name(directory: RunDirectory) -> str:
    """Return the name of a run in the data set: that of its config, and the start of the digest of what decides it."""
    return f"{directory.config.name}-{directory.digest[:8]}"


def build(directories: RunDirectory | Sequence[RunDirectory], out: Path, terms: Terms | None = None) -> BuildReport:
    """Write the data set of one or several runs. The results are read once, problem by problem, and not kept.

    Args:
        directories: the runs, in any order.
        out: the folder of the data set.
        terms: which texts and problems go into it; by default all that the licences allow.

    Raises:
        NothingMadeError: no problem of a run has a replayed pool yet, or all are left out.
        DhdError: texts are asked for that no licence lets go out, the same run twice, one pool in two runs, one id for
            two problems, runs that count a missing answer differently, a damaged store or one of another format, or a
            folder that cannot be written.
    """
    runs = _in_order([directories] if isinstance(directories, RunDirectory) else directories)
    split_of: dict[str, str] = {}
    built = _Built(runs, (terms or Terms()).checked())
    with writing_dataset(out, split_of=split_of) as writer:
        for name, directory in runs.items():
            writer.start_part(part_name(name))
            _add_run(name, directory, built, writer, split_of)
        writer.close()
        results = results_of(writer.folder, writer.counts, writer.files)
        writer.finish(render(card_facts(runs, built.benchmarks, built.tally, built.measured, writer, results)))
    return BuildReport(len(built.problems), next(iter(built.problems)), built.tally.tables(), built.tally.exclusions())


def _in_order(directories: Sequence[RunDirectory]) -> dict[str, RunDirectory]:
    """Return the runs by name, sorted."""
    found: dict[str, RunDirectory] = {}
    for directory in directories:
        name = run_name(directory)
        if name in found:
            raise DhdError(
                f"The runs of a data set must differ, but {found[name].path} and {directory.path} are both {name!r}: "
                "the same config, models and seed. Name each run once; to repeat a run, give it another seed."
            )
        found[name] = directory
    rules = {found[name].config.outcomes.no_answer: found[name].path for name in sorted(found)}
    if len(rules) > 1:
        raise DhdError(
            "The runs of a data set must have one rule for a missing answer ('outcomes.no_answer'), but "
            f"{' and '.join(f'{path} has {rule!r}' for rule, path in rules.items())}. It may change without a new run: "
            "set it alike in their run files."
        )
    return dict(sorted(found.items()))


def _add_run(
    name: str, directory: RunDirectory, built: _Built, writer: DatasetWriter, split_of: dict[str, str]
) -> None:
    """Write the rows of a run.

    Raises:
        NothingMadeError: it has no graded replay.
    """
    store = directory.open_store()
    try:
        check_models(directory, store)
        for problem in store.problems():
            built.identities.check_problem(problem, name)
            split_of[problem.problem_id] = split_of_text(problem.question)
        built.start(name, read_probes(store, directory.config), store.servers())
        for result in collect(store, directory.config, directory.models):
            built.add(name, result, writer)
        if not built.graded:
            raise _nothing_made(directory, built.reasons)
    finally:
        store.close()


class _Identities:
    """What must be told apart across runs: one id is one problem, one label belongs to one run. Keeps digests only."""

    def __init__(self, runs: Mapping[str, RunDirectory]) -> None:
        self._runs = runs
        self._several = len(runs) > 1
        self._problems: dict[str, tuple[bytes, str]] = {}
        self._labels: dict[bytes, str] = {}

    def check_problem(self, problem: Problem, run: str) -> None:
        """Refuse an id that stands for another problem in an earlier run.

        Raises:
            DhdError: it does; both runs are named.
        """
        if not self._several:
            return
        text = [problem.question, problem.reference, problem.answer_type, *problem.choices]
        digest = hashlib.sha256("\x1f".join(text).encode(errors="replace")).digest()
        known, first = self._problems.setdefault(problem.problem_id, (digest, run))
        if known != digest:
            raise DhdError(
                f"The id {problem.problem_id!r} must stand for one problem, but its text, reference or answer type "
                f"differs between the runs {self._path(first)} and {self._path(run)}. Build them into two data sets."
            )

    def check_pool(self, result: ProblemResult, run: str) -> None:
        """Refuse a pool that an earlier run replayed with the same integrator and message order.

        Raises:
            DhdError: it did; both runs and the pool are named.
        """
        if not self._several or result.pool is None:
            return
        for integrator, order in result.groups():
            key = "\x1f".join((result.pool.pool_id, integrator, order)).encode(errors="replace")
            first = self._labels.setdefault(hashlib.sha256(key).digest()[:16], run)
            if first != run:
                raise DhdError(
                    f"The pool {result.pool.pool_id} of problem {result.problem.problem_id!r} (integrator "
                    f"{integrator!r}, order {order!r}) must be of one run, but {self._path(first)} and "
                    f"{self._path(run)} both replayed it: their labels would count its problem twice. "
                    "Build them into two data sets."
                )

    def _path(self, run: str) -> str:
        return str(self._runs[run].path)


class _Built:
    """What the card and the tables need of the results that were written."""

    def __init__(self, runs: Mapping[str, RunDirectory], terms: Terms) -> None:
        self.terms = terms
        self._no_answer = next(iter(runs.values())).config.outcomes.no_answer
        self.tally = tables.ResultTally(self._no_answer)
        self.identities = _Identities(runs)
        self.benchmarks: set[BenchmarkFacts] = set()
        self.problems: dict[str, None] = {}
        self.measured: dict[str, tuple[Mapping[str, ProbeResult | None], Sequence[Served]]] = {}
        self.graded = False
        self.reasons: list[str] = []

    def start(self, run: str, probes: Mapping[str, ProbeResult | None], served: Sequence[Served]) -> None:
        """Begin with the results of a run."""
        self.measured[run] = probes, served
        self.graded, self.reasons = False, []

    def add(self, run: str, result: ProblemResult, writer: DatasetWriter) -> None:
        """Write the rows of a problem and take what is needed of it."""
        problem = result.problem
        if reason := self.terms.excludes(problem):
            self.tally.leave_out(f"{problem.benchmark}: {reason}")
            if len(self.reasons) < _REASONS:
                self.reasons.append(f"{problem.problem_id}: {reason}")
            return
        self.identities.check_pool(result, run)
        for config, found in rows.rows_of(run, result, self._no_answer, self.terms).items():
            for row in found:
                writer.add(config, row)
        self.tally.add(result)
        self.problems[problem.problem_id] = None
        self.benchmarks.add(benchmark_facts(problem, shows_text=self.terms.shows(problem)))
        self.graded = self.graded or any(o.status == "graded" for o in (*result.outcomes, *result.masked))
        if not self.graded and len(self.reasons) < _REASONS:
            self.reasons.append(f"{problem.problem_id}: {result.reason or 'nothing graded yet'}")


def _nothing_made(directory: RunDirectory, reasons: Sequence[str]) -> NothingMadeError:
    return NothingMadeError(
        f"The run {directory.path} has no graded replay to build from ({'; '.join(reasons) or 'no problem yet'}). "
        "Run it again; failed calls are retried, and problems that are left out by choice stay out."
    )


def read_results(directory: RunDirectory) -> Iterator[ProblemResult]:
    """Yield the result of every problem of a run, one at a time.

    Raises:
        ModelMismatchError: another model answered than the config declares.
    """
    store = directory.open_store()
    try:
        check_models(directory, store)
        yield from collect(store, directory.config, directory.models)
    finally:
        store.close()
