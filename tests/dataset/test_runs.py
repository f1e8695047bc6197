"""Several runs in one data set: files of their own, whatever the order; what must not be mixed is refused by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import cli, oracle

from dhd_labels.dataset import header
from dhd_labels.dataset.build import build, run_name
from dhd_labels.dataset.load import load_frame
from dhd_labels.dataset.schema import CONFIGS, SPLITS
from dhd_labels.errors import DhdError
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.run import run

SMALL = ("benchmark.size=12", "protocol.blocks=1", "protocol.only_draws=0")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunDirectory]:
    """Three runs of the same problems by three actors, one with another name."""
    place = tmp_path_factory.mktemp("runs")
    settings = (("actor=a",), ("actor=b",), ("actor=c", "name=zz_other.run"))
    return [run(oracle(*SMALL, *more), place / str(n)).directory for n, more in enumerate(settings)]


def state(folder: Path, run: RunDirectory) -> dict[str, tuple[bytes, int, int]]:
    """Return bytes, time of change and inode of every file of a run."""
    part = header.part_name(run_name(run))
    files = sorted(folder.rglob(f"*-{part}-*.parquet"))
    assert files
    return {p.relative_to(folder).as_posix(): (p.read_bytes(), p.stat().st_mtime_ns, p.stat().st_ino) for p in files}


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in header.data_files(folder)}


def test_the_order_of_the_runs_does_not_matter(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    build(runs, tmp_path / "one")
    build(runs[::-1], tmp_path / "two")
    assert content(tmp_path / "one") == content(tmp_path / "two")
    for config in ("messages", "replays", "problems"):
        frame = load_frame(tmp_path / "one", config, SPLITS)
        assert set(frame["run"]) == {run_name(one) for one in runs}
        assert (frame.groupby("problem_id")["split"].nunique() == 1).all()
    problems = load_frame(tmp_path / "one", "problems", SPLITS)
    assert len(problems) == 3 * 12 == len(problems.drop_duplicates(["problem_id", "run"]))


def test_a_run_more_leaves_the_files_of_the_others_alone(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    build(runs[0], tmp_path / "data")
    before = state(tmp_path / "data", runs[0])
    alone = load_frame(tmp_path / "data", "messages", SPLITS)
    build([runs[1], runs[0]], tmp_path / "data")
    assert state(tmp_path / "data", runs[0]) == before
    together = load_frame(tmp_path / "data", "messages", SPLITS)
    kept = together[together["run"] == run_name(runs[0])].reset_index(drop=True)
    assert len(together) == 2 * len(alone) and kept.equals(alone)
    listed = header.local_header(tmp_path / "data")
    assert sorted(listed.paths) == [name for name in header.data_files(tmp_path / "data") if name != header.CARD_NAME]
    assert set(listed.sha256) == set(listed.paths)
    build(runs[0], tmp_path / "data")
    assert state(tmp_path / "data", runs[0]) == before
    assert {name for name in header.data_files(tmp_path / "data") if name != header.CARD_NAME} == set(before)


def test_names_of_files_are_safe_and_those_of_runs_tell_them_apart(runs: Sequence[RunDirectory]) -> None:
    names = [run_name(one) for one in runs]
    assert len(set(names)) == 3 and names[2].startswith("zz_other.run-")
    assert header.part_name(names[2]).startswith("zz-other-run-")
    assert len(header.part_name(names[2]).rsplit("-", 1)[1]) == 8


def test_the_same_run_twice_is_refused(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    with pytest.raises(DhdError, match=r"must differ, but .*/0 and .*/0 are both 'oracle-"):
        build([runs[0], runs[0]], tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_pool_in_two_runs_is_refused(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    """A further block of the same pools: another run by its config, the same messages to the same integrator."""
    other = run(oracle(*SMALL, "actor=a", "protocol.blocks=2"), tmp_path / "more").directory
    shared = load_frame(_built(other, tmp_path / "b"))["pool_id"]
    assert set(shared) == set(load_frame(_built(runs[0], tmp_path / "a"))["pool_id"])
    with pytest.raises(DhdError) as caught:
        build([other, runs[0]], tmp_path / "data")
    said = str(caught.value)
    assert str(other.path) in said and str(runs[0].path) in said and "must be of one run" in said
    assert any(pool in said for pool in shared)


def test_an_id_of_two_problems_is_refused(tmp_path: Path) -> None:
    settings = (("a", "engines.world.world_seed=1"), ("b", "engines.world.world_seed=2"))
    found = [run(oracle(*SMALL, f"actor={name}", seed), tmp_path / name).directory for name, seed in settings]
    with pytest.raises(DhdError, match=r"The id 'oracle:000' must stand for one problem.*/[ab] and .*/[ab]"):
        build(found, tmp_path / "data")


def test_two_rules_for_a_missing_answer_are_refused(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    other = run(oracle(*SMALL, "actor=d", "outcomes.no_answer=incorrect"), tmp_path / "other").directory
    with pytest.raises(DhdError, match=r"one rule for a missing answer.*other has 'incorrect'"):
        build([other, runs[0]], tmp_path / "data")


def test_a_store_of_another_format_says_so(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    other = run(oracle(*SMALL, "actor=e"), tmp_path / "later").directory
    with sqlite3.connect(other.store_path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(DhdError, match=r"The run store .*/later/store.sqlite must have format .* got 99"):
        build([runs[0], other], tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_the_command_takes_several_runs(runs: Sequence[RunDirectory], tmp_path: Path) -> None:
    done = cli("build", str(runs[0].path), str(runs[1].path), "--out", str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    assert len(load_frame(tmp_path / "data", "problems", SPLITS)) == 24
    assert set(header.local_header(tmp_path / "data").rows) == set(CONFIGS)


def _built(directory: RunDirectory, out: Path) -> Path:
    build(directory, out)
    return out
