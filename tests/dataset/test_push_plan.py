"""What a push does to a head of the Hub, worked out without one."""

from __future__ import annotations

from pathlib import Path

from dhd_labels.dataset.header import CARD_NAME, data_files
from dhd_labels.dataset.push_plan import planned, read_folder
from dhd_labels.dataset.remote import Remote, RemoteFile, content_of, content_of_bytes
from tests.dataset.samples import write

HEAD = "c" * 40


def remote(files: dict[str, bytes], large: bool = True) -> Remote:
    found = {path: content_of_bytes(content) for path, content in files.items()}
    listed = {p: RemoteFile(c.size, c.sha256 if large else c.blob, large) for p, c in found.items()}
    return Remote(HEAD, listed, files[CARD_NAME].decode() if CARD_NAME in files else None)


def contents(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in data_files(folder)}


def test_a_head_with_the_same_files_needs_nothing(labels: Path) -> None:
    for large in (True, False):
        plan = planned(read_folder(labels), remote(contents(labels), large), False, ())
        assert not plan.needed and {file.state for file in plan.files()} == {"unchanged"}


def test_only_what_an_earlier_push_brought_is_deleted(labels: Path) -> None:
    stale = ("messages/train-gone-00001.parquet", "masking/old.parquet", "simulation.json", "figures/flips.png")
    theirs = ("figures/mine.png", "LICENSE.md", "data/train.parquet", "notes.txt", ".gitattributes")
    there = contents(labels) | dict.fromkeys((*stale, *theirs), b"x")
    plan = planned(read_folder(labels), remote(there), False, ())
    assert {path for path, state in plan.states.items() if state == "deleted"} == set(stale)
    card = there[CARD_NAME].replace(b"\nlicense: ", b"\nlicense_name: x\nlicense_link: LICENSE.md\nlicense: ", 1)
    plan = planned(read_folder(labels), remote(there | {CARD_NAME: card}), False, ())
    assert plan.states["LICENSE.md"] == "deleted"


def test_runs_that_go_are_named_once_with_the_commit_where_they_stay(tmp_path: Path) -> None:
    folder = write(tmp_path / "labels")
    card = (folder / CARD_NAME).read_text()
    there = {CARD_NAME: card.replace("-all-", "-oracle-0a1b2c3d-").encode()}
    plan = planned(read_folder(folder), remote(there), False, ("before",))
    assert plan.notes == (
        "before",
        f"No longer in the data set: oracle-0a1b2c3d (messages, problems, replays). Their rows stay at commit {HEAD}.",
    )


def test_contents_are_those_of_git_and_of_sha256(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"what is up, doc?")
    known = "bd9dbf5aae1a3862dd1526723246b20206e5fc37"  # the example of the book Pro Git, chapter 10.2
    assert content_of(path) == content_of_bytes(b"what is up, doc?")
    assert content_of(path).blob == known


def test_a_person_s_section_is_said_to_stay(labels: Path) -> None:
    there = contents(labels)
    card = there[CARD_NAME].decode()
    edited = card.replace("## Known limits", "## Known limits, and mine", 1)
    assert edited != card
    plan = planned(read_folder(labels), remote(there | {CARD_NAME: edited.encode()}), False, ())
    assert plan.notes == ("Edited by people and kept in the card: limits.",)
    assert "and mine" in plan.card
    plan = planned(read_folder(labels), remote(there | {CARD_NAME: edited.encode()}), True, ())
    assert plan.card == card and plan.states[CARD_NAME] == "changed"
