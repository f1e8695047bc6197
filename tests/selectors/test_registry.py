"""Selectors by name, from entry points too, and the directions of imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from dhd_labels.errors import DhdError
from dhd_selectors import load_selector, selector_names
from dhd_selectors.lgbm import LightGBMSelector

ROOT = Path(__file__).parents[2]


def test_built_in_names_and_parameters() -> None:
    assert {"keep-all", "drop-wrong", "lgbm"} <= set(selector_names())
    selector = load_selector("lgbm", random_state=5, n_jobs=2)
    assert isinstance(selector, LightGBMSelector)
    assert (selector.random_state, selector.n_jobs) == (5, 2)
    assert load_selector("keep-all", random_state=5, n_jobs=2).get_params() == {}


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(DhdError, match=r"'lgbn' is not known\. Did you mean 'lgbm'"):
        load_selector("lgbn")


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_selectors.py").write_text(
        "from dhd_selectors.baselines import KeepAll\nclass Mine(KeepAll):\n    pass\nclass Nothing:\n    pass\n"
    )
    info = tmp_path / "my_selectors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-selectors\nVersion: 1.0\n")
    points = ("mine = my_selectors:Mine", "nothing = my_selectors:Nothing", "gone = my_selectors:Gone")
    (info / "entry_points.txt").write_text("[dhd_selectors]\n" + "\n".join(points) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" in selector_names()
    assert type(load_selector("mine", random_state=0)).__name__ == "Mine"
    with pytest.raises(DhdError, match="'nothing' must have get_params, fit and predict_value, got Nothing"):
        load_selector("nothing")
    with pytest.raises(DhdError, match=r"'gone' \(my_selectors:Gone\) cannot be imported"):
        load_selector("gone")


def imported(package: Path) -> set[str]:
    """Top-level names that the modules of a package import anywhere."""
    names = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names


def test_directions_of_imports() -> None:
    assert not imported(ROOT / "dhd_labels") & {"dhd_selectors", "training"}
    assert "training" not in imported(ROOT / "selectors" / "dhd_selectors")


def test_importing_loads_no_heavy_library_and_leaves_the_standard_selectors_alone() -> None:
    code = (
        "import asyncio, selectors, sys; selectors.DefaultSelector; import dhd_selectors, training.fit; "
        "print(sorted({'torch', 'lightgbm', 'datasets', 'transformers'} & set(sys.modules)))"
    )
    path = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'selectors')!r}]; "
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert not (ROOT / "selectors" / "__init__.py").exists()
