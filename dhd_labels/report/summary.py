"""The end-of-run summary and `status`, computed from the store and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dhd_labels.config import RunConfig
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.cost import spent_so_far
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.probe import noise_sentence, read_probes
from dhd_labels.replay.servers import sentences
from dhd_labels.replay.store import CallError
from dhd_labels.report.disagreements import Disagreement, find_disagreements
from dhd_labels.report.table import Table

_SHOWN_ERRORS = 8
_USABLE = ("graded", "no_answer", "truncated", "undetermined")


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals of a run. `failed` counts problems without a pool and replays that ended in an operational failure."""

    problems: int
    with_pool: int
    complete: int
    replays_planned: int
    replays_done: int
    failed: dict[str, int]
    flips: dict[str, int]
    calls: list[dict[str, Any]]
    cost: float | None
    models: list[dict[str, Any]]
    servers: list[dict[str, Any]]
    warnings: list[str]
    errors: list[CallError]
    noise: str
    probe: dict[str, Any]
    masked: dict[str, str]
    allocation: dict[str, int]
    disagreements: list[Disagreement]

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found["errors"] = [asdict(item) for item in self.errors]
        return {**found, "disagreements": [asdict(item) for item in self.disagreements]}

    def table(self) -> Table:
        """Return calls and tokens by role and status."""
        columns = ("role", "status", "calls", "prompt tokens", "of these cached", "tokens written")
        names = ("role", "status", "calls", "prompt_tokens", "cached_tokens", "completion_tokens")
        rows = tuple(tuple("-" if row[n] is None else str(row[n]) for n in names) for row in self.calls)
        return Table("Calls in the store", columns, rows)

    def model_table(self) -> Table:
        """Return which model each role asked for and which one answered."""
        rows = tuple(
            (
                m["role"],
                m["asked_for"],
                m["came_back"] or "(none)",
                str(m["calls"]),
                "failed" if m["refused"] else "yes",
            )
            for m in self.models
        )
        return Table("Models", ("role", "asked for", "came back", "calls", "counted as answers"), rows)

    def lines(self) -> list[str]:
        """Return the rest of the summary as sentences."""
        failed, flips = _listed(self.failed) or "none", _listed(self.flips) or "none"
        return [
            f"Problems: {self.complete} complete of {self.problems}; {self.with_pool} have a pool.",
            f"Replays: {self.replays_done} answered of {self.replays_planned} planned.",
            f"Failed records, by reason: {failed}.",
            *map(_error_line, self.errors[:_SHOWN_ERRORS]),
            *self._next_step(),
            *(f"Note: {warning}" for warning in self.warnings),
            f"Single-draw flips at K=5: {flips}.",
            *([f"Cost so far: {self.cost:.4f}, by the prices of `plan.prices`."] if self.cost is not None else []),
            *(
                [f"Problems by what their screening blocks decided: {decided}."]
                if (decided := _listed(self.allocation))
                else []
            ),
            *([f"Masked messages, found of asked for: {masked}."] if (masked := _listed(self.masked)) else []),
            f"Noise of the repeats: {self.noise}",
        ]

    def _next_step(self) -> list[str]:
        """Return what to do about failed calls."""
        if any(error.asked_again for error in self.errors):
            return ["Run the same command again to ask for these calls anew; nothing that was answered is paid twice."]
        return []


def summarise(directory: RunDirectory, results: Iterable[ProblemResult]) -> Summary:
    """Return the totals of a run from its store. The results are read once and not kept."""
    store = directory.open_store()
    try:
        calls, cost = store.totals(), spent_so_far(directory.config, store)
        served, errors = store.servers(), store.errors()
        answered, refused = store.answering_models(), store.refused_models()
        probes = read_probes(store, directory.config)
    finally:
        store.close()
    totals = _Totals(directory.config)
    for result in results:
        totals.add(result)
    return Summary(
        problems=totals.problems,
        with_pool=totals.with_pool,
        complete=totals.complete,
        replays_planned=totals.planned,
        replays_done=totals.done,
        failed=dict(sorted(totals.failed.items())),
        flips=dict(sorted(totals.flips.items())),
        calls=calls,
        cost=cost,
        models=[
            {
                "role": role,
                "asked_for": directory.asked_for(role),
                "came_back": model,
                "calls": count,
                "refused": found is refused,
            }
            for found in (answered, refused)
            for role, models in found.items()
            for model, count in models.items()
        ],
        servers=[item.as_json() for item in served],
        warnings=sentences(served),
        errors=errors,
        noise=noise_sentence(directory.config, probes),
        probe={role: probe and probe.as_json() for role, probe in probes.items()},
        masked=_masked(directory.config, totals.targets),
        allocation=dict(sorted(totals.allocation.items())),
        disagreements=totals.disagreements,
    )


def _error_line(error: CallError) -> str:
    often = f"{error.calls} calls" if error.calls > 1 else "1 call"
    return f"  {often} of the {error.role} ({error.status}), e.g.: {error.example}"


@dataclass(slots=True)
class _Totals:
    """What is summed up over the problems of a run."""

    config: RunConfig
    problems: int = 0
    with_pool: int = 0
    complete: int = 0
    planned: int = 0
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    flips: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    allocation: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, result: ProblemResult) -> None:
        outcomes = (*result.outcomes, *result.masked)
        usable = sum(outcome.status in _USABLE for outcome in outcomes)
        self.problems += 1
        self.with_pool += result.pool is not None
        decided = result.further_blocks is not None
        self.complete += result.pool is not None and usable == result.planned and decided
        self.planned += result.planned
        self.done += usable
        if result.screen_blocks:
            further = result.further_blocks
            self.allocation["undecided" if further is None else "further blocks" if further else "stopped"] += 1
        if result.pool is None:
            self.failed[f"{result.status} ({result.reason})"] += 1
        self.failed.update(f"replay {o.reason}" for o in outcomes if o.status == "operational")
        labels = result.labels(result.main_outcomes(), self.config.outcomes.no_answer)
        self.flips.update(label.cell for label in labels if label.cell and not label.cell.endswith("neutral"))
        self.targets.update(target.cell or "by list" for target in result.targets)
        self.disagreements += find_disagreements(self.config, result)


def _masked(config: RunConfig, found: Mapping[str, int]) -> dict[str, str]:
    """Return `found of asked for` by cell: a run may hold fewer stable effects than a rule asks for."""
    if config.masking is None:
        return {}
    asked: dict[str, int] = {str(cell): count for cell, count in config.masking.cases.items()}
    if config.masking.targets:
        asked["by list"] = len(config.masking.targets)
    return {cell: f"{found.get(cell, 0)} of {count}" for cell, count in asked.items()}


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
