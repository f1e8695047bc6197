"""What a push does to the Hub's head, worked out before anything is sent: which files, which card, what goes.

A folder is read once, with marks by which any later change of it is seen, so that a commit never mixes two builds.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dhd_labels.dataset.header import CARD_NAME, SIMULATION_NAME, Header, data_files, local_header, parse_header
from dhd_labels.dataset.merge import merge_card
from dhd_labels.dataset.remote import Content, Remote, content_of, content_of_bytes
from dhd_labels.dataset.schema import CONFIGS, SCHEMA_VERSION
from dhd_labels.errors import DhdError

State = Literal["new", "changed", "unchanged", "deleted", "unknown"]
_OURS = re.compile(rf"(?:{'|'.join(CONFIGS)})/[^/]+\.parquet|{re.escape(SIMULATION_NAME)}")


@dataclass(frozen=True, slots=True)
class PushFile:
    """One file of a push: its path, size in bytes, SHA-256, and how it stands to the Hub (`unknown`: not asked)."""

    path: str
    size: int
    sha256: str
    state: State = "unknown"


@dataclass(frozen=True, slots=True)
class Local:
    """A data set folder at one moment: what it held, and marks by which a change of it is seen."""

    folder: Path
    header: Header
    card: str
    contents: dict[str, Content]
    marks: dict[str, tuple[int, ...]]

    def check_unchanged(self) -> None:
        """Refuse to go on with a folder of which a part may be from another build.

        Raises:
            DhdError: a file came, went or was written since the folder was read.
        """
        now = marks_of(self.folder)
        changed = sorted(path for path in self.marks.keys() | now.keys() if self.marks.get(path) != now.get(path))
        if changed:
            raise DhdError(
                f"The data set in {self.folder} must stay as it is while it is pushed, but {some(changed)} changed. "
                "Nothing was committed. Push again when the build is done."
            )


@dataclass(frozen=True, slots=True)
class Plan:
    """What turns a head of the Hub into the data set of the folder. `contents` has every file with its digests."""

    head: str
    card: str
    contents: dict[str, Content]
    states: dict[str, State]
    there: Remote
    notes: tuple[str, ...]

    @property
    def needed(self) -> bool:
        """Whether anything differs from the head."""
        return any(state != "unchanged" for state in self.states.values())

    def files(self) -> tuple[PushFile, ...]:
        """Return every file by path, with how it stands to the head."""
        sent = (PushFile(p, c.size, c.sha256, self.states[p]) for p, c in self.contents.items())
        gone = [path for path, state in self.states.items() if state == "deleted"]
        lost = (PushFile(p, self.there.files[p].size, self.there.files[p].digest, "deleted") for p in gone)
        return tuple(sorted((*sent, *lost), key=lambda file: file.path))


def read_folder(folder: Path) -> Local:
    """Return what a data set folder holds.

    Raises:
        DhdError: it is no whole data set of ours, holds Parquet files that its card does not list, cannot be read, or
            changed while it was read.
    """
    marks = marks_of(folder)
    header = local_header(folder)
    _check_listed(header, marks, folder)
    card = (folder / CARD_NAME).read_text(encoding="utf-8")
    try:
        contents = {path: content_of(folder / path) for path in marks}
    except OSError as error:
        raise DhdError(f"The data set in {folder} cannot be read: {error}. Nothing was sent.") from None
    local = Local(folder, header, card, contents, marks)
    local.check_unchanged()
    return local


def marks_of(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return what changes when a file is replaced or written: its device, inode, size and time of change."""
    found: dict[str, tuple[int, ...]] = {}
    for path in data_files(folder):
        try:
            state = (folder / path).stat()
        except OSError:  # gone between the listing and now
            continue
        found[path] = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
    return found


def planned(local: Local, there: Remote, replace_card: bool, notes: tuple[str, ...]) -> Plan:
    """Compare the folder with the Hub's head.

    Raises:
        DhdError: the data set there is of a newer schema version, or its card cannot be merged.
    """
    notes = (*notes, *_about_the_other(local.header, there))
    merged = merge_card(local.card, None if replace_card else there.card)
    if merged.kept:
        notes = (*notes, f"Edited by people and kept in the card: {', '.join(merged.kept)}.")
    contents = {**local.contents, CARD_NAME: content_of_bytes(merged.text.encode())}
    states: dict[str, State] = {path: _state(content, path, there) for path, content in contents.items()}
    gone = (path for path in there.files if path not in contents and _OURS.fullmatch(path))
    states |= dict.fromkeys(gone, "deleted")
    return Plan(there.head, merged.text, contents, states, there, notes)


def _state(content: Content, path: str, there: Remote) -> State:
    if path not in there.files:
        return "new"
    return "unchanged" if there.files[path].holds(content) else "changed"


def _about_the_other(ours: Header, there: Remote) -> Iterator[str]:
    """Say which runs of the data set on the Hub this push takes out, and where they stay.

    Raises:
        DhdError: that data set is of a newer schema version.
    """
    header = parse_header(there.card) if there.card else None
    if header is None:
        return
    if _version(header.schema_version) > _version(SCHEMA_VERSION):
        raise DhdError(
            f"The data set on the Hub has schema_version {header.schema_version!r}, newer than the {SCHEMA_VERSION!r} "
            "that this version of dhd-labels writes, so it is not replaced. Install the newer dhd-labels and build "
            "again, or push to another --repo or --revision."
        )
    if header.schema_version != SCHEMA_VERSION:
        yield (
            f"The data set on the Hub of schema_version {header.schema_version!r} is replaced by one of "
            f"{SCHEMA_VERSION!r}; it stays at commit {there.head}."
        )
    gone = sorted(_runs(header) - _runs(ours))
    if gone:
        yield f"No longer in the data set: {some(gone)}; they stay at commit {there.head}."


def _version(text: str) -> float:
    """Return a schema version as a number; one that is none counts as newer than all."""
    return float(text) if text.isdigit() else float("inf")


def _runs(header: Header) -> set[str]:
    """Return config and run of every file that a header lists, as its path has them."""
    paths = re.compile(r"(?P<config>[^/]+)/[a-z]+-(?P<run>.+)-\d+\.parquet")
    return {f"{found['config']} of {found['run']}" for path in header.paths if (found := paths.fullmatch(path))}


def _check_listed(header: Header, paths: Iterable[str], folder: Path) -> None:
    """Refuse Parquet files that the card does not list: they would go up and nobody would load them."""
    listed = set(header.paths)
    strangers = [path for path in paths if path.endswith(".parquet") and path not in listed]
    if strangers:
        raise DhdError(
            f"The card of {folder} must list every Parquet file, but not {', '.join(strangers)}. Remove them, or "
            "build the data set again."
        )


def card_diff(plan: Plan) -> tuple[str, ...]:
    """Return the lines of a unified diff from the card on the Hub to the one that goes up."""
    there, ours = (plan.there.card or "").splitlines(), plan.card.splitlines()
    return tuple(difflib.unified_diff(there, ours, "card on the Hub", "card that goes up", lineterm=""))


def some(names: Sequence[str], most: int = 5) -> str:
    """Name the first few."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
