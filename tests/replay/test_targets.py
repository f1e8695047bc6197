"""Choosing the messages that are masked."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import oracle

from dhd_labels.errors import DhdError
from dhd_labels.labels import Proposal
from dhd_labels.records import Arm, Outcome, Replay
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.plan import Target
from dhd_labels.replay.run import run
from dhd_labels.replay.targets import choose_targets

from support import pool, problem  # isort: skip


def result(problem_id: str, removed_success: list[int], correct: bool = False) -> ProblemResult:
    """A pool whose full draws always succeed; `removed_success[i]` of 5 draws without message i do."""
    subject = problem(problem_id=problem_id)

    def outcome(arm: Arm, block: int, draw: int, right: bool) -> Outcome:
        replay = Replay(problem_id, "p", arm, "m", "original", block, draw, None, arm.name)
        return Outcome(replay, "graded", None, "7", right, "stop", 1, 0, 1, 0, "m")

    outcomes = [outcome(Arm.full(), block, draw, True) for block in range(5) for draw in range(2)]
    outcomes += [
        outcome(Arm.without(slot), block, 0, block < wins)
        for slot, wins in enumerate(removed_success)
        for block in range(5)
    ]
    proposals = (Proposal("graded", correct),) * 5
    return ProblemResult(subject, "ok", None, (), (), pool(subject), proposals, tuple(outcomes), (), 35)


def test_strongest_stable_effects_come_first_and_a_problem_can_have_several() -> None:
    config = oracle("masking={cases: {wrong_helpful: 3, indeterminate: 1}}")
    results = [result("a", [0, 0, 5, 5, 5]), result("b", [1, 5, 5, 5, 4]), result("c", [0, 0, 0, 0, 0], correct=True)]
    chosen = choose_targets(config, results, [])
    helpful = [(t.problem_id, t.slot) for t in chosen if t.cell == "wrong_helpful"]
    assert helpful == [("a", 0), ("a", 1), ("b", 0)]
    assert [t.cell for t in chosen].count("indeterminate") == 1
    assert choose_targets(config, results[::-1], []) == chosen, "the order of the problems does not matter"


def test_recorded_targets_count_and_are_not_chosen_again() -> None:
    config = oracle("masking={cases: {wrong_helpful: 2}, targets: [{problem_id: b, slot: 4}]}")
    results = [result("a", [0, 0, 5, 5, 5]), result("b", [1, 5, 5, 5, 4])]
    recorded = [Target("a", 1, "wrong_helpful")]
    assert choose_targets(config, results, recorded) == [Target("a", 0, "wrong_helpful"), Target("b", 4, None)]
    assert choose_targets(config, results, [*recorded, *choose_targets(config, results, recorded)]) == []


def test_unknown_targets_are_refused_before_anything_is_paid(tmp_path: Path) -> None:
    config = oracle("masking={targets: [{problem_id: 'oracle:0001', slot: 0}]}")
    with pytest.raises(DhdError, match=r"got 'oracle:0001'\. Did you mean 'oracle:001'"):
        run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("masking={repeats: 2}", "must name targets"),
        ("masking={cases: {wrong_helpfull: 1}}", "wrong_helpful"),
        ("masking={targets: [{problem_id: x, slot: 5}]}", "less than or equal to 4"),
    ],
)
def test_masking_that_masks_nothing_is_refused(setting: str, words: str) -> None:
    with pytest.raises(DhdError, match=words):
        oracle(setting)
