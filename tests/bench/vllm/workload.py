"""The replay that is timed: matched blocks of the quickstart's problems, their pools collected before."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dhd_labels.config import OpenAIConfig, RunConfig, load_config
from dhd_labels.config.load import validate_config
from dhd_labels.engines.base import ChatReply, ChatRequest
from dhd_labels.protocol.roles import replay_call
from dhd_labels.replay.plan import plan_replays
from dhd_labels.replay.problems import in_prompt_order
from dhd_labels.replay.run import run
from dhd_labels.replay.schedule import sending_order
from dhd_labels.replay.store import FILE_NAME, Store
from tests.vllm.server import MODEL

PROBLEMS = 20


def config_for(url: str, concurrency: int) -> RunConfig:
    """Return the quickstart on a vLLM server: one matched block (seven calls) of each problem and nothing else.

    With `top_p` 1, since vLLM on a CPU sorts the vocabulary for each token under any other, which takes as long as
    computing it and is not what is measured.
    """
    protocol = ("protocol.blocks=1", "protocol.alone_draws=0", "protocol.only_draws=0", "probe.prompts=0")
    protocol += ("roles.integrator.top_p=1",)
    values = load_config("quickstart", [*protocol, f"benchmark.size={PROBLEMS}"]).model_dump(mode="json")
    engine: dict[str, Any] = {"kind": "openai", "model": MODEL, "base_url": url, "grammar_style": "vllm"}
    values["engines"] = {"local": {**engine, "concurrency": concurrency}}
    return validate_config(values, "bench")


def engine_config(config: RunConfig) -> OpenAIConfig:
    """Return the one engine of the config."""
    engine = config.engines["local"]
    assert isinstance(engine, OpenAIConfig)
    return engine


@dataclass(frozen=True)
class Workload:
    """A finished run, whose pools are used and whose replays are made again."""

    config: RunConfig
    folder: Path
    models: dict[str, str]

    @classmethod
    def collect(cls, config: RunConfig, folder: Path) -> Workload:
        """Run the config once, so that there are pools and nothing is timed that happens only once."""
        return cls(config, folder, run(config, folder).directory.models)

    def without_replays(self, folder: Path) -> Path:
        """Return a copy of the run directory that has the pools and no replay."""
        shutil.copytree(self.folder, folder)
        with closing(sqlite3.connect(folder / FILE_NAME)) as db:
            db.execute("DELETE FROM calls WHERE role='integrator'")
            db.commit()
        return folder

    def requests(self) -> list[ChatRequest]:
        """Return the replays of the plan in its order, as the engine gets them."""
        found: list[ChatRequest] = []
        with closing(Store.open_existing(self.folder / FILE_NAME)) as store:
            for problem in in_prompt_order(self.config, store.problems()):
                if pool := store.pool(problem.problem_id):
                    studies = store.studies(problem.problem_id)
                    plan = sending_order(
                        plan_replays(self.config, problem.problem_id, pool.pool_id, self.models, studies)
                    )
                    found += [replay_call(self.config, problem.visible(), pool, replay).request(0) for replay in plan]
        return found


@dataclass(frozen=True)
class Usage:
    """Tokens that a server reported for some calls."""

    calls: int
    prompt: int
    cached: int
    written: int

    @property
    def computed(self) -> int:
        """Prompt tokens that were not in the cache."""
        return self.prompt - self.cached


def stored_usage(folder: Path) -> Usage:
    """Return the usage of the replays of a run."""
    sums = "COUNT(*), SUM(prompt_tokens), SUM(cached_tokens), SUM(completion_tokens)"
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        return Usage(*db.execute(f"SELECT {sums} FROM calls WHERE role='integrator'").fetchone())


def reply_usage(replies: Iterable[ChatReply]) -> Usage:
    """Return the usage of replies."""
    counts = [(r.prompt_tokens or 0, r.cached_tokens or 0, r.completion_tokens or 0) for r in replies]
    return Usage(len(counts), *map(sum, zip(*counts, strict=True)))
