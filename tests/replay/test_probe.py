"""The start-up probe and the noise regimes."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import oracle

from dhd_labels.dataset.build import build
from dhd_labels.engines.base import ChatReply, ChatRequest
from dhd_labels.engines.scripted import ScriptedEngine
from dhd_labels.errors import DhdError
from dhd_labels.replay.probe import CALLS, ProbeResult, noise_sentence, read_probe, summarise_probe
from dhd_labels.replay.run import RunReport, run
from tests.engines.fault_server import FaultServer, ScriptedFront, failure, serving
from tests.replay.test_run import Spy

GREEDY = ("noise=greedy", "roles.integrator.temperature=0")
INVARIANT = ("noise=batch_invariant", "roles.integrator.temperature=0", "protocol.blocks=0", "protocol.alone_draws=1",
    "protocol.only_draws=1", "protocol.prefix_draws=1", "protocol.without_draws=1",
    "protocol.share=true")  # fmt: skip


def probe_of(report: RunReport) -> ProbeResult | None:
    store = report.directory.open_store()
    try:
        return read_probe(store)
    finally:
        store.close()


@pytest.mark.parametrize(
    ("replies", "differ", "by_condition"),
    [
        ([("0", "alone, cold", "12"), ("0", "alone, warm", "13"), ("0", "batch, warm", "13")], 1,
         {"alone, cold": (1, 1), "alone, warm": (0, 1), "batch, warm": (0, 1)}),
        ([("0", "alone, cold", "12")] * 3, 0, {"alone, cold": (0, 3)}),
        ([("0", "batch, cold", "a"), ("1", "batch, cold", "b"), ("1", "alone, warm", "c")], 1,
         {"alone, warm": (1, 1), "batch, cold": (0, 1)}),
    ],
)  # fmt: skip
def test_replies_are_compared_within_their_prompt(replies: Any, differ: int, by_condition: dict[str, Any]) -> None:
    """One of three replies to a prompt that differs (cold against warm cache) is reported as 1 of 3 replies."""
    found = summarise_probe(replies)
    assert found and (found.differ, found.by_condition) == (differ, by_condition)
    assert sum(d for d, _ in found.by_condition.values()) == differ


def test_failed_calls_are_counted_and_nothing_is_nothing() -> None:
    assert summarise_probe([]) is None
    nothing = summarise_probe([("0", "alone, cold", None)])
    assert nothing and (nothing.asked, nothing.compared, nothing.failed) == (1, 0, 1)
    assert "no two replies came back" in nothing.sentence() and nothing.as_json()["rate"] is None
    found = summarise_probe([("0", "alone, cold", "x"), ("0", "alone, warm", None), ("1", "batch, cold", "x")])
    assert found and (found.asked, found.compared, found.differ, found.failed) == (2, 0, 0, 1), (
        "one reply agrees with none"
    )


def test_three_of_twenty_prompts_are_three_of_twenty() -> None:
    replies = [(str(n), c, "y" if n < 3 and c == "batch, warm" else "x") for n in range(20) for c in
               ("alone, cold", "batch, warm")]  # fmt: skip
    found = summarise_probe(replies)
    assert found and (found.differ, found.compared) == (3, 20) and "3 of 20 prompts" in found.sentence()
    assert found.as_json()["rate"] == 0.15 and found.as_json()["wilson_low"] == pytest.approx(0.0524, abs=1e-4)
    flagged = oracle(*INVARIANT)
    assert "NOT batch invariant, in spite of the declaration" in noise_sentence(flagged, {"integrator": found})
    assert "NOT" not in noise_sentence(flagged, {"integrator": summarise_probe([("0", "alone, cold", "x")] * 2)})


def test_the_same_prompts_go_out_alone_and_in_a_batch_cold_and_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[ChatRequest]] = []
    real = ScriptedEngine.generate

    def generate(engine: ScriptedEngine, requests: Iterable[Any]) -> Iterator[Any]:
        group = list(requests)
        sent.append([request for _, request in group])
        yield from real(engine, group)

    monkeypatch.setattr(ScriptedEngine, "generate", generate)
    run(oracle(*GREEDY, "engines.world.batch_noise=1", "probe.prompts=6", "benchmark.size=8"), tmp_path)
    probe = list(itertools.takewhile(lambda g: not g[0].turns[0].content.startswith("# Recruiter"), sent))
    asked = [request for group in probe for request in group]
    prompts = {request.turns for request in asked}
    assert len(prompts) == 6 and len(asked) == 6 * CALLS
    for turns in prompts:
        groups = [group for group in probe if any(r.turns == turns for r in group)]
        assert len({r.seed for g in groups for r in g if r.turns == turns}) == 1, (
            "equal settings, or it measures sampling"
        )
        assert len(groups) == CALLS and sum(len(g) == 1 for g in groups) in (1, 2)
    firsts = Counter(len(next(g for g in probe if any(r.turns == turns for r in g))) for turns in prompts)
    batched = 6 - firsts[1]
    assert firsts[1] and batched and firsts[batched] == (batched if batched > 1 else firsts[1])


def test_a_benchmark_that_grows_at_its_front_is_not_compared_with_itself(tmp_path: Path) -> None:
    """Prompts are known by their problems: on a server without noise none may seem to differ."""
    own = tmp_path / "own.jsonl"

    def write(numbers: range) -> None:
        question = "Which number is written on card number"
        rows = [
            {"id": f"q{n}", "question": f"{question} {n}?", "answer_type": "integer", "reference": "1"} for n in numbers
        ]
        own.write_text("\n".join(map(json.dumps, rows)))

    with serving(FaultServer(ScriptedFront("m"), models=failure(404))) as server:
        engine = f"engines.world={{kind: openai, model: m, base_url: '{server.url}'}}"
        config = oracle(*INVARIANT, engine, "benchmark.name=jsonl", f"benchmark.path={own}", "probe.prompts=6")
        write(range(4, 10))
        run(config, tmp_path / "run", limit=1)
        write(range(10))
        assert (probe := probe_of(run(config, tmp_path / "run", limit=1))) and probe.identical and probe.compared == 10


def test_a_noisy_server_is_measured_and_the_card_shows_it(tmp_path: Path) -> None:
    config = oracle(*GREEDY, "engines.world.batch_noise=0.6", "probe.prompts=20", "protocol.blocks=2")
    report = run(config, tmp_path / "run", limit=20)
    probe = probe_of(report)
    assert probe and probe.compared == 20 and 0 < probe.differ < 20
    assert run(config, tmp_path / "run", limit=20).tally.made == 0, "a probe is paid for once"
    build(report.directory, tmp_path / "data")
    card = (tmp_path / "data" / "README.md").read_text()
    assert f"differed for {probe.differ} of 20 prompts" in card and "Temperature 0 on an ordinary server" in card


def test_repeats_that_would_be_copies_are_refused_before_they_are_paid(tmp_path: Path) -> None:
    with pytest.raises(DhdError, match=r"must not be 'greedy' on this server.*batch_invariant"):
        run(oracle(*GREEDY), tmp_path, limit=2)  # all prompts are probed, also when only some problems are run
    run(oracle(*GREEDY, "probe.prompts=0"), tmp_path, limit=1)  # the way out that the error names, in the same place
    report = run(oracle(*INVARIANT), tmp_path / "single", limit=6)
    assert (probe := probe_of(report)) and probe.identical
    run(oracle(*GREEDY, "probe.prompts=0", "protocol.blocks=1"), tmp_path / "unprobed", limit=2)


@pytest.mark.parametrize(
    "setting",
    ["protocol.blocks=1", "protocol.alone_draws=2", "protocol.prefix_draws=3",
     "masking={repeats: 2, targets: [{problem_id: 'oracle:000', slot: 0}]}"],
)  # fmt: skip
def test_copies_are_never_called_repeats(setting: str) -> None:
    with pytest.raises(DhdError, match="a repeat is a copy"):
        oracle(*INVARIANT, setting)


def test_temperature_and_regime_must_agree() -> None:
    with pytest.raises(DhdError, match="must be above 0 under noise regime 'sampled'"):
        oracle("roles.integrator.temperature=0")
    with pytest.raises(DhdError, match="must be 0 under noise regime 'greedy', got 0.7"):
        oracle("noise=greedy")


def test_masking_on_a_batch_invariant_server_draws_each_condition_once(tmp_path: Path) -> None:
    listed = "masking={repeats: 1, targets: [{problem_id: 'oracle:001', slot: 3}]}"
    report = run(oracle(*INVARIANT, listed), tmp_path, limit=3)
    store = report.directory.open_store()
    tickets = [ticket for ticket in store.calls("oracle:001") if "/mask-3-" in ticket]
    store.close()
    assert len(tickets) == 5 and not any("-repeat/" in ticket for ticket in tickets)


def test_a_larger_limit_asks_nothing_of_the_probe_again(tmp_path: Path) -> None:
    config = oracle(*GREEDY, "engines.world.batch_noise=0.5", "protocol.blocks=1")
    for limit in (3, 8):
        report = run(config, tmp_path, limit=limit)
        assert (probe := probe_of(report)) and probe.compared == 20
        assert all(n <= 20 for _, n in probe.by_condition.values())
        assert sum(n for _, n in probe.by_condition.values()) == 60


def test_failed_calls_of_the_probe_are_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = itertools.count()

    def broken(reply: ChatReply) -> ChatReply:
        return dataclasses.replace(reply, status="server_error", text="") if next(replies) % 3 else reply

    config = oracle(*GREEDY, "engines.world.batch_noise=0.5", "protocol.blocks=1")
    Spy(monkeypatch, change=broken)
    first = probe_of(run(config, tmp_path, limit=1))
    monkeypatch.undo()
    last = probe_of(run(config, tmp_path, limit=1))
    assert first and last and first.failed == 40 and (last.failed, last.compared) == (0, 20)


def test_draws_that_are_copies_are_called_so(tmp_path: Path) -> None:
    """A server that ignores the seed: sampled by declaration, copies in fact."""
    unprobed = oracle(*GREEDY, "probe.prompts=0", "protocol.blocks=2")
    report = run(unprobed, tmp_path / "run", limit=3)
    build(report.directory, tmp_path / "data")
    assert "they look like copies, not like repeats" in (tmp_path / "data" / "README.md").read_text()
    honest = run(oracle("protocol.blocks=2"), tmp_path / "sampled", limit=6)
    build(honest.directory, tmp_path / "honest")
    assert "copies" not in (tmp_path / "honest" / "README.md").read_text()


def test_vllm_in_this_process_must_be_told_to_be_batch_invariant(tmp_path: Path) -> None:
    """The declaration is known to be false, so nothing is started; what was run so before can still be read."""
    engine = "engines.local={kind: vllm, model: org/tiny, revision: abc}"
    once = ("protocol.blocks=0", "protocol.alone_draws=1", "protocol.only_draws=1", "protocol.share=true")
    settings = (engine, "roles.integrator={engine: local, prompt: standard/integrator, temperature: 0, max_tokens: 9}")
    config = oracle(*settings, "noise=batch_invariant", *once)
    with pytest.raises(DhdError, match="'engines.local.batch_invariant' must be true under noise regime"):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
