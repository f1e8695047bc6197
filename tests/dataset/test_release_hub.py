"""Releases of the paper's authors on a Hub, by the real clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dataset.releases import write_release
from tests.dataset.samples import child
from tests.hub import HubStub, Repo
from tests.hub.client import Clients

LOAD = """
def messages(name):
    from dhd_labels.dataset.columns import open_source
    found = load_frame(name, "messages", ("train", "validation", "test"))
    assert open_source(name).rows("messages") == len(found)
    return f"{len(found)} messages of {', '.join(sorted(set(found['run'])))}"
attempt(lambda: messages("authors/release"))
"""


def put(hub: HubStub, folder: Path, *, gated: bool = False, readme: str | None = "---\nlicense: other\n---\n") -> None:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("part-*")}
    if readme is not None:
        files["README.md"] = readme.encode()
    repo = hub.repos["authors/release"] = Repo(private=False, gated=gated)
    repo.commit("main", files)


@pytest.mark.parametrize("readme", ["---\nlicense: other\n---\n# Release\n", None], ids=["with a card", "without"])
def test_a_release_on_the_hub_loads(hub: HubStub, client: Clients, tmp_path: Path, readme: str | None) -> None:
    put(hub, write_release(tmp_path / "release"), readme=readme)
    assert child(client, tmp_path, LOAD) == "60 messages of paper-gemma_4_31b, paper-gpt_oss_120b\n"


def test_what_is_no_release_is_not_ours(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    put(hub, tmp_path / "empty")
    assert "was not made by dhd-labels" in child(client, tmp_path, LOAD)


def test_a_gated_release_says_so(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    put(hub, write_release(tmp_path / "release"), gated=True)
    assert "is gated. Ask for access" in child(client, tmp_path, LOAD)


def test_an_absent_release_says_so(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    assert "no such data set, or it is private" in child(client, tmp_path, LOAD)


PIN = """
def pinned():
    from training.share import pin
    found = pin("authors/release")
    assert found.labels == f"authors/release@{found.revision}"
    return found.revision
attempt(pinned)
"""


def test_a_rule_names_the_commit_of_a_release(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    put(hub, write_release(tmp_path / "release"))
    assert child(client, tmp_path, PIN).strip() in hub.repos["authors/release"].commits
