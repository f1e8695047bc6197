"""`--max-cost`: the run ends before it costs more, whatever the calls in flight turn out to cost."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import cli, oracle

from dhd_labels.config import PriceConfig
from dhd_labels.engines.base import ChatReply, ChatRequest, Turn
from dhd_labels.errors import DhdError
from dhd_labels.replay.cost import Budget, cost_of, spent_so_far
from dhd_labels.replay.run import run
from tests.engines.fault_server import Answer, FaultServer, ScriptedFront, Seen, failure, serving
from tests.replay.test_studies import results

PRICES = "plan.prices={world: {input: 1000, output: 2000}}"
SMALL = ("benchmark.size=3", "protocol.blocks=1", PRICES)


def spent(report: Any) -> float:
    store = report.directory.open_store()
    found = spent_so_far(report.directory.config, store)
    store.close()
    assert found is not None
    return found


def test_a_run_with_enough_is_not_stopped_and_its_cost_is_that_of_its_tokens(tmp_path: Path) -> None:
    report = run(oracle(*SMALL), tmp_path, max_cost=1e9)
    assert not report.stopped
    store = report.directory.open_store()
    totals = store.totals()
    store.close()
    expected = sum(row["prompt_tokens"] * 1000 + row["completion_tokens"] * 2000 for row in totals) / 1e6
    assert spent(report) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_run_stops_before_the_limit_near_it_and_goes_on_with_a_higher_one(tmp_path: Path, share: float) -> None:
    whole = run(oracle(*SMALL), tmp_path / "whole")
    limit = share * spent(whole)
    report = run(oracle(*SMALL), tmp_path / "part", max_cost=limit)
    assert report.stopped.startswith(f"Stopped before --max-cost {limit:g} was passed") and report.tally.failed == 0
    assert spent(report) <= limit
    one_call = (4096 * 1000 + 256 * 2000) / 1e6
    assert spent(report) > limit - one_call, "what was reserved for answers and not spent is used"
    done = run(oracle(*SMALL), tmp_path / "part", max_cost=1e9)
    assert not done.stopped and done.tally.found == report.tally.made
    assert [r.outcomes for r in results(done)] == [r.outcomes for r in results(whole)]


def test_every_engine_needs_a_price_before_one_is_asked(tmp_path: Path) -> None:
    with pytest.raises(DhdError, match=r"'--max-cost' needs the price of every engine, got none for world\. Set it"):
        run(oracle("benchmark.size=1"), tmp_path, max_cost=1.0)
    assert not list(tmp_path.iterdir())


def test_a_server_without_token_counts_stops_at_its_first_answer(tmp_path: Path) -> None:
    front = ScriptedFront("m")

    def silent(seen: Seen) -> Answer:
        body = front(seen).body
        return Answer(body={name: value for name, value in body.items() if name != "usage"})

    with serving(FaultServer(silent, models=failure(404))) as server:
        engine = f"engines.world={{kind: openai, model: m, base_url: '{server.url}', concurrency: 1}}"
        with pytest.raises(DhdError, match="cannot be kept: 'm' answered a call of the recruiter without token counts"):
            run(oracle(engine, *SMALL), tmp_path, max_cost=1e9)
        assert len(server.seen) == 1


def request(text: str, n: int = 1) -> ChatRequest:
    return ChatRequest((Turn("user", text),), 0.7, 1.0, 100, 1, None, "p", n=n)


def answer(prompt: int | None, cached: int, written: int | None, status: str = "ok", error: str = "") -> ChatReply:
    return ChatReply(status, "x", None, "stop", prompt, cached, written, "m", error or None)  # type: ignore[arg-type]


def budget(limit: float, **price: float) -> Budget:
    return Budget(limit, {"integrator": PriceConfig(**{"input": 1.0, "output": 4.0, **price})}, {"integrator": 3}, 0.0)


@given(st.text(max_size=200), st.integers(1, 4), st.data())
def test_no_answer_costs_more_than_was_reserved(text: str, n: int, data: st.DataObject) -> None:
    asked = request(text, n)
    limited = budget(1e6, cached=0.1)
    assert limited.admit("integrator", asked)
    held = limited.reserved
    prompt = data.draw(st.integers(0, len(text.encode("utf-8", "surrogatepass")) + 512))
    reply = answer(prompt, data.draw(st.integers(0, prompt)), data.draw(st.integers(0, 100 * n)))
    limited.settle("integrator", asked, reply)
    assert limited.spent <= held and limited.reserved == pytest.approx(0.0)


def test_a_try_whose_answer_never_came_counts_at_its_most_also_when_the_next_one_succeeds() -> None:
    limited, asked = budget(1e6), request("x")
    limited.admit("integrator", asked)
    most = limited.reserved / 3  # of one try
    limited.settle("integrator", asked, replace(answer(None, None, None, "server_error", "why"), unseen=3))
    assert limited.spent == pytest.approx(3 * most)
    limited.admit("integrator", asked)
    limited.settle("integrator", asked, answer(None, None, None, "server_error", "HTTP 500"))
    assert limited.spent == pytest.approx(3 * most) and limited.reserved == pytest.approx(0)
    limited.admit("integrator", asked)
    limited.settle("integrator", asked, replace(answer(1_000_000, 0, 0), unseen=2))
    assert limited.spent == pytest.approx(5 * most + 1)


@pytest.mark.parametrize("choices", [[], [{"message": {"content": "x"}, "finish_reason": "content_filter"}]])
def test_tokens_of_a_failed_call_are_paid_for_too(tmp_path: Path, choices: list[Any]) -> None:
    front = ScriptedFront("m")

    def filtered(seen: Seen) -> Answer:
        body = front(seen).body
        failed = {**body, "choices": choices, "usage": {"prompt_tokens": 300, "completion_tokens": 100}}
        return Answer(body=failed if "# Integrator" in str(seen.body["messages"]) else body)

    with serving(FaultServer(filtered, models=failure(404))) as server:
        engine = f"engines.world={{kind: openai, model: m, base_url: '{server.url}', max_tries: 1}}"
        report = run(oracle(engine, "benchmark.size=2", PRICES), tmp_path, max_cost=20)
    assert report.stopped and 10 < spent(report) <= 20
    assert len(server.seen) < 2 * 59


def test_an_engine_that_costs_nothing_needs_no_token_counts() -> None:
    free = Budget(0.0, {"integrator": PriceConfig(input=0, output=0)}, {"integrator": 3}, 0.0)
    assert free.admit("integrator", request("x"))
    free.settle("integrator", request("x"), answer(None, None, None))
    assert free.spent == 0


def test_cached_input_has_its_own_price_only_if_it_has_one() -> None:
    assert cost_of(PriceConfig(input=2, output=3), 1_000_000, 500_000, 1_000_000) == 5
    assert cost_of(PriceConfig(input=2, output=3, cached=1), 1_000_000, 500_000, 1_000_000) == 4.5


def test_the_command_line_says_so_and_ends_with_failed_records(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    done = cli("run", "oracle", "--run-dir", folder, "--set", PRICES, "--max-cost", "20", "--limit", "2")
    assert done.returncode in (1, 3) and "Stopped before --max-cost 20 was passed" in done.stdout
    assert re.search(r"Cost so far: 1\d\.\d+", done.stdout)
    bad = cli("run", "oracle", "--run-dir", folder, "--max-cost", "-1")
    assert bad.returncode == 2 and "max-cost" in bad.stderr
