"""Whole runs, as a user types them, against a server that misbehaves on purpose."""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from dhd_labels.__main__ import main
from dhd_labels.dataset.build import build
from dhd_labels.replay.directory import open_run
from tests.engines.fault_server import Answer, FaultServer, ScriptedFront, Seen, completion, failure, serving
from tests.engines.test_openai import KEY, FastClock
from tests.engines.test_openai import environment as environment

MODEL = "scripted-stochastic"
LISTED = Answer(body={"data": [{"id": MODEL, "owned_by": "us"}]})
FAULTS = (
    failure(429, "slow down", headers={"Retry-After": "2"}),
    failure(429, "slow down"),
    failure(500, "boom"),
    Answer(502, b"<html>bad gateway</html>"),
    Answer(body=b'{"choices": [{"mess'),
    Answer(body=completion(model=MODEL), cut_at=40),
    Answer(body=completion(model=MODEL), chunked=True),
    Answer(body=completion(choices=[], model=MODEL)),
)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhd_labels.engines.openai.SystemClock", lambda: FastClock(2000))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with serving(FaultServer(ScriptedFront(MODEL), models=LISTED)) as made:
        yield made


class Screen:
    """Runs the command line in this process and keeps everything that a person would see."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.seen = ""

    def run(self, server: FaultServer, *, url: str = "", limit: int = 4, **engine: Any) -> int:
        settings = {"kind": "openai", "model": MODEL, "base_url": url or server.url, "concurrency": 8, **engine}
        arguments = ["oracle", "--run-dir", str(self.folder), "--limit", str(limit), "--set", "protocol.blocks=1"]
        return self("run", *arguments, "--set", f"engines.world={json.dumps(settings)}")

    def status(self) -> dict[str, Any]:
        self("status", str(self.folder), "--json")
        found: dict[str, Any] = json.loads(self.seen)
        return found

    def __call__(self, *arguments: str) -> int:
        code = main(arguments)
        out, err = self._capsys.readouterr()
        self.seen = out + err
        return code


@pytest.fixture
def screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Screen:
    return Screen(tmp_path / "run", capsys)


class Faulty:
    """Lets a fifth of all tries fail, each kind of fault in its turn, and counts the good answers to every body."""

    def __init__(self, every: int = 5) -> None:
        self._front, self._every = ScriptedFront(MODEL), every
        self.paid: Counter[str] = Counter()
        self.faults = 0

    def __call__(self, seen: Seen) -> Answer:
        if self._every and seen.number % self._every == 0:
            self.faults += 1
            return FAULTS[self.faults % len(FAULTS)]
        self.paid[json.dumps(seen.body, sort_keys=True)] += 1
        return self._front(seen)


@pytest.mark.parametrize("tries", [5, 1])
def test_a_run_with_a_fifth_of_all_calls_failing_ends_and_pays_nothing_twice(
    server: FaultServer, screen: Screen, tries: int
) -> None:
    """With five tries most faults heal in the run, with one try each costs its call; then the same command goes on."""
    script = Faulty()
    server.script = script
    for _ in range(12):
        code = screen.run(server, max_tries=tries)
        status = screen.status()
        answered = sum(item["calls"] for item in status["calls"] if item["status"] == "ok")
        failed = sum(error["calls"] for error in status["errors"])
        assert answered == sum(script.paid.values()) and set(script.paid.values()) == {1}, "paid once, and kept"
        assert code == (0 if not failed else 3 if status["replays_done"] else 1)
        assert bool(status["failed"]) == bool(failed)
        if not failed:
            break
    assert not failed and script.faults >= len(FAULTS) and status["complete"] == 4
    assert status["replays_done"] == status["replays_planned"] > 0
    sent = len(server.seen)
    assert screen.run(server, max_tries=tries) == 0 and len(server.seen) == sent


def test_the_summary_of_failures_says_what_failed_why_and_what_to_do(server: FaultServer, screen: Screen) -> None:
    front = ScriptedFront(MODEL)

    def script(seen: Seen) -> Answer:
        if "Integrator" in str(seen.body["messages"]) and seen.seed % 4 == 0:
            return failure(500, f"worker {seen.number} died")
        return front(seen)

    server.script = script
    assert screen.run(server, max_tries=2) == 3
    text = " ".join(screen.seen.split())
    assert "of the integrator (server_error), e.g.: HTTP 500: worker" in text and "(after 2 tries)" in text
    assert "Run the same command again" in text
    (error,) = screen.status()["errors"]
    assert error["calls"] == screen.status()["failed"]["replay server_error"] > 1
    server.script = front
    assert screen.run(server) == 0 and "Run the same command" not in screen.seen and not screen.status()["errors"]


STOPS = {
    "bad key": (failure(401, "no such key"), "'OPENAI_API_KEY'"),
    "unknown model": (failure(404, f"The model `{MODEL}` does not exist"), "Check 'model'"),
    "no money": (failure(402, "pay first"), "will answer no call"),
    "moved": (Answer(307, {}, {"Location": f"https://elsewhere.example/v1?key={KEY}"}), "elsewhere.example"),
}


@pytest.mark.parametrize("fault", STOPS)
@pytest.mark.parametrize("listed", [True, False])
def test_what_no_call_survives_stops_before_a_second_round(
    server: FaultServer, screen: Screen, fault: str, listed: bool
) -> None:
    answer, words = STOPS[fault]
    server.models = LISTED if listed else failure(404)
    server.script = lambda seen: answer
    assert screen.run(server, limit=50) == 2
    assert words in screen.seen and KEY not in screen.seen and 1 <= len(server.seen) <= 8


def test_a_model_that_is_not_listed_stops_before_any_call(server: FaultServer, screen: Screen) -> None:
    assert screen.run(server, model="scripted-stochastik") == 2
    assert f"Did you mean {MODEL!r}" in screen.seen and not server.seen


def test_a_certificate_that_is_not_trusted_stops_before_any_call(screen: Screen) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost", "127.0.0.1").configure_cert(tls)
    with serving(FaultServer(ScriptedFront(MODEL)), tls) as server:
        assert screen.run(server, url=server.url.replace("http:", "https:")) == 2
        assert "'SSL_CERT_FILE'" in screen.seen and not server.seen


def test_a_server_that_refuses_connections_for_half_a_minute_costs_no_call(
    monkeypatch: pytest.MonkeyPatch, screen: Screen
) -> None:
    """In the middle of a run the port closes, and opens again 30 s later by the clock of the engine."""
    front = ScriptedFront(MODEL)
    running: list[Any] = []
    gone_at: list[float] = []
    answered: Counter[str] = Counter()

    class Clock(FastClock):
        """Closes the port after 30 calls and opens it again half a minute later."""

        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if gone_at and len(running) == 1 and self.now() >= gone_at[0] + 30:
                running.append(serving(FaultServer(script, LISTED, port=port)))
                running[1].__enter__()

    def script(seen: Seen) -> Answer:
        if len(running) == 1 and seen.number >= 30:
            if not gone_at:
                gone_at.append(clock.now())
                first.http.socket.close()
            return Answer(body=b"", cut_at=0)
        answered[json.dumps(seen.body, sort_keys=True)] += 1
        return front(seen)

    clock = Clock(300)
    monkeypatch.setattr("dhd_labels.engines.openai.SystemClock", lambda: clock)
    first = FaultServer(script, LISTED)
    port = first.port
    running.append(serving(first))
    running[0].__enter__()
    try:
        code = screen.run(first, limit=2, max_tries=8)
    finally:
        for one in reversed(running):
            one.__exit__(None, None, None)
    assert code == 0 and len(running) == 2 and "no connection to the server" in screen.seen
    assert set(answered.values()) == {1}, "no call was answered twice"


def test_a_hang_past_the_timeout_is_tried_again(server: FaultServer, screen: Screen) -> None:
    front = ScriptedFront(MODEL)
    server.script = lambda seen: Answer(hangs=True) if seen.number == 20 else front(seen)
    assert screen.run(server, limit=1, timeout_s=1) == 0
    assert "no answer within 'timeout_s'" in screen.seen


def test_an_answer_that_was_cut_off_is_counted_and_never_wrong(server: FaultServer, screen: Screen) -> None:
    front = ScriptedFront(MODEL)

    def script(seen: Seen) -> Answer:
        answer = front(seen)
        if "Integrator" in str(seen.body["messages"]) and seen.seed % 4 == 0:
            answer.body["choices"][0] |= {"finish_reason": "length", "message": {"content": "I looked at the"}}
        return answer

    server.script = script
    assert screen.run(server) == 0
    assert any(item["status"] == "truncated" for item in screen.status()["calls"]) and "truncated" in str(
        screen("status", str(screen.folder)) or screen.seen
    )


def test_tokens_without_a_text_are_asked_for_again_up_to_the_bound(server: FaultServer, screen: Screen) -> None:
    front = ScriptedFront(MODEL)

    def script(seen: Seen) -> Answer:
        if "Integrator" in str(seen.body["messages"]):
            return Answer(body=completion(None, model=MODEL, message={"reasoning": "so 12"}))
        return front(seen)

    server.script = script
    assert screen.run(server, limit=1) == 1
    status = screen.status()
    sent = [json.dumps(seen.body, sort_keys=True) for seen in server.seen]
    assert len(set(sent)) == len(sent), "every attempt has its own seed"
    assert status["failed"] == {"replay empty_final_with_tokens": status["replays_planned"]}
    (empty,) = (item for item in status["calls"] if item["status"] == "empty")
    assert empty["calls"] == 3 * status["replays_planned"] and empty["completion_tokens"] == 3 * empty["calls"]
    assert screen.run(server, limit=1) == 1 and len(server.seen) == len(sent)


def test_another_model_stops_the_run_and_the_answers_before_it_stay(server: FaultServer, screen: Screen) -> None:
    front = ScriptedFront(MODEL)
    server.script = lambda seen: (
        Answer(body={**front(seen).body, "model": "other/model"}) if seen.number >= 30 else front(seen)
    )
    assert screen.run(server) == 2 and "'other/model' came back" in screen.seen and len(server.seen) <= 30 + 16
    server.script = front
    assert screen.run(server) == 0


def test_a_key_reaches_no_screen_file_or_card_whatever_the_server_echoes(
    server: FaultServer, screen: Screen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bodies, headers, redirects and the list of models; plain, in Base64, escaped, and in halves."""
    monkeypatch.setenv("OPENAI_ORG_ID", organisation := "org-of-nobody-else")
    front = ScriptedFront(MODEL)
    basic = base64.b64encode(f"user:{KEY}".encode()).decode()
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEY)
    echoes = [
        Answer(500, {"error": {"message": f"sent Bearer {KEY} of {organisation}"}}, {"X-Echo": KEY}),
        Answer(502, f'{{"authorization": "Basic {basic}"'.encode()),
        Answer(500, f"<p>{escaped} {KEY[:10]}\n{KEY[10:]}</p>".encode()),
        Answer(200, {"error": {"message": f"{'x' * 480} {KEY}", "headers": {"Authorization": KEY}}}),
        Answer(422, {"detail": [{"msg": "bad", "input": {"api_key": KEY, "basic": basic}}]}),
        Answer(429, {"error": f"too fast, ?key={KEY}"}, {"Retry-After": KEY}),
    ]
    server.models = Answer(body={"data": [{"id": MODEL, "owned_by": KEY, "root": f"/data/{KEY}/{basic}"}]})

    def script(seen: Seen) -> Answer:
        answer = front(seen)
        answer.body["system_fingerprint"] = f"fp {basic} {KEY}"
        return echoes[seen.number % len(echoes)] if seen.number % 3 == 2 else answer

    server.script = script
    texts = []
    for _ in range(2):
        screen.run(server, max_tries=2)
        texts.append(screen.seen)
        screen("status", str(screen.folder), "--json")
        texts.append(screen.seen)
    build(open_run(screen.folder), tmp_path / "data")
    server.script = lambda seen: Answer(307, {}, {"Location": f"https://a.example/{KEY}/v1?key={KEY}"})
    screen.run(server, limit=9)
    files = [path for path in (*screen.folder.rglob("*"), *(tmp_path / "data").rglob("*")) if path.is_file()]
    written = "\n".join([*texts, screen.seen, *(path.read_bytes().decode("latin-1") for path in files)])
    assert "***" in written and server.seen[0].headers["openai-organization"] == organisation
    for secret in (KEY, KEY[:10], KEY[10:], basic[8:24], escaped[:30], organisation):
        assert secret not in written
    assert os.environ["OPENAI_API_KEY"] == KEY


@pytest.mark.parametrize(
    "engine",
    [{"base_url": f"https://host/v1?key={KEY}"}, {"base_url": f"https://me:{KEY}@host/v1"},
     {"base_url": f"https://host/v1#{KEY}"}, {"api_key_env": KEY}, {"api_key_env": "hf_abcdefgh12345678ZZ"}],
)  # fmt: skip
def test_a_key_in_the_config_is_refused_and_not_shown(
    server: FaultServer, screen: Screen, engine: dict[str, str]
) -> None:
    assert screen.run(server, **{"url": "", **engine}) == 2
    assert KEY not in screen.seen and "hf_abc" not in screen.seen and not screen.folder.exists()
    assert "api_key_env" in screen.seen


def test_many_refused_prompts_neither_stop_a_run_nor_are_asked_again(server: FaultServer, screen: Screen) -> None:
    front = ScriptedFront(MODEL)

    def moderating(seen: Seen) -> Answer:
        prompt = str(seen.body["messages"])
        flagged = "# Hypothesizer" in prompt and "Reader 4" in prompt
        return failure(400, "your prompt was flagged") if flagged else front(seen)

    server.script = moderating
    assert screen.run(server, limit=12, concurrency=1) in (1, 3), "no pool is complete, so nothing useful is made"
    sent = len(server.seen)
    assert sent == 12 * (1 + 5), "each call is made once: another seed changes nothing for a refused prompt"
    refused = [row for row in screen.status()["calls"] if row["status"] == "refused"]
    assert [(row["role"], row["calls"]) for row in refused] == [("hypothesizer", 12)]
    assert screen.run(server, limit=12, concurrency=1) in (1, 3) and len(server.seen) == sent
