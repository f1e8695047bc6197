from __future__ import annotations

import re
import statistics

import pytest

from dhd_labels.__main__ import problems as problems_command
from dhd_labels.benchmarks import NAMES, ORACLE, PAPER_BENCHMARKS, facts, read_problems, resolve_name
from dhd_labels.config import BenchmarkConfig
from dhd_labels.errors import DhdError
from dhd_labels.oracle import BENCHMARK


def test_the_five_benchmarks_have_the_papers_problems_and_pinned_sources() -> None:
    entries = [facts(name) for name in PAPER_BENCHMARKS]
    assert [entry.rows_usable for entry in entries] == [4181, 515, 580, 741, 649]
    assert sum(entry.rows_usable or 0 for entry in entries) == 6666
    for entry in entries:
        assert entry.upstream is not None and re.fullmatch("[0-9a-f]{40}", entry.upstream.revision)
        assert entry.upstream.files and entry.attribution and entry.median_prompt_characters


def test_permissions_follow_the_licences() -> None:
    terms = {
        name: (entry.license, entry.redistribute_text, entry.train_allowed, entry.commercial_use, entry.canary)
        for name in NAMES
        for entry in [facts(name)]
    }
    assert terms["jeebench"] == terms["scibench"] == ("mit", True, True, True, False)
    assert terms["omni-math-2"] == ("apache-2.0", False, True, None, False)
    assert terms["lab-bench"] == ("cc-by-sa-4.0", False, False, True, True)
    assert terms["mascqa"] == ("cc-by-nc-sa-4.0", False, True, False, False)
    assert terms["quickstart"] == ("apache-2.0", True, True, True, False)


@pytest.mark.parametrize("size", [1, 50, 1200])
def test_the_oracle_world_is_as_large_as_is_asked(size: int) -> None:
    found = read_problems(BenchmarkConfig(name=ORACLE, size=size)).problems
    whole = read_problems(BenchmarkConfig(name=ORACLE)).problems
    assert len({problem.problem_id for problem in found}) == size
    assert found[:50] == whole[:size]


@pytest.mark.parametrize("name", ["quickstart", "oracle"])
def test_the_facts_of_the_packages_own_sets_are_measured(name: str) -> None:
    found, entry = read_problems(BenchmarkConfig(name=name)), facts(name)
    sizes = [len(p.question) + sum(len("A. \n") + len(choice) for choice in p.choices) for p in found.problems]
    assert (len(sizes), found.rows, found.expected) == (entry.rows_usable, entry.rows, entry.rows)
    assert round(statistics.median(sizes)) == entry.median_prompt_characters
    assert {(p.license, p.train_allowed, p.commercial_use, p.redistribute_text) for p in found.problems} == {
        (entry.license, entry.train_allowed, entry.commercial_use, entry.redistribute_text)
    }


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Omni-MATH-2 (filtered)", "omni-math-2"),
        ("omni_math_2", "omni-math-2"),
        ("JEEBench", "jeebench"),
        ("SciBench", "scibench"),
        ("LAB-Bench", "lab-bench"),
        ("Lab_Bench", "lab-bench"),
        ("MaScQA", "mascqa"),
        (" Quickstart ", "quickstart"),
    ],
)
def test_the_papers_spellings_and_underscores_are_accepted(spelling: str, name: str) -> None:
    assert resolve_name(spelling) == facts(spelling).name == name


def test_every_name_and_alias_resolves_and_no_other_does() -> None:
    for name in NAMES:
        assert {resolve_name(spelling) for spelling in (name, *facts(name).aliases)} == {name}
    with pytest.raises(DhdError, match="'jebench' is unknown. Did you mean 'jeebench'"):
        facts("jebench")


def test_the_oracle_and_the_help_text_know_the_same_names() -> None:
    assert ORACLE == BENCHMARK
    assert all(name in str(problems_command.__annotations__["name"]) for name in NAMES)
