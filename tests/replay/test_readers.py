"""Reading a run in several processes: the results of one process, and its errors."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest
from support import oracle

from dhd_labels.dataset.build import build
from dhd_labels.errors import DhdError
from dhd_labels.replay import readers
from dhd_labels.replay.collect import collect
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.run import run
from dhd_labels.replay.store import Store
from tests.stats.test_tables import EVERYTHING


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    small = ("benchmark.size=12", "protocol.blocks=2")
    return run(oracle(*EVERYTHING, *small), tmp_path_factory.mktemp("run")).directory


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes for any run, with chunks that do not come out even."""
    monkeypatch.setattr(readers, "MANY_PROBLEMS", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def test_processes_read_what_one_reads_in_its_order(directory: RunDirectory, several: None) -> None:
    store = directory.open_store()
    alone = list(collect(store, directory.config, directory.models))
    together = list(readers.read_all(directory, store, len(alone)))
    store.close()
    assert together == alone and len(alone) > 10


@pytest.mark.parametrize("size", [1, 7])
def test_every_problem_is_read_once_whatever_the_size_of_a_chunk(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(readers, "_CHUNK", size)
    found = [list(readers._results(directory, k, 2)) for k in range(2)]
    ids = [r.problem.problem_id for pair in zip(*found, strict=False) for chunk in pair for r in chunk]
    longest = max(found, key=len)
    ids += [r.problem.problem_id for chunk in longest[min(map(len, found)) :] for r in chunk]
    store = directory.open_store()
    assert ids == [problem.problem_id for problem in store.problems()]
    store.close()


def test_a_data_set_has_the_same_bytes(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(directory, tmp_path / "alone")
    monkeypatch.setattr(readers, "MANY_PROBLEMS", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    build(directory, tmp_path / "together")
    files = sorted(path for path in (tmp_path / "alone").rglob("*") if path.is_file())
    assert len(files) > 5
    for path in files:
        assert path.read_bytes() == (tmp_path / "together" / path.relative_to(tmp_path / "alone")).read_bytes()


def test_what_goes_wrong_in_a_reader_is_said_as_if_there_were_none(tmp_path: Path, several: None) -> None:
    damaged = run(oracle("benchmark.size=5", "protocol.blocks=1"), tmp_path / "run").directory
    with sqlite3.connect(damaged.store_path) as db:
        db.execute("UPDATE calls SET text='edited' WHERE problem_id='oracle:003' AND role='integrator'")
    db.close()
    with pytest.raises(DhdError, match="is damaged or not a store .*is not what was written"):
        build(damaged, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_reader_that_is_killed_is_no_end_of_the_data(
    directory: RunDirectory, several: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def killed(*args: object, **options: object) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = start(*args, **options)  # type: ignore[call-overload]
        process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", killed)
    store = Store.open_existing(directory.store_path)
    with pytest.raises(DhdError, match="must come to its end, but it ended with code -9"):
        list(readers.read_all(directory, store, 50))
    store.close()
