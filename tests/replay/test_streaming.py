"""A run, its status and its data set hold a few problems at a time, however many there are."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import EVERYTHING, oracle

from dhd_labels.dataset import build as build_module
from dhd_labels.dataset import rows, write
from dhd_labels.dataset.build import build, read_results
from dhd_labels.records import Outcome
from dhd_labels.replay import collect as collect_module
from dhd_labels.replay import run as run_module
from dhd_labels.replay.call_rows import CallRow
from dhd_labels.replay.calls import Call
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.run import RunReport, run
from dhd_labels.replay.store import Store
from dhd_labels.report.summary import summarise

PROBLEMS = 12
AT_ONCE = 3
"""Problems that may be in memory together: one that is read, one that is used, and a last one not let go of yet."""
SETTINGS = (*EVERYTHING, f"benchmark.size={PROBLEMS}", "protocol.blocks=2")
KINDS = (ProblemResult, Outcome, Call, CallRow)


class Census:
    """The most records of each kind that were alive at once, counted every few times that a function is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most: Counter[type] = Counter()
        self._patch = monkeypatch

    def at(self, owner: Any, name: str, every: int = 1) -> None:
        """Count whenever this function is called."""
        real: Callable[..., Any] = getattr(owner, name)
        times = 0

        def counted(*values: Any, **named: Any) -> Any:
            nonlocal times
            times += 1
            if times % every == 0:
                self.count()
            return real(*values, **named)

        self._patch.setattr(owner, name, counted)

    def count(self) -> None:
        """Count what is alive now."""
        alive = Counter(map(type, gc.get_objects()))
        self.most |= Counter({kind: alive[kind] for kind in KINDS})


@pytest.fixture
def census(monkeypatch: pytest.MonkeyPatch) -> Iterator[Census]:
    gc.collect()
    gc.freeze()  # what the tests before this one left is not counted
    yield Census(monkeypatch)
    gc.unfreeze()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    return run(oracle(*SETTINGS), tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def sizes(report: RunReport) -> dict[type, int]:
    """The most records of each kind that one problem has."""
    store = report.directory.open_store()
    found = list(collect_module.collect(store, report.directory.config, report.directory.models))
    calls = max(sum(map(len, store.calls(result.problem.problem_id).values())) for result in found)
    store.close()
    outcomes = max(len(result.outcomes) + len(result.masked) for result in found)
    assert len(found) == PROBLEMS and outcomes > 30 and calls > 40
    return {ProblemResult: 1, Outcome: outcomes, Call: calls, CallRow: calls}


def assert_few(census: Census, sizes: dict[type, int], *seen: type) -> None:
    for kind, size in sizes.items():
        assert census.most[kind] <= AT_ONCE * size, f"{kind.__name__}s of all problems are held at once"
        assert census.most[kind] > 0 or kind not in seen, f"no {kind.__name__} was seen, so the count means nothing"


def test_a_run_holds_a_few_problems(report: RunReport, sizes: dict[type, int], tmp_path: Path, census: Census) -> None:
    census.at(run_module, "collect_problem")
    census.at(Store, "add_calls", every=5)
    census.at(Store, "attempts", every=50)
    assert run(oracle(*SETTINGS), tmp_path).tally.made == report.tally.made
    assert_few(census, sizes, *KINDS)


def test_a_status_holds_a_few_problems(report: RunReport, sizes: dict[type, int], census: Census) -> None:
    census.at(collect_module, "collect_problem")
    assert summarise(report.directory, read_results(report.directory)).problems == PROBLEMS
    assert_few(census, sizes, ProblemResult, Outcome)


def test_a_build_holds_a_few_problems(
    report: RunReport, sizes: dict[type, int], tmp_path: Path, census: Census
) -> None:
    census.at(collect_module, "collect_problem")
    census.at(build_module, "render")
    assert build(report.directory, tmp_path / "data").problems == PROBLEMS
    assert_few(census, sizes, ProblemResult, Outcome)


class Row(dict[str, Any]):
    """A row that can be watched: plain dictionaries cannot."""


def test_a_build_holds_a_row_group_of_each_file(
    report: RunReport, sizes: dict[type, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, made, most = 4, list[weakref.ref[Row]](), 0
    real_rows = rows.rows_of

    def watched(row: dict[str, Any]) -> Row:
        found = Row(row)
        made.append(weakref.ref(found))
        return found

    def rows_of(*values: Any) -> dict[str, list[Row]]:
        nonlocal most
        most = max(most, sum(row() is not None for row in made))
        return {config: list(map(watched, found)) for config, found in real_rows(*values).items()}

    monkeypatch.setattr(rows, "rows_of", rows_of)
    monkeypatch.setattr(write, "ROWS_A_GROUP", group)
    build(report.directory, tmp_path / "data")
    of_a_problem = sizes[Outcome] + 30  # with the rows of messages
    files = 4 * 3
    assert len(made) > 2 * (files * group + of_a_problem), "too few rows for the bound to mean anything"
    assert 0 < most <= files * group + of_a_problem
