"""The whole oracle campaign on two Ray nodes of this machine, against one process: the same rows, and how fast."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from dhd_labels.api import build
from dhd_labels.config import RunConfig, load_config, validate_config
from dhd_labels.replay.run import run
from dhd_labels.report.table import Table

_NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}


def _rows(folder: Path) -> list[tuple[str, dict[str, object]]]:
    """Return every row of a data set with the file that it is in."""
    files = sorted(folder.rglob("*.parquet"))
    return [(str(file.relative_to(folder)), row) for file in files for row in pq.read_table(file).to_pylist()]


def _measured(config: RunConfig, folder: Path) -> tuple[int, float, list[tuple[str, dict[str, object]]]]:
    """Return calls, seconds and the rows of the data set."""
    start = time.perf_counter()
    calls = run(config, folder / "run").tally.made
    took = time.perf_counter() - start
    build(folder / "run", folder / "data")
    return calls, took, _rows(folder / "data")


def ray_rows() -> Table:
    """Compare both; the start of the workers is part of the time."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    from ray.cluster_utils import Cluster

    alone = load_config("oracle")
    cluster = Cluster(initialize_head=True, head_node_args={**_NODE, "include_dashboard": False})
    try:
        cluster.add_node(**_NODE)
        data = alone.model_dump(mode="json")
        engine = {"kind": "ray", "workers": 2, "address": cluster.address, "engine": data["engines"]["world"]}
        spread = validate_config({**data, "engines": {"world": engine}}, "oracle on ray")
        with tempfile.TemporaryDirectory() as folder:
            calls, took, rows = _measured(alone, Path(folder, "one"))
            ray_calls, ray_took, ray_found = _measured(spread, Path(folder, "two"))
    finally:
        cluster.shutdown()
    equal = sum(one == two for one, two in zip(rows, ray_found, strict=False))
    shown = (
        ("one process", f"{calls:,}", f"{calls / took:,.0f}", f"{len(rows):,}", "-", "1.00"),
        (
            "two Ray nodes",
            f"{ray_calls:,}",
            f"{ray_calls / ray_took:,.0f}",
            f"{len(ray_found):,}",
            f"{equal:,}",
            f"{ray_took / took:.2f}",
        ),
    )
    columns = ("where", "calls", "calls/s", "rows of the data set", "equal rows", "time, ratio to one process")
    return Table("The oracle campaign on Ray", columns, shown, "The start of the workers is part of the time.")
