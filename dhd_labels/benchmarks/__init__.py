"""Readers of problems. Every reader yields checked records; what cannot be used is counted by reason."""

from __future__ import annotations

from dhd_labels.benchmarks.problem_set import ProblemSet
from dhd_labels.benchmarks.problem_set import problem_set as _problem_set
from dhd_labels.benchmarks.rows import QUICKSTART, read_jsonl, read_quickstart
from dhd_labels.config import BenchmarkConfig
from dhd_labels.errors import DhdError, NothingMadeError, did_you_mean
from dhd_labels.oracle import BENCHMARK as ORACLE
from dhd_labels.oracle import World

NAMES = (QUICKSTART, "jsonl", ORACLE)

__all__ = ["NAMES", "ORACLE", "ProblemSet", "read_problems", "resolve_name"]


def resolve_name(name: str) -> str:
    """Return the canonical name of a benchmark; underscores and capitals are accepted."""
    plain = name.strip().lower().replace("_", "-")
    if plain not in NAMES:
        raise DhdError(f"The benchmark {name!r} is unknown. {did_you_mean(plain, NAMES)}")
    return plain


def read_problems(config: BenchmarkConfig, world: World | None = None) -> ProblemSet:
    """Read, check and cut the problems that a config asks for.

    `world` is the oracle world of the run's scripted engine, if it has one.

    Raises:
        DhdError: unknown benchmark or subset, missing file, unreadable row.
        NothingMadeError: no usable problem is left.
    """
    name = resolve_name(config.name)
    if name != "jsonl" and config.path is not None:
        raise DhdError(f"The 'benchmark.path' must be unset for benchmark {name!r}, got {config.path!r}")
    if name == ORACLE:
        if config.subset is not None:
            raise DhdError(f"The 'benchmark.subset' of {ORACLE!r} must be unset, got {config.subset!r}")
        found = _problem_set((world or World("stochastic")).problems(), rows=0, excluded={})
    elif name == QUICKSTART:
        found = read_quickstart(config.subset)
    else:
        found = read_jsonl(config)
    if not found.problems:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in found.excluded.items()) or "it has no rows"
        raise NothingMadeError(f"The benchmark {name!r} has no usable problem ({reasons})")
    return found.cut(config.size)
