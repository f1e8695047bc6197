"""The settings of every kind of engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from dhd_labels.config.base import Frozen

HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
"""An id of the Hugging Face Hub, `org/name`."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|[a-z_]+")
_OWN_FIELDS = {
    "chat_template_kwargs", "max_tokens", "messages", "model", "n", "reasoning_effort", "seed", "stream", "temperature",
    "top_p",
}  # fmt: skip


class LlamaCppConfig(Frozen):
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


class ScriptedConfig(Frozen):
    """The scripted engine: answers of a small world whose success probabilities are known."""

    kind: Literal["scripted"]
    world: Literal["stochastic", "exact"] = Field(
        default="stochastic", description="`exact`: every success probability is 0 or 1, so every label is known"
    )
    world_seed: int = 0
    solver_seed: int = Field(default=0, description="another solver of the same cards, with other strengths")
    slots: int = Field(default=4, ge=1, description="calls in flight")
    latency_s: float = Field(default=0.0, ge=0, description="seconds each call takes")
    fault_rate: float = Field(default=0.0, ge=0, le=1, description="share of calls that fail (fault injection)")
    batch_noise: float = Field(
        default=0.0, ge=0, le=1, description="share of calls whose answer also depends on batch and cache state"
    )
    call_log: str | None = Field(default=None, description="file that gets one line a call, for resume tests")

    @property
    def public_name(self) -> str:
        """Name under which answers are stored."""
        return f"scripted-{self.world}{f'-{self.solver_seed}' if self.solver_seed else ''}"


class VllmConfig(Frozen):
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
    batch_invariant: bool = Field(
        default=False,
        description="answers do not depend on the batch, for `noise: batch_invariant`; GPU only, slower",
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


class OpenAIConfig(Frozen):
    """Any server that speaks the OpenAI chat API: vLLM, SGLang, llama.cpp, or a hosted one."""

    kind: Literal["openai"]
    model: str = Field(min_length=1, description="model id as the server knows it")
    revision: str = Field(default="unstated", min_length=1, description="commit of the weights, if you know it")
    served_as: str | None = Field(
        default=None,
        min_length=1,
        description="model id in the answers; `model` when not set, `(none)` when they have none",
    )
    base_url: str | None = Field(default=None, description="e.g. http://localhost:8000/v1")
    base_url_env: str | None = Field(default=None, description="environment variable with the base URL")
    api_key_env: str = Field(
        default="OPENAI_API_KEY", description="environment variable with the key, if one is needed"
    )
    grammar_style: Literal["vllm", "llamacpp", "none"] = Field(
        default="none", description="how the server takes the grammar of a role: which of the two it is"
    )
    concurrency: int = Field(
        default=32, ge=1, le=1000, description="most calls in flight; fewer while the server says that it is busy"
    )
    warm_up: bool = Field(
        default=False, description="a problem's first call goes alone, so that the others find its prompt in the cache"
    )
    timeout_s: float = Field(default=600.0, gt=0, description="seconds until a call without an answer has failed")
    max_tries: int = Field(default=5, ge=1, le=50, description="HTTP tries of one call, waits in between")
    max_wait_s: float = Field(
        default=120.0, gt=0, description="longest single wait, also when the server asks for more"
    )
    max_model_len: int | None = Field(default=None, ge=64, description="tokens of prompt and answer together")
    tokenizer: str | None = Field(
        default=None,
        min_length=1,
        description="tokenizer.json, its folder, or a Hub id, to find prompts that are too long before they are sent",
    )

    @model_validator(mode="after")
    def _one_address(self) -> OpenAIConfig:
        if (self.base_url is None) == (self.base_url_env is None):
            raise ValueError(
                f"The engine of model {self.model!r} must have 'base_url' or 'base_url_env', exactly one, got "
                f"{self.base_url!r} and {self.base_url_env!r}"
            )
        if self.base_url and "@" in self.base_url.partition("//")[2].partition("/")[0]:
            raise ValueError(
                "The 'base_url' must not hold a user name or password, since it is stored with the run: put the key "
                "into the environment variable that 'api_key_env' names"
            )
        if self.base_url and ("?" in self.base_url or "#" in self.base_url):
            raise ValueError(
                "The 'base_url' must end with the path of the API (mostly /v1), without '?' or '#' and what follows "
                "(not shown), since it is stored with the run: put a key into the variable that 'api_key_env' names"
            )
        return self

    @field_validator("api_key_env", "base_url_env")
    @classmethod
    def _a_name(cls, name: str | None, info: ValidationInfo) -> str | None:
        """A key in the place of the name of its variable must not reach the run file."""
        if name is not None and not _VARIABLE.fullmatch(name):
            raise ValueError(
                f"The {info.field_name!r} must be the NAME of an environment variable, such as MY_SERVER_KEY, not its "
                "value; got something else (not shown)"
            )
        return name

    @model_validator(mode="after")
    def _tokenizer_has_a_limit(self) -> OpenAIConfig:
        if self.tokenizer and self.max_model_len is None:
            raise ValueError(
                f"The 'max_model_len' of model {self.model!r} must be set when 'tokenizer' is, as its limit"
            )
        return self

    @property
    def public_name(self) -> str:
        """Name under which answers are stored and published."""
        return self.model


ModelConfig = Annotated[LlamaCppConfig | VllmConfig | OpenAIConfig | ScriptedConfig, Field(discriminator="kind")]
"""An engine that answers by itself."""


class RayConfig(Frozen):
    """Copies of another engine on a Ray cluster."""

    kind: Literal["ray"]
    engine: ModelConfig = Field(description="the engine that runs inside of every worker")
    workers: int = Field(default=1, ge=1, le=4096, description="copies of it")
    address: str | None = Field(
        default=None,
        min_length=1,
        description="`auto`: the running cluster; host:port or ray://host:port; Ray on this machine only when not set",
    )
    cpus: float = Field(default=1, ge=0, description="CPUs of a worker")
    gpus: float = Field(default=0, ge=0, description="GPUs of a worker")
    servers: tuple[str, ...] = Field(
        default=(), description="base URLs of equal servers, openai engines only: each worker gets one, in turn"
    )
    in_flight: int | None = Field(
        default=None, ge=1, description="requests sent ahead, a worker; enough to keep its engine busy when not set"
    )
    wait_s: float = Field(default=120.0, gt=0, description="seconds to wait for the cluster to have room for a worker")

    @model_validator(mode="before")
    @classmethod
    def _first_server_is_the_address(cls, data: Any) -> Any:
        """Fill in the address that an openai engine must have and that `servers` already tells."""
        if not isinstance(data, Mapping) or not data.get("servers") or not isinstance(data.get("engine"), Mapping):
            return data
        engine, servers = data["engine"], data["servers"]
        if engine.get("kind") != "openai":
            raise ValueError(
                f"The 'servers' of a ray engine must be left out unless its 'engine' is of kind 'openai', got kind "
                f"{engine.get('kind')!r}"
            )
        first = servers[0] if isinstance(servers, list | tuple) else servers
        if engine.get("base_url_env") or engine.get("base_url") not in (None, first):
            raise ValueError("The 'engine' of a ray engine must have no 'base_url' of its own when 'servers' is set")
        return {**data, "engine": {**engine, "base_url": first}}

    @model_validator(mode="after")
    def _every_server_is_an_address(self) -> RayConfig:
        for number in range(len(self.servers)):
            self.engine_of(number)
        return self

    @property
    def public_name(self) -> str:
        """Name under which answers are stored: that of the model that gives them."""
        return self.engine.public_name

    @property
    def ahead(self) -> int:
        """Requests that are sent ahead for each worker: some problems, and twice what its engine decodes at once."""
        side_by_side = {"vllm": "batch", "openai": "concurrency"}.get(self.engine.kind, "slots")
        return self.in_flight or max(128, 2 * getattr(self.engine, side_by_side))

    def engine_of(self, worker: int) -> ModelConfig:
        """Return the engine of a worker: the same for all, but for the server that it asks."""
        if not self.servers or not isinstance(self.engine, OpenAIConfig):
            return self.engine
        return OpenAIConfig.model_validate(
            {**self.engine.model_dump(), "base_url": self.servers[worker % len(self.servers)]}
        )


EngineConfig = Annotated[
    LlamaCppConfig | VllmConfig | OpenAIConfig | ScriptedConfig | RayConfig, Field(discriminator="kind")
]
ENGINE_KINDS: Mapping[str, type[BaseModel]] = {
    get_args(member.model_fields["kind"].annotation)[0]: member for member in get_args(get_args(EngineConfig)[0])
}
"""Every kind of engine and its config."""


def answering(config: EngineConfig) -> ModelConfig:
    """Return the engine that answers, wherever it runs."""
    return config.engine if isinstance(config, RayConfig) else config


class RoleConfig(Frozen):
    """The model and the decoding of one role."""

    engine: str = Field(description="a name under `engines`")
    prompt: str = Field(description="prompt template, e.g. small/integrator")
    grammar: str | None = Field(default=None, description="GBNF grammar that the answer must follow")
    json_schema: str | None = Field(
        default=None, description="JSON schema that the answer must follow, e.g. standard/hypothesizer"
    )
    temperature: float = Field(ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(ge=1)
    reasoning_effort: str | None = Field(default=None, min_length=1, description="e.g. low, medium, high")
    chat_template_kwargs: dict[str, Any] = Field(default={}, description="variables of the model's chat template")
    extra_body: dict[str, Any] = Field(
        default={}, description="further fields of the HTTP request; openai engines only"
    )

    @model_validator(mode="after")
    def _one_shape(self) -> RoleConfig:
        if self.grammar and self.json_schema:
            raise ValueError(
                "A role must have a 'grammar' or a 'json_schema', not both, got "
                f"{self.grammar!r} and {self.json_schema!r}: set one of them to null"
            )
        if self.json_schema and "response_format" in self.extra_body:
            raise ValueError(
                "The 'extra_body' of a role with a 'json_schema' must not hold 'response_format': the schema is sent "
                "as that"
            )
        return self

    @field_validator("extra_body")
    @classmethod
    def _nothing_twice(cls, extra_body: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(_OWN_FIELDS & extra_body.keys())
        if taken:
            raise ValueError(
                f"The 'extra_body' of a role must hold only fields that dhd-labels does not send itself, got {taken}: "
                "use the setting of that name where there is one"
            )
        return extra_body
