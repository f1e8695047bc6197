"""Everything that decides what a run measures: one frozen record."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from dhd_labels.config.base import Frozen
from dhd_labels.config.engines import EngineConfig, ModelConfig, OpenAIConfig, RoleConfig, answering
from dhd_labels.errors import did_you_mean

ACTOR_ROLES = ("recruiter", "hypothesizer", "integrator")
ROLE_NAMES = (*ACTOR_ROLES, "evaluator", "other_integrator")
"""Every role there is; the last two are bound only where a run needs them."""

Noise = Literal["sampled", "greedy", "batch_invariant"]
StableCell = Literal["wrong_helpful", "correct_helpful", "wrong_harmful", "correct_harmful", "indeterminate"]
MIN_BLOCKS = 2
"""Blocks from which an effect can be called stable or indeterminate at all."""
STABLE_CELLS: tuple[StableCell, ...] = get_args(StableCell)


class RolesConfig(Frozen):
    """Who plays which role; every role has its own binding."""

    recruiter: RoleConfig
    hypothesizer: RoleConfig
    integrator: RoleConfig
    evaluator: RoleConfig | None = Field(default=None, description="judges answers, in calls of its own")
    other_integrator: RoleConfig | None = Field(default=None, description="replays the same pools, for `sensitivity`")


class BenchmarkConfig(Frozen):
    """Which problems to read."""

    name: str
    path: str | None = Field(default=None, description="upstream file or folder, or your own JSONL")
    subset: str | None = Field(default=None, description="part of the benchmark, e.g. the quickstart's `report` half")
    size: int | None = Field(default=None, ge=1, description="at most this many problems, in benchmark order")


class ProtocolConfig(Frozen):
    """Which arms are drawn, and how often."""

    blocks: int = Field(default=5, ge=0, le=100, description="matched blocks of two full and five removal draws")
    repeat_problems: int | None = Field(
        default=None, ge=1, description="problems of a benchmark that get the blocks; all when not set"
    )
    alone_draws: int = Field(default=1, ge=0, le=100, description="draws with no message (K=0)")
    only_draws: int = Field(default=1, ge=0, le=100, description="draws of each single-message arm")
    prefix_draws: int = Field(
        default=0, ge=0, le=100, description="draws of the first K messages, for each K of 1 to 5"
    )
    without_draws: int = Field(
        default=0, ge=0, le=100, description="draws of each removal from the first K messages, for each K of 2 to 5"
    )
    subsets: tuple[tuple[int, ...], ...] = Field(default=(), description="further sets of slots to show, e.g. [[0, 3]]")
    subset_draws: int = Field(default=1, ge=1, le=100)
    share: bool = Field(
        default=False, description="outside blocks, arms that show the same messages are one call; else one call an arm"
    )
    merge_draws: bool = Field(
        default=False, description="outside blocks, draws that show the same messages are one request with `n`"
    )
    renumber: bool = Field(
        default=False, description="number the shown messages 1, 2, ... as the paper does; else by their slot"
    )
    max_attempts: int = Field(default=3, ge=1, le=20, description="calls for one answer before it is given up")

    @model_validator(mode="after")
    def _legal_subsets(self) -> ProtocolConfig:
        for subset in self.subsets:
            if len(set(subset)) != len(subset) or not all(0 <= slot < 5 for slot in subset):
                raise ValueError(
                    f"The 'protocol.subsets' must be lists of different slots from 0 to 4, got {list(subset)}"
                )
        if len({tuple(sorted(subset)) for subset in self.subsets}) != len(self.subsets):
            raise ValueError(f"The 'protocol.subsets' must differ, got {[list(s) for s in self.subsets]}")
        return self


class TargetConfig(Frozen):
    """One message to mask, by name."""

    problem_id: str
    slot: int = Field(ge=0, le=4)


class MaskingConfig(Frozen):
    """Component masking: which part of a message moves the integrator."""

    repeats: int = Field(default=5, ge=1, le=100, description="times that all conditions are drawn")
    cases: dict[StableCell, Annotated[int, Field(ge=0)]] = Field(
        default={}, description="targets by rule: this many messages of a stable cell, strongest effects first"
    )
    targets: tuple[TargetConfig, ...] = Field(default=(), description="targets by list")

    @model_validator(mode="after")
    def _has_targets(self) -> MaskingConfig:
        if not self.targets and not any(self.cases.values()):
            raise ValueError(
                "The 'masking' must name targets: 'cases', e.g. {wrong_helpful: 10}, or 'targets', a list of "
                "{problem_id, slot}; got neither"
            )
        if len(set(self.targets)) != len(self.targets):
            raise ValueError("The 'masking.targets' must differ, got one twice")
        return self


class CheckConfig(Frozen):
    """A sensitivity check: how many problems a benchmark, and how many matched blocks."""

    problems: int = Field(default=20, ge=1, description="problems of a benchmark, from those that get the blocks")
    blocks: int = Field(default=3, ge=1, le=100)


class SensitivityConfig(Frozen):
    """Do the labels change with the order of the messages, or with the integrator?"""

    order: CheckConfig | None = Field(default=None, description="the messages in reversed order")
    integrator: CheckConfig | None = Field(default=None, description="`roles.other_integrator` on the same pools")


class ReplayConfig(Frozen):
    """How the matched blocks are given to the problems that get them."""

    allocation: Literal["fixed", "screened"] = Field(
        default="fixed",
        description="`fixed`: `protocol.blocks` each. `screened`: `screen_blocks` each, and further ones, up to that "
        "number, only where the seven answers of one of the first were neither all right nor all wrong",
    )
    screen_blocks: int = Field(default=1, ge=1, le=99, description="blocks that each problem gets under `screened`")
    further_blocks: int | None = Field(
        default=None,
        ge=1,
        description="most further blocks of all problems together under `screened`, the most mixed problems first; "
        "they are then given once all problems are screened",
    )


class ProbeConfig(Frozen):
    """The start-up probe of the server's noise: real prompts asked alone and in a batch, cold and warm."""

    prompts: int | None = Field(
        default=None, ge=0, le=1000, description="three calls each; 20 at temperature 0 and none otherwise when not set"
    )


class OutcomesConfig(Frozen):
    """How non-answers enter effects."""

    no_answer: Literal["missing", "incorrect"] = "missing"


class PriceConfig(Frozen):
    """Price of a million tokens, in any currency."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(
        default=None, ge=0, description="of input from the prefix cache; as `input` if not set"
    )


class PlanConfig(Frozen):
    """What a plan assumes. Nothing here changes what is measured, so it may change between runs."""

    message_tokens: int = Field(default=150, ge=1, description="expected length of a rendered message")
    output_tokens: dict[str, int] = Field(default={}, description="expected tokens written, by role")
    prices: dict[str, PriceConfig] = Field(default={}, description="by name of the engine under `engines`")


class RunConfig(Frozen):
    """Everything that decides what a run measures. Two runs with equal configs measure the same thing."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    actor: str
    seed: int = 0
    noise: Noise = Field(
        default="sampled",
        description="`sampled`: temperature above 0, a seed from (problem, arm, block, draw). `greedy`: temperature 0 "
        "on an ordinary server, where batching and caching are the only noise. `batch_invariant`: temperature 0 on a "
        "server without that noise, where a repeat is a copy and none is drawn",
    )
    probe: ProbeConfig = ProbeConfig()
    replay: ReplayConfig = ReplayConfig()
    benchmark: BenchmarkConfig | None = None
    benchmarks: tuple[BenchmarkConfig, ...] = Field(
        default=(), description="several benchmarks, instead of `benchmark`"
    )
    engines: dict[str, EngineConfig]
    roles: RolesConfig
    protocol: ProtocolConfig = ProtocolConfig()
    masking: MaskingConfig | None = None
    sensitivity: SensitivityConfig = SensitivityConfig()
    grading: Literal["rules", "rules_then_evaluator", "evaluator"] = Field(
        default="rules", description="`rules_then_evaluator`: the evaluator decides what no rule can"
    )
    grading_mode: Literal["strict", "official"] = Field(
        default="strict", description="`official`: the benchmark's own scorer, which may give a part of the credit"
    )
    outcomes: OutcomesConfig = OutcomesConfig()
    plan: PlanConfig = PlanConfig()

    @property
    def sources(self) -> tuple[BenchmarkConfig, ...]:
        """The benchmarks of the run."""
        return (self.benchmark,) if self.benchmark else self.benchmarks

    @property
    def bound_roles(self) -> tuple[str, ...]:
        """The roles that someone plays, in protocol order."""
        return tuple(name for name in ROLE_NAMES if getattr(self.roles, name) is not None)

    def role(self, name: str) -> RoleConfig:
        """Return the binding of a role that is bound."""
        binding: RoleConfig = getattr(self.roles, name)
        return binding

    def engine_of(self, role: str) -> ModelConfig:
        """Return the engine that answers for a role, wherever it runs."""
        return answering(self.engines[self.role(role).engine])

    @property
    def screen_blocks(self) -> int:
        """Matched blocks that decide how many more a problem gets; 0 under fixed allocation."""
        return self.replay.screen_blocks if self.replay.allocation == "screened" else 0

    @property
    def probe_prompts(self) -> int:
        """Prompts of the start-up probe."""
        if self.probe.prompts is not None:
            return self.probe.prompts
        return 0 if self.noise == "sampled" else 20

    @model_validator(mode="after")
    def _one_source(self) -> RunConfig:
        if bool(self.benchmark) == bool(self.benchmarks):
            raise ValueError("The config must have 'benchmark' or 'benchmarks', exactly one of them")
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise ValueError(f"The 'benchmarks' must have different names, got {names}")
        return self

    @model_validator(mode="after")
    def _bindings_exist(self) -> RunConfig:
        for name in self.bound_roles:
            engine = self.role(name).engine
            if engine not in self.engines:
                raise ValueError(
                    f"The 'roles.{name}.engine' must be a name under 'engines', got {engine!r}. "
                    + did_you_mean(engine, self.engines)
                )
            if self.role(name).json_schema and name not in ("recruiter", "hypothesizer"):
                raise ValueError(
                    f"The 'roles.{name}.json_schema' must be null, got {self.role(name).json_schema!r}: only the "
                    "answers of the recruiter and the hypothesizer are read as JSON"
                )
            if self.role(name).extra_body and not isinstance(self.engine_of(name), OpenAIConfig):
                raise ValueError(
                    f"The 'roles.{name}.extra_body' must be empty unless its engine is of kind 'openai', got engine "
                    f"{engine!r} of kind {self.engine_of(name).kind!r}: there is no HTTP request to add it to"
                )
            if self.role(name).grammar and getattr(self.engine_of(name), "grammar_style", None) == "none":
                raise ValueError(
                    f"The 'engines.{engine}.grammar_style' must be 'vllm' or 'llamacpp' when 'roles.{name}.grammar' is "
                    "set, got 'none': say which of the two the server is, or set the grammar to null"
                )
        return self

    @model_validator(mode="after")
    def _plan_names_exist(self) -> RunConfig:
        for key, given, known in (
            ("plan.prices", self.plan.prices, self.engines),
            ("plan.output_tokens", self.plan.output_tokens, dict.fromkeys(ROLE_NAMES)),
        ):
            for name in given:
                if name not in known:
                    raise ValueError(f"The '{key}' must be of known names, got {name!r}. {did_you_mean(name, known)}")
        return self

    @model_validator(mode="after")
    def _needed_roles_are_bound(self) -> RunConfig:
        if self.grading != "rules" and self.roles.evaluator is None:
            raise ValueError(f"The 'roles.evaluator' must be bound when 'grading' is {self.grading!r}")
        if self.grading == "rules" and self.roles.evaluator is not None:
            raise ValueError(
                "The 'grading' must be 'rules_then_evaluator' or 'evaluator' when 'roles.evaluator' is bound, got "
                "'rules'"
            )
        if (self.sensitivity.integrator is None) != (self.roles.other_integrator is None):
            raise ValueError(
                "The 'sensitivity.integrator' and 'roles.other_integrator' must be set together: the check needs the "
                "model"
            )
        return self

    @model_validator(mode="after")
    def _models_can_be_told_apart(self) -> RunConfig:
        """Refuse two different declared models that one id would answer for."""
        declared: dict[str, tuple[str, str]] = {}
        for name in self.bound_roles:
            engine = self.engine_of(name)
            back = (engine.served_as if isinstance(engine, OpenAIConfig) else None) or engine.public_name
            role, model = declared.setdefault(back, (name, engine.public_name))
            if model != engine.public_name:
                raise ValueError(
                    f"The roles {role!r} and {name!r} declare different models ({model!r} and {engine.public_name!r}), "
                    f"but both expect the id {back!r} back, so nobody could tell which one answered. Give every model "
                    "its own 'served_as'"
                )
        if self.roles.other_integrator and (
            self.engine_of("other_integrator").public_name == self.engine_of("integrator").public_name
        ):
            raise ValueError(
                "The 'roles.other_integrator' must be another model than 'roles.integrator', got "
                f"{self.engine_of('integrator').public_name!r} for both"
            )
        return self

    @model_validator(mode="after")
    def _noise_fits(self) -> RunConfig:
        for name in ("integrator", "other_integrator"):
            if name not in self.bound_roles:
                continue
            temperature = self.role(name).temperature
            if self.noise == "sampled" and temperature == 0:
                raise ValueError(
                    f"The 'roles.{name}.temperature' must be above 0 under noise regime 'sampled' "
                    "(repeats at 0 are not independent draws), got 0"
                )
            if self.noise != "sampled" and temperature > 0:
                raise ValueError(
                    f"The 'roles.{name}.temperature' must be 0 under noise regime {self.noise!r}, got {temperature}"
                )
        if self.noise == "batch_invariant":
            _refuse_copies(self)
        if self.noise != "sampled" and self.protocol.merge_draws:
            raise ValueError(
                f"The 'protocol.merge_draws' must be false under noise regime {self.noise!r}, got true: at temperature "
                "0 the draws of one request are copies"
            )
        return self

    @model_validator(mode="after")
    def _screening_has_blocks_to_give(self) -> RunConfig:
        replay, blocks = self.replay, self.protocol.blocks
        if replay.allocation == "fixed":
            for name in ("screen_blocks", "further_blocks"):
                if (given := getattr(replay, name)) != ReplayConfig.model_fields[name].default:
                    raise ValueError(
                        f"The 'replay.{name}' must not be set unless 'replay.allocation' is 'screened', got {given}"
                    )
        elif blocks <= replay.screen_blocks:
            raise ValueError(
                "The 'protocol.blocks' must be more than 'replay.screen_blocks' under 'replay.allocation: screened', "
                f"where it is the most that a problem can get, got {blocks} and {replay.screen_blocks}"
            )
        return self

    @model_validator(mode="after")
    def _something_to_replay(self) -> RunConfig:
        p = self.protocol
        if not (p.blocks or p.alone_draws or p.only_draws or p.prefix_draws or p.without_draws or p.subsets):
            raise ValueError("The 'protocol' must draw at least one arm, got 0 blocks and 0 draws of every arm")
        checks = {"order": self.sensitivity.order, "integrator": self.sensitivity.integrator}
        for name, check in checks.items():
            repeated = self.protocol.repeat_problems
            if check and (not p.blocks or (repeated is not None and check.problems > repeated)):
                raise ValueError(
                    f"The 'sensitivity.{name}' must compare with the matched blocks of the same problems, so "
                    f"'protocol.blocks' must be at least 1 and 'protocol.repeat_problems' at least {check.problems}, "
                    f"got {p.blocks} blocks on {repeated if repeated is not None else 'all'} problems"
                )
        fewest = MIN_BLOCKS + self.screen_blocks
        if self.masking and any(self.masking.cases.values()) and p.blocks < fewest:
            besides = " besides those of the screen" if self.screen_blocks else ""
            raise ValueError(
                f"The 'masking.cases' must choose from repeated effects, {MIN_BLOCKS} blocks or more{besides}, so "
                f"'protocol.blocks' must be at least {fewest}, got {p.blocks}; or name 'masking.targets'"
            )
        return self


def _refuse_copies(config: RunConfig) -> None:
    """Refuse every setting that would draw one answer twice and call it a repeat."""
    p = config.protocol
    draws = {
        f"protocol.{name}": getattr(p, name)
        for name in ("alone_draws", "only_draws", "prefix_draws", "without_draws", "subset_draws")
    }
    draws["masking.repeats"] = config.masking.repeats if config.masking else 0
    copied = [f"{key}: {value} (at most 1)" for key, value in draws.items() if value > 1]
    if not p.share:
        copied.append("protocol.share: false (must be true: arms that show the same messages are one prompt)")
    if p.blocks:
        copied.append(
            f"protocol.blocks: {p.blocks} (must be 0; 'prefix_draws: 1' and 'without_draws: 1' draw each arm once)"
        )
    if copied:
        raise ValueError(
            "Under noise regime 'batch_invariant' the same prompt gets the same answer by construction, so a repeat is "
            "a copy and measures nothing. These settings ask for repeats: " + "; ".join(copied)
        )
