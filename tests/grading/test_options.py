from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import problem

from dhd_labels.grading.options import option_of_text, read_letters, same_text
from dhd_labels.grading.rules import grade

SINGLE = [
    "B", "(B)", "[B]", "b", "B.", "B)", "{B}", "\\text{B}", "\\mathbf{(B)}", "$\\mathrm{B}$", "**(B)**", "Option B",
    "option (b)", "The correct option is (B)", "Final Answer: B", "Choice: B", "B is correct",
    "(B) is the correct answer", "B: $x = 3$", "B, because A is wrong", "B - the second one", "(B) 5",
    "B. $6.4 \\times 10^{-34}$", "[ANSWER]B[/ANSWER]", "\\boxed{B}",
]  # fmt: skip
SEVERAL = [
    "AD", "DA", "A, D", "A and D", "A & D", "A/D", "A;D", "a, d", "(A),(D)", "(A) (D)", "\\{A, D\\}", "[A, D]",
    "A, D.", "Answer: A and D", "Options (A) and (D) are correct", "Statements A and D are true", "Both A and D",
    "\\text{A and D}", "\\mathrm{A}, \\mathrm{D}", "$A$ and $D$", "All of (A), (D)",
]  # fmt: skip
NO_LETTER = [
    "\\langle H\\rangle \\ll \\Delta E", "a car", "A car drove by", "The correct answer is unclear", "not B", "B?",
    "None of these", "all except B", "Apple", "I think so", "A + D", "E = mc^2", "x = A", "bad cab",
]  # fmt: skip


@pytest.mark.parametrize("text", SINGLE)
def test_one_letter(text: str) -> None:
    for kind, answers in (("choice", {"B": True, "C": False}), ("choices", {"B": True, "AB": False})):
        for reference, correct in answers.items():
            verdict = grade(problem(answer_type=kind, reference=reference), text)
            assert (verdict.correct, verdict.canonical) == (correct, "B")


@pytest.mark.parametrize("text", SEVERAL)
def test_several_letters(text: str) -> None:
    for reference, correct in {"AD": True, "ABD": False, "A": False}.items():
        verdict = grade(problem(answer_type="choices", reference=reference), text)
        assert (verdict.correct, verdict.canonical) == (correct, "AD")
    assert grade(problem(answer_type="choice", reference="A"), text).correct is False


@pytest.mark.parametrize("text", NO_LETTER)
def test_what_is_no_letter(text: str) -> None:
    assert read_letters(text) is None


@given(st.sets(st.sampled_from("ABCDEF"), min_size=1), st.sets(st.sampled_from("ABCDEF"), min_size=1))
def test_sets_of_letters_are_equal_in_any_order_only(key: set[str], given_: set[str]) -> None:
    text = ", ".join(sorted(given_, reverse=len(key) % 2 == 0))
    verdict = grade(problem(answer_type="choices", reference="".join(sorted(key))), text)
    assert verdict.correct is (key == given_)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("851, 113, 36", "36, 113, 851 bp", True),
        ("851, 113, 36", "851,113,36", True),
        ("851, 113, 36", "851 bp, 113 bp and 36 bp", True),
        ("851, 113, 36", "851, 149", False),
        ("851, 113, 113", "851, 113", False),
        ("1,000", "1000", True),
        ("49", "49%", True),
        ("49", "0.49%", False),
        ("49", "49 kg", None),
        ("His", "Histidine", True),
        ("H", "His", True),
        ("His", "Ile", False),
        ("ATGCATGC", "5'-atg catgc-3'", True),
        ("ATGCATGC", "ATGCATGG", False),
        ("In step 6", "in  Step 6.", True),
        ("EcoRI, HindIII", "EcoRI, SmaI", None),
    ],
)
def test_option_texts(one: str, other: str, same: bool | None) -> None:
    assert same_text(one, other) is same
    assert same_text(other, one) is same


def test_the_text_of_exactly_one_option_is_its_letter() -> None:
    options = ("0.14", "0.24", "0.70", "0.86")
    assert [option_of_text(text, options) for text in ("0.7", "\\frac{7}{50}", "0.860", "0.5")] == ["C", "A", "D", None]
    assert option_of_text("SmaI", ("SmaI", "EcoRI", "SmaI")) is None
