"""What a saved rule knows of its own training: which labels, whose licences, what it gained."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BenchmarkUse:
    """Messages of one benchmark under one licence: learned from, and dropped because they may not be trained on.

    `train_allowed` and `commercial_use` are None where nobody knows.
    """

    benchmark: str
    license: str
    train_allowed: bool | None
    commercial_use: bool | None
    learned_from: int
    dropped: int


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """Where a rule comes from.

    Attributes:
        labels: the data set's Hub id, or the name of its folder.
        revision: its commit on the Hub; None for a folder.
        digest: SHA-256 of a folder's card, which has the digests of the rows; None on the Hub, where the commit says
            it.
        splits: the splits that were learned from.
        seed: seed of folds, fits and intervals.
        n_problems: problems learned from.
        n_messages: messages learned from.
        benchmarks: what was used and dropped, by benchmark and licence.
        permissions: benchmark to what permits training on it although its licence does not, in the user's words.
        report: the measured gains, as `training.report` writes them.
    """

    labels: str
    revision: str | None
    digest: str | None
    splits: tuple[str, ...]
    seed: int
    n_problems: int
    n_messages: int
    benchmarks: tuple[BenchmarkUse, ...]
    permissions: Mapping[str, str]
    report: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the facts as JSON-ready data."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        uses = [dataclasses.asdict(use) for use in self.benchmarks]
        return (
            fields
            | {"splits": list(self.splits), "benchmarks": uses, "report": dict(self.report)}
            | {"permissions": dict(self.permissions)}
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TrainingFacts:
        """Return the facts that `as_json` wrote."""
        uses = tuple(BenchmarkUse(**use) for use in data["benchmarks"])
        return cls(**{**data, "splits": tuple(data["splits"]), "benchmarks": uses})
