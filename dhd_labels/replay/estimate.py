"""What a run will cost, before it is paid for. No network, no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dhd_labels.config import ROLE_NAMES, RunConfig
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call, replay_call
from dhd_labels.records import POOL_SIZE, Message, Pool, Problem, Role
from dhd_labels.replay.plan import count_calls, plan_replays
from dhd_labels.report.table import Table

CHARACTERS_A_TOKEN = 4
_MESSAGE_TOKENS = 40
"""Assumed length of a message that is not written yet."""


@dataclass(frozen=True, slots=True)
class RolePlan:
    """Calls and tokens of one role. Tokens are estimates; `output_tokens_max` is the limit, not an expectation."""

    role: str
    model: str
    host: str
    calls: int
    prompt_tokens: int
    output_tokens_max: int


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run without retries."""

    name: str
    problems: int
    excluded: dict[str, int]
    roles: tuple[RolePlan, ...]
    arms: dict[str, int]
    estimated: bool = True

    @property
    def calls(self) -> int:
        """All calls of the run."""
        return sum(role.calls for role in self.roles)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {**asdict(self), "calls": self.calls}

    def tables(self) -> tuple[Table, Table]:
        """Return calls by role and integrator calls by arm."""
        roles = tuple(
            (r.role, r.model, r.host, str(r.calls), str(r.prompt_tokens), str(r.output_tokens_max)) for r in self.roles
        )
        columns = ("role", "model", "host", "calls", "prompt tokens (estimated)", "output tokens (at most)")
        arms = tuple((arm, str(calls)) for arm, calls in self.arms.items())
        title = f"Plan of {self.name!r}: {self.problems} problems, {self.calls} calls"
        return Table(title, columns, roles), Table("Integrator calls by arm", ("arm", "calls"), arms)


def plan_run(config: RunConfig, problems: Sequence[Problem], excluded: dict[str, int]) -> RunPlan:
    """Count calls exactly and estimate prompt tokens by rendering every prompt once with stand-in messages."""
    per_role = dict.fromkeys(ROLE_NAMES, 0)
    arms: dict[str, int] = {}
    for role, arm, calls in count_calls(config):
        per_role[role] += calls * len(problems)
        if arm:
            arms[arm] = calls * len(problems)
    characters = dict.fromkeys(ROLE_NAMES, 0)
    for problem in problems:
        for role, size in _prompt_characters(config, problem).items():
            characters[role] += size
    plans = []
    for name in ROLE_NAMES:
        binding = config.role(name)
        model = config.engines[binding.engine].public_name
        tokens = characters[name] // CHARACTERS_A_TOKEN
        plans.append(RolePlan(name, model, "this process", per_role[name], tokens, per_role[name] * binding.max_tokens))
    return RunPlan(config.name, len(problems), excluded, tuple(plans), arms)


def _prompt_characters(config: RunConfig, problem: Problem) -> dict[str, int]:
    """Return the characters of all prompts of a problem, by role."""
    visible = problem.visible()
    roles = [Role(f"Role {slot}", "x" * 60) for slot in range(POOL_SIZE)]
    filler = "x" * (_MESSAGE_TOKENS * CHARACTERS_A_TOKEN)
    messages = [Message(s, r.name, r.lens, "0", filler, "", "", "", "", "", "ok") for s, r in enumerate(roles)]
    pool = Pool.of(problem.problem_id, config.actor, messages)
    calls = [recruiter_call(config, visible), *hypothesizer_calls(config, visible, roles)]
    calls += [
        replay_call(config, visible, pool, replay)
        for replay in plan_replays(config, problem.problem_id, pool.pool_id, "plan")
    ]
    sizes = dict.fromkeys(ROLE_NAMES, 0)
    for call in calls:
        sizes[call.role] += sum(len(turn.content) for turn in call.turns)
    return sizes
