"""A disk that fills up while a data set is written: the old one stays, nothing is left over, the error says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import oracle

from dhd_labels.dataset.build import build
from dhd_labels.dataset.load import load_frame
from dhd_labels.replay.directory import open_run
from dhd_labels.replay.run import run
from tests.dataset.test_write import content

CODE = """
import resource, signal, sys
from dhd_labels.__main__ import main
from dhd_labels.dataset.write import DatasetWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an error of the write, as on a full disk
close = DatasetWriter.close
def from_here_on(self):  # the store, which is read before, may write as it likes
    if self._open:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    close(self)
DatasetWriter.close = from_here_on
sys.exit(main(["build", sys.argv[1], "--out", sys.argv[2]]))
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs, the second one larger."""
    place = tmp_path_factory.mktemp("stores")
    for name, size in (("small", 3), ("large", 30)):
        run(oracle(f"benchmark.size={size}", "protocol.blocks=1", "protocol.only_draws=0"), place / name)
    return place / "small", place / "large"


@pytest.mark.parametrize("limit", [100, 20_000])
def test_the_old_data_set_stays_when_there_is_no_room_for_the_new_one(
    stores: tuple[Path, Path], tmp_path: Path, limit: int
) -> None:
    """The limit is met in the first file (its first bytes), or in a later one."""
    small, large = stores
    build(open_run(small), tmp_path / "data")
    before = content(tmp_path / "data")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CODE, str(large), str(tmp_path / "data"), str(limit)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2, done.stderr
    assert "cannot be written to" in done.stderr and "make room" in done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert content(tmp_path / "data") == before
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["data"]
    build(open_run(large), tmp_path / "data")
    assert len(load_frame(tmp_path / "data", "problems", ("train", "validation", "test"))) == 30
