"""Two measurements on a vLLM server on this machine's CPU, and their tables."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhd_labels.config import VllmConfig
from dhd_labels.engines.base import ChatRequest
from dhd_labels.engines.vllm import VllmEngine
from dhd_labels.replay.run import run
from dhd_labels.report.table import Table
from tests.bench.vllm.bound import fewest_computed_tokens
from tests.bench.vllm.clients import one_after_another, side_by_side
from tests.bench.vllm.workload import Usage, Workload, config_for, engine_config, reply_usage, stored_usage
from tests.vllm.server import MODEL, VllmServer, vllm_server

BLOCK = 32
CAPPED_BLOCKS = 60
"""Blocks of the small cache: about an eighth of what the prompts of all problems fill."""
MANY, FEW = 64, 8
"""Calls in flight: in the replay, and with the small cache, which has no room for more."""


@dataclass(frozen=True)
class Timed:
    """Usage and wall time of some calls."""

    usage: Usage
    seconds: float


def measure(weights: str) -> tuple[Table, Table]:
    """Return the table of the replay and that of the order. Pools are collected first, which is not timed."""
    with tempfile.TemporaryDirectory() as folder:
        with vllm_server(weights) as server:
            work = Workload.collect(config_for(server.url, MANY), Path(folder, "pools"))
            requests = work.requests()
            ours = _cold(server, lambda: _run(work, server, MANY, Path(folder, "replay")))
            loop = _cold(server, lambda: one_after_another(requests, engine_config(work.config)))
        with vllm_server(weights, f"--num-gpu-blocks-override={CAPPED_BLOCKS}") as server:
            ordered = _cold(server, lambda: _run(work, server, FEW, Path(folder, "order")))
            mixed = random.Random(0).sample(requests, len(requests))
            shuffled = _cold(server, lambda: side_by_side(mixed, engine_config(config_for(server.url, FEW))))
    prompts = _token_ids(weights, requests)
    if sum(map(len, prompts)) != ordered.usage.prompt:
        raise SystemExit("the server counts other prompt tokens than its tokenizer: the bound would mean nothing")
    inside = _in_process(weights, requests)
    return _replay_table(ours, loop, inside), _order_table(ordered, shuffled, prompts)


def _cold(server: VllmServer, work: Callable[[], Usage]) -> Timed:
    server.post("/reset_prefix_cache")
    return _timed(work)


def _timed(work: Callable[[], Usage]) -> Timed:
    start = time.perf_counter()
    usage = work()
    timed = Timed(usage, time.perf_counter() - start)
    print(timed, file=sys.stderr, flush=True)  # minutes pass until the tables are there
    return timed


def _run(work: Workload, server: VllmServer, concurrency: int, folder: Path) -> Usage:
    """Make every replay with `run`: store, grading and all. The stages before find their calls in the store."""
    run(config_for(server.url, concurrency), work.without_replays(folder))
    return stored_usage(folder)


def _in_process(weights: str, requests: Sequence[ChatRequest]) -> Timed:
    engine = VllmEngine(
        VllmConfig(
            kind="vllm", model=weights, name=MODEL, dtype="bfloat16", max_model_len=1024, block_size=BLOCK, batch=MANY,
            enforce_eager=True,
        )
    )  # fmt: skip
    try:
        return _timed(
            lambda: reply_usage(reply for group in engine.generate(enumerate(requests)) for _, reply in group)
        )
    finally:
        engine.close()


def _token_ids(weights: str, requests: Sequence[ChatRequest]) -> list[list[int]]:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(weights)
    chats = [[{"role": turn.role, "content": turn.content} for turn in request.turns] for request in requests]
    return [
        list(tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False))
        for chat in chats
    ]


def _replay_table(ours: Timed, loop: Timed, inside: Timed) -> Table:
    rows = tuple(
        (name, f"{t.usage.calls}", f"{t.usage.computed:,}", f"{t.seconds:.1f}", f"{loop.seconds / t.seconds:.1f}x")
        for name, t in (
            ("client with a loop, one call after another", loop),
            (f"dhd-labels run, engine openai, {MANY} in flight", ours),
            (f"engine vllm in this process, {MANY} in flight, no store", inside),
        )
    )
    note = "Equal calls in the same order, cold prefix cache, top_p 1; pools and the start of the server are not timed."
    columns = ("what", "calls", "prompt tokens computed", "seconds", "faster than the loop")
    return Table(
        "Replay of 20 problems, one matched block each, SmolLM2-135M on a vLLM CPU server", columns, rows, note
    )


def _order_table(ours: Timed, shuffled: Timed, prompts: Sequence[Sequence[int]]) -> Table:
    bound = fewest_computed_tokens(prompts, BLOCK)
    rows = [
        (name, f"{t.usage.computed:,}", f"{t.usage.computed / bound:.3f}", f"{t.seconds:.1f}",
         f"{t.seconds / ours.seconds:.2f}")
        for name, t in (("dhd-labels run", ours), ("async client, random order", shuffled))
    ]  # fmt: skip
    rows.append(("lower bound (trie of all prompts)", f"{bound:,}", "1.000", "-", "-"))
    note = (
        f"Cache capped at {CAPPED_BLOCKS} blocks of {BLOCK} tokens; all prompts together have "
        f"{sum(map(len, prompts)):,} tokens. {FEW} calls in flight for both."
    )
    columns = ("what", "prompt tokens computed", "ratio to the bound", "seconds", "time, ratio to ours")
    return Table("Order of the same calls under a small prefix cache", columns, tuple(rows), note)
