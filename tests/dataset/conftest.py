"""Fixtures of the tests of `dhd_labels.dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset.samples import write
from tests.hub import HubStub, running


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the caches of `datasets` out of the home folder."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    yield


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write(tmp_path / "labels")


@pytest.fixture
def hub() -> Iterator[HubStub]:
    with running() as stub:
        yield stub
