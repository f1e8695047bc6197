"""The problems of a run, benchmark by benchmark."""

from __future__ import annotations

from collections.abc import Iterable

from dhd_labels.benchmarks import ORACLE, read_problems, resolve_name
from dhd_labels.benchmarks.problem_set import ProblemSet
from dhd_labels.config import BenchmarkConfig, RunConfig, ScriptedConfig, answering
from dhd_labels.engines.base import Turn
from dhd_labels.errors import DhdError
from dhd_labels.oracle import World
from dhd_labels.protocol.prompts import integrator_turns, load_prompt
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


def in_prompt_order(config: RunConfig, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems so that those whose integrator prompts begin with the same turns follow each other.

    Worked examples may depend on the kind of problem. Where kinds alternate, a small prefix cache forgets the examples
    of one while it serves another, and computes them again each time. Otherwise the order stays.
    """
    prompt = load_prompt(config.roles.integrator.prompt)
    groups: dict[tuple[Turn, ...], list[Problem]] = {}
    for problem in problems:
        groups.setdefault(integrator_turns(prompt, problem.visible(), ())[:-1], []).append(problem)
    return tuple(problem for group in groups.values() for problem in group)


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
