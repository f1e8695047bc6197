"""Tables of a data set whose problems got their further blocks because of their first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import EVERYTHING, oracle

from dhd_labels.dataset.build import build
from dhd_labels.labels import block_effects, success
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.run import run
from dhd_labels.stats.command import Statistics, compute
from tests.replay.test_studies import results

STOPPING = (*EVERYTHING, "replay.allocation=screened", "masking=null")


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[ProblemResult], Statistics]:
    folder: Path = tmp_path_factory.mktemp("screened")
    report = run(oracle(*STOPPING), folder / "run")
    build(report.directory, folder / "data")
    return results(report), compute(str(folder / "data"))


def rows(found: Statistics, name: str) -> list[dict[str, Any]]:
    return [
        row
        for row in found.table(name).rows
        if row["integrator"] == "scripted-stochastic" and row["order"] == "original"
    ]


def test_means_are_over_the_blocks_that_every_problem_has(screened: tuple[list[ProblemResult], Statistics]) -> None:
    known, found = screened
    values: dict[bool, list[float]] = {True: [], False: []}
    for result in known:
        draws = {(o.replay.arm.name, o.replay.block, o.replay.draw): success(o, "missing")
                 for o in result.main_outcomes() if o.replay.block == 0}  # fmt: skip
        for slot, proposal in enumerate(result.proposals):
            if proposal.correct is not None:
                values[proposal.correct] += block_effects(draws, slot)
    for name, correct in (("correct", True), ("wrong", False)):
        (row,) = (row for row in rows(found, "mean_value") if row["proposal"] == name)
        assert row["mean"] == pytest.approx(np.mean(values[correct])) and row["n"] == len(values[correct])
        assert row["blocks_used"] == "first 1 of each problem"
    (identical,) = rows(found, "identical_input")
    assert identical["n"] == 50


def test_stopped_problems_stay_among_the_tests(screened: tuple[list[ProblemResult], Statistics]) -> None:
    known, found = screened
    tests = [row for row in rows(found, "problem_tests") if (row["family"], row["null"]) == ("any", "seven")]
    assert len(tests) == 50
    blocks = {row["pool_id"]: row["n_blocks"] for row in tests}
    assert {blocks[r.pool.pool_id] for r in known if r.pool and not r.further_blocks} == {1}
    assert {blocks[r.pool.pool_id] for r in known if r.pool and r.further_blocks} == {5}


def test_selection_is_scored_on_further_blocks_alone(screened: tuple[list[ProblemResult], Statistics]) -> None:
    known, found = screened
    (row,) = (row for row in rows(found, "same_problem_selection") if row["policy"] == "keep_all")
    going_on = [r for r in known if r.further_blocks]
    assert row["folds"] == 4 * len(going_on) and row["n_problems"] == len(going_on)


def test_stopped_problems_are_left_out_by_name(screened: tuple[list[ProblemResult], Statistics]) -> None:
    known, found = screened
    stopped = sum(not r.further_blocks for r in known)
    left = {
        row["table"]: row["n"]
        for row in found.exclusions
        if row["reason"] == "stopped after screening" and row["integrator"] == "scripted-stochastic"
    }
    assert left == {"same_problem_selection": stopped, "stability": 5 * stopped} and stopped
    assert sum(row["n"] for row in rows(found, "stability")) == 5 * (len(known) - stopped)


def test_the_note_on_stability_names_every_number_of_blocks(screened: tuple[list[ProblemResult], Statistics]) -> None:
    _, found = screened  # four further blocks, three in the sensitivity checks
    assert {row["coverage_note"][:13] for row in found.table("stability").rows} == {"With 4 blocks", "With 3 blocks"}
    assert all(words in found.table("stability").note for words in ("With 4 blocks", "With 3 blocks"))
