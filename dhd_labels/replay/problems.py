"""The problems of a run, benchmark by benchmark."""

from __future__ import annotations

from dhd_labels.benchmarks import ORACLE, read_problems, resolve_name
from dhd_labels.benchmarks.problem_set import ProblemSet
from dhd_labels.config import BenchmarkConfig, RunConfig, ScriptedConfig, answering
from dhd_labels.errors import DhdError
from dhd_labels.oracle import World
from dhd_labels.records import Problem


def load_problems(config: RunConfig) -> tuple[tuple[Problem, ...], dict[str, int]]:
    """Read the problems of a config; return them, benchmark after benchmark, and the exclusions by reason."""
    problems: list[Problem] = []
    excluded: dict[str, int] = {}
    for source in config.sources:
        found = read_source(config, source)
        problems += found.problems
        for reason, count in found.excluded.items():
            excluded[reason] = excluded.get(reason, 0) + count
    return tuple(problems), excluded


def read_source(config: RunConfig, source: BenchmarkConfig, *, fetch: bool = True) -> ProblemSet:
    """Read one benchmark of a config; without `fetch` only from this machine.

    Raises:
        NotOnDiskError: it is not on this machine, or cannot be fetched.
        DhdError: the benchmark cannot be read, or a scripted engine would not know it.
    """
    engines = map(answering, config.engines.values())
    worlds = [World(e.world, e.world_seed) for e in engines if isinstance(e, ScriptedConfig)]
    if worlds and resolve_name(source.name) != ORACLE:
        raise DhdError(
            f"The 'benchmark.name' must be {ORACLE!r} when a role is played by a scripted engine, which knows no other "
            f"world, got {source.name!r}"
        )
    return read_problems(source, worlds[0] if worlds else None, fetch=fetch)
