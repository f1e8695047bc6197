"""The run store: one SQLite file, one row a model call, committed as it arrives.

A call is known by its ticket (its place in the protocol: role, pool, arm, block, draw) and checked by its key (the hash
of the fully resolved request). Everything after the store is a pure function of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from dhd_labels.config import STABLE_CELLS
from dhd_labels.engines.redact import alike
from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE, Pool, Problem, as_json
from dhd_labels.replay.call_rows import SELECT, CallRow, read_row, row_values
from dhd_labels.replay.plan import Studies, Target
from dhd_labels.replay.servers import Served, ServerCounts
from dhd_labels.replay.store_errors import EditedPoolError, damaged, edited_pool, explained
from dhd_labels.replay.store_schema import (
    APPLICATION_ID,
    COLUMNS,
    FORMAT,
    FROM_FORMAT_1,
    SCHEMA,
    SINCE_FORMAT_1,
    check_ours,
)

FILE_NAME = "store.sqlite"
OTHER_MODEL = "another model answered"
"""Begins the error of an answer that was refused because of its model id."""


@dataclass(frozen=True, slots=True)
class CallError:
    """Calls of a role that have no answer yet and failed alike; `example` is the first reason."""

    role: str
    status: str
    calls: int
    example: str
    asked_again: bool


class Store:
    """Reads and writes the calls of one run."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection
        self._batch: int | None = None
        self._servers = ServerCounts(connection)

    @classmethod
    def create_or_open(cls, path: Path) -> Store:
        """Open the store at a path, making an empty one if there is none."""
        with explained(path), contextlib.ExitStack() as undo:
            db = sqlite3.connect(path, isolation_level=None)
            undo.callback(db.close)
            check_ours(db, path)
            db.execute("PRAGMA journal_mode=WAL")
            # FULL: a commit is on disk before the next call is paid for, also when the machine loses power.
            db.execute("PRAGMA synchronous=FULL")
            if db.execute("PRAGMA application_id").fetchone()[0] == 0:
                db.executescript(
                    f"BEGIN; {SCHEMA} PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}; COMMIT;"
                )
            elif db.execute("PRAGMA user_version").fetchone()[0] == 1:
                db.executescript(f"BEGIN IMMEDIATE; {FROM_FORMAT_1} PRAGMA user_version={FORMAT}; COMMIT;")
            undo.pop_all()
        return cls(path, db)

    @classmethod
    def open_existing(cls, path: Path) -> Store:
        """Open a store for reading.

        Raises:
            DhdError: there is no store, it is not ours, or it is damaged.
        """
        if not path.is_file():
            raise DhdError(f"There is no run store at {path}: the run directory must be one that `run` made")
        if os.access(path.parent, os.W_OK):
            return cls.create_or_open(path)
        with explained(path), contextlib.ExitStack() as undo:  # a read-only place: nothing is writing there either
            db = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True, isolation_level=None)
            undo.callback(db.close)
            check_ours(db, path)
            if db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                raise DhdError(
                    f"The run store {path} is of an older format and in a place that cannot be written: copy the run "
                    "directory to a place of yours, where it is brought up to date"
                )
            undo.pop_all()
        return cls(path, db)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @classmethod
    def check_file(cls, path: Path) -> None:
        """Read a whole store once.

        Raises:
            DhdError: it is not ours, or a page of it is damaged.
        """
        store = cls.create_or_open(path)
        try:
            with explained(path):
                verdict = store._db.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise sqlite3.DatabaseError(verdict)
        finally:
            store.close()

    def limit_pages(self, pages: int) -> None:
        """Cap the size of the file (tests use it to run into a full disk)."""
        self._db.execute(f"PRAGMA max_page_count={pages}")

    def add_problem(self, ordinal: int, problem: Problem, studies: Studies) -> None:
        """Record a problem as it was read, and what it takes part in. Both stay as they were first recorded.

        Raises:
            DhdError: the store holds other content under this id.
        """
        content = json.dumps(as_json(problem), sort_keys=True)
        with explained(self.path):
            known = self._db.execute(
                "SELECT content FROM problems WHERE problem_id=?", (problem.problem_id,)
            ).fetchone()
            if known is None:
                taken = json.dumps([name for name, part in asdict(studies).items() if part])
                self._db.execute("INSERT INTO problems VALUES (?,?,?,?)", (problem.problem_id, ordinal, content, taken))
            elif _problem(self.path, known[0]) != problem:
                raise DhdError(
                    f"The problem {problem.problem_id!r} must be the one this run began with, but its text, reference "
                    "or licence changed. Use the old problem file, or a new --run-dir."
                )

    def problems(self) -> Iterator[Problem]:
        """Yield the recorded problems in benchmark order."""
        with explained(self.path):
            for (content,) in self._db.execute("SELECT content FROM problems ORDER BY ordinal, problem_id"):
                yield _problem(self.path, content)

    def studies(self, problem_id: str) -> Studies:
        """Return what a recorded problem takes part in."""
        with explained(self.path):
            row = self._db.execute("SELECT studies FROM problems WHERE problem_id=?", (problem_id,)).fetchone()
        return self._studies(row and row[0])

    def _studies(self, content: Any) -> Studies:
        try:
            taken = json.loads(content)
            return Studies(**{name: name in taken for name in ("blocks", "order", "integrator")})
        except (ValueError, TypeError) as error:
            raise damaged(self.path, error) from None

    def remember(self, name: str, value: str) -> str:
        """Record a fact of the run once; return what is recorded."""
        with explained(self.path):
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?,?)", (name, value))
        return self.recall(name) or value

    def recall(self, name: str) -> str | None:
        """Return a recorded fact of the run, or None."""
        with explained(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE name=?", (name,)).fetchone()
        return str(row[0]) if row else None

    def decide_blocks(self, problem_id: str, blocks: int) -> None:
        """Record how many matched blocks a screened problem gets. The first decision stays."""
        self.remember(_blocks_name(problem_id), str(blocks))

    def blocks(self, problem_id: str) -> int | None:
        """Return how many matched blocks a screened problem gets, or None before that is decided.

        Raises:
            DhdError: the recorded number is damaged.
        """
        value = self.recall(_blocks_name(problem_id))
        try:
            return None if value is None else _block_count(value)
        except ValueError as error:
            raise damaged(self.path, error) from None

    def all_studies(self) -> dict[str, Studies]:
        """Return what every recorded problem takes part in."""
        with explained(self.path):
            rows = self._db.execute("SELECT problem_id, studies FROM problems ORDER BY ordinal, problem_id").fetchall()
        return {problem_id: self._studies(content) for problem_id, content in rows}

    def add_target(self, target: Target) -> None:
        """Record a message that is to be masked. A recorded target stays."""
        with explained(self.path):
            self._db.execute("INSERT OR IGNORE INTO targets VALUES (?,?,?)", astuple(target))

    def targets(self, problem_id: str | None = None) -> list[Target]:
        """Return the recorded targets, of one problem or of all, by problem and slot."""
        where, values = ("WHERE problem_id=?", (problem_id,)) if problem_id is not None else ("", ())
        with explained(self.path):
            rows = self._db.execute(f"SELECT * FROM targets {where} ORDER BY problem_id, slot", values).fetchall()
        try:
            return [_target(row) for row in rows]
        except ValueError as error:
            raise damaged(self.path, error) from None

    def add_pool(self, pool: Pool) -> None:
        """Cache a pool. It is never replaced."""
        with explained(self.path):
            self._db.execute("INSERT INTO pools VALUES (?,?)", (pool.problem_id, json.dumps(as_json(pool))))
        self.remember(_pool_name(pool.problem_id), pool.pool_id)

    def pool(self, problem_id: str) -> Pool | None:
        """Return the cached pool of a problem, checked against its id.

        Raises:
            DhdError: the stored pool was edited.
        """
        with explained(self.path):
            row = self._db.execute("SELECT content FROM pools WHERE problem_id=?", (problem_id,)).fetchone()
        if row is None:
            return None
        try:
            pool = Pool.from_json(json.loads(row[0]))
            self._check_pool(pool, problem_id)
        except (ValueError, TypeError, KeyError) as error:
            raise edited_pool(self.path, problem_id, error) from None
        return pool

    def _check_pool(self, pool: Pool, problem_id: str) -> None:
        """Compare a pool with the calls that wrote its messages.

        Raises:
            ValueError: it is another problem's, or a message is not what its hypothesizer wrote.
        """
        if pool.problem_id != problem_id:
            raise ValueError(f"it is the pool of problem {pool.problem_id!r}")
        if self.recall(_pool_name(problem_id)) not in (None, pool.pool_id):
            raise ValueError("it is not the pool that was cached")
        for message in pool.messages:
            query = "SELECT text FROM calls WHERE ticket=? ORDER BY attempt DESC LIMIT 1"
            with explained(self.path):
                row = self._db.execute(query, (f"{problem_id}/hypothesizer/{message.slot}",)).fetchone()
            if row and row[0] != message.raw:
                raise ValueError(f"message {message.slot} is not what its hypothesizer wrote")

    def drop_edited_pools(self) -> None:
        """Delete the pools that are not what the run cached; they are made anew from their messages."""
        with explained(self.path):
            ids = [row[0] for row in self._db.execute("SELECT problem_id FROM pools")]
        for problem_id in ids:
            try:
                self.pool(problem_id)
            except EditedPoolError:
                with explained(self.path):
                    self._db.execute("DELETE FROM pools WHERE problem_id=?", (problem_id,))
                    self._db.execute("DELETE FROM meta WHERE name=?", (_pool_name(problem_id),))

    def add_calls(self, rows: Sequence[CallRow]) -> None:
        """Commit calls that finished together: all of them, durably, or none. They share a batch number."""
        with explained(self.path):
            if self._batch is None:
                self._batch = self._db.execute("SELECT COALESCE(MAX(batch), 0) FROM calls").fetchone()[0]
            self._batch += 1
            values = [(*row_values(row), self._batch) for row in rows]
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(f"INSERT INTO calls VALUES (NULL{',?' * len(values[0])})", values)
                self._servers.add([(row.role, row.reply) for row in rows], self._batch)
                self._db.execute("COMMIT")
            except sqlite3.Error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        self._servers.warn()

    def attempts(self, ticket: str) -> list[CallRow]:
        """Return the stored attempts at a ticket, first to last."""
        with explained(self.path):
            rows = self._db.execute(f"{SELECT} WHERE ticket=? ORDER BY attempt", (ticket,)).fetchall()
            return [read_row(row) for row in rows]

    def calls(self, problem_id: str) -> dict[str, list[CallRow]]:
        """Return all attempts of a problem, by ticket."""
        with explained(self.path):
            rows = self._db.execute(f"{SELECT} WHERE problem_id=? ORDER BY ticket, attempt", (problem_id,)).fetchall()
            found: dict[str, list[CallRow]] = {}
            for row in map(read_row, rows):
                found.setdefault(row.ticket, []).append(row)
            return found

    def take_row(self, table: str, row: tuple[Any, ...]) -> bool:
        """Take over a row that was read from a damaged store; return whether it is whole.

        Raises:
            DhdError: the disk is full.
        """
        try:
            if table == "calls":
                row += SINCE_FORMAT_1[table][: max(0, COLUMNS[table] - len(row))]
                read_row((*row[1:16], row[17]))
            elif table == "targets":
                _target(row)
            elif table == "meta":
                _check_fact(*row)
            elif table == "problems":
                row += SINCE_FORMAT_1[table][: max(0, COLUMNS[table] - len(row))]
                Problem.from_json(json.loads(row[2]))
            else:
                Pool.from_json(json.loads(row[1]))
        except (ValueError, TypeError, KeyError, IndexError, sqlite3.DatabaseError):
            return False
        with explained(self.path), contextlib.suppress(sqlite3.IntegrityError):
            self._db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
            return True
        return False

    def check_rows(self) -> None:
        """Read every row once.

        Raises:
            DhdError: a row is not what was written.
        """
        with explained(self.path):
            for row in self._db.execute(SELECT):
                read_row(row)
            pools = [row[0] for row in self._db.execute("SELECT problem_id FROM pools")]
        for problem in pools:
            self.pool(problem)
        for known in self.problems():
            self.blocks(known.problem_id)
        self.targets()

    @contextlib.contextmanager
    def one_commit(self) -> Iterator[None]:
        """Commit everything in the block at once, or nothing when it fails."""
        with explained(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def role_calls(self, role: str) -> list[CallRow]:
        """Return every stored call of a role, in the order in which they were committed."""
        with explained(self.path):
            rows = self._db.execute(f"{SELECT} WHERE role=? ORDER BY id", (role,)).fetchall()
            return [read_row(row) for row in rows]

    def answering_models(self) -> dict[str, dict[str, int]]:
        """Return role -> model id that came back -> answered calls."""
        return self._models("status IN ('ok', 'truncated', 'empty')")

    def refused_models(self) -> dict[str, dict[str, int]]:
        """Return role -> model id -> answers that were refused because they were not of the declared model."""
        return self._models(f"status = 'server_error' AND error LIKE '{OTHER_MODEL}%'")

    def errors(self) -> list[CallError]:
        """Return why calls have no answer, by role, status and kind of reason; the most frequent first.

        Numbers and ids in a reason do not make another kind. A server error is asked for again by the next run.
        """
        query = (
            "SELECT role, status, COALESCE(error, '') FROM calls AS c WHERE status NOT IN ('ok', 'truncated', 'empty') "
            "AND attempt = (SELECT MAX(attempt) FROM calls AS d WHERE d.ticket = c.ticket) ORDER BY id"
        )
        found: dict[tuple[str, str, str], tuple[int, str]] = {}
        with explained(self.path):
            for role, status, error in self._db.execute(query):
                kind = (role, status, alike(error))
                count, example = found.get(kind, (0, error))
                found[kind] = count + 1, example
        errors = [
            CallError(role, status, count, example or "no reason given", status == "server_error")
            for (role, status, _), (count, example) in found.items()
        ]
        return sorted(errors, key=lambda error: -error.calls)

    def servers(self) -> list[Served]:
        """Return which servers gave the answers, by what they said of themselves."""
        with explained(self.path):
            return self._servers.read()

    def _models(self, where: str) -> dict[str, dict[str, int]]:
        query = f"SELECT role, model, COUNT(*) FROM calls WHERE {where} GROUP BY role, model ORDER BY role, model"
        found: dict[str, dict[str, int]] = {}
        with explained(self.path):
            for role, model, count in self._db.execute(query):
                found.setdefault(role, {})[model] = count
        return found

    def totals(self) -> list[dict[str, Any]]:
        """Return calls and tokens by role and status."""
        query = (
            "SELECT role, status, COUNT(*), SUM(prompt_tokens), SUM(cached_tokens), SUM(completion_tokens) "
            "FROM calls GROUP BY role, status ORDER BY role, status"
        )
        names = ("role", "status", "calls", "prompt_tokens", "cached_tokens", "completion_tokens")
        with explained(self.path):
            return [dict(zip(names, row, strict=True)) for row in self._db.execute(query)]


def _pool_name(problem_id: str) -> str:
    return f"pool of {problem_id}"


_BLOCKS = "blocks of "


def _blocks_name(problem_id: str) -> str:
    return f"{_BLOCKS}{problem_id}"


def _check_fact(name: Any, value: Any) -> None:
    if str(name).startswith(_BLOCKS):
        _block_count(value)


def _block_count(value: Any) -> int:
    if not (isinstance(value, str) and value.isascii() and value.isdigit() and int(value) > 0):
        raise ValueError(f"the recorded number of matched blocks {value!r} is none that a run decides")
    return int(value)


def _target(row: tuple[Any, ...]) -> Target:
    target = Target(*row)
    if target.slot not in range(POOL_SIZE) or target.cell not in (None, *STABLE_CELLS):
        raise ValueError(f"the masked message {target} is none that a run chooses")
    return target


def _problem(path: Path, content: Any) -> Problem:
    try:
        return Problem.from_json(json.loads(content))
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, error) from None
