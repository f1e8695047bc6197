"""Selectors by name, from entry points too, and the directions of imports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import clone

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


def test_an_unknown_parameter_suggests_a_known_one() -> None:
    with pytest.raises(DhdError, match=r"must be those of its constructor, got num_leafs\. Did you mean 'num_leaves'"):
        load_selector("lgbm", num_leafs=3, random_state=0)


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
    with pytest.raises(
        DhdError, match="'nothing' must have get_params, fit and predict_value, but Nothing has no get_p"
    ):
        load_selector("nothing")
    with pytest.raises(DhdError, match=r"'gone' \(my_selectors:Gone\) cannot be imported"):
        load_selector("gone")


MINE = """from sklearn.base import BaseEstimator
class Mine(BaseEstimator):
    def __init__(self, share=0.5, random_state=None):
        self.share, self.random_state = share, random_state
    def fit(self, X, y, *, labels=None, sample_weight=None):
        return self
    def predict_value(self, X):
        return X["hedges"].to_numpy() * -self.share
class Outer:
    Inner = Mine
def configured():
    return Mine(share=0.25)
"""


@pytest.mark.parametrize("relative", [True, False])
def test_a_class_of_a_file(relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path), set(sys.modules)
    place = "mine.py" if relative else str(tmp_path / "mine.py")
    made = load_selector(f"{place}:Mine", random_state=3, n_jobs=2)
    assert made.get_params() == {"share": 0.5, "random_state": 3}
    assert type(load_selector(f"{place}:Outer.Inner")) is type(made), "the same file is run once"
    assert load_selector(f"{place}:configured", random_state=4).get_params() == {"share": 0.25, "random_state": 4}
    assert type(clone(made)) is type(made)
    assert sys.path == before[0]
    added = set(sys.modules) - before[1]
    assert [name for name in added if name.startswith("_dhd_selector_")] and "mine" not in added
    (tmp_path / "mine.py").write_text(MINE.replace("0.5", "0.75"))
    assert load_selector(f"{place}:Mine").get_params()["share"] == 0.75, "an edited file is another one"


def test_a_class_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "importable_selectors.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_selector("importable_selectors:Mine").get_params()["share"] == 0.5


BROKEN = {
    "raises": (
        "x = 1\nraise ValueError('no licence file')\n",
        r"cannot be imported: ValueError: no licence file \(.*:2\)",
    ),
    "deep": (
        "import json\n\njson.loads('{')\n",
        r"cannot be imported: JSONDecodeError: .* \(.*broken\.py:3\)\. Mend that",
    ),
    "exits": ("import sys\nsys.exit(3)\n", r"cannot be imported: SystemExit: 3 \(.*broken\.py:2\)"),
    "syntax": ("def f(:\n    pass\n", r"cannot be imported: SyntaxError: .*\(.*broken\.py:1\)"),
    "neighbour": (
        "import neighbour_of_it\n",
        r"No module named 'neighbour_of_it' \(.*:1\)\. Install it; a file beside",
    ),
    "missing": (
        "class Mime:\n    pass\n",
        r"must name a class of .*broken\.py, which has no 'Mine'\. Did you mean 'Mime'",
    ),
    "number": ("Mine = 3\n", r"must be a class, got int \(.*broken\.py\)"),
    "no-selector": (
        "class Mine:\n    def fit(self, X, y):\n        return self\n",
        r"but Mine has no get_params and no predict_value \(.*broken\.py:1\)\. See .*BaseEstimator gives get_params",
    ),
    "arguments": (
        "\nclass Mine:\n    def __init__(self, alpha, *, beta, gamma=1):\n        pass\n",
        r"must work without arguments, but needs alpha, beta \(.*broken\.py:2\)\. Give each a default",
    ),
    "varargs": (
        "from sklearn.base import BaseEstimator\nclass Mine(BaseEstimator):\n"
        "    def __init__(self, *given):\n        pass\n    fit = predict_value = print\n",
        r"must return its constructor's parameters, but raised RuntimeError.*broken\.py:2\)\. Name each parameter",
    ),
    "constructor": (
        "class Mine:\n    def __init__(self):\n        self.x = 1 / 0\n",
        r"must only store its parameters, but raised ZeroDivisionError: division by zero \(.*broken\.py:3\)",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_its_line(case: str, tmp_path: Path) -> None:
    content, message = BROKEN[case]
    file = tmp_path / "broken.py"
    file.write_text(content)
    with pytest.raises(DhdError, match=message):
        load_selector(f"{file}:Mine")
    if case in ("raises", "deep", "exits", "syntax", "neighbour"):
        assert not [name for name, module in sys.modules.items() if getattr(module, "__file__", "") == str(file)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such.py:Mine", r"must be readable, got '.*no/such\.py': No such file"),
        ("selector.py", r"'selector\.py' is not known.*name its class too: selector\.py:Class"),
        ("no_such_module.x:Mine", "there is no 'no_such_module'"),
        ("json:Mine", "must name a class of .*json"),
        (":Mine", "must be a name, an importable 'module:Class'"),
        ("mine.py:", "must be a name, an importable 'module:Class'"),
    ],
)
def test_what_cannot_be_found(name: str, message: str) -> None:
    with pytest.raises(DhdError, match=message):
        load_selector(name)


def test_a_module_that_lacks_an_import_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import gone_for_good\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DhdError, match=r"No module named 'gone_for_good' \(.*half_installed\.py:1\)\. Install it\."):
        load_selector("half_installed:Mine")


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
