"""Problems whose prompts begin alike are run together, so that a small prefix cache computes their beginning once."""

from __future__ import annotations

import itertools

import pytest
from support import oracle

from dhd_labels.config import load_config
from dhd_labels.protocol.prompts import integrator_turns, load_prompt
from dhd_labels.replay.problems import in_prompt_order, load_problems


@pytest.mark.parametrize("subset", ["report", "tune"])
def test_every_beginning_occurs_in_one_stretch_and_no_problem_is_lost(subset: str) -> None:
    config = load_config("quickstart", [f"benchmark.subset={subset}", "benchmark.size=20"])
    problems, _ = load_problems(config)
    prompt = load_prompt(config.roles.integrator.prompt)

    def beginnings(ordered: tuple[object, ...]) -> list[object]:
        turns = [integrator_turns(prompt, problem.visible(), ())[:-1] for problem in ordered]  # type: ignore[attr-defined]
        return [beginning for beginning, _ in itertools.groupby(turns)]

    ordered = in_prompt_order(config, problems)
    assert len(beginnings(problems)) > len(set(beginnings(problems))), "benchmark order alternates"
    assert len(beginnings(ordered)) == len(set(beginnings(ordered))) == len(set(beginnings(problems)))
    assert sorted(p.problem_id for p in ordered) == sorted(p.problem_id for p in problems)


def test_with_one_beginning_the_order_of_the_benchmark_stays() -> None:
    problems, _ = load_problems(oracle())
    assert in_prompt_order(oracle(), problems) == problems
