"""Readers of problems, one module a benchmark, and the registry of their sources and licences.

Every reader yields checked records; what cannot be used is counted by reason.
"""

from __future__ import annotations

from dhd_labels.benchmarks.files import NotOnDiskError, locate, read_rows
from dhd_labels.benchmarks.jeebench import READER as _JEEBENCH
from dhd_labels.benchmarks.lab_bench import READER as _LAB_BENCH
from dhd_labels.benchmarks.mascqa import READER as _MASCQA
from dhd_labels.benchmarks.omni_math_2 import READER as _OMNI_MATH_2
from dhd_labels.benchmarks.problem_set import ProblemSet
from dhd_labels.benchmarks.registry import (
    JEEBENCH,
    JSONL,
    LAB_BENCH,
    MASCQA,
    NAMES,
    OMNI_MATH_2,
    ORACLE,
    PAPER_BENCHMARKS,
    QUICKSTART,
    SCIBENCH,
    RegistryFacts,
    facts,
    resolve_name,
)
from dhd_labels.benchmarks.rows import read_own, read_quickstart
from dhd_labels.benchmarks.scibench import READER as _SCIBENCH
from dhd_labels.config import BenchmarkConfig
from dhd_labels.errors import DhdError
from dhd_labels.oracle import N_PROBLEMS, World

__all__ = [
    "NAMES",
    "ORACLE",
    "PAPER_BENCHMARKS",
    "NotOnDiskError",
    "ProblemSet",
    "RegistryFacts",
    "facts",
    "read_problems",
    "resolve_name",
]

_READERS = {
    OMNI_MATH_2: _OMNI_MATH_2,
    JEEBENCH: _JEEBENCH,
    SCIBENCH: _SCIBENCH,
    LAB_BENCH: _LAB_BENCH,
    MASCQA: _MASCQA,
}


def read_problems(config: BenchmarkConfig, world: World | None = None, *, fetch: bool = True) -> ProblemSet:
    """Read, check and cut the problems that a config asks for.

    Args:
        config: benchmark, path of the upstream file or folder (else the pinned revision from the cache or the
            network), subset and size.
        world: the oracle world of the run's scripted engine, if it has one.
        fetch: whether the network may be used.

    Raises:
        NotOnDiskError: no path was given and nothing is cached or reachable.
        DhdError: unknown benchmark or subset, missing or damaged file, a file of another version or schema.
        NothingMadeError: no usable problem is left.
    """
    entry = facts(config.name)
    if entry.name in (QUICKSTART, ORACLE) and config.path is not None:
        raise DhdError(f"The 'path' must be unset for benchmark {entry.name!r}, got {config.path!r}")
    if entry.name == ORACLE:
        found = _oracle(config, world)
    elif entry.name == QUICKSTART:
        found = read_quickstart(entry, config.subset)
    elif entry.name == JSONL:
        own = locate(entry, config.path, ("*.jsonl",))
        found = read_own((row for file in own for row in read_rows(file)), entry, config.subset)
    else:
        reader = _READERS[entry.name]
        files = locate(entry, config.path, reader.files, wanted=reader.wanted, fetch=fetch)
        found = reader.read(files, entry, config.subset)
    return found.require_usable(entry.name).cut(config.size)


def _oracle(config: BenchmarkConfig, world: World | None) -> ProblemSet:
    if config.subset is not None:
        raise DhdError(f"The 'benchmark.subset' of {ORACLE!r} must be unset, got {config.subset!r}")
    problems = (world or World("stochastic")).problems(config.size or N_PROBLEMS)
    return ProblemSet(problems, len(problems), {}, expected=len(problems))
