from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from support import message

from dhd_labels.config import ScriptedConfig
from dhd_labels.engines.base import ChatRequest
from dhd_labels.engines.scripted import ScriptedEngine
from dhd_labels.grading.extract import extract_answer
from dhd_labels.oracle import World, clue_mark
from dhd_labels.protocol.prompts import integrator_turns, load_prompt


def request(seed: int, kept: tuple[int, ...], number: int = 5) -> ChatRequest:
    problem = World("stochastic").problems()[number].visible()
    shown = [message(slot, key_idea=clue_mark(number, slot)) for slot in kept]
    turns = integrator_turns(load_prompt("standard/integrator"), problem, shown)
    return ChatRequest(turns, 0.7, 1.0, 64, seed, None, "p")


@pytest.mark.parametrize("kept", [(), (1,), (0, 2, 4), (0, 1, 2, 3, 4)])
def test_success_rate_is_the_world_s(kept: tuple[int, ...]) -> None:
    engine, world = ScriptedEngine(ScriptedConfig(kind="scripted")), World("stochastic")
    groups = engine.generate((seed, request(seed, kept)) for seed in range(2000))
    right = [extract_answer(r.text).answer == world.reference(5) for _, r in itertools.chain.from_iterable(groups)]
    assert abs(np.mean(right) - world.success_probability(5, kept)) < 0.04


def test_same_request_same_answer_and_another_seed_another() -> None:
    engine = ScriptedEngine(ScriptedConfig(kind="scripted"))
    texts = [
        reply.text
        for _, reply in itertools.chain.from_iterable(engine.generate((s, request(s % 50, (0,))) for s in range(100)))
    ]
    assert texts[:50] == texts[50:] and len(set(texts)) == 2


def test_log_has_one_line_a_call_and_requests_are_pulled_lazily(tmp_path: Path) -> None:
    log = tmp_path / "log"
    engine = ScriptedEngine(ScriptedConfig(kind="scripted", slots=3, call_log=str(log)))
    pulled = 0

    def requests() -> object:
        nonlocal pulled
        for seed in range(100):
            pulled += 1
            yield seed, request(seed, ())

    stream = engine.generate(requests())  # type: ignore[arg-type]
    assert len(next(stream)) == 3 and pulled == 3 and len(log.read_text().split()) == 3
    engine.close()


def test_faults_come_at_their_rate_and_in_every_kind() -> None:
    engine = ScriptedEngine(ScriptedConfig(kind="scripted", fault_rate=0.3))
    replies = [r for _, r in itertools.chain.from_iterable(engine.generate((s, request(s, ())) for s in range(1000)))]
    bad = [r.status for r in replies if r.status != "ok"]
    assert set(bad) == {"server_error", "empty", "truncated"} and 240 < len(bad) < 360
