"""The parts of the ray engine that need no cluster: worker, placement, config."""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle

from dhd_labels.config import RayConfig, RunConfig, ScriptedConfig, validate_config
from dhd_labels.engines import open_engine, ray_worker
from dhd_labels.engines.address import place_of
from dhd_labels.engines.base import ChatReply, ChatRequest, EngineIdentity, Turn
from dhd_labels.engines.ray_placement import Placement
from dhd_labels.engines.ray_worker import Taken, Worker
from dhd_labels.errors import DhdError, EndpointError, EngineStoppedError
from dhd_labels.replay.directory import RunDirectory, begin, write_run_file
from dhd_labels.replay.estimate import plan_run

SCRIPTED = ScriptedConfig(kind="scripted")
IDENTITY = EngineIdentity("echo", "1", "echo", "r")


def request(seed: int, problem: str = "p", n: int = 1) -> ChatRequest:
    return ChatRequest((Turn("user", f"# Recruiter of {problem}"),), 0.7, 1.0, 64, seed, None, problem, n=n)


def reply(text: str, more: tuple[ChatReply, ...] = ()) -> ChatReply:
    return ChatReply("ok", text, None, "stop", 1, 0, 1, "echo", None, more)


class Echo:
    """Answers one request a step with its seed, and holds a step until it may go on."""

    identity = IDENTITY

    def __init__(self, side_by_side: int = 2, fails_at: int | None = None, error: Exception | None = None) -> None:
        self.side_by_side, self.fails_at, self.error = side_by_side, fails_at, error
        self.streams, self.closed = 0, False
        self.steps = threading.Semaphore(0)

    def generate(self, requests: Iterable[tuple[int, ChatRequest]]) -> Iterator[list[tuple[int, ChatReply]]]:
        self.streams += 1
        stream, running = iter(requests), []
        while True:
            running += list(itertools.islice(stream, self.side_by_side - len(running)))
            if not running:
                return
            self.steps.acquire()
            number, asked = running.pop(0)
            if asked.seed == self.fails_at:
                raise self.error  # type: ignore[misc]
            draws = tuple(reply(f"{asked.seed}.{draw}") for draw in range(1, asked.n))
            yield [(number, reply(str(asked.seed), draws))]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Echo], Worker]]:
    workers: list[tuple[Worker, Echo]] = []

    def host(engine: Echo) -> Worker:
        monkeypatch.setattr(ray_worker, "open_engine", lambda config: engine)
        worker = Worker()
        assert worker.open(SCRIPTED, {}, "nowhere") == IDENTITY
        workers.append((worker, engine))
        return worker

    before = list(logging.getLogger("dhd_labels").handlers)
    yield host
    for worker, engine in workers:
        engine.steps.release(1000)
        worker.close()
        assert engine.closed, "what the engine has started must end with its worker"
    logging.getLogger("dhd_labels").handlers = before


def take(worker: Worker, count: int) -> list[tuple[int, ChatReply]]:
    """Take so many replies, or what is there when an error or ten seconds have come first."""
    found: list[tuple[int, ChatReply]] = []
    deadline = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline:
        taken = worker.take(0.2)
        found += taken.replies
        if taken.error:
            break
    return found


def test_replies_come_one_by_one_and_the_batch_is_not_emptied_between_deliveries(
    hosted: Callable[[Echo], Worker],
) -> None:
    engine = Echo(side_by_side=2)
    worker = hosted(engine)
    worker.put(1, [(0, request(10)), (1, request(11))])
    engine.steps.release()
    assert take(worker, 1) == [(0, reply("10"))]
    worker.put(1, [(2, request(12))])
    engine.steps.release(2)
    assert [number for number, _ in take(worker, 2)] == [1, 2]
    assert engine.streams == 1, "a request that came in time joined those in flight"
    worker.put(1, [(3, request(13))])
    engine.steps.release()
    assert take(worker, 1) == [(3, reply("13"))], "and one that came later began anew"


def test_draws_pass_through(hosted: Callable[[Echo], Worker]) -> None:
    engine = Echo()
    worker = hosted(engine)
    worker.put(1, [(0, request(5, n=3))])
    engine.steps.release()
    ((_, found),) = take(worker, 1)
    assert [draw.text for draw in (found, *found.more)] == ["5", "5.1", "5.2"]


def test_a_stream_that_nobody_waits_for_is_dropped_and_the_next_one_loses_nothing(
    hosted: Callable[[Echo], Worker],
) -> None:
    engine = Echo(side_by_side=2)
    worker = hosted(engine)
    worker.put(1, [(number, request(number)) for number in range(5)])
    engine.steps.release()
    assert len(take(worker, 1)) == 1
    worker.put(2, [])
    worker.put(1, [(7, request(7))])
    worker.put(2, [(number, request(number)) for number in range(10, 15)])
    engine.steps.release(100)
    found = [number for number, _ in take(worker, 5)]
    assert sorted(found)[-5:] == [10, 11, 12, 13, 14] and not {2, 3, 4, 7} & set(found)


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (EndpointError("the key is bad"), EndpointError, "the key is bad"),
        (EngineStoppedError("it died"), EngineStoppedError, "it died"),
        (RuntimeError("CUDA error"), EngineStoppedError, "RuntimeError: CUDA error"),
    ],
)
def test_an_error_comes_after_the_replies_before_it_and_keeps_kind_and_text(
    hosted: Callable[[Echo], Worker], raised: Exception, kind: type[DhdError], words: str
) -> None:
    engine = Echo(fails_at=2, error=raised)
    worker = hosted(engine)
    worker.put(1, [(number, request(number)) for number in range(5)])
    engine.steps.release(100)
    replies: list[int] = []
    error: DhdError | None = None
    while error is None:
        taken: Taken = worker.take(5)
        replies += [number for number, _ in taken.replies]
        error = taken.error
    assert replies == [0, 1] and type(error) is kind and words in str(error)


@pytest.mark.parametrize("error", [DhdError("no package"), ValueError("odd")])
def test_an_engine_that_cannot_be_opened_is_an_error_and_no_exception(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(config: object) -> None:
        raise error

    monkeypatch.setattr(ray_worker, "open_engine", fail)
    logger = logging.getLogger("dhd_labels")
    before = list(logger.handlers)
    found = Worker().open(SCRIPTED, {}, "nowhere")
    logger.handlers = before
    assert isinstance(found, DhdError) and str(error) in str(found)


def test_environment_folder_and_warnings_of_an_engine(
    hosted: Callable[[Echo], Worker], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DHD_TEST_VALUE", "old")
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setattr(ray_worker, "open_engine", lambda config: Echo())
    worker = hosted(Echo())
    worker.open(SCRIPTED, {"DHD_TEST_VALUE": "new"}, str(tmp_path))
    assert ray_worker.os.environ["DHD_TEST_VALUE"] == "new" and Path.cwd() == tmp_path
    logging.getLogger("dhd_labels").warning("waiting %d s", 4)
    assert worker.take(5).logged[0] == (logging.WARNING, "waiting 4 s")


@given(st.lists(st.integers(0, 12), max_size=120), st.integers(1, 5), st.lists(st.integers(0, 119), max_size=8))
def test_a_problem_stays_on_its_worker_while_that_lives(problems: list[int], workers: int, losses: list[int]) -> None:
    loads = dict.fromkeys(range(workers), 0)
    placement: Placement[int] = Placement(loads.__getitem__, 3)
    placement.begin()
    homes: dict[int, int] = {}
    for step, problem in enumerate(problems):
        if step in losses and len(loads) > 1:
            lost = next(iter(loads))
            del loads[lost]
            placement.leave(lost)
            homes = {known: home for known, home in homes.items() if home != lost}
        home = placement.choose(str(problem), list(loads))
        assert homes.setdefault(problem, home) == home
        if sum(known == problem for known in problems[:step]) == 0:
            assert loads[home] == min(loads.values()), "a new problem goes to the worker with the least to do"
        loads[home] += 1


def test_a_quick_stage_does_not_decide_who_does_the_slow_one() -> None:
    loads = {"fast": 0, "slow": 1}
    placement: Placement[str] = Placement(loads.__getitem__, 10)
    placement.begin()
    assert {placement.choose(str(problem), ["fast", "slow"]) for problem in range(100)} == {"fast"}
    placement.begin()
    for problem in range(100):
        loads[placement.choose(str(problem), ["fast", "slow"])] += 5
    assert abs(loads["fast"] - loads["slow"]) <= 20


INNER = {"scripted": {"kind": "scripted", "slots": 8}, "openai": {"kind": "openai", "model": "m"}}
SERVERS = ["http://a:1/v1", "http://b:2/v1"]


def ray_engine(kind: str = "scripted", **changes: Any) -> dict[str, Any]:
    return {"kind": "ray", "workers": 3, "engine": INNER[kind], **changes}


def config_with(engine: dict[str, Any], **changes: Any) -> RunConfig:
    data = oracle().model_dump(mode="json")
    return validate_config({**data, "engines": {"world": engine}, **changes}, "test")


def test_the_engine_that_answers_is_behind_a_role_and_the_cluster_in_the_plan() -> None:
    config = config_with(ray_engine())
    assert config.engine_of("integrator") == ScriptedConfig(kind="scripted", slots=8)
    assert config.engines["world"].public_name == "scripted-stochastic"
    assert {role.host for role in plan_run(config).roles} == {"ray, 3 workers"}


def test_many_servers_are_shown_and_given_out_in_turn() -> None:
    engine = RayConfig.model_validate(ray_engine("openai", servers=SERVERS))
    assert [engine.engine_of(number).base_url for number in range(3)] == [*SERVERS, SERVERS[0]]  # type: ignore[union-attr]
    assert place_of(engine) == "a:1 and 1 more (ray, 3 workers)"
    again = RayConfig.model_validate(engine.model_dump(mode="json"))
    assert again == engine, "what a run file holds can be read again"


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (ray_engine(servers=SERVERS), "must be left out unless its 'engine' is of kind 'openai'"),
        (
            ray_engine("openai", engine={**INNER["openai"], "base_url": "http://c/v1"}, servers=SERVERS),
            "must have no 'base_url' of its own",
        ),
        (
            ray_engine("openai", engine={**INNER["openai"], "base_url_env": "URL"}, servers=SERVERS),
            "must have no 'base_url' of its own",
        ),
        (ray_engine("openai"), "must have 'base_url' or 'base_url_env'"),
        (ray_engine("openai", servers=[SERVERS[0], "http://me:secret@b/v1"]), "must not hold a user name or password"),
        (ray_engine(engine={"kind": "scripted", "slot": 8}), "engine.slot' is unknown. Did you mean 'slots'?"),
        (ray_engine(engine={"kind": "scriptd"}), "got"),
        (ray_engine(engine=ray_engine()), "got"),
        (ray_engine(worker=3), "'engines.world.worker' is unknown. Did you mean 'workers'?"),
        (ray_engine(workers=0), "'engines.world.workers' must be greater than or equal to 1, got 0"),
    ],
)
def test_a_bad_config_says_what_to_do(engine: dict[str, Any], words: str) -> None:
    with pytest.raises(DhdError) as caught:
        config_with(engine)
    assert words in str(caught.value) and "secret" not in str(caught.value)


def test_checks_of_a_role_look_at_the_engine_that_answers() -> None:
    roles = oracle().model_dump(mode="json")["roles"]
    roles["integrator"]["extra_body"] = {"top_k": 3}
    with pytest.raises(DhdError, match="of kind 'scripted'"):
        config_with(ray_engine(), roles=roles)
    config_with(ray_engine("openai", servers=SERVERS), roles=roles)
    roles["integrator"]["grammar"] = "small_message"
    with pytest.raises(DhdError, match="grammar_style"):
        config_with(ray_engine("openai", servers=SERVERS), roles=roles)


def test_a_run_may_move_to_a_cluster_and_back_but_not_to_other_settings(tmp_path: Path) -> None:
    alone, spread = config_with(INNER["scripted"]), config_with(ray_engine(wait_s=5))
    identities = {role: EngineIdentity("scripted", "1", "m", "r") for role in alone.bound_roles}
    assert RunDirectory(tmp_path, alone, identities).digest == RunDirectory(tmp_path, spread, identities).digest
    for config in (alone, spread, config_with(ray_engine(workers=9)), alone):
        write_run_file(begin(tmp_path, config, identities))
    with pytest.raises(DhdError, match=r"config\.engines\.world\.world_seed"):
        begin(tmp_path, config_with(ray_engine(engine={"kind": "scripted", "slots": 8, "world_seed": 3})), identities)


def test_servers_may_change_between_runs(tmp_path: Path) -> None:
    identities = {role: EngineIdentity("openai", "1", "m", "r") for role in oracle().bound_roles}
    for servers in (SERVERS, ["http://c:1/v1"]):
        write_run_file(begin(tmp_path, config_with(ray_engine("openai", servers=servers)), identities))
    one = {**INNER["openai"], "base_url": "http://d:1/v1"}
    write_run_file(begin(tmp_path, config_with(one), identities))


def test_without_ray_the_error_has_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DhdError, match=r"pip install -e '\.\[ray\]'"):
        open_engine(RayConfig.model_validate(ray_engine()))
