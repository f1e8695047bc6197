"""Which servers gave the stored answers, told apart by what they said of themselves.

Counted in the `meta` table, in the transaction that commits the answers, so that the counts are those of the calls.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dhd_labels.engines.base import ChatReply
from dhd_labels.engines.server_says import SOFTWARE
from dhd_labels.errors import DhdError

LOG = logging.getLogger("dhd_labels")
ANSWERED = ("ok", "truncated", "empty")
_PREFIX = "server "
_MOST = 20
"""Descriptions of a model that are counted apart: then the software is left out, and after twice as many, the rest."""
_OTHERS = {"others": f"after {2 * _MOST} different descriptions"}


@dataclass(frozen=True, slots=True)
class Served:
    """Answers of one role under one model id from one server; `batch` in `calls` tells which (inclusive)."""

    model: str
    role: str
    says: Mapping[str, str]
    calls: int
    first_batch: int
    last_batch: int

    def as_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {**asdict(self), "says": dict(self.says)}


class ServerCounts:
    """Counts answers by (model id that came back, role, what the server said)."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._news: list[str] = []

    def add(self, replies: Iterable[tuple[str, ChatReply]], batch: int) -> None:
        """Count the answers of a batch, inside the transaction that stores them."""
        self._news = []
        new: dict[tuple[str, str, str], int] = {}
        for role, reply in replies:
            if reply.server and reply.status in ANSWERED:
                new[reply.model, role, reply.server] = new.get((reply.model, role, reply.server), 0) + 1
        if not new:
            return
        found = {(served.model, served.role, _text(served.says)): served for served in self.read()}
        for (model, role, said), count in new.items():
            says = self._counted_as(json.loads(said), model, found.values())
            before = found.get((model, role, _text(says)), Served(model, role, says, 0, batch, batch))
            after = Served(model, role, says, before.calls + count, before.first_batch, batch)
            found[model, role, _text(says)] = after
            name = _PREFIX + json.dumps([model, role, _text(says)])
            value = json.dumps([after.calls, after.first_batch, after.last_batch])
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?,?)", (name, value))

    def warn(self) -> None:
        """Log what the last batch brought, once it is committed."""
        for line in self._news:
            LOG.warning("%s", line)
        self._news = []

    def read(self) -> list[Served]:
        """Return the counts, a model's in the order in which its servers came.

        Raises:
            DhdError: a count is not what was written.
        """
        query = "SELECT name, value FROM meta WHERE name >= ? AND name < ?"
        ends = (_PREFIX, _PREFIX + chr(0x10FFFF))
        try:
            rows = [(json.loads(n[len(_PREFIX) :]), json.loads(v)) for n, v in self._db.execute(query, ends)]
            found = [Served(model, role, json.loads(said), *counts) for (model, role, said), counts in rows]
        except (ValueError, TypeError) as error:
            raise DhdError(f"The counts of servers in the store are not what was written ({error})") from None
        return sorted(found, key=lambda served: (served.model, served.first_batch, served.role, _text(served.says)))

    def _counted_as(self, says: Mapping[str, str], model: str, known: Iterable[Served]) -> Mapping[str, str]:
        """Return the description under which an answer is counted, and note what is new of its model."""
        of_model = [served for served in known if served.model == model]
        different = {_text(served.says) for served in of_model}
        if _text(says) in different or not different:
            return says
        if len(different) >= 2 * _MOST:
            says = _OTHERS
        elif len(different) >= _MOST:
            says = {name: value for name, value in says.items() if name not in SOFTWARE} | {SOFTWARE[0]: "(many)"}
        last = max(of_model, key=lambda served: served.last_batch)
        if _text(says) not in different:
            self._news.append(
                f"Another server answers for the model {model!r} than before, by what it says of itself: "
                f"{changes(last.says, says)}. {advice([last.says, says])} `status` counts the answers of each"
            )
        return says


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return the parts of two descriptions that differ."""
    names = [name for name in (*old, *(new.keys() - old.keys())) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '(not said)')} -> {new.get(name, '(not said)')}" for name in names)


def advice(descriptions: Sequence[Mapping[str, str]]) -> str:
    """Return what it means that descriptions of one model differ."""
    names = {name for says in descriptions for name in says}
    if {name for name in names if len({says.get(name) for says in descriptions}) > 1} <= set(SOFTWARE):
        return "Its software or build changed, as it does now and then at hosted services; the weights may be the same."
    return "Other weights, settings or software may be behind it: if so, use a new --run-dir for them."


def mixed(served: Iterable[Served]) -> dict[str, list[Served]]:
    """Return the models that more than one server answered for."""
    found: dict[str, list[Served]] = {}
    for item in served:
        found.setdefault(item.model, []).append(item)
    return {model: items for model, items in found.items() if len({_text(item.says) for item in items}) > 1}


def sentences(served: Iterable[Served]) -> list[str]:
    """Return one sentence for each model that more than one server answered for."""
    lines = []
    for model, items in mixed(served).items():
        counts: dict[str, int] = {}
        for item in items:
            counts[spoken(item.says)] = counts.get(spoken(item.says), 0) + item.calls
        parts = "; ".join(f"{count} of ({says})" for says, count in counts.items())
        lines.append(
            f"The answers of {model!r} are of {len(counts)} servers, by what they say of themselves: {parts}. "
            + advice([item.says for item in items])
        )
    return lines


def spoken(says: Mapping[str, str]) -> str:
    """Return a description in one line."""
    return ", ".join(f"{name} {value}" for name, value in says.items())


def _text(says: Mapping[str, str]) -> str:
    return json.dumps(says, sort_keys=True)
