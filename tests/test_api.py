"""The Python API, and the package as it is installed from a wheel, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support import ROOT

import dhd_labels

SCRIPT = """
import dhd_labels, dhd_selectors, training
report = dhd_labels.run("oracle", "run", limit=3, overrides=["protocol.blocks=2"])
built = dhd_labels.build("run", "data")
messages = dhd_labels.load("data", config="messages")
print(report.tally.made, built.problems, sum(split.num_rows for split in messages.values()))
print(dhd_labels.__file__, dhd_selectors.Selector.__name__, training.__name__)
"""


def test_api_runs_builds_and_loads(tmp_path: Path) -> None:
    report = dhd_labels.run("oracle", tmp_path / "run", limit=2, overrides=["protocol.blocks=1"])
    assert report.tally.made == 2 * (6 + 4 + 20 + 7)
    assert dhd_labels.build(tmp_path / "run", tmp_path / "data").problems == 2
    assert sum(split.num_rows for split in dhd_labels.load(tmp_path / "data").values()) == 10


def test_a_rebuilt_data_set_is_not_loaded_from_the_cache_of_the_old_one(tmp_path: Path) -> None:
    """`datasets` caches by folder name and card, so equal names and counts must not mean equal rows."""
    import datasets

    loaded = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        dhd_labels.run("oracle", folder / "run", limit=2, overrides=["protocol.blocks=1", f"seed={seed}"])
        dhd_labels.build(folder / "run", folder / "data")
        dhd_labels.build(folder / "run", tmp_path / "data")
        places = (folder / "data", tmp_path / "data")
        loaded += [datasets.load_dataset(str(place), "replays")["train"].to_list() for place in places]
    assert loaded[0] == loaded[1] != loaded[2] == loaded[3]


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        _ = dhd_labels.rum  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_wheel_holds_all_it_needs(tmp_path: Path) -> None:
    """Build the wheel, unpack it elsewhere, and walk the road from there: prompts, presets, card template and all."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "dhd_labels",
        "dhd_selectors",
        "training",
    }
    assert all(f"{package}/py.typed" in names for package in ("dhd_labels", "dhd_selectors", "training"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{3 * (6 + 4 + 20 + 14)} 3 15"
    assert str(tmp_path / "site") in done.stdout
