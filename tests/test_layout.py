"""Guards of the house: who may import whom, and what an import may load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

PACKAGES = {
    "dhd_labels": ROOT / "dhd_labels",
    "dhd_selectors": ROOT / "selectors/dhd_selectors",
    "training": ROOT / "training",
}
ALLOWED = {"dhd_labels": set(), "dhd_selectors": {"dhd_labels"}, "training": {"dhd_labels", "dhd_selectors"}}


def imported_packages(folder: Path) -> dict[str, set[str]]:
    found = {}
    for file in folder.rglob("*.py"):
        names = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
        found[str(file)] = names
    return found


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    files = imported_packages(PACKAGES[package])
    assert files
    for file, names in files.items():
        assert names & PACKAGES.keys() - {package} <= ALLOWED[package], file


def test_selectors_is_a_source_root_without_init() -> None:
    assert not (ROOT / "selectors/__init__.py").exists()


def test_standard_library_selectors_still_work_at_the_root() -> None:
    out = python("import asyncio, selectors; print(selectors.DefaultSelector().__class__.__module__)")
    assert out.strip() == "selectors"


@pytest.mark.parametrize("heavy", ["torch", "transformers", "vllm", "ray", "datasets", "pandas", "sklearn", "lightgbm"])
def test_import_dhd_labels_is_light(heavy: str) -> None:
    code = f"import dhd_labels, dhd_labels.__main__, sys; print({heavy!r} in sys.modules)"
    assert python(code).strip() == "False"


def test_no_file_names_a_machine_path() -> None:
    places = ("/wo" + "rk/", "/ho" + "me/", "/tm" + "p/scratch")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    if not files:
        pytest.skip("not a git checkout")
    for file in files:
        if file.suffix in {".py", ".md", ".yaml", ".toml", ".jinja", ""} and file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            assert not [place for place in places if place in text], file


def test_no_possessive_quantifier_stands_on_a_group() -> None:
    """CPython 3.11.2, which Debian 12 ships, matches `(a|b)*+` wrongly."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("dhd_labels", "selectors", "training")
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\)(?:[*+?]|\{\d*,?\d*\})\+|\(\?>", line)
    ]
    assert found == []
