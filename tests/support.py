"""Builders that several tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dhd_labels.config import RunConfig, load_config
from dhd_labels.engines.base import ChatReply
from dhd_labels.records import Arm, Message, Outcome, Pool, Problem, Replay

ROOT = Path(__file__).parents[1]
MAIN_PASS = ("protocol.alone_draws=1", "protocol.only_draws=1", "protocol.prefix_draws=1", "protocol.without_draws=1")
"""The 25 comparisons of the paper's main pass."""
SOLVER = "{kind: scripted, world: %s, solver_seed: 5, slots: 8}"
BINDING = "{engine: %s, prompt: standard/%s, temperature: %s, max_tokens: 256}"
EVERYTHING = (
    *MAIN_PASS,
    "protocol.share=true",
    "protocol.blocks=5",
    f"engines.other={SOLVER % 'stochastic'}",
    f"roles.other_integrator={BINDING % ('other', 'integrator', 0.7)}",
    f"roles.evaluator={BINDING % ('world', 'evaluator', 0)}",
    "grading=evaluator",
    "sensitivity.order={problems: 8, blocks: 3}",
    "sensitivity.integrator={problems: 8, blocks: 3}",
    "masking={repeats: 2, cases: {wrong_helpful: 4, correct_harmful: 2, indeterminate: 2}}",
)
"""Every arm, role and study there is, for the oracle preset."""
_SHARED = (os.environ.get("DHD_SHARED"), ROOT / "shared", ROOT.parent / "shared")
SHARED = next((Path(place) for place in _SHARED if place and Path(place, "benchmarks").is_dir()), None)
"""Where real benchmark files are kept, or None; they are no part of the package, and tests skip without them."""


def problem(**changes: object) -> Problem:
    values = {
        "problem_id": "t:1", "benchmark": "t", "question": "What is 3 plus 4?", "reference": "7",
        "answer_type": "integer", "choices": (), "license": "apache-2.0", "train_allowed": True, "commercial_use": True,
    }  # fmt: skip
    return Problem(**{**values, **changes})  # type: ignore[arg-type]


def message(slot: int, **changes: object) -> Message:
    values = {
        "slot": slot, "role_name": f"Role {slot}", "lens": "a lens", "proposed_answer": "7",
        "reasoning_direction": f"direction {slot}", "key_idea": "", "critical_assumption": "", "what_to_check": "",
        "confidence": "high", "raw": "raw", "status": "ok",
    }  # fmt: skip
    return Message(**{**values, **changes})  # type: ignore[arg-type]


def pool(of: Problem | None = None, messages: Sequence[Message] = ()) -> Pool:
    return Pool.of((of or problem()).problem_id, "actor", messages or [message(slot) for slot in range(5)])


def outcome(arm: Arm, block: int | None, draw: int, correct: bool | None, status: str = "graded") -> Outcome:
    replay = Replay("t:1", "p", arm, "m", "original", block, draw, None, arm.name)
    reason = None if status == "graded" else "why"
    return Outcome(replay, status, reason, "7", correct, "stop", 1, 0, 1, 0, "m")  # type: ignore[arg-type]


def reply(text: str, status: str = "ok") -> ChatReply:
    return ChatReply(status, text, None, "stop", 1, 0, 1, "m", None)  # type: ignore[arg-type]


def oracle(*overrides: str) -> RunConfig:
    return load_config("oracle", overrides)


def cli(*arguments: str, cwd: Path = ROOT, module: str = "dhd_labels") -> subprocess.CompletedProcess[str]:
    """Run a command line in a child process, as a user would."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
