from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import problem

from dhd_labels.grading.command import grade_line
from dhd_labels.grading.rules import grade

CHOICES = ("a car", "B", "two words", "9")


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "correct"),
    [
        ("integer", "7", "7", True),
        ("integer", "7", " 7.0 ", True),
        ("integer", "7", "007", True),
        ("integer", "7", "$7$", True),
        ("integer", "7", "\\text{7}", True),
        ("integer", "7", "7 plus", True),
        ("integer", "7", "7 apples", None),
        ("integer", "7", "7 million", False),
        ("integer", "7", "7 or more", None),
        ("integer", "7", "7 is wrong", None),
        ("integer", "7", "7x", None),
        ("integer", "7", "not = 7", None),
        ("number", "5 km", "5 km", True),
        ("number", "5 km", "5", True),
        ("number", "5 km", "5 m", False),
        ("number", "5 km", "5000 m", True),
        ("integer", "123456789012345678901234567891", "123456789012345678901234567890", False),
        ("integer", "7", "3 + 4 = 7", True),
        ("integer", "7", "8", False),
        ("integer", "7", "-7", False),
        ("integer", "-7", "\u22127", True),
        ("integer", "7", "7.5", False),
        ("integer", "1200", "1,200", True),
        ("integer", "1200", "1{,}200", True),
        ("number", "3.5", "3.50", True),
        ("number", "3.5", "+3.5", True),
        ("number", "0.5", ".5", True),
        ("number", "0", "-0.0", True),
        ("number", "3.5", "3.5000000000000000001", False),
        ("number", "25", "25%", None),
        ("integer", "7", "seven", None),
        ("integer", "7", "7 or 8", None),
        ("integer", "7", "12,34", None),
        ("integer", "7", "__import__('os')", None),
        ("integer", "7", "9" * 100, False),
        ("integer", "7", "9" * 1000, None),
        ("integer", "7", "\\sqrt{49}", True),
        ("integer", "7", "41 because 6*7 = 7", False),
        ("integer", "7", "7 \\pm 1", None),
        ("integer", "7", "< 7", None),
        ("integer", "7", "2e", False),
        ("choice", "B", "B", True),
        ("choice", "B", "b", True),
        ("choice", "B", "(B)", True),
        ("choice", "B", "\\text{B}.", True),
        ("choice", "C", "C. two words", True),
        ("choice", "C", "Two  words", True),
        ("choice", "D", "9", True),
        ("choice", "C", "A", False),
        ("choice", "C", "C: a car", None),
        ("choice", "C", "E", False),
        ("choice", "C", "A or C", False),
        ("choice", "C", "not enough information", False),
        ("choice", "C", "A car drove", None),
        ("choice", "C", "none of them", None),
    ],
)
def test_rule(kind: str, reference: str, answer: str, correct: bool | None) -> None:
    verdict = grade(problem(answer_type=kind, reference=reference, choices=CHOICES), answer)
    assert verdict.correct is correct
    assert verdict.status == ("undetermined" if correct is None else "graded")
    assert (verdict.reason is None) == (correct is not None)


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("integer", "seven"),
        ("integer", "7.5"),
        ("integer", ""),
        ("number", "3 or 4"),
        ("quantity", "@@@"),
        ("range", "MARKS TO ALL"),
        ("range", "3 to"),
        ("choice", "E"),
        ("choice", "AB"),
        ("choices", "A,Z"),
        ("choice_any", ""),
        ("expression", "@@@"),
        ("expression", "\\frac{11}{2^{20}"),
        ("text", "  "),
    ],
)
def test_an_unreadable_reference_equals_nothing(kind: str, reference: str) -> None:
    for answer in (reference, "no idea", "7", "A"):
        verdict = grade(problem(answer_type=kind, reference=reference, choices=CHOICES), answer)
        assert (verdict.status, verdict.correct, verdict.score) == ("gold_error", None, None)
        assert repr(reference) in str(verdict.reason)


@pytest.mark.parametrize("answer", ["", "  \n", "\\boxed{}", "\\boxed{ }"])
def test_a_blank_answer_is_no_answer(answer: str) -> None:
    for kind, reference in (("integer", "7"), ("choice", "A"), ("expression", "x"), ("text", "yes")):
        assert grade(problem(answer_type=kind, reference=reference, choices=CHOICES), answer).status == "no_answer"


@pytest.mark.parametrize(
    ("kind", "reference", "answer", "correct"),
    [
        ("choices", "AC", "C and A", True),
        ("choices", "A,C", "(A), (C)", True),
        ("choices", "B; D", "BD", True),
        ("choices", "AC", "A", False),
        ("choices", "AC", "A, B, C", False),
        ("choices", "AC", "A or C", None),
        ("choices", "AC", "both", None),
        ("choice_any", "C OR D", "D", True),
        ("choice_any", "C OR D", "C or D", True),
        ("choice_any", "C OR D", "C and D", False),
        ("choice_any", "C OR D", "A", False),
        ("range", "48O TO 494", "480", True),
        ("range", "155.0 T0 165.0", "155", True),
        ("range", "6.00 : 7.30", "7.31", False),
        ("range", "-3 to -1", "-2 m", True),
        ("range", "1 to 2 OR 5 to 6", "3", False),
        ("range", "1 to 2 OR 5 to 6", "5.5", True),
        ("range", "0.5 to 0.5", "\\frac{1}{2}", True),
        ("range", "1 to 2", "1 to 2", True),
        ("range", "1 to 2", "one", None),
        ("text", "\\text{Yes}", "\\textbf{yes}", True),
        ("text", "Yes", "No", False),
        ("text", "Yes", "Yes and no", None),
        ("text", "all primes", "every prime", None),
    ],
)
def test_rule_of_other_types(kind: str, reference: str, answer: str, correct: bool | None) -> None:
    verdict = grade(problem(answer_type=kind, reference=reference), answer)
    assert (verdict.correct, verdict.score) == (correct, None if correct is None else float(correct))
    assert verdict.status == ("undetermined" if correct is None else "graded")


@given(st.integers(-(10**12), 10**12))
def test_equal_numbers_have_one_canonical_form(value: int) -> None:
    forms = [str(value), f"{value}.0", f"{value:,}", f"${value}$", f"{value}.00"]
    verdicts = {(v.correct, v.canonical) for v in (grade(problem(reference=str(value)), form) for form in forms)}
    assert verdicts == {(True, str(value))}


@given(st.text(max_size=80))
def test_any_text_gets_a_verdict_or_a_reason(answer: str) -> None:
    for kind, reference in (
        ("integer", "7"), ("choice", "A"), ("choices", "AB"), ("quantity", "3 km"), ("range", "1 to 2"), ("text", "x"),
    ):  # fmt: skip
        for mode in ("strict", "official"):
            verdict = grade(problem(answer_type=kind, reference=reference, choices=CHOICES), answer, mode)  # type: ignore[arg-type]
            assert (verdict.correct is None) == (verdict.status != "graded") == (verdict.reason is not None)


def test_a_page_of_text_is_undetermined_and_keyed_by_its_content() -> None:
    one, other = (grade(problem(), "7 " * 3000 + end) for end in ("x", "y"))
    assert one.status == other.status == "undetermined"
    assert one.canonical != other.canonical and len(one.canonical) < 400


def test_a_letter_wins_over_a_number_that_an_option_has() -> None:
    p = problem(answer_type="choice", reference="B", choices=("3 kg", "5 kg", "50 kg"))
    answers = {"B": True, "5 kg": True, "5.0 kg": True, "(B) 5 kg": True, "3 kg": False, "B. 50 kg": None, "7 kg": None}
    assert {a: grade(p, a).correct for a in answers} == answers


def test_repeated_options_leave_their_text_undetermined() -> None:
    p = problem(answer_type="choice", reference="A", choices=("EcoRI", "SmaI", "EcoRI"))
    assert grade(p, "EcoRI").status == "undetermined"
    assert grade(p, "A").correct is True


@pytest.mark.parametrize(
    ("answer", "question", "correct"),
    [
        ("2.3 GPa", "", True),
        ("2.3 GPa", "How stiff is it?", None),
        ("2.3 GPa", "Give it in $\\mathrm{GPa}$.", True),
        ("2.3 GPa", "Give it in MPa.", None),
        ("2.3 \\mu\\mathrm{F}", "In $\\mu \\mathrm{F}$?", True),
        ("2.3 kJ/mol", "In $\\mathrm{kJ\\,mol^{-1}}$?", True),
        ("2300 Pa", "", None),
        ("2.3 m", "", True),
        ("2.3\\%", "", None),
        ("2.3\\%", "Answer in percent.", True),
        ("2.6 GPa", "", False),
        ("2.3-2.35", "", None),
        ("2.3 ab", "", None),
    ],
)
def test_a_unit_beside_a_range_without_one(answer: str, question: str, correct: bool | None) -> None:
    p = problem(benchmark="mascqa", answer_type="range", reference="2.2 to 2.4", question=question)
    assert grade(p, answer).correct is correct


@pytest.mark.parametrize("answer", ["12", "12 J", "12 kJ", "12 m/s", "12 rad", "13 J", "x = 12", "1200\\%"])
def test_a_row_without_a_unit_is_graded_alike_by_reader_and_command(answer: str) -> None:
    read = grade(problem(benchmark="scibench", answer_type="number", reference="12"), answer)
    raw = {"benchmark": "scibench", "gold": "12", "candidate": answer, "question": "What is 3 plus 4?"}
    for kind in ("numeric", "number", "quantity"):
        assert grade_line({**raw, "answer_type": kind}, "strict")["correct"] is read.correct
    assert read.correct is None or "J" not in answer or answer == "13 J"
