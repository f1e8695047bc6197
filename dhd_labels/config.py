"""One frozen configuration a run, read from a YAML file or a preset and checked key by key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dhd_labels.errors import DhdError, did_you_mean

ROLE_NAMES = ("recruiter", "hypothesizer", "integrator")
HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
"""An id of the Hugging Face Hub, `org/name`."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)


class LlamaCppConfig(_Frozen):
    """The embedded engine: llama.cpp in this process."""

    kind: Literal["llamacpp"]
    model: str = Field(description="name of packaged weights, or a path to a GGUF file")
    slots: int = Field(default=2, ge=1, le=64, description="requests decoded side by side")
    context: int = Field(default=1024, ge=256, description="tokens a slot, prompt and answer together")
    threads: int | None = Field(default=None, ge=1, description="CPU threads; all cores when not set")

    @property
    def public_name(self) -> str:
        """Name of the weights, as a plan shows it."""
        return self.model


class ScriptedConfig(_Frozen):
    """The scripted engine: answers of a small world whose success probabilities are known."""

    kind: Literal["scripted"]
    world: Literal["stochastic", "exact"] = Field(
        default="stochastic", description="`exact`: every success probability is 0 or 1, so every label is known"
    )
    world_seed: int = 0
    slots: int = Field(default=4, ge=1, description="calls in flight")
    latency_s: float = Field(default=0.0, ge=0, description="seconds each call takes")
    fault_rate: float = Field(default=0.0, ge=0, le=1, description="share of calls that fail (fault injection)")
    call_log: str | None = Field(default=None, description="file that gets one line a call, for resume tests")

    @property
    def public_name(self) -> str:
        """Name under which answers are stored."""
        return f"scripted-{self.world}"


class VllmConfig(_Frozen):
    """vLLM in this process, on a GPU or a CPU."""

    kind: Literal["vllm"]
    model: str = Field(min_length=1, description="folder of weights, or an id of the Hugging Face Hub")
    revision: str | None = Field(
        default=None, min_length=1, description="commit of a Hub model; a folder's digest is taken when not set"
    )
    name: str | None = Field(
        default=None,
        min_length=1,
        description="public name of the model; required for a folder, whose path stays private",
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    quantization: str | None = Field(
        default=None, description="as vLLM names it, e.g. fp8; from the weights if not set"
    )
    max_model_len: int | None = Field(default=None, ge=64, description="tokens of prompt and answer together")
    tensor_parallel_size: int = Field(default=1, ge=1, description="GPUs that share the model")
    gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1, description="share of a GPU's memory; GPU only")
    enforce_eager: bool = Field(default=False, description="no compilation: starts faster, runs slower")
    batch: int = Field(default=64, ge=1, le=4096, description="requests handed over together and decoded side by side")
    block_size: int | None = Field(
        default=None, ge=1, description="tokens of a prefix cache block; a shorter shared prefix is never cached"
    )
    seed: int = Field(default=0, ge=0, description="seed of the engine; every request has its own")
    reasoning_end: str | None = Field(
        default=None, min_length=1, description="text that closes the reasoning, e.g. </think>; the answer follows it"
    )

    @model_validator(mode="after")
    def _folder_needs_a_name(self) -> VllmConfig:
        if self.name is None and (Path(self.model).is_dir() or not HUB_ID.fullmatch(self.model)):
            raise ValueError(
                "The 'name' of a vllm engine must be set when its 'model' is a folder (the name is published, the path "
                f"is not), got model {self.model!r} without a name"
            )
        return self

    @property
    def public_name(self) -> str:
        """Name under which answers are stored and published."""
        return self.name or self.model


EngineConfig = Annotated[LlamaCppConfig | VllmConfig | ScriptedConfig, Field(discriminator="kind")]
ENGINE_KINDS: Mapping[str, type[BaseModel]] = {
    get_args(member.model_fields["kind"].annotation)[0]: member for member in get_args(get_args(EngineConfig)[0])
}
"""Every kind of engine and its config."""


class RoleConfig(_Frozen):
    """The model and the decoding of one role."""

    engine: str = Field(description="a name under `engines`")
    prompt: str = Field(description="prompt template, e.g. small/integrator")
    grammar: str | None = Field(default=None, description="GBNF grammar that the answer must follow")
    temperature: float = Field(ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(ge=1)


class RolesConfig(_Frozen):
    """The three actor roles of this version; every one has its own binding."""

    recruiter: RoleConfig
    hypothesizer: RoleConfig
    integrator: RoleConfig


class BenchmarkConfig(_Frozen):
    """Which problems to read."""

    name: str
    path: str | None = Field(default=None, description="upstream file or folder, or your own JSONL")
    subset: str | None = Field(default=None, description="part of the benchmark, e.g. the quickstart's `report` half")
    size: int | None = Field(default=None, ge=1, description="at most this many problems, in benchmark order")


class ProtocolConfig(_Frozen):
    """How often each arm is drawn."""

    blocks: int = Field(default=5, ge=1, le=100, description="matched blocks of two full and five removal draws")
    alone_draws: int = Field(default=1, ge=1, le=100)
    only_draws: int = Field(default=1, ge=1, le=100, description="draws of each single-message arm")
    max_attempts: int = Field(default=3, ge=1, le=20, description="calls for one answer before it is given up")


class OutcomesConfig(_Frozen):
    """How non-answers enter effects."""

    no_answer: Literal["missing", "incorrect"] = "missing"


class RunConfig(_Frozen):
    """Everything that decides what a run measures. Two runs with equal configs measure the same thing."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    actor: str
    seed: int = 0
    noise: Literal["sampled"] = Field(
        default="sampled", description="temperature above 0 with a seed from (problem, arm, block, draw)"
    )
    benchmark: BenchmarkConfig
    engines: dict[str, EngineConfig]
    roles: RolesConfig
    protocol: ProtocolConfig = ProtocolConfig()
    outcomes: OutcomesConfig = OutcomesConfig()

    @model_validator(mode="after")
    def _bindings_exist(self) -> RunConfig:
        for name in ROLE_NAMES:
            engine = self.role(name).engine
            if engine not in self.engines:
                raise ValueError(
                    f"The 'roles.{name}.engine' must be a name under 'engines', got {engine!r}. "
                    + did_you_mean(engine, self.engines)
                )
        return self

    @model_validator(mode="after")
    def _sampled_needs_temperature(self) -> RunConfig:
        if self.roles.integrator.temperature == 0:
            raise ValueError(
                "The 'roles.integrator.temperature' must be above 0 under noise regime 'sampled' "
                "(repeats at 0 are not independent draws), got 0"
            )
        return self

    def role(self, name: str) -> RoleConfig:
        """Return the binding of a role by name."""
        binding: RoleConfig = getattr(self.roles, name)
        return binding


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets that ship with the package."""
    folder = resources.files("dhd_labels").joinpath("presets")
    return tuple(sorted(p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml")))


def load_config(source: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a preset or a YAML file and apply `key=value` overrides (dotted keys, YAML values).

    Raises:
        DhdError: unknown preset, key or value, with the closest known name.
    """
    data = _parse_yaml(_read_source(source), source)
    for override in overrides:
        _apply(data, override)
    return validate_config(data, source)


def validate_config(data: Mapping[str, Any], source: str) -> RunConfig:
    """Check plain data against the schema and return the config, or raise one error that lists every problem."""
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        problems = "\n".join(f"  - {_explain(item)}" for item in error.errors())
        raise DhdError(f"The config {source!r} cannot be used:\n{problems}") from None


def _read_source(source: str) -> str:
    if source in preset_names():
        return resources.files("dhd_labels").joinpath("presets", f"{source}.yaml").read_text(encoding="utf-8")
    path = Path(source)
    if path.suffix not in (".yaml", ".yml"):
        raise DhdError(
            f"The config must be a preset or a .yaml file, got {source!r}. {did_you_mean(source, preset_names())}"
        )
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DhdError(f"The config file {source!r} cannot be read: {error}") from None


def _parse_yaml(text: str, source: str) -> dict[str, Any]:
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DhdError(f"The config {source!r} is not valid YAML: {error}") from None
    if not isinstance(data, dict):
        raise DhdError(f"The config {source!r} must be a YAML mapping, got {type(data).__name__}")
    return data


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key.strip():
        raise DhdError(f"The --set option must read key=value, got {override!r}")
    *parents, last = key.strip().split(".")
    node = data
    for part in parents:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise DhdError(f"The --set key {key!r} goes below {part!r}, which is a single value")
    try:
        node[last] = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise DhdError(f"The --set value of {key!r} is not valid YAML: {error}") from None


def _explain(item: Mapping[str, Any]) -> str:
    """Turn one pydantic error into a sentence with the key, the value and a suggestion."""
    key = ".".join(map(str, _without_tag(item["loc"])))
    if item["type"] == "extra_forbidden":
        known = _known_keys(item["loc"])
        return f"The key {key!r} is unknown. {did_you_mean(str(item['loc'][-1]), known)}"
    if item["type"] == "missing":
        return f"The key {key!r} is missing"
    if item["type"] == "value_error":
        return str(item["ctx"]["error"])
    options = re.findall(
        r"'([^']*)'", str(item.get("ctx", {}).get("expected", item.get("ctx", {}).get("expected_tags", "")))
    )
    close = difflib.get_close_matches(str(item["input"]), options, n=1, cutoff=0.5)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    message = item["msg"].removeprefix("Input should be ")
    return f"The {key!r} must be {message}, got {item['input']!r}{hint}"


def _without_tag(location: Sequence[str | int]) -> list[str | int]:
    """Return a location without the tag that pydantic adds for the engine union: engines, name, *kind*, key."""
    tagged = len(location) > 2 and location[0] == "engines" and location[2] in ENGINE_KINDS
    return [part for place, part in enumerate(location) if not (tagged and place == 2)]


def _known_keys(location: Sequence[str | int]) -> Iterable[str]:
    """Return the legal keys at the place of an unknown one."""
    model: type[BaseModel] = RunConfig
    for part in location[:-1]:
        if not isinstance(part, str):
            continue
        if part in ENGINE_KINDS:
            model = ENGINE_KINDS[part]
        elif part in model.model_fields:
            annotation = model.model_fields[part].annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                model = annotation
    return model.model_fields
