"""The card that goes up: ours, and what a person has written on the page of the Hub since.

What dhd-labels generates sits in sections between two HTML comments, which a page does not show. The first one carries
a digest of the generated text, so an edit of a person is seen. All text outside of the sections is a person's and stays
where it is. `docs/data_set_card.md` says the rules to those who edit a card.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dhd_labels.dataset.header import KEY
from dhd_labels.dataset.licences import at_least_as_strict
from dhd_labels.dataset.metadata import check_metadata
from dhd_labels.dataset.values import plain_text
from dhd_labels.errors import DhdError

REQUIRED = frozenset({"rows", "load", "licences", "excluded", "limits", "columns"})
"""Sections that come back when a person deletes them: what nobody should use the data without."""
PLACEHOLDER = "DATASET"
"""What the examples of a card that is not on the Hub call the data set."""
_EXAMPLES = frozenset({"load", "train", "results"})
_OURS = ("configs", "dataset_info", "size_categories", KEY)
_LICENCE = ("license", "license_name", "license_link")
_UNITED = ("language", "tags", "task_categories")
_MARK = re.compile(r"<!-- dhd-labels:(begin|end) ([a-z0-9-]+)(?: sha256:([0-9a-f]{16}))? -->")
_BLOCK = re.compile(r"\A\s*---[ \t]*\n(.*?)(?:(?<=\n)|\n)---[ \t]*(?:\n|\Z)", re.DOTALL)
_OPEN_BLOCK = re.compile(r"\A\s*---[ \t]*\n\s*[\w-]+:(?:\s|$)")


@dataclass(frozen=True, slots=True)
class MergedCard:
    """A card, and the names of the sections in which a person's text stayed."""

    text: str
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a card's body: a section of ours, or (without a name) a person's text."""

    text: str
    name: str = ""
    digest: str = ""

    @property
    def as_generated(self) -> bool:
        return _digest(self.text) == self.digest


def seal(header: Mapping[str, Any], body: str) -> str:
    """Return a generated card: its header, with the names of the sections, and the body with a digest a section.

    Args:
        header: the YAML header; what a person may change is recorded in it under our own key, to see whether they did.
        body: Markdown in which each section lies between `<!-- dhd-labels:begin NAME -->` and the same with `end`.

    Raises:
        ValueError: a mark of a section lacks its other half, or a name comes twice.
    """
    marked = _MARK.sub(lambda found: found[0] if found[1] == "end" else _begin(found[2], "0" * 16), body)
    pieces = _pieces(marked)
    if sum(bool(piece.name) for piece in pieces) * 2 != len(_MARK.findall(body)):
        raise ValueError("Each section of the card must have a begin and an end mark, and a name of its own")
    pieces = [_Piece(p.text, p.name, _digest(p.text)) if p.name else p for p in pieces]
    written = {name: header[name] for name in ("pretty_name", "license") if name in header}
    ours = {**header.get(KEY, {}), "sections": [p.name for p in pieces if p.name], "written": written}
    return _joined({**header, KEY: ours}, pieces)


def addressed(card: str, repo: str) -> str:
    """Return a generated card whose examples name the repository where the card of a folder says `DATASET`."""
    header, body = _split(_plain(card))
    return _joined(header, [_addressed(piece, repo) for piece in _pieces(body)])


def _addressed(piece: _Piece, repo: str) -> _Piece:
    if piece.name not in _EXAMPLES or not piece.as_generated:
        return piece
    text = piece.text.replace(PLACEHOLDER, repo)
    return _Piece(text, piece.name, _digest(text))


def merge_card(fresh: str, there: str | None) -> MergedCard:
    """Return the card that goes up. Merging its result again changes nothing.

    Args:
        fresh: the card of `card.render`.
        there: the card of the repository, whoever wrote it; None where there is none.

    Raises:
        DhdError: the YAML header of the card that is there cannot be read.
    """
    if there is None or not there.strip():
        return MergedCard(fresh, ())
    header, body = _split(_plain(fresh))
    their_header, their_body = _split(_plain(there))
    sections = [piece for piece in _pieces(body) if piece.name]
    pieces, kept = _kept_pieces({piece.name: piece for piece in sections}, _pieces(their_body))
    pieces = _completed(pieces, sections, _known(their_header))
    return MergedCard(_checked(_merged_header(header, their_header), pieces), kept)


def _checked(header: Mapping[str, Any], pieces: Sequence[_Piece]) -> str:
    """Return a card that the Hub takes, and that its own client reads and writes back as it is."""
    from huggingface_hub import DatasetCard

    check_metadata(header)
    try:
        card = _joined(header, pieces)
        again = str(DatasetCard(card))
    except Exception as error:  # whatever a name or value of a person does to that class
        raise _unreadable(f"the Hub's client cannot read it ({type(error).__name__}: {str(error)[:80]})") from None
    if again != card:
        raise _unreadable("the Hub's client reads a value of it differently than it stands there")
    return card


def read_header(card: str) -> dict[str, Any]:
    """Return the YAML header of a card as plain data; empty where it has none.

    Raises:
        DhdError: the header is not YAML, or not a mapping of names; the text says in which line.
    """
    return _split(_plain(card))[0]


def _plain(text: str) -> str:
    """Return the text with the line ends of this system's files; a browser sends others."""
    return plain_text(text).removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _split(card: str) -> tuple[dict[str, Any], str]:
    """Return the header and the body of a card."""
    import yaml

    found = _BLOCK.match(card)
    if found is None:
        if _OPEN_BLOCK.match(card):
            raise _unreadable("no line '---' ends it")
        return {}, card
    try:
        header = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = card[: found.start(1)].count("\n")
        raise _unreadable(_reason(error, found[1], first)) from None
    if header is None:
        header = {}
    if not isinstance(header, dict) or not all(isinstance(key, str) for key in header):
        raise _unreadable(f"it is {repr(header)[:80]}")
    return header, card[found.end() :]


def _unreadable(what: str) -> DhdError:
    return DhdError(
        f"The YAML header of the card (README.md) must be lines of `name: value` between two lines '---', but {what}. "
        "Correct it on the page of the data set, or push with --replace-card, which puts our card in its place."
    )


def _reason(error: Exception, block: str, first: int) -> str:
    """Return what is wrong with a header, and in which line of the card (its block starts after line `first`)."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        said = getattr(error, "problem", None) or getattr(error, "context", None) or "it is not YAML"
        lines = block.splitlines()
        shown = lines[mark.line].strip()[:60] if mark.line < len(lines) else ""
        return f"line {first + mark.line + 1} is wrong: {said}, at {shown!r}"
    position = getattr(error, "position", None)
    if isinstance(position, int):
        line = first + block[:position].count("\n") + 1
        return f"line {line} holds a character that YAML does not allow"
    return f"a value in it cannot be read: {str(error)[:80]}"


def _pieces(body: str) -> list[_Piece]:
    """Return the parts of a body in their order.

    A mark without its other half, or a second section of one name, is taken out: the text is a person's then.
    """
    pieces: list[_Piece] = []
    opened: re.Match[str] | None = None
    at = 0
    for mark in _MARK.finditer(body):
        text, at = body[at : mark.start()], mark.end()
        closes = opened is not None and mark[1] == "end" and mark[2] == opened[2]
        if opened is not None and closes and mark[2] not in {piece.name for piece in pieces}:
            pieces.append(_Piece(text, opened[2], opened[3]))
        else:
            pieces.append(_Piece(text))
        opened = mark if mark[1] == "begin" and mark[3] else None
    return [*pieces, _Piece(body[at:])]


def _kept_pieces(fresh: Mapping[str, _Piece], pieces: Iterable[_Piece]) -> tuple[list[_Piece], tuple[str, ...]]:
    """Return the parts with every section as it is now, a person's text first where they edited it."""
    merged: list[_Piece] = []
    kept: list[str] = []
    for piece in pieces:
        if not piece.name:
            merged.append(piece)
            continue
        now = fresh.get(piece.name)
        if not piece.text.strip():  # emptied: as good as deleted
            continue
        if piece.as_generated or (now and _digest(piece.text) == now.digest):
            merged += [now] if now else []
            continue
        kept.append(piece.name)
        stays = now is not None and now.digest == piece.digest
        merged.append(piece if stays else _Piece(piece.text))
        merged += [now] if now and not stays else []
    return merged, tuple(kept)


def _completed(pieces: Sequence[_Piece], sections: Sequence[_Piece], known: frozenset[str]) -> list[_Piece]:
    """Return the parts with the sections that are new or must be there, each beside those that it belongs to."""
    found = list(pieces)
    names = [section.name for section in sections]
    for number, section in enumerate(sections):
        places = {piece.name: place for place, piece in enumerate(found)}
        if section.name in places or (section.name in known and section.name not in REQUIRED):
            continue
        before = [places[name] for name in names[:number] if name in places]
        after = [places[name] for name in names[number:] if name in places]
        place = before[-1] + 1 if before else after[0] if after else len(found)
        found.insert(place, section)
    return found


def _known(header: Mapping[str, Any]) -> frozenset[str]:
    """Return the sections that a card had when it went up; those it lacks now were deleted by a person."""
    ours = header.get(KEY)
    names = ours.get("sections") if isinstance(ours, dict) else None
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def _merged_header(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return our header with what a person added, and the name and the licence that they chose where they may."""
    merged = dict(ours)
    merged |= {name: value for name, value in theirs.items() if name not in (*ours, *_OURS, *_LICENCE)}
    for name in _UNITED:
        if ours.get(name) or theirs.get(name):
            merged[name] = _united(_listed(ours.get(name)), _listed(theirs.get(name)))
    called = theirs.get("pretty_name")
    if isinstance(called, str) and called.strip() and called != _written(theirs, "pretty_name"):
        merged["pretty_name"] = called
    chosen = theirs.get("license")
    if chosen != _written(theirs, "license") and at_least_as_strict(chosen, str(ours.get("license"))):
        merged["license"] = chosen
    return merged


def _written(header: Mapping[str, Any], name: str) -> Any:
    """Return what dhd-labels last wrote under a name, or None."""
    ours = header.get(KEY)
    written = ours.get("written") if isinstance(ours, dict) else None
    return written.get(name) if isinstance(written, dict) else None


def _listed(value: Any) -> list[Any]:
    """Return a value as a list. Norwegian's code `no` is a truth value to YAML 1.1."""
    found = value if isinstance(value, list) else [value]
    return ["no" if item is False else item for item in found if item is not None and item != ""]


def _united(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for item in (*first, *second):
        if item not in found:
            found.append(item)
    return found


def _joined(header: Mapping[str, Any], pieces: Sequence[_Piece]) -> str:
    """Return the card. Sections stand in lines of their own, with an empty line on both sides."""
    parts: list[str] = []
    waiting = ""  # a person's text since the last section
    for piece in pieces:
        if not piece.name:
            waiting = f"{waiting}\n{piece.text}" if waiting else piece.text
            continue
        parts += [_lines(waiting), f"{_begin(piece.name, piece.digest)}\n{piece.text.strip()}\n{_end(piece.name)}"]
        waiting = ""
    parts.append(_lines(waiting))
    body = "\n\n".join(part for part in parts if part)
    return f"---\n{yaml_text(header)}\n---\n\n{body}\n"


def yaml_text(header: Mapping[str, Any]) -> str:
    """Return a header as the YAML that the Hub's own client writes, so that it reads and writes it back unchanged."""
    from huggingface_hub import DatasetCardData

    return str(DatasetCardData(**header).to_yaml(original_order=list(header)))


def _lines(text: str) -> str:
    """Return a person's text without the empty lines around it."""
    lines = text.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines).rstrip()


def _digest(text: str) -> str:
    """Return a digest of a section's text that spaces at the ends of lines do not change."""
    lines = (line.rstrip() for line in text.strip().split("\n"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _begin(name: str, digest: str) -> str:
    return f"<!-- dhd-labels:begin {name} sha256:{digest} -->"


def _end(name: str) -> str:
    return f"<!-- dhd-labels:end {name} -->"
