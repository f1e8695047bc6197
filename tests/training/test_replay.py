"""Chosen subsets that nobody recorded are asked for through the run's own store: once, and graded like any other."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import dhd_labels
from dhd_labels.config import load_config
from dhd_labels.errors import DhdError
from dhd_labels.oracle import World
from dhd_labels.replay.directory import open_run
from dhd_labels.replay.subsets import find_run, pools_of, replay_subsets
from dhd_selectors import load_selector
from dhd_selectors.actions import FULL, slots_of
from dhd_selectors.policy import RemoveUpTo
from training.crossfit import cross_fit
from training.data import load_data
from training.estimands import make_folds
from training.fit import main
from training.replay import with_replays

SPLITS = ("train", "validation", "test")
POLICY = RemoveUpTo(3)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A finished run of the scripted engine and its data set."""
    place = tmp_path_factory.mktemp("oracle")
    config = load_config("oracle", ["benchmark.size=12", "protocol.subset_draws=2"])
    dhd_labels.run(config, place / "run")
    dhd_labels.build(place / "run", place / "data")
    return place / "run", place / "data"


def asked(run: Path) -> int:
    store = open_run(run).open_store()
    try:
        return sum(len(rows) for problem in store.problems() for rows in store.calls(problem.problem_id).values())
    finally:
        store.close()


def test_chosen_subsets_are_asked_for_once_and_judge(oracle: tuple[Path, Path]) -> None:
    run, labels = oracle
    data, selector = load_data(str(labels), SPLITS), load_selector("drop-wrong")
    splits = [make_folds(data, "unseen-problem", 0)]
    recorded_only = cross_fit(selector, POLICY, data, splits[0].folds, seed=0)
    assert data.recorded[recorded_only.pool, recorded_only.action].all()
    before = asked(run)
    found, folds = with_replays(open_run(run), selector, POLICY, data, splits, seed=0)
    decisions = cross_fit(selector, POLICY, found, folds[0].folds, seed=0)
    new = ~data.recorded[decisions.pool, decisions.action]
    assert new.sum() > 3, "several wrong messages in one pool"
    assert all(len(slots_of(FULL ^ int(a))) > 1 for a in decisions.action[new])
    success = decisions.success[np.arange(len(new)), decisions.action]
    assert np.isfinite(success).all() and set(success[new]) <= {0.0, 0.5, 1.0}
    assert asked(run) == before + 2 * new.sum()
    assert f"{new.sum()} chosen subsets" in found.notes[-1] and f"{2 * new.sum()} calls made" in found.notes[-1]
    again, _ = with_replays(open_run(run), selector, POLICY, data, splits, seed=0)
    assert "; 0 calls made" in again.notes[-1], "the store has them"
    np.testing.assert_array_equal(again.success, found.success)
    assert np.isnan(folds[0].folds[0].learn.success[:, 0b00011]).sum() == np.isnan(data.success[:, 0b00011]).sum()


def test_outcomes_are_those_of_the_world(tmp_path: Path) -> None:
    """In the exact world a set of clues is right or wrong for certain."""
    config = load_config("oracle", ["benchmark.size=6", "engines.world.world=exact"])
    dhd_labels.run(config, tmp_path / "run")
    directory = open_run(tmp_path / "run")
    pools = pools_of(directory)
    sets = [(0, 1), (2, 3, 4), ()]
    outcomes, tally = replay_subsets(directory, dict.fromkeys(pools, sets))
    assert tally.made == len(outcomes) == 3 * len(pools)
    world = World("exact")
    for outcome in outcomes:
        number = int(pools[outcome.replay.pool_id].split(":")[1])
        assert outcome.correct == (world.success_probability(number, outcome.replay.arm.kept) == 1.0)


def test_pools_that_are_not_in_the_run_are_named(oracle: tuple[Path, Path]) -> None:
    with pytest.raises(DhdError, match="must hold the pools to replay, but has no nobody"):
        replay_subsets(open_run(oracle[0]), {"nobody": [(0,)]})


def test_a_run_is_found_by_directory_or_config(
    oracle: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = oracle
    assert find_run(str(run)).path == run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "oracle").symlink_to(run)
    assert find_run("oracle").config == open_run(run).config
    for missing in ("no/such/run", str(tmp_path)):
        with pytest.raises(DhdError):
            find_run(missing)


def test_through_the_command_line(
    oracle: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, labels = oracle
    out = tmp_path / "gains.json"
    arguments = ["--selector", "drop-wrong", "--labels", str(labels), "--policy", "remove-up-to-2", "--json", str(out)]
    assert main([*arguments, "--replay", str(run)]) == 0
    made = json.loads(out.read_text(encoding="utf-8"))
    assert any(note.startswith("--replay:") for note in made["notes"])
    assert "no_outcome_of_chosen_arm:keep-all" not in made["excluded"]
    capsys.readouterr()
    assert main([*arguments, "--replay", str(tmp_path)]) == 2
    assert "no run" in capsys.readouterr().err


def test_a_run_that_the_labels_are_not_from_is_refused(oracle: tuple[Path, Path]) -> None:
    run, labels = oracle
    data = load_data(str(labels), SPLITS)
    other = dataclasses.replace(data, pools=data.pools.assign(pool_id=[f"other-{n}" for n in range(data.n_pools)]))
    splits = [make_folds(other, "unseen-problem", 0)]
    with pytest.raises(DhdError, match=f"none of their {data.n_pools} pools is in .*leave --replay out"):
        with_replays(open_run(run), load_selector("drop-wrong"), POLICY, other, splits, seed=0)
