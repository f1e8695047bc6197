"""From a release of the paper's authors to a data set of ours, with the same columns, splits, checks and card."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhd_labels.benchmarks.registry import NAMES, facts, resolve_name
from dhd_labels.dataset import rows
from dhd_labels.dataset.card import BenchmarkFacts, CardFacts, ProtocolFacts, RunFacts, render
from dhd_labels.dataset.facts import benchmark_facts
from dhd_labels.dataset.header import part_name, read_header
from dhd_labels.dataset.paper.files import Campaign, Line, campaigns, lines
from dhd_labels.dataset.paper.rows import Counts, Source, problem_ids, to_result
from dhd_labels.dataset.results import results_of
from dhd_labels.dataset.splits import split_of
from dhd_labels.dataset.write import DatasetWriter, writing_dataset
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.report.table import Table
from dhd_labels.report.tables import ACCURACY, ResultTally

CONVERSION = 2
"""Raise it when a release gives other rows than before, so that no cached data set of an older conversion is taken."""
LICENSE = "other"
NO_TEXT = "not in the release"
_UNKNOWN = ("seed", "attempts", "finish_reason")
"""Columns of outcomes that the release does not tell."""
_PACKAGES = ("dhd-labels", "datasets", "pyarrow")
_STUDIES = (
    "Read from a release of the paper's authors: nothing was asked or graded here, verdicts are its own.",
    "Nested prefixes, single messages and removals from every prefix, one draw each, at temperature 0. There are no "
    "matched blocks in this layout, so there is no trajectory value: the effects are differences of single draws.",
)
_LIMITS = (
    "Single draws: a large part of such effects is noise of the server. Claims need many problems.",
    "The release is non-commercial as a whole, under its authors' terms; `commercial_use` is false in every row.",
    "It has no problem texts, so splits go by the problem's id and near-duplicates may be in two splits.",
)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What was read: problems, messages, and what was left out or doubtful by reason."""

    problems: int
    messages: int
    left_out: dict[str, int]

    def table(self) -> Table:
        """Return what was left out as a table."""
        found = tuple((reason, str(count)) for reason, count in sorted(self.left_out.items()))
        return Table("Left out or doubtful, by reason", ("reason", "count"), found or (("nothing", "0"),))


def import_release(folder: Path, out: Path) -> ImportReport:
    """Write the data set of a release.

    Args:
        folder: holds `raw/<benchmark>/dhd/<model>/{layer_a,loo}/part-*.jsonl.zst` (or `.jsonl`).
        out: the folder of the data set.

    Raises:
        NothingMadeError: no problem has an outcome.
        DhdError: a file or a value cannot be read (named with its line), or the folder cannot be written.
    """
    found = sorted(campaigns(folder), key=lambda c: (c.model, c.benchmark))
    splits: dict[str, str] = {}
    built = _Built()
    with writing_dataset(out, split_of=splits) as writer:
        for model in dict.fromkeys(campaign.model for campaign in found):
            writer.start_part(part_name(f"paper-{model}"))
            for campaign in (c for c in found if c.model == model):
                built.add(campaign, writer, splits)
        if not built.replays:
            raise NothingMadeError(f"The release in {folder} has no problem with a verdict, so there is no data set.")
        writer.close()
        results = results_of(writer.folder, writer.counts, writer.files)
        writer.finish(render(_facts(built, writer, results)))
    return ImportReport(len(splits), built.messages, dict(built.counts.by_reason))


def cached_import(folder: Path, cache: Path) -> Path:
    """Return the data set of a release, made once and kept in a folder of the cache that its content names."""
    digest = hashlib.sha256()
    for campaign in campaigns(folder):
        for path in (*campaign.layer_a, *campaign.loo):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.relative_to(folder)} {content}\n".encode())
    version = importlib.metadata.version("dhd-labels")
    target = cache / f"{digest.hexdigest()[:24]}-{version}-{CONVERSION}"
    if read_header(target) is None:
        target.parent.mkdir(parents=True, exist_ok=True)
        import_release(folder, target)
    return target


class _Built:
    """What the card needs of the rows that were written."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.tally = ResultTally("missing")
        self.benchmarks: set[BenchmarkFacts] = set()
        self.models: dict[str, None] = {}
        self.messages = self.replays = 0

    def add(self, campaign: Campaign, writer: DatasetWriter, splits: dict[str, str]) -> None:
        """Write the rows of a campaign."""
        source = _source(campaign)
        self.models[source.model] = None
        for result in _results(campaign, source, self.counts):
            splits[result.problem.problem_id] = split_of(result.problem.problem_id)
            for config, found in rows.rows_of(f"paper-{source.model}", result, "missing").items():
                for row in found:
                    writer.add(config, _without_unknown(config, row))
                    self.messages += config == "messages"
            self.replays += sum(outcome.status == "graded" for outcome in result.outcomes)
            self.tally.add(result)
            self.benchmarks.add(benchmark_facts(result.problem, shows_text=False))


def _source(campaign: Campaign) -> Source:
    """Return the terms of a campaign's problems; a benchmark that nobody knows may not be trained on unasked."""
    try:
        name = resolve_name(campaign.benchmark)
    except DhdError:
        name = campaign.benchmark
    return Source(name, campaign.model, LICENSE, facts(name).train_allowed if name in NAMES else False, False)


def _results(campaign: Campaign, source: Source, counts: Counts) -> Iterator[ProblemResult]:
    """Yield the problems of a campaign in the order of `layer_a`, joined with `loo` by their id."""
    removals = _Removals(line for path in campaign.loo for line in lines(path))
    seen: dict[str, str] = {}
    for path in campaign.layer_a:
        for line in lines(path):
            key = problem_ids(line)[0]
            if key in seen:
                raise DhdError(f"{line.where}: the problem {key!r} must be there once, but it is in {seen[key]} too.")
            seen[key] = line.where
            yield to_result(line, removals.pop(line), source, counts)
    if left := removals.left(campaign):
        counts.add("row of loo without a row of layer_a", left)


class _Removals:
    """The rows of `loo` by each of their ids; the two files need not name a problem by the same one."""

    def __init__(self, found: Iterator[Line]) -> None:
        self._keys: dict[str, str] = {}
        self._rows: dict[str, Line] = {}
        for line in found:
            key, *others = problem_ids(line)
            if key in self._rows:
                raise DhdError(
                    f"{line.where}: the problem {key!r} must be there once, but it is in {self._rows[key].where} too."
                )
            self._rows[key] = line
            self._keys |= dict.fromkeys(others, key)
        self._total = len(self._rows)

    def pop(self, layer: Line) -> Line | None:
        """Return the row of a problem of `layer_a` and forget it; None where there is none."""
        for name in problem_ids(layer):
            for key in (name, self._keys.get(name, name)):
                if key in self._rows:
                    return self._rows.pop(key)
        return None

    def left(self, campaign: Campaign) -> int:
        """Return how many rows no problem took.

        Raises:
            DhdError: none was taken, so the two files name their problems differently.
        """
        if self._rows and len(self._rows) == self._total:
            key = next(iter(self._rows))
            raise DhdError(
                f"The rows of `loo` and `layer_a` of {campaign.benchmark}/{campaign.model} must share ids, but no row "
                f"of `layer_a` has {key!r} ({self._rows[key].where}) or another id of `loo`. Give them the same "
                "'source_problem_id'."
            )
        return len(self._rows)


def _without_unknown(config: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with null for what the release does not tell."""
    if config == "problems":
        return {
            **row,
            "question": None,
            "choices": None,
            "reference": None,
            "answer_type": None,
            "text_withheld": NO_TEXT,
        }
    return {**row, **{name: None for name in _UNKNOWN if name in row}}


def _facts(built: _Built, writer: DatasetWriter, results: Any) -> CardFacts:
    counted = built.tally.tables()
    left_out = ImportReport(0, 0, built.counts.by_reason).table()
    return CardFacts(
        title="DHD labels: a release of the paper's authors",
        runs=tuple(_run(model) for model in built.models),
        benchmarks=sorted(built.benchmarks, key=repr),
        tables=[table for table in counted if table.title == ACCURACY] if results.tables else counted,
        results=results,
        exclusions=left_out,
        limits=_LIMITS,
        rows=writer.counts,
        digests=writer.digests,
        files=writer.files,
        sha256=writer.sha256,
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )


def _run(model: str) -> RunFacts:
    return RunFacts(
        run=f"paper-{model}",
        roles=(),
        actor=model,
        integrator=model,
        protocol=ProtocolFacts(POOL_SIZE, 0, FULL_DRAWS, _STUDIES),
        noise="temperature 0 on an ordinary server, as the paper says; it is not measured here.",
        seed=None,
    )
