"""Build a data set folder from a run directory. The store in, Parquet and a card out; no model is asked."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path

from dhd_labels.config import RunConfig
from dhd_labels.dataset import rows
from dhd_labels.dataset.card import BenchmarkFacts, CardFacts, ProtocolFacts, RoleFacts, render
from dhd_labels.dataset.write import count_rows, row_digest, write_dataset
from dhd_labels.errors import NothingMadeError
from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.collect import ProblemResult, collect
from dhd_labels.replay.directory import RunDirectory, check_models
from dhd_labels.replay.plan import FULL_DRAWS, describe
from dhd_labels.replay.probe import ProbeResult, noise_sentence, read_probes
from dhd_labels.replay.servers import Served, sentences, spoken
from dhd_labels.report import tables

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


def build(directory: RunDirectory, out: Path) -> list[ProblemResult]:
    """Write the data set of a run and return the results behind it.

    Raises:
        NothingMadeError: no problem of the run has a replayed pool yet.
        DhdError: the store is damaged, or the folder cannot be written.
    """
    results, probes, served = _read(directory)
    if not any(outcome.status == "graded" for result in results for outcome in (*result.outcomes, *result.masked)):
        reasons = "; ".join(f"{r.problem.problem_id}: {r.reason or 'nothing graded yet'}" for r in results[:5])
        raise NothingMadeError(
            f"The run {directory.path} has no graded replay to build from ({reasons or 'no problem yet'}). "
            "Run it again; failed calls are retried."
        )
    config, split_of = directory.config, rows.splits(results)
    contents = {
        "messages": list(rows.message_rows(results, config.outcomes.no_answer)),
        "replays": list(rows.replay_rows(results)),
        "problems": list(rows.problem_rows(results)),
        "masking": list(rows.masking_rows(results)),
    }
    digests = {config: row_digest(found) for config, found in contents.items()}
    facts = card_facts(directory, results, count_rows(contents, split_of), digests, probes, served)
    write_dataset(contents, out, split_of=split_of, card=render(facts))
    return results


def read_results(directory: RunDirectory) -> list[ProblemResult]:
    """Return the results of every problem of a run.

    Raises:
        ModelMismatchError: another model answered than the config declares.
    """
    return _read(directory)[0]


def _read(directory: RunDirectory) -> tuple[list[ProblemResult], dict[str, ProbeResult | None], list[Served]]:
    store = directory.open_store()
    try:
        check_models(directory, store)
        results = list(collect(store, directory.config, directory.models))
        return results, read_probes(store, directory.config), store.servers()
    finally:
        store.close()


def card_facts(
    directory: RunDirectory,
    results: Sequence[ProblemResult],
    counts: dict[str, dict[str, int]],
    digests: dict[str, str],
    probes: Mapping[str, ProbeResult | None],
    served: Sequence[Served] = (),
) -> CardFacts:
    """Return what the card of a run states."""
    config = directory.config
    benchmarks = _benchmarks(results)
    small = any(b.benchmark == "quickstart" for b in benchmarks)
    return CardFacts(
        title=f"DHD labels: {config.name}",
        roles=[_role(directory, name) for name in config.bound_roles],
        actor=config.actor,
        integrator=directory.integrator,
        protocol=_protocol(config),
        noise=noise_sentence(config, probes),
        seed=config.seed,
        benchmarks=benchmarks,
        license=_overall_license(benchmarks),
        tables=tables.result_tables(results, config.outcomes.no_answer),
        exclusions=tables.exclusion_table(results),
        limits=(*((_SMALL_MODEL,) if small else ()), *_LIMITS, *sentences(served)),
        rows=counts,
        digests=digests,
        servers=[(item.role, item.model, spoken(item.says), item.calls) for item in served],
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


def _benchmarks(results: Sequence[ProblemResult]) -> list[BenchmarkFacts]:
    found: dict[str, BenchmarkFacts] = {}
    for result in results:
        p = result.problem
        found[p.benchmark] = BenchmarkFacts(
            p.benchmark, p.license, p.train_allowed, p.commercial_use, p.redistribute_text
        )
    return list(found.values())


def _overall_license(benchmarks: Sequence[BenchmarkFacts]) -> str:
    licenses = {b.license for b in benchmarks}
    return licenses.pop() if len(licenses) == 1 and "unknown" not in licenses else "other"
