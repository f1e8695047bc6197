from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import problem

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
        ("integer", "7", "7 million", None),
        ("integer", "7", "7 or more", None),
        ("integer", "7", "7 is wrong", None),
        ("integer", "7", "7x", None),
        ("integer", "7", "not = 7", None),
        ("number", "5 km", "5 km", True),
        ("number", "5 km", "5", True),
        ("number", "5 km", "5 m", None),
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
        ("integer", "7", "", None),
        ("integer", "7", "seven", None),
        ("integer", "7", "7 or 8", None),
        ("integer", "7", "12,34", None),
        ("integer", "7", "__import__('os')", None),
        ("integer", "7", "9" * 100, None),
        ("choice", "B", "B", True),
        ("choice", "B", "b", True),
        ("choice", "B", "(B)", True),
        ("choice", "B", "\\text{B}.", True),
        ("choice", "C", "C. two words", True),
        ("choice", "C", "Two  words", True),
        ("choice", "D", "9", True),
        ("choice", "C", "A", False),
        ("choice", "C", "C: a car", None),
        ("choice", "C", "E", None),
        ("choice", "C", "A car drove", None),
        ("choice", "C", "none of them", None),
    ],
)
def test_rule(kind: str, reference: str, answer: str, correct: bool | None) -> None:
    verdict = grade(problem(answer_type=kind, reference=reference, choices=CHOICES), answer)
    assert verdict.correct is correct
    assert verdict.status == ("undetermined" if correct is None else "graded")
    assert (verdict.reason is None) == (correct is not None)


def test_an_unreadable_reference_is_an_error_of_the_data() -> None:
    with pytest.raises(ValueError, match="reference of problem 't:1' must be readable as 'integer', got 'seven'"):
        grade(problem(reference="seven"), "7")


@given(st.integers(-(10**12), 10**12))
def test_equal_numbers_have_one_canonical_form(value: int) -> None:
    forms = [str(value), f"{value}.0", f"{value:,}", f"${value}$", f"{value}.00"]
    verdicts = {(v.correct, v.canonical) for v in (grade(problem(reference=str(value)), form) for form in forms)}
    assert verdicts == {(True, str(value))}


@given(st.text(max_size=80))
def test_any_text_gets_a_verdict_or_undetermined(answer: str) -> None:
    for kind, reference in (("integer", "7"), ("choice", "A")):
        assert grade(problem(answer_type=kind, reference=reference, choices=CHOICES), answer).status in (
            "graded",
            "undetermined",
        )
