"""Files of real golds beside the project; tests that use them skip where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import SHARED


class Facts:
    """Files of real golds and candidates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lines(self, name: str) -> list[dict[str, Any]]:
        text = self.path(name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def array(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.path(name).read_text(encoding="utf-8"))
        return rows

    def path(self, name: str) -> Path:
        """Return a file; one that is missing from the folder is an error, not a skip."""
        return self._folder / name


def find_facts() -> Facts:
    if SHARED is None:
        pytest.skip("no files of facts beside the project")
    return Facts(SHARED)
