"""What the card of a data set states: from runs, their results and the files that were written."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection, Mapping, Sequence

from dhd_labels.config import RunConfig
from dhd_labels.dataset.card import BenchmarkFacts, CardFacts, ProtocolFacts, RoleFacts, RunFacts
from dhd_labels.dataset.results import Results
from dhd_labels.dataset.terms import licence_columns
from dhd_labels.dataset.write import DatasetWriter
from dhd_labels.records import POOL_SIZE, Problem
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.plan import FULL_DRAWS, describe
from dhd_labels.replay.probe import ProbeResult, noise_sentence
from dhd_labels.replay.servers import Served, sentences, spoken
from dhd_labels.report.tables import ACCURACY, ResultTally

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


def benchmark_facts(problem: Problem, *, shows_text: bool) -> BenchmarkFacts:
    """Return what the licence of a problem allows and asks for, and whether the problem's text is in the data set."""
    terms = licence_columns(problem)
    return BenchmarkFacts(
        problem.benchmark,
        problem.license,
        problem.train_allowed,
        problem.commercial_use,
        shows_text,
        terms["attribution"],
        terms["canary"] is not None,
    )


def card_facts(
    runs: Mapping[str, RunDirectory],
    benchmarks: Collection[BenchmarkFacts],
    tally: ResultTally,
    measured: Mapping[str, tuple[Mapping[str, ProbeResult | None], Sequence[Served]]],
    writer: DatasetWriter,
    results: Results,
) -> CardFacts:
    """Return what the card of a data set states, once its files are closed.

    Args:
        runs: by their name in the data set.
        benchmarks: what the licences of all problems allow, each kind once.
        tally: the counts of all results.
        measured: run to its noise probes by role, and to its servers.
        writer: of the files.
        results: tables and figures that were computed from the files.
    """
    small = any(b.benchmark == "quickstart" for b in benchmarks)
    said = dict.fromkeys(line for _, served in measured.values() for line in sentences(served))
    counted = tally.tables()
    return CardFacts(
        title=f"DHD labels: {', '.join(dict.fromkeys(d.config.name for d in runs.values()))}",
        runs=tuple(_run(name, directory, *measured[name]) for name, directory in runs.items()),
        benchmarks=sorted(benchmarks, key=repr),
        tables=[table for table in counted if table.title == ACCURACY] if results.tables else counted,
        results=results,
        exclusions=tally.exclusions(),
        limits=(*((_SMALL_MODEL,) if small else ()), *_LIMITS, *said),
        rows=writer.counts,
        digests=writer.digests,
        files=writer.files,
        sha256=writer.sha256,
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )


def _run(
    name: str, directory: RunDirectory, probes: Mapping[str, ProbeResult | None], served: Sequence[Served]
) -> RunFacts:
    config = directory.config
    return RunFacts(
        run=name,
        roles=[_role(directory, role) for role in config.bound_roles],
        actor=config.actor,
        integrator=directory.integrator,
        protocol=_protocol(config),
        noise=noise_sentence(config, probes),
        seed=config.seed,
        servers=[(item.role, item.model, spoken(item.says), item.calls) for item in served],
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
