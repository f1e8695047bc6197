"""The plan of a run as data: what is asked of whom, and its tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from dhd_labels.config import PriceConfig
from dhd_labels.report.table import Table

CHARACTERS_A_TOKEN = 4
"""Assumed; mathematics and code have fewer."""
OUTPUT_TOKENS = {"recruiter": 300, "hypothesizer": 500, "integrator": 800, "other_integrator": 800, "evaluator": 150}
"""Assumed tokens written a call, unless `plan.output_tokens` says more; never more than the role's limit."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The problems of one benchmark. `estimated`: it is not on disk, so the registry's numbers stand in."""

    benchmark: str
    problems: int
    excluded: dict[str, int]
    estimated: bool


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """Size of a study: problems (for masking: messages), planned answers, and distinct calls that give them.

    `at_most`: all three are bounds.
    """

    study: str
    units: int
    comparisons: int
    calls: int
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class RolePlan:
    """Calls and tokens of one role. Tokens are estimates.

    `prompt_tokens_unshared` has one call for each planned answer, `prompt_tokens` one for each distinct call, and
    `prompt_tokens_computed` is what a prefix cache that never forgets leaves to compute. `at_most`: `calls` is a bound.
    """

    role: str
    model: str
    host: str
    calls: int
    at_most: bool
    prompt_tokens_unshared: int
    prompt_tokens: int
    prompt_tokens_computed: int
    output_tokens: int
    output_tokens_max: int
    price: PriceConfig | None

    @property
    def cost(self) -> float | None:
        """Expected cost, or None without a price. Cached input is charged as such only when it has its own price."""
        if self.price is None:
            return None
        cached = self.prompt_tokens - self.prompt_tokens_computed if self.price.cached is not None else 0
        total = (self.prompt_tokens - cached) * self.price.input + cached * (self.price.cached or 0.0)
        return (total + self.output_tokens * self.price.output) / 1_000_000

    def tokens(self) -> tuple[int, ...]:
        """Return tokens read unshared, with shared calls, with shared prefixes; tokens written, and at most."""
        read = (self.prompt_tokens_unshared, self.prompt_tokens, self.prompt_tokens_computed)
        return (*read, self.output_tokens, self.output_tokens_max)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain data, with the cost instead of the price."""
        found = asdict(self)
        del found["price"]
        return {**found, "cost": self.cost}


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run without retries."""

    name: str
    sources: tuple[SourcePlan, ...]
    studies: tuple[StudyPlan, ...]
    roles: tuple[RolePlan, ...]
    arms: dict[str, int]
    probe_calls: int

    @property
    def problems(self) -> int:
        """Problems of all benchmarks."""
        return sum(source.problems for source in self.sources)

    @property
    def excluded(self) -> dict[str, int]:
        """Rows that are left out, by reason."""
        reasons: Counter[str] = Counter()
        for source in self.sources:
            reasons.update(source.excluded)
        return {reason: count for reason, count in sorted(reasons.items()) if count}

    @property
    def estimated(self) -> bool:
        """Whether the problems of a benchmark are not on disk."""
        return any(source.estimated for source in self.sources)

    @property
    def calls(self) -> int:
        """All calls of the run."""
        return sum(role.calls for role in self.roles) + self.probe_calls

    @property
    def cost(self) -> float | None:
        """Expected cost of the roles that have a price; None when none has."""
        costs = [role.cost for role in self.roles if role.cost is not None]
        return sum(costs) if costs else None

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "name": self.name,
            "problems": self.problems,
            "calls": self.calls,
            "cost": self.cost,
            "estimated": self.estimated,
            "excluded": self.excluded,
            "benchmarks": [asdict(source) for source in self.sources],
            "studies": [asdict(study) for study in self.studies],
            "roles": [role.as_json() for role in self.roles],
            "arms": self.arms,
            "probe_calls": self.probe_calls,
        }

    def tables(self) -> tuple[Table, ...]:
        """Return the problems, the studies, the roles, their tokens, and the planned answers by arm."""
        return (
            self._source_table(), self._study_table(), self._role_table(), self._token_table(), self._arm_table()
        )  # fmt: skip

    def _source_table(self) -> Table:
        rows = tuple(
            (s.benchmark, f"{s.problems:,}", f"{sum(s.excluded.values()):,}", "registry" if s.estimated else "read")
            for s in self.sources
        )
        at_most = " at most" if any(role.at_most for role in self.roles) else ""
        title = f"Plan of {self.name!r}: {self.problems:,} problems,{at_most} {self.calls:,} calls"
        note = "Not on disk: counts and median prompt lengths are the registry's." if self.estimated else ""
        return Table(title, ("benchmark", "problems", "left out", "from"), rows, note)

    def _study_table(self) -> Table:
        rows = tuple(
            (s.study, *(f"{'<= ' if s.at_most else ''}{n:,}" for n in (s.units, s.comparisons, s.calls)))
            for s in self.studies
        )
        note = "Units are problems; for masking, masked messages. Arms that show the same messages may share a call."
        return Table("Integrator calls by study", ("study", "units", "planned answers", "calls"), rows, note)

    def _role_table(self) -> Table:
        rows = tuple(
            (
                role.role,
                role.model,
                role.host,
                f"{'<= ' if role.at_most else ''}{role.calls:,}",
                "-" if role.cost is None else f"{role.cost:,.2f}",
            )
            for role in self.roles
        )
        note = f"The start-up probe makes {self.probe_calls} calls more." if self.probe_calls else ""
        return Table("Calls by role, without retries", ("role", "model", "host", "calls", "cost"), rows, note)

    def _token_table(self) -> Table:
        rows = tuple((role.role, *(f"{tokens:,}" for tokens in role.tokens())) for role in self.roles)
        columns = ("role", "read, unshared", "shared calls", "shared prefixes", "written", "written, at most")
        note = (
            f"Estimated at {CHARACTERS_A_TOKEN} characters a token. Read: one call for each planned answer; one for "
            "each distinct call; and what a prefix cache that never forgets leaves to compute."
        )
        return Table("Tokens by role", columns, rows, note)

    def _arm_table(self) -> Table:
        return Table("Planned answers by arm", ("arm", "answers"), tuple((a, f"{n:,}") for a, n in self.arms.items()))
