"""How much of a real run's wall time is spent outside the engine: a measurement on the embedded model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest import mock

from rich.console import Console

from dhd_labels.config import EngineConfig, load_config
from dhd_labels.engines import open_engine
from dhd_labels.engines.base import ChatEngine, ChatReply, ChatRequest, EngineIdentity, Token
from dhd_labels.replay import run as run_module
from dhd_labels.report.table import Table

PROBLEMS = 2


class TimedEngine:
    """Implements `ChatEngine` around another engine, and measures how long its callers wait for it.

    The engine pulls its requests while it is asked for replies; making them is our work, so that time is taken off.
    Where the engine computes on while we make a request or commit a reply, our time is counted although nobody waits
    for it: the share of our code comes out too high rather than too low.
    """

    def __init__(self, engine: ChatEngine) -> None:
        self._engine = engine
        self.first_asked = 0.0
        self.inside = 0.0
        self.replies = 0

    @property
    def identity(self) -> EngineIdentity:
        """That of the engine."""
        return self._engine.identity

    def generate(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[list[tuple[Token, ChatReply]]]:
        """Answer as the engine does."""
        self.first_asked = self.first_asked or time.perf_counter()
        replies = self._engine.generate(self._pulled(requests))
        while True:
            asked = time.perf_counter()
            group = next(replies, None)
            self.inside += time.perf_counter() - asked
            if group is None:
                return
            self.replies += len(group)
            yield group

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def _pulled(self, requests: Iterable[tuple[Token, ChatRequest]]) -> Iterator[tuple[Token, ChatRequest]]:
        stream = iter(requests)
        while True:
            asked = time.perf_counter()
            request = next(stream, None)
            self.inside -= time.perf_counter() - asked
            if request is None:
                return
            yield request


def outside() -> Table:
    """Return the seconds of a run of the quickstart inside and outside the embedded engine."""
    config = load_config("quickstart")
    engines: list[TimedEngine] = []

    def timed(engine: EngineConfig) -> TimedEngine:
        engines.append(TimedEngine(open_engine(engine)))
        return engines[-1]

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(run_module, "open_engine", timed):
        start = time.perf_counter()
        run_module.run(config, Path(folder, "run"), limit=PROBLEMS)
        end = time.perf_counter()
    (engine,) = engines
    rest = end - engine.first_asked
    ours = rest - engine.inside
    rows = (
        ("start-up: problems, weights, store", f"{engine.first_asked - start:.2f}", "-"),
        ("inside the engine", f"{engine.inside:.2f}", f"{100 * engine.inside / rest:.2f}"),
        ("outside: plan, prompts, store, verdicts", f"{ours:.2f}", f"{100 * ours / rest:.2f}"),
    )
    title = f"Wall time of a real run ({engine.identity.model}, {PROBLEMS} problems, {engine.replies} calls)"
    return Table(title, ("what", "seconds", "% after the start-up"), rows)


if __name__ == "__main__":
    Console(width=120).print(outside().to_rich())
