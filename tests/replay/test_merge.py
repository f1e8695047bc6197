"""Draws of one prompt in one request: a row for each draw, nothing paid twice, blocks never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import oracle

from dhd_labels.errors import DhdError
from dhd_labels.replay.run import run
from tests.engines.fault_server import Answer, FaultServer, Seen, completion, failure, serving
from tests.replay.test_run import Spy
from tests.replay.test_studies import results

SMALL = ("benchmark.size=2", "protocol.blocks=2", "protocol.alone_draws=4", "protocol.only_draws=2")
MERGED = (*SMALL, "protocol.merge_draws=true")


def integrator_calls(spy: Spy) -> list[Any]:
    return [request for request in spy.seen if request.turns[0].content.startswith("# Integrator")]


def test_outside_blocks_equal_prompts_are_one_request_and_a_row_for_each_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    apart = run(oracle(*SMALL), tmp_path / "apart")
    alone = len(integrator_calls(spy))
    spy.seen.clear()
    together = run(oracle(*MERGED), tmp_path / "together")
    assert alone == 2 * (4 + 5 * 2 + 2 * 7) and len(integrator_calls(spy)) == 2 * (1 + 5 + 2 * 7)
    assert sorted(request.n for request in integrator_calls(spy)) == [1] * 28 + [2] * 10 + [4] * 2
    for one, other in zip(results(apart), results(together), strict=True):
        assert [o.replay for o in one.outcomes] == [o.replay for o in other.outcomes]
        assert all(o.status == "graded" for o in other.outcomes)
        assert len({o.call_key for o in other.outcomes}) == len(other.outcomes), "every draw has a key of its own"
        blocks = [(o.call_key, o.answer) for o in one.outcomes if o.replay.block is not None]
        assert blocks == [(o.call_key, o.answer) for o in other.outcomes if o.replay.block is not None]
    spy.seen.clear()
    again = run(oracle(*MERGED), tmp_path / "together")
    assert not spy.seen and again.tally.made == 0


def test_merging_is_off_by_default_and_not_for_copies() -> None:
    assert not oracle().protocol.merge_draws
    with pytest.raises(DhdError, match=r"'protocol.merge_draws' must be false under noise regime 'greedy', got true"):
        oracle("noise=greedy", "roles.integrator.temperature=0", "protocol.merge_draws=true")


def test_a_draw_that_cannot_be_used_is_asked_for_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    made = True
    while made:
        done = run(oracle(*MERGED, "engines.world.fault_rate=0.3"), tmp_path)
        made = bool(done.tally.made)
    asked = [(request.turns, request.seed) for request in integrator_calls(spy) if request.n > 1]
    assert asked and len(set(asked)) == len(asked), "what was merged once is never merged again"
    assert len({o.replay for o in results(done)[0].outcomes}) == 4 + 5 * 2 + 2 * 7


class Draws:
    """Answers with so many choices as are asked for, or with fewer."""

    def __init__(self, most: int = 99) -> None:
        self.most = most

    def __call__(self, seen: Seen) -> Answer:
        prompt = json.dumps(seen.body["messages"])
        if "# Recruiter" in prompt:
            text = "\n".join(f"{slot + 1}. Reader {slot}: side {slot}" for slot in range(5))
            return Answer(body=completion(text, model="m"))
        if "# Hypothesizer" in prompt:
            return Answer(body=completion("Proposed answer: \\boxed{7}\nKey idea: add\nConfidence: high", model="m"))
        count = min(self.most, seen.body.get("n", 1))
        choices = [
            {"index": i, "message": {"content": f"\\boxed{{{i}}}"}, "finish_reason": "stop"} for i in range(count)
        ]
        return Answer(body=completion(model="m", choices=choices))


def http_config(url: str) -> Any:
    engine = f"engines.world={{kind: openai, model: m, base_url: '{url}', max_tries: 1}}"
    return oracle(engine, *MERGED, "protocol.blocks=0", "benchmark.size=1")


def test_several_choices_over_http_become_rows_whose_usage_is_counted_once(tmp_path: Path) -> None:
    with serving(FaultServer(Draws(), models=failure(404))) as server:
        done = run(http_config(server.url), tmp_path)
    alone = [o for o in results(done)[0].outcomes if o.replay.arm.name == "alone"]
    assert [o.answer for o in alone] == ["0", "1", "2", "3"]
    assert [o.prompt_tokens for o in alone] == [9, None, None, None]
    assert [body.body["n"] for body in server.seen if "n" in body.body] == [2] * 5 + [4]


def test_a_server_that_knows_no_n_costs_no_draw(tmp_path: Path) -> None:
    with serving(FaultServer(Draws(most=1), models=failure(404))) as server:
        done = run(http_config(server.url), tmp_path)
        outcomes = results(done)[0].outcomes
        missing = [o for o in outcomes if o.status == "operational"]
        assert len(missing) == 3 + 5 and len(outcomes) == 4 + 5 * 2
        server.seen.clear()
        again = run(http_config(server.url), tmp_path)
        assert len(server.seen) == 8 and not any("n" in seen.body for seen in server.seen)
        assert all(o.status == "graded" for o in results(again)[0].outcomes)
