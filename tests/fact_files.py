"""Files of real golds beside the project; tests that use them skip where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

_PLACES = (ROOT / "shared", ROOT.parent / "shared")


class Facts:
    """Files of real golds and candidates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lines(self, name: str) -> list[dict[str, Any]]:
        path = self._folder / name
        if not path.exists():
            pytest.skip(f"no {name} beside the project")
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

    def array(self, name: str) -> list[dict[str, Any]]:
        path = self._folder / name
        if not path.exists():
            pytest.skip(f"no {name} beside the project")
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return rows

    def path(self, name: str) -> Path:
        self.lines(name)
        return self._folder / name


def find_facts() -> Facts:
    found = [place for place in _PLACES if place.is_dir()]
    if not found:
        pytest.skip("no files of facts beside the project")
    return Facts(found[0])
