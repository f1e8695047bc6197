"""Build a data set folder from a run directory. The store in, Parquet and a card out; no model is asked."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dhd_labels.config import RunConfig
from dhd_labels.dataset import rows
from dhd_labels.dataset.card import BenchmarkFacts, CardFacts, ProtocolFacts, RoleFacts, RunFacts, render
from dhd_labels.dataset.schema import CONFIGS
from dhd_labels.dataset.write import DatasetWriter, RowDigest, writing_dataset
from dhd_labels.errors import NothingMadeError
from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.collect import ProblemResult, collect
from dhd_labels.replay.directory import RunDirectory, check_models
from dhd_labels.replay.plan import FULL_DRAWS, describe
from dhd_labels.replay.probe import ProbeResult, noise_sentence, read_probes
from dhd_labels.replay.servers import Served, sentences, spoken
from dhd_labels.report import tables
from dhd_labels.report.table import Table

_REASONS = 5
"""Problems that are named when there is nothing to build."""
_PACKAGES = ("dhd-labels", "datasets", "huggingface-hub", "pyarrow")
_LIMITS = (
    "A label belongs to (message, pool, order, integrator), not to a text: another integrator, order or pool may give "
    "another value.",
    "Intervals of single messages come from few matched blocks and cover badly; claims need problem-clustered tests "
    "over many problems.",
    "Removing a message also makes the pool smaller and the prompt shorter; the value includes both.",
)
_SMALL_MODEL = (
    "The quickstart is a small, real measurement of a 135-million-parameter model on a few easy problems. It shows the "
    "machinery; it says nothing about large models or hard problems."
)


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What `build` wrote: how many problems, the id of the first, and the tables of the card."""

    problems: int
    first: str
    tables: tuple[Table, ...]
    exclusions: Table


def build(directory: RunDirectory, out: Path) -> BuildReport:
    """Write the data set of a run. The results are read once, problem by problem, and not kept.

    Raises:
        NothingMadeError: no problem of the run has a replayed pool yet.
        DhdError: the store is damaged, or the folder cannot be written.
    """
    store = directory.open_store()
    try:
        check_models(directory, store)
        split_of = rows.splits(store.problems())
        probes, served = read_probes(store, directory.config), store.servers()
        built = _Built(directory.config)
        with writing_dataset(out, split_of=split_of) as writer:
            for result in collect(store, directory.config, directory.models):
                built.add(result, writer)
            if not built.graded:
                raise _nothing_made(directory, built.reasons)
            writer.finish(render(card_facts(directory, built, writer.counts, probes, served)))
    finally:
        store.close()
    return BuildReport(len(split_of), next(iter(split_of)), built.tally.tables(), built.tally.exclusions())


class _Built:
    """What the card and the tables need of the results that were written."""

    def __init__(self, config: RunConfig) -> None:
        self._no_answer = config.outcomes.no_answer
        self.tally = tables.ResultTally(self._no_answer)
        self.digests = {name: RowDigest() for name in CONFIGS}
        self.benchmarks: dict[str, BenchmarkFacts] = {}
        self.graded = False
        self.reasons: list[str] = []

    def add(self, result: ProblemResult, writer: DatasetWriter) -> None:
        """Write the rows of a problem and take what is needed of it."""
        for name, found in rows.rows_of(result, self._no_answer).items():
            for row in found:
                self.digests[name].add(row)
                writer.add(name, row)
        self.tally.add(result)
        problem = result.problem
        self.benchmarks[problem.benchmark] = BenchmarkFacts(
            problem.benchmark,
            problem.license,
            problem.train_allowed,
            problem.commercial_use,
            problem.redistribute_text,
        )
        self.graded = self.graded or any(o.status == "graded" for o in (*result.outcomes, *result.masked))
        if not self.graded and len(self.reasons) < _REASONS:
            self.reasons.append(f"{problem.problem_id}: {result.reason or 'nothing graded yet'}")


def _nothing_made(directory: RunDirectory, reasons: Sequence[str]) -> NothingMadeError:
    return NothingMadeError(
        f"The run {directory.path} has no graded replay to build from ({'; '.join(reasons) or 'no problem yet'}). "
        "Run it again; failed calls are retried."
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


def card_facts(
    directory: RunDirectory,
    built: _Built,
    counts: Mapping[str, Mapping[str, int]],
    probes: Mapping[str, ProbeResult | None],
    served: Sequence[Served] = (),
) -> CardFacts:
    """Return what the card of a run states."""
    config = directory.config
    benchmarks = list(built.benchmarks.values())
    small = any(b.benchmark == "quickstart" for b in benchmarks)
    run = RunFacts(
        run=config.name,
        roles=[_role(directory, name) for name in config.bound_roles],
        actor=config.actor,
        integrator=directory.integrator,
        protocol=_protocol(config),
        noise=noise_sentence(config, probes),
        seed=config.seed,
        servers=[(item.role, item.model, spoken(item.says), item.calls) for item in served],
    )
    return CardFacts(
        title=f"DHD labels: {config.name}",
        runs=(run,),
        benchmarks=benchmarks,
        license=_overall_license(benchmarks),
        tables=built.tally.tables(),
        exclusions=built.tally.exclusions(),
        limits=(*((_SMALL_MODEL,) if small else ()), *_LIMITS, *sentences(served)),
        rows=counts,
        digests={name: digest.hexdigest() for name, digest in built.digests.items()},
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )


def _role(directory: RunDirectory, name: str) -> RoleFacts:
    role, identity = directory.config.role(name), directory.identities[name]
    return RoleFacts(
        role=name,
        engine=f"{identity.kind} {identity.version}",
        model=identity.model,
        answered_as=identity.comes_back,
        revision=identity.revision,
        temperature=role.temperature,
        top_p=role.top_p,
        max_tokens=role.max_tokens,
    )


def _protocol(config: RunConfig) -> ProtocolFacts:
    return ProtocolFacts(POOL_SIZE, config.protocol.blocks, FULL_DRAWS, describe(config))


def _overall_license(benchmarks: Sequence[BenchmarkFacts]) -> str:
    licenses = {b.license for b in benchmarks}
    return licenses.pop() if len(licenses) == 1 and "unknown" not in licenses else "other"
