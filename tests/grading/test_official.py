"""The published scorers' outcomes, quirks included, as their code gives them."""

from __future__ import annotations

import pytest
from support import problem

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
