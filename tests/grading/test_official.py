"""The published scorers' outcomes, quirks included, as their code gives them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED, problem

from dhd_labels.benchmarks import read_problems
from dhd_labels.benchmarks.scibench import problem as scibench_problem
from dhd_labels.config import BenchmarkConfig
from dhd_labels.grading.command import grade_line
from dhd_labels.grading.rules import grade


def score(benchmark: str, kind: str, reference: str, answer: str) -> float | None:
    verdict = grade(problem(benchmark=benchmark, answer_type=kind, reference=reference), answer, "official")
    assert verdict.score is None or verdict.correct is (verdict.score == 1.0)
    return verdict.score


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "expected"),
    [
        ("choice", "B", "B", 1),
        ("choice", "B", "(B)", 1),
        ("choice", "B", "b", 0),
        ("choice", "B", "AB", 0),
        ("choice", "B", "Answer: B", 0),
        ("choices", "ABCD", "ABC", 0.75),
        ("choices", "AD", "A", 0.25),
        ("choices", "AD", "ABD", 0),
        ("choices", "AD", "D, A", 1),
        ("choices", "BD", "none", 0),
        ("integer", "5", "5.005", 1),
        ("number", "0.5", "0.51", 0),
        ("number", "8.33", "8.34", 1),
        ("number", "0.83", "0.84", 0),
        ("number", "18900", "18900.02", 0),
        ("number", "0.83", "5/6", None),
    ],
)
def test_jeebench(kind: str, reference: str, answer: str, expected: float | None) -> None:
    assert score("jeebench", kind, reference, answer) == expected


@pytest.mark.parametrize(
    ("reference", "answer", "expected"),
    [
        ("100 J", "105.2", 1),
        ("100 J", "x = 105 kJ", 1),
        ("100 J", "106", 0),
        ("0", "0.0001", 0),
        ("0", "0", 1),
        ("3.52 $10^{-19} \\mathrm{~J}$", "3.52 \\times 10^{-19}", 1),
        ("3.52 $10^{-19} \\mathrm{~J}$", "3.52*10^{-19}", 1),
        ("3.52 $10^{-19} \\mathrm{~J}$", "3.52e-19", 1),
        ("3.52 $10^{-19} \\mathrm{~J}$", "3.52 \\cdot 10^{-19}", 0),
        ("3.52 $10^{-19} \\mathrm{~J}$", "3.52", 0),
        ("4.16 $10^{42}$", "4.16", 1),
        ("89,034.79 $", "89{,}034.79", 1),
        ("−2", "-2", 1),
        ("100 J", "one hundred", 0),
    ],
)
def test_scibench(reference: str, answer: str, expected: float) -> None:
    assert score("scibench", "quantity", reference, answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("[ANSWER]B[/ANSWER]", 1), ("[ANSWER] B [/ANSWER]", 1), ("[ANSWER]B. text[/ANSWER]", 1), ("B", 1), ("(B)", 0),
     ("b", 0), ("**B**", 0), ("A", 0)],
)  # fmt: skip
def test_lab_bench(answer: str, expected: float) -> None:
    assert score("lab-bench", "choice", "B", answer) == expected


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "expected"),
    [("range", "4", "4.2", 1), ("range", "4", "4.6", 0), ("range", "4.00", "4.2", 0), ("range", "1 to 2", "2.1", 0),
     ("range", "1 to 2", "2", 1), ("choices", "A,C", "A", 0), ("choice_any", "C OR D", "D", 1)],
)  # fmt: skip
def test_mascqa(kind: str, reference: str, answer: str, expected: float) -> None:
    assert score("mascqa", kind, reference, answer) == expected


def test_strict_mode_gives_no_partial_credit_and_has_no_rounding() -> None:
    assert grade(problem(benchmark="jeebench", answer_type="choices", reference="ABCD"), "ABC").score == 0
    assert grade(problem(benchmark="mascqa", answer_type="range", reference="4"), "4.2").score == 0


def test_benchmarks_without_a_scorer_keep_the_strict_rule() -> None:
    verdict = grade(problem(benchmark="omni-math-2", answer_type="expression", reference="1/2"), "0.5", "official")
    assert (verdict.correct, verdict.rule) == (True, "expression")


def scibench_row(mantissa: str, unit: str) -> dict[str, Any]:
    return {"problem_text": "How much?", "answer_latex": "", "answer_number": mantissa, "unit": unit,
            "source": "own", "problemid": "1", "comment": ""}  # fmt: skip


@given(
    st.integers(100, 999),
    st.integers(-30, 30).filter(bool),
    st.sampled_from(["\\mathrm{~J}", "\\mathrm{m} / \\mathrm{s}", ""]),
)
def test_a_power_of_ten_in_the_unit_counts_on_every_path(digits: int, power: int, unit: str) -> None:
    mantissa, latex = f"{digits / 100}", f"$10^{{{power}}} {unit}$".replace(" $", "$")
    read = scibench_problem(scibench_row(mantissa, latex), "row", Counter())
    raw = {"benchmark": "scibench", "answer_type": "numeric_with_unit", "gold": f"{mantissa} {latex}"}
    answers = {f"{mantissa} \\times 10^{{{power}}}": True, f"{mantissa}*10^{power}": True, f"{mantissa}e{power}": True,
               f"x = {mantissa}\\times 10^{{{power}}} \\mathrm{{J}}": True, mantissa: not unit,
               f"{mantissa} \\times 10^{{{power + 1}}}": not unit, f"{digits / 50}": False}  # fmt: skip
    for answer, correct in answers.items():
        assert grade(read, answer, "official").correct is correct, answer
        assert grade_line({**raw, "candidate": answer}, "official")["correct"] is correct, answer


@pytest.mark.skipif(SHARED is None, reason="no real benchmark files at hand")
def test_every_power_of_ten_of_the_file_is_accepted() -> None:
    path = str(Path(SHARED or "", "benchmarks", "full", "scibench.jsonl"))
    seen = 0
    for p in read_problems(BenchmarkConfig(name="scibench", path=path)).problems:
        assert grade(p, p.reference, "official").correct is True
        mantissa, found, power = p.reference.split(" ")[0].partition("e")
        seen += bool(found)
        for answer in (f"{mantissa} \\times 10^{{{power}}}", f"{mantissa}*10^{power}", f"{mantissa}e{power}"):
            assert not found or grade(p, answer, "official").correct is True
    assert seen == 90


@pytest.mark.parametrize("reference", ["1/3", "\\frac12 J", "1,000", "3 $10^{400}$ J", "2.5e390", "4", "0.5"])
@pytest.mark.parametrize("answer", ["6.02 \\times 10^{999}", "1e400", "-1e400 J", "1_0", "0.5", "nan", "10^{999}"])
def test_no_scorer_raises(reference: str, answer: str) -> None:
    for benchmark in ("scibench", "jeebench", "mascqa"):
        for kind in ("quantity", "number", "range", "integer"):
            verdict = grade(problem(benchmark=benchmark, answer_type=kind, reference=reference), answer, "official")
            assert (verdict.correct is None) == (verdict.reason is not None)
            assert not (verdict.correct and "e400" in answer)


def test_mascqa_numbers_are_scored_alike_under_both_names() -> None:
    for answer in ("4.2", "4.6", "4", "3.5", "0"):
        verdicts = [
            grade(problem(benchmark="mascqa", answer_type=kind, reference="4"), answer, "official")
            for kind in ("number", "range")
        ]
        assert len({(v.correct, v.rule) for v in verdicts}) == 1 and verdicts[0].rule == "official:mascqa"


def test_the_published_fields_go_before_the_reference() -> None:
    fields = {"answer_number": "3.52", "unit": "$10^{3} \\mathrm{~J}$"}
    p = problem(benchmark="scibench", answer_type="quantity", reference="3520 J", metadata=fields)
    answers = {"3.52 \\times 10^{3}": True, "3520": True, "3.52e3": True, "3.52": False}
    assert {answer: grade(p, answer, "official").correct for answer in answers} == answers
