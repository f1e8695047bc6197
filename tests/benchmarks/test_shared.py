"""The readers on real upstream files, where they are at hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import SHARED

from dhd_labels.benchmarks import ProblemSet, read_problems
from dhd_labels.benchmarks.gold import read_gold
from dhd_labels.config import BenchmarkConfig

pytestmark = pytest.mark.skipif(SHARED is None, reason="no real benchmark files at hand")


def read(name: str, file: str) -> ProblemSet:
    return read_problems(BenchmarkConfig(name=name, path=str(Path(SHARED or "", "benchmarks", file))))


FULL = [("jeebench", "full/jeebench.json"), ("scibench", "full/scibench.jsonl")]
SAMPLES = [
    ("jeebench", "samples/jeebench.jsonl", 13),
    ("scibench", "samples/scibench.jsonl", 13),
    ("lab-bench", "samples/lab_bench.jsonl", 6),
    ("mascqa", "samples/mascqa.jsonl", 6),
    ("omni-math-2", "samples/omni_math.jsonl", 13),
    ("omni-math-2", "samples/omni_math_2_filtered.authors_normalised.jsonl", 4),
]


def test_jeebench_in_full() -> None:
    found = read(*FULL[0])
    assert found.rows == found.expected == len(found.problems) == 515 and not found.excluded
    assert found.by_answer_type == {"choice": 110, "choices": 186, "integer": 82, "number": 137}
    assert Counter(p.metadata["subject"] for p in found.problems) == {"math": 236, "chem": 156, "phy": 123}
    lettered = [p for p in found.problems if p.answer_type.startswith("choice")]
    assert Counter(len(p.choices) for p in lettered) == {4: 291, 0: 5} and found.noted == {"options_in_question": 5}
    assert sum(p.answer_type == "choices" and len(p.reference) == 1 for p in lettered) == 7


def test_scibench_in_full() -> None:
    found = read(*FULL[1])
    assert found.rows == found.expected == len(found.problems) == 580 and not found.excluded
    assert Counter(p.metadata["source"] for p in found.problems) == {
        "atkins": 105, "calculus": 42, "chemmc": 38, "class": 56, "diff": 50, "fund": 71, "matter": 47, "quan": 33,
        "stat": 72, "thermo": 66,
    }  # fmt: skip
    assert found.by_answer_type == {"number": 157, "quantity": 423}
    assert found.noted == {"colliding_id": 6, "power_of_ten_unit": 90, "thousands_comma": 2, "unicode_minus": 2}
    kinds = Counter(p.metadata["type"] for p in found.problems)
    assert (kinds["percent"], kinds["currency"]) == (7, 7)
    for problem in found.problems:
        assert not set("\\{}~") & set(problem.reference) and "$" not in problem.reference.rstrip("$")
        assert "10^" not in problem.question.partition("The unit of the answer is")[2]


@pytest.mark.parametrize(("name", "file", "rows"), [*SAMPLES, *((*full, None) for full in FULL)])
def test_real_rows_have_ids_and_golds_in_normal_form(name: str, file: str, rows: int | None) -> None:
    found = read(name, file)
    if rows is not None:
        assert found.rows == len(found.problems) == rows and not found.excluded
    assert len({p.problem_id for p in found.problems}) == len(found.problems)
    assert read(name, file) == found
    for problem in found.problems:
        assert read_gold(problem.answer_type, problem.reference, Counter()) == problem.reference
        assert "canary" not in repr(problem.visible()).lower()


def test_known_rows() -> None:
    by_id = {p.problem_id: p for name, file, _ in SAMPLES for p in read(name, file).problems}
    assert by_id["scibench:chemmc:1-18"].reference == "3.52e-19 J"
    assert by_id["scibench:diff:page 61-10"].reference == "89034.79 $"
    assert by_id["mascqa:G-META-21-42"].reference == "0.90 to 0.94 or -0.94 to -0.90"
    assert by_id["mascqa:G-XEC-2021-8"].reference == "BD"
    assert by_id["mascqa:G-XEC-2012-10"].choices[1] == "P-2, Q-4, R-5, S-1"
    repeated = by_id["lab-bench:SeqQA:184b2a59-9532-42dc-aafd-34f7ed9544db"]
    assert repeated.answer_type == "choice_any" and repeated.choices.count("EcoRI, HindIII") == 2
