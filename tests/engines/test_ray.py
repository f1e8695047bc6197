"""The ray engine on a real cluster of two nodes on this machine."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, oracle

from dhd_labels.api import build
from dhd_labels.config import RayConfig, RunConfig, validate_config
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatReply, ChatRequest, Turn
from dhd_labels.engines.http_stops import SAME_FAULTS
from dhd_labels.engines.ray import RayEngine
from dhd_labels.engines.ray_worker import Taken
from dhd_labels.errors import DhdError, EngineStoppedError
from dhd_labels.replay.run import run
from tests.engines.fault_server import MODEL, FaultServer, failure, serving

pytestmark = pytest.mark.slow
ray = pytest.importorskip("ray")
KEY = "value-of-a-key-that-no-log-may-hold"
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
SCRIPTED = {"kind": "scripted", "slots": 4}


class TwoNodes:
    """A cluster of a head and one other node, each with room for one worker."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        self.other = self.cluster.add_node(**NODE)

    @property
    def logs(self) -> Path:
        return Path(self.cluster.head_node.get_session_dir_path(), "logs")

    def lose_the_other(self) -> None:
        self.cluster.remove_node(self.other, allow_graceful=False)

    def restore(self) -> None:
        if self.other not in self.cluster.list_all_nodes():
            self.other = self.cluster.add_node(**NODE)

    def engine(self, inner: dict[str, Any], **changes: Any) -> dict[str, Any]:
        values = {"workers": 2, "address": self.cluster.address, "wait_s": 60, **changes}
        return {"kind": "ray", "engine": inner, **values}

    def open(self, inner: dict[str, Any], **changes: Any) -> RayEngine:
        made = open_engine(RayConfig.model_validate(self.engine(inner, **changes)))
        assert isinstance(made, RayEngine)
        return made


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = TwoNodes()
        yield made
        made.cluster.shutdown()


def config_with(engine: dict[str, Any], **changes: Any) -> RunConfig:
    data = oracle("benchmark.size=6", "protocol.blocks=2").model_dump(mode="json")
    return validate_config({**data, "engines": {"world": engine}, **changes}, "test")


def requests(problems: int, calls: int) -> list[ChatRequest]:
    return [
        ChatRequest((Turn("user", f"# Recruiter of card number {p}"),), 0.7, 1.0, 64, p * 1000 + call, None, f"p{p}")
        for p in range(problems)
        for call in range(calls)
    ]


def log_line(asked: ChatRequest) -> str:
    return hashlib.sha256(repr((asked.turns, asked.seed)).encode()).hexdigest()


def files(folder: Path) -> dict[str, str]:
    found = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in found}


def test_a_run_on_two_nodes_builds_the_data_set_of_one_process_and_moves_between_them(
    nodes: TwoNodes, tmp_path: Path
) -> None:
    alone, spread = config_with(SCRIPTED), config_with(nodes.engine(SCRIPTED))
    first = run(alone, tmp_path / "moved", limit=2)
    second = run(spread, tmp_path / "moved", limit=4)
    assert second.tally.found == first.tally.made and second.tally.made == first.tally.made
    third = run(alone, tmp_path / "moved")
    assert third.tally.found == 2 * first.tally.made and third.tally.made == first.tally.made

    for name, config in (("one", alone), ("two", spread)):
        assert run(config, tmp_path / name).tally.made == 3 * first.tally.made
    for name in ("one", "two", "moved"):
        build(tmp_path / name, tmp_path / f"data-{name}")
    wanted = files(tmp_path / "data-one")
    assert files(tmp_path / "data-two") == wanted and files(tmp_path / "data-moved") == wanted
    assert any(name.endswith(".parquet") for name in wanted)


def test_a_node_that_is_lost_in_the_middle_loses_no_finished_call(nodes: TwoNodes, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    asked = requests(problems=12, calls=20)
    engine = nodes.open({**SCRIPTED, "latency_s": 0.05, "call_log": str(log)})
    try:
        assert engine.identity.kind == "scripted"
        found: Counter[int] = Counter()
        replies: dict[int, ChatReply] = {}
        had: set[int] = set()
        for group in engine.generate(enumerate(asked)):
            found.update(number for number, _ in group)
            replies.update(group)
            if len(found) >= 60 and not had:
                had = set(found)
                nodes.lose_the_other()
    finally:
        engine.close()
        nodes.restore()
    assert found == Counter(range(len(asked))), "every call has exactly one reply"
    assert {reply.status for reply in replies.values()} == {"ok"}
    made = Counter(log.read_text().split())
    assert had and {made[log_line(asked[number])] for number in had} == {1}, "a call whose reply had come was repeated"
    assert set(made) == {log_line(call) for call in asked}


def test_a_lost_process_is_replaced_and_a_run_goes_on(
    nodes: TwoNodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = nodes.open({**SCRIPTED, "latency_s": 0.02}, workers=1)
    found: Counter[int] = Counter()
    try:
        with caplog.at_level(logging.WARNING, "dhd_labels"):
            for group in engine.generate(enumerate(requests(4, 10))):
                if not found:
                    ray.kill(engine._members[0].actor)
                found.update(number for number, _ in group)
        assert found == Counter(range(40))
        assert sum("is lost" in record.getMessage() for record in caplog.records) == 1
    finally:
        engine.close()


def test_a_worker_that_is_not_like_the_others_stops_the_run(nodes: TwoNodes) -> None:
    engine = nodes.open(SCRIPTED, workers=1)
    member = engine._members[0]
    try:
        engine._opened(dataclasses.replace(member, host="b"), dataclasses.replace(engine.identity, version="2"))
        with pytest.raises(DhdError, match=f"version: '1' on {member.host}, '2' on b. Install the same"):
            list(engine.generate(enumerate(requests(1, 2))))
        engine._error = None
        engine._open(dataclasses.replace(member, host="b"), "b", "0.0.1")
        with pytest.raises(DhdError, match=r"same version of dhd-labels, got 0\.0\.1 on b"):
            list(engine.generate(enumerate(requests(1, 2))))
    finally:
        engine.close()


def test_a_worker_that_is_lost_again_and_again_fails_its_calls_and_then_the_stream(nodes: TwoNodes) -> None:
    engine = nodes.open({**SCRIPTED, "latency_s": 60}, workers=1)
    found: list[ChatReply] = []
    try:
        with pytest.raises(EngineStoppedError, match="must keep a worker of 'scripted-stochastic' alive, got 3 losses"):
            for group in engine.generate(_killing(engine)):
                found += [reply for _, reply in group]
    finally:
        engine.close()
    assert {reply.status for reply in found} == {"server_error"}
    assert all("3 workers were lost" in (reply.error or "") for reply in found)


def _killing(engine: RayEngine) -> Iterator[tuple[int, ChatRequest]]:
    """Yield a request, and kill the worker each time that it has been handed over."""
    listen = engine._listen

    def listen_and_kill() -> Any:
        member = engine._members[0]
        if member.sent and not member.outbox:
            ray.kill(member.actor)
        return listen()

    engine._listen = listen_and_kill  # type: ignore[method-assign]
    yield from enumerate(requests(1, 3))


def test_a_cluster_with_room_for_some_workers_starts_pulls_lazily_and_forgets_what_is_given_up(
    nodes: TwoNodes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "dhd_labels"):
        engine = nodes.open({**SCRIPTED, "latency_s": 0.1}, workers=3, wait_s=3, in_flight=8)
    pulled = answered = 0

    def plan() -> Iterator[tuple[int, ChatRequest]]:
        nonlocal pulled
        for number, asked in enumerate(requests(12, 10)):
            pulled += 1
            assert pulled - answered <= 16, "no further ahead than two workers with 8 each"
            yield number, asked

    try:
        assert any("room for 2 of 3 workers" in record.getMessage() for record in caplog.records)
        for group in engine.generate(plan()):
            answered += len(group)
        assert answered == pulled == 120

        given_up = engine.generate(enumerate(requests(20, 10)))
        next(given_up)
        given_up.close()  # type: ignore[attr-defined]
        again = list(itertools.chain.from_iterable(engine.generate(enumerate(requests(2, 2)))))
        assert sorted(number for number, _ in again) == [0, 1, 2, 3], "and nothing of the stream before"
    finally:
        engine.close()


def test_each_problem_is_asked_at_one_server_and_no_log_holds_the_key(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DHD_TEST_KEY", KEY)
    with serving(FaultServer()) as one, serving(FaultServer()) as two:
        inner = {"kind": "openai", "model": MODEL, "api_key_env": "DHD_TEST_KEY", "concurrency": 4}
        engine = nodes.open(inner, servers=[one.url, two.url], in_flight=16)
        try:
            replies = dict(itertools.chain.from_iterable(engine.generate(enumerate(requests(12, 5)))))
        finally:
            engine.close()
    assert {reply.status for reply in replies.values()} == {"ok"} and len(replies) == 60
    asked = [{str(seen.body["messages"][0]["content"]) for seen in server.seen} for server in (one, two)]
    assert all(asked) and not asked[0] & asked[1] and len(asked[0] | asked[1]) == 12
    assert {seen.headers["authorization"] for seen in (*one.seen, *two.seen)} == {f"Bearer {KEY}"}
    logs = [file for file in nodes.logs.rglob("*") if file.is_file()]
    assert logs and not [file for file in logs if KEY.encode() in file.read_bytes()]


def test_errors_of_the_engine_in_a_worker_are_those_of_the_engine_alone(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = FaultServer(lambda seen: failure(401, "bad key"))
    with serving(server):
        openai = {"kind": "openai", "model": MODEL, "base_url": server.url}
        unknown = {**openai, "model": "org/other"}
        missing = {"kind": "llamacpp", "model": "nothing.gguf"}
        for inner in (openai, unknown, missing):
            texts = []
            for engine in (inner, nodes.engine(inner, workers=1)):
                with pytest.raises(DhdError) as caught:
                    opened = open_engine(config_with(engine, benchmark={"name": "quickstart"}).engines["world"])
                    try:
                        list(opened.generate(enumerate(requests(1, 1))))
                    finally:
                        opened.close()
                texts.append((type(caught.value), str(caught.value)))
            assert texts[0] == texts[1] and KEY not in texts[0][1]
    assert len(server.seen) == 2


def test_a_server_that_goes_away_leaves_the_rest_to_the_others(nodes: TwoNodes) -> None:
    inner = {"kind": "openai", "model": MODEL, "max_tries": 1, "timeout_s": 5, "concurrency": 2}
    replies: dict[int, ChatReply] = {}
    with ExitStack() as first, serving(FaultServer()) as two:
        one = first.enter_context(serving(FaultServer()))
        engine = nodes.open(inner, servers=[one.url, two.url])
        try:
            for group in engine.generate(enumerate(requests(60, 4))):
                if not replies:
                    first.close()
                replies.update(group)
        finally:
            engine.close()
    statuses = Counter(reply.status for reply in replies.values())
    assert len(replies) == 240 and statuses.keys() == {"ok", "server_error"}
    assert SAME_FAULTS <= statuses["server_error"] <= SAME_FAULTS + 4, "what was in flight there has failed, no more"


def test_no_room_and_no_cluster_say_what_to_do(nodes: TwoNodes) -> None:
    with pytest.raises(EngineStoppedError, match=r"8 GPUs\), got none in 1 s on 2 nodes with 2 CPUs and 0 GPUs"):
        nodes.open(SCRIPTED, gpus=8, wait_s=1)
    assert not ray.is_initialized()


def test_requests_and_replies_travel_whole() -> None:
    asked = dataclasses.replace(requests(1, 1)[0], n=3, json_schema='{"type": "object"}')
    draw = ChatReply("ok", "a", "why", "stop", 1, None, 2, "m", None)
    taken = Taken([(1, dataclasses.replace(draw, more=(draw,)))], [(30, "line")], None)
    for value in (asked, taken):
        assert ray.cloudpickle.loads(ray.cloudpickle.dumps(value)) == value


def _marked(mark: str) -> list[str]:
    """Return the processes that inherited a mark through their environment."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and mark.encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().decode()[:80])
        except OSError:
            continue
    return found


def test_a_command_loses_a_node_and_prints_only_json(nodes: TwoNodes, tmp_path: Path) -> None:
    log, file = tmp_path / "calls", tmp_path / "c.yaml"
    engine = nodes.engine({**SCRIPTED, "latency_s": 0.05, "call_log": str(log)})
    file.write_text(json.dumps(config_with(engine).model_dump(mode="json")))
    command = [sys.executable, "-m", "dhd_labels", "run", str(file), "--run-dir", str(tmp_path / "run"), "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            while child.poll() is None and (not log.exists() or log.stat().st_size < 65 * 60):
                time.sleep(0.02)
            nodes.lose_the_other()
            out, err = child.communicate(timeout=60)
        finally:
            child.kill()
            nodes.restore()
    assert child.returncode == 0, err
    assert json.loads(out)["failed"] == {} and "is lost" in err and "Traceback" not in err


def test_an_interrupt_ends_ray_and_the_workers_too(tmp_path: Path) -> None:
    log, file, mark = tmp_path / "calls", tmp_path / "c.yaml", f"dhd-{os.getpid()}-{time.monotonic_ns()}"
    inner = {**SCRIPTED, "latency_s": 0.2, "call_log": str(log)}
    file.write_text(json.dumps(config_with({"kind": "ray", "engine": inner}).model_dump(mode="json")))
    command = [sys.executable, "-m", "dhd_labels", "run", str(file), "--run-dir", str(tmp_path / "run")]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "DHD_MARK": mark},
    ) as child:  # fmt: skip
        while child.poll() is None and not log.exists():
            time.sleep(0.02)
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    assert "run the same command to go on" in out and "Traceback" not in err
    deadline = time.monotonic() + 20
    while _marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _marked(mark) == []
