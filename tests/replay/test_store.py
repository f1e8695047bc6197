"""The store against everything that happens to files."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, message, pool, problem, reply

from dhd_labels.errors import DhdError
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.lock import RunLock
from dhd_labels.replay.plan import Studies
from dhd_labels.replay.salvage import salvage
from dhd_labels.replay.store import Store


def row(number: int, text: str = "hello") -> CallRow:
    return CallRow(f"ticket-{number}", 0, f"key-{number}", "integrator", "t:1", number, reply(text))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def filled(path: Path, rows: int) -> None:
    store = Store.create_or_open(path)
    store.add_problem(0, problem(), Studies())
    store.add_pool(pool())
    for number in range(rows):
        store.add_calls([row(number, "x" * 500)])
    store.close()


def test_a_call_comes_back_as_it_went_in(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_calls([row(1), row(2)])
    store.close()
    again = Store.create_or_open(path)
    assert again.attempts("ticket-1") == [row(1)]
    assert again.calls("t:1") == {"ticket-1": [row(1)], "ticket-2": [row(2)]}
    again.close()


def test_an_attempt_is_stored_once_and_a_group_all_or_nothing(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_calls([row(1)])
    with pytest.raises(DhdError):
        store.add_calls([row(2), row(1)])
    assert store.attempts("ticket-2") == []
    store.close()


def test_lone_surrogates_become_replacement_characters(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_calls([row(1, "the set \udc00 is open\x00")])
    assert store.attempts("ticket-1")[0].reply.text == "the set \ufffd is open\x00"
    store.close()


def test_a_pool_edited_by_hand_is_refused(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_pool(pool(messages=[message(s) for s in range(5)]))
    with sqlite3.connect(path) as db:
        db.execute("UPDATE pools SET content = replace(content, 'direction 3', 'direction 4')")
    db.close()
    with pytest.raises(DhdError, match="The pool of problem 't:1' .* do not hash to its id"):
        store.pool("t:1")
    store.close()


def test_a_problem_that_changed_is_refused(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_problem(0, problem(), Studies())
    store.add_problem(0, problem(), Studies())
    with pytest.raises(DhdError, match="'t:1' must be the one this run began with"):
        store.add_problem(0, problem(reference="8"), Studies())
    assert list(store.problems()) == [problem()]
    store.close()


def test_one_commit_is_all_or_nothing_and_the_store_goes_on(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_problem(0, problem(), Studies())
    with pytest.raises(DhdError, match="must be the one this run began with"), store.one_commit():
        store.add_problem(1, problem(problem_id="t:2"), Studies())
        store.add_problem(0, problem(reference="8"), Studies())
    assert list(store.problems()) == [problem()]
    with store.one_commit():
        store.add_problem(1, problem(problem_id="t:2"), Studies())
    store.close()
    again = Store.create_or_open(path)
    assert [found.problem_id for found in again.problems()] == ["t:1", "t:2"]
    again.close()


def test_a_file_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(DhdError, match="another program made it"):
        Store.create_or_open(path)
    assert path.read_bytes() == before


def test_a_later_format_is_refused(path: Path) -> None:
    filled(path, 1)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(DhdError, match="must have format 1 or 2, got 99"):
        Store.create_or_open(path)


def test_a_text_file_is_not_a_store(path: Path) -> None:
    path.write_text("not a database at all, but long enough to be looked at " * 20)
    with pytest.raises(DhdError, match="damaged or not a store"):
        Store.create_or_open(path)


def test_no_store_is_said(path: Path) -> None:
    with pytest.raises(DhdError, match="There is no run store"):
        Store.open_existing(path)
    assert not path.exists()


def test_a_full_disk_loses_nothing(path: Path) -> None:
    store = Store.create_or_open(path)
    store.limit_pages(30)
    saved = 0
    with pytest.raises(DhdError, match="full.*Every call committed so far is safe"):
        for number in range(1000):
            store.add_calls([row(number, "x" * 1000)])
            saved += 1
    store.close()
    again = Store.create_or_open(path)
    assert saved > 0 and len(again.calls("t:1")) == saved
    again.add_calls([row(2000)])
    again.close()


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_a_truncated_store_is_found_and_salvaged(path: Path, keep: float) -> None:
    filled(path, 300)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(DhdError, match="damaged.*--salvage"):
        Store.check_file(path)
    damaged = path.read_bytes()
    saved = salvage(path)
    assert path.with_name("store.sqlite.damaged-1").read_bytes() == damaged
    Store.check_file(path)
    store = Store.create_or_open(path)
    assert len(store.calls("t:1")) == saved
    store.close()
    assert saved >= 300 * (keep - 0.25)


@pytest.mark.slow
def test_no_damage_makes_a_false_row(path: Path) -> None:
    """Cut anywhere, half-overwritten rows become readable; only rows that are exactly what was written may be kept."""
    filled(path, 120)
    whole = path.read_bytes()
    wanted = {f"ticket-{n}": [row(n, "x" * 500)] for n in range(120)}
    for cut in range(5000, len(whole), len(whole) // 20 + 13):
        path.write_bytes(whole[:cut])
        try:
            salvage(path)
        except DhdError:
            continue  # so little is left that it is no store
        store = Store.create_or_open(path)
        assert store.calls("t:1").items() <= wanted.items()
        assert store.pool("t:1") in (None, pool()) and list(store.problems()) in ([], [problem()])
        store.close()


def test_a_changed_row_is_never_taken_for_an_answer(path: Path) -> None:
    filled(path, 3)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE calls SET text='8' WHERE ticket='ticket-1'")
    db.close()
    store = Store.create_or_open(path)
    with pytest.raises(DhdError, match="'ticket-1' is not what was written"):
        store.attempts("ticket-1")
    assert store.attempts("ticket-2")
    store.close()


def test_salvage_leaves_healthy_and_foreign_files_alone(path: Path) -> None:
    filled(path, 3)
    before = path.read_bytes()
    assert salvage(path) is None and path.read_bytes() == before
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    with pytest.raises(DhdError, match="another program made it"):
        salvage(path)
    assert [file.name for file in path.parent.iterdir()] == ["store.sqlite"]


def test_salvage_that_fails_midway_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, 300)
    damaged = path.read_bytes()[:150_000]
    path.write_bytes(damaged)

    def full(self: Store, table: str, values: object) -> bool:
        raise DhdError("The disk is full")

    monkeypatch.setattr(Store, "take_row", full)
    with pytest.raises(DhdError, match="cannot be salvaged now; it was left as it is"):
        salvage(path)
    monkeypatch.undo()
    assert path.read_bytes() == damaged
    left = {file.name for file in path.parent.iterdir()} - {"store.sqlite-wal", "store.sqlite-shm"}
    assert left == {"store.sqlite"}
    assert salvage(path)


def test_problems_can_be_added_in_front_later(path: Path) -> None:
    store = Store.create_or_open(path)
    store.add_problem(0, problem(problem_id="t:b"), Studies())
    store.add_problem(0, problem(problem_id="t:a"), Studies())
    assert [p.problem_id for p in store.problems()] == ["t:a", "t:b"]
    store.close()


def test_a_torn_page_is_found_and_the_rest_salvaged(path: Path) -> None:
    filled(path, 300)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = os.urandom(4096)
    path.write_bytes(bytes(data))
    with pytest.raises(DhdError, match="damaged"):
        Store.check_file(path)
    assert 250 <= salvage(path) < 300


def test_a_second_live_run_is_refused_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from dhd_labels.replay.lock import RunLock\n"
        "with RunLock(pathlib.Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout and holder.stdout.readline().strip() == "locked"
        with pytest.raises(DhdError, match=f"in use by a live run \\(process {holder.pid}\\)"), RunLock(tmp_path):
            pass
        holder.kill()
    with RunLock(tmp_path):
        pass


def test_a_store_locked_by_another_process_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store = Store.create_or_open(path)
    store._db.execute("PRAGMA busy_timeout=10")
    with pytest.raises(DhdError, match="locked by another process"):
        store.add_calls([row(5)])
    other.execute("ROLLBACK")
    other.close()
    store.close()
