"""Fixtures of the tests of `dhd_labels.dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset.samples import write
from tests.hub import HubStub, running
from tests.hub.client import Clients, clients


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the caches of `datasets` out of the home folder."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    yield


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return write(tmp_path / "labels")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HubStub, Clients]]:
    """One Hub and the process of its clients for all tests, since the clients take seconds to import."""
    with running() as stub, clients(stub, tmp_path_factory.mktemp("hub")) as ready:
        yield stub, ready


@pytest.fixture
def hub(served: tuple[HubStub, Clients]) -> HubStub:
    """An empty Hub."""
    served[0].reset()
    return served[0]


@pytest.fixture
def client(hub: HubStub, served: tuple[HubStub, Clients]) -> Iterator[Clients]:
    """Child processes with the real clients. They may only ask for what the Hub knows."""
    yield served[1]
    assert hub.unknown == []
