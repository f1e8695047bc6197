"""Building a data set from a store: messages a second and peak memory, beside `datasets` writing the very same rows.

`python -m tests.bench.build --messages 1000000` builds a data set of that size (making its store takes longest, and 3
GB of disk). Each step runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

import dhd_labels
from dhd_labels.config import RunConfig, load_config
from dhd_labels.dataset.schema import CONFIGS, features
from dhd_labels.records import POOL_SIZE
from dhd_labels.report.table import Table
from tests.bench.memory import peak

MESSAGES, WHOLE = 10_000, 1_000_000
"""Messages of the short measurement, and of the one that it is extrapolated to."""
_SMALLEST = ("protocol.blocks=1", "protocol.alone_draws=1", "protocol.only_draws=0", "probe.prompts=0")
"""One matched block and one independent solve a problem: what a label needs at least."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, seconds of a processor with child processes, and the largest peak of a process in MB."""

    seconds: float
    processor: float
    peak: float


def campaign(messages: int) -> RunConfig:
    """Return a run of the `oracle` preset with at least so many messages, each with a matched block."""
    return load_config("oracle", [f"benchmark.size={math.ceil(messages / POOL_SIZE)}", *_SMALLEST])


def _with_datasets(folder: Path) -> None:
    """The alternative: the rows of the data set, as Python objects, through `from_generator` and `to_parquet`."""
    import datasets
    import pyarrow.parquet as pq

    datasets.disable_progress_bars()

    def rows(config: str) -> Iterator[dict[str, Any]]:
        for path in sorted((folder / "data" / config).glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(10_000):
                yield from batch.to_pylist()

    for config in CONFIGS:
        if any((folder / "data" / config).glob("*.parquet")):
            made = datasets.Dataset.from_generator(
                rows, features=features(config), gen_kwargs={"config": config}, cache_dir=str(folder / "cache")
            )
            made.to_parquet(str(folder / f"{config}.parquet"))


STEPS: Mapping[str, Callable[[Path, int], object]] = {
    "run": lambda folder, messages: dhd_labels.run(campaign(messages), folder / "run"),
    "build, from the store": lambda folder, messages: dhd_labels.build(folder / "run", folder / "data"),
    "datasets, from the rows": lambda folder, messages: _with_datasets(folder),
}


def measure(messages: int, place: Path | None = None) -> dict[str, Cost]:
    """Return what every step takes, in a temporary folder in `place`."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return {step: _in_a_process(step, messages, folder) for step in STEPS}


def _in_a_process(step: str, messages: int, folder: str) -> Cost:
    command = [sys.executable, "-m", "tests.bench.build", "--step", step, "--messages", str(messages)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*command, "--place", folder], stdout=subprocess.PIPE, text=True, check=True, env=env)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _step(step: str, messages: int, folder: Path) -> Cost:
    start = time.perf_counter()
    STEPS[step](folder, messages)
    seconds = time.perf_counter() - start
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + children.ru_utime + children.ru_stime
    return Cost(seconds, used, max(peak(), children.ru_maxrss / 1024))


def build(messages: int = MESSAGES, place: Path | None = None) -> Table:
    """Return messages a second and the ratio of both."""
    found = measure(messages, place)
    theirs = found["datasets, from the rows"]
    rows = tuple(
        (step, f"{c.seconds:,.1f}", f"{c.processor:,.1f}", f"{messages / c.seconds:,.0f}", f"{c.peak:,.0f}",
         f"{c.processor / theirs.processor:.2f}")
        for step, c in found.items() if step != "run"
    )  # fmt: skip
    columns = ("what", "seconds", "of a processor", "messages/s", "peak MB", "processor time, ratio to datasets")
    note = (
        "The alternative neither reads a store, nor grades, nor labels: it only writes the rows that `build` made. "
        f"`python -m tests.bench.build --messages {WHOLE}` measures a million; seconds grow along with the messages, "
        "beyond a start of a few seconds for the tables and figures of the card."
    )
    return Table(f"Building a data set of {messages:,} messages, each with a matched block", columns, rows, note)


def main() -> None:
    """Print a table, or as a child process what one step took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="size of the data set")
    parser.add_argument("--place", type=Path, help="where the temporary folder goes")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step:
        print(json.dumps(asdict(_step(asked.step, asked.messages, asked.place))))
    else:
        Console(width=120).print(build(asked.messages, asked.place).to_rich())


if __name__ == "__main__":
    main()
