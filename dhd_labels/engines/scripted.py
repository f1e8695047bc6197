"""The scripted engine: answers from the oracle world, reading nothing but the prompt.

It learns from the rendered prompt which role it plays, which problem it is about and which messages are visible, as a
model would. So a run on it checks the whole road from plan to label, not a shortcut around the prompts.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from dhd_labels import oracle
from dhd_labels.config import ScriptedConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, EngineIdentity, Token
from dhd_labels.records import POOL_SIZE

_VERSION = "1"
_FAULTS = ("server_error", "empty", "truncated")


class ScriptedEngine:
    """Implements `ChatEngine` for tests, trials and fault injection."""

    def __init__(self, config: ScriptedConfig) -> None:
        self._config = config
        self._world = oracle.World(config.world, config.world_seed, config.solver_seed)
        self._model = config.public_name
        self._warm: set[str] = set()
        self._log = _CallLog(Path(config.call_log)) if config.call_log else None

    @property
    def identity(self) -> EngineIdentity:
        """Software, version, model and revision."""
        return EngineIdentity("scripted", _VERSION, self._model, f"world-{self._config.world_seed}")

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer requests in order, `slots` at a time."""
        stream = iter(requests)
        while window := list(itertools.islice(stream, self._config.slots)):
            if self._log:
                for _, request in window:
                    self._log.add(request)
            if self._config.latency_s:
                time.sleep(self._config.latency_s)
            yield [(token, self._draws(request, len(window) > 1)) for token, request in window]

    def close(self) -> None:
        """Close the call log."""
        if self._log:
            self._log.close()

    def _draws(self, request: ChatRequest, batched: bool) -> ChatReply:
        """Return the reply, with the further draws of a request for several; each as if its seed were the next one."""
        first, *others = (self._reply(replace(request, seed=request.seed + i), batched) for i in range(request.n))
        return replace(first, more=tuple(replace(o, prompt_tokens=None, cached_tokens=None) for o in others))

    def _reply(self, request: ChatRequest, batched: bool) -> ChatReply:
        luck = _uniform(request, "fault")
        if luck < self._config.fault_rate:
            return self._fault(request, _FAULTS[int(luck / self._config.fault_rate * len(_FAULTS))])
        prompt = hashlib.sha256(repr(request.turns).encode()).hexdigest()
        warm = prompt in self._warm
        if self._config.batch_noise:
            self._warm.add(prompt)
        # As on a real server: for some prompts the last bits of the numbers depend on batch and cache, and so the
        # answer.
        shaky = _uniform(request, "shaky") < self._config.batch_noise
        text = self._answer(request, f"{batched}{warm}" if shaky else "")
        tokens = sum(len(turn.content.split()) for turn in request.turns)
        return ChatReply(
            "ok", text, None, "stop", tokens, tokens - 1 if warm else 0, len(text.split()), self._model, None
        )

    def _fault(self, request: ChatRequest, kind: str) -> ChatReply:
        if kind == "server_error":
            return ChatReply("server_error", "", None, None, None, None, None, self._model, "injected fault")
        if kind == "empty":
            return ChatReply("empty", "", None, "stop", 1, 0, 0, self._model, "the model returned no text")
        cut = self._answer(request, "")[:8]
        return ChatReply("truncated", cut, None, "length", 1, 0, request.max_tokens, self._model, None)

    def _answer(self, request: ChatRequest, state: str) -> str:
        prompt = "\n".join(turn.content for turn in request.turns)
        if prompt.startswith("# Evaluator"):
            return oracle.judge(prompt)
        number = oracle.card_number(prompt)
        if prompt.startswith("# Recruiter"):
            return "\n".join(f"{slot + 1}. Reader {slot}: reads the card from side {slot}" for slot in range(POOL_SIZE))
        if prompt.startswith("# Hypothesizer"):
            return self._message(number, int(prompt.rsplit("Reader ", 1)[1][0]))
        seen = oracle.seen_clues(prompt)
        right = _uniform(request, f"answer{state}") < self._world.success_seeing(number, seen)
        reference = self._world.reference(number)
        answer = reference if right else str(int(reference) + 7)
        return f"I looked at {len(seen)} clues.\nAnswer: \\boxed{{{answer}}}"

    def _message(self, number: int, slot: int) -> str:
        clue = self._world.clues(number)[slot]
        lines = [
            f"Reasoning direction: look at side {slot} of the card",
            f"Key idea: {oracle.clue_mark(number, slot)}",
            "Critical assumption: the card has one number",
            "What to check: the last digit",
            f"Confidence: {'high' if slot % 2 else 'low'}",
        ]
        answer = [f"Proposed answer: \\boxed{{{clue.answer}}}"] if clue.answer else []
        return "\n".join(answer + lines)


class _CallLog:
    """One line a call, written straight to the file, so that a killed process leaves a true record."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, request: ChatRequest) -> None:
        line = hashlib.sha256(repr((request.turns, request.seed)).encode()).hexdigest()
        os.write(self._handle, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._handle)


def _uniform(request: ChatRequest, purpose: str) -> float:
    """Return a number in [0, 1) that depends on the prompt and, when sampling, on the seed; on nothing else."""
    text = repr((purpose, request.turns, request.seed if request.temperature else None))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
