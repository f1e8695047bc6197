"""The embedded model: how many slots, and is a run ever slower than asking one call after the other."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from dhd_labels.config import LlamaCppConfig, RunConfig, load_config
from dhd_labels.engines.base import ChatEngine
from dhd_labels.engines.llamacpp import LlamaCppEngine
from dhd_labels.protocol.roles import replay_call
from dhd_labels.replay.calls import Call, Tally, execute
from dhd_labels.replay.plan import plan_replays
from dhd_labels.replay.problems import load_problems
from dhd_labels.replay.run import run
from dhd_labels.replay.schedule import sending_order
from dhd_labels.replay.store import Store
from dhd_labels.report.table import Table

_PROBLEMS = 6
_SLOTS = (1, 2, 3, 4)


def slots() -> Table:
    """Time the same replays of the same pools: one by one on one slot, and as a run sends them on several slots."""
    config = load_config("quickstart", (f"benchmark.size={_PROBLEMS}", "protocol.blocks=1", "probe.prompts=0"))
    with tempfile.TemporaryDirectory() as folder:
        made = run(config, Path(folder, "pools"))
        calls = list(_replays(config, made.directory.open_store()))
        alone = _seconds(calls, Path(folder, "alone"), slots=1, one_by_one=True)
        rows = [("one call after the other, one slot", f"{alone:.1f}", "1.00")]
        for count in _SLOTS:
            took = _seconds(calls, Path(folder, f"slots-{count}"), slots=count)
            rows.append(
                (f"a run, {count} slot{'s' * (count > 1)}, a problem a slot", f"{took:.1f}", f"{alone / took:.2f}")
            )
    title = f"Embedded model: {len(calls)} replays of {_PROBLEMS} quickstart problems, pools given, engine started"
    return Table(title, ("how", "seconds", "times as fast"), tuple(rows))


def _replays(config: RunConfig, store: Store) -> Iterator[Call]:
    problems, _ = load_problems(config)
    for problem in problems:
        if pool := store.pool(problem.problem_id):
            studies = store.studies(problem.problem_id)
            planned = plan_replays(config, problem.problem_id, pool.pool_id, {"integrator": config.actor}, studies)
            for replay in sending_order(planned):
                yield replay_call(config, problem.visible(), pool, replay)
    store.close()


def _seconds(calls: list[Call], path: Path, *, slots: int, one_by_one: bool = False) -> float:
    engine: ChatEngine = LlamaCppEngine(LlamaCppConfig(kind="llamacpp", model="smollm2-135m-instruct", slots=slots))
    store = Store.create_or_open(path)
    try:
        start = time.perf_counter()
        for part in [[call] for call in calls] if one_by_one else [calls]:
            execute(part, engine, store, 1, Tally(), lambda: None)
        return time.perf_counter() - start
    finally:
        store.close()
        engine.close()
