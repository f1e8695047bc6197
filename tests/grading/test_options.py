from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import problem

from dhd_labels.grading.options import denies_option, option_of_text, read_letters, same_text
from dhd_labels.grading.rules import grade

SINGLE = [
    "B", "(B)", "[B]", "b", "B.", "B)", "{B}", "\\text{B}", "\\mathbf{(B)}", "$\\mathrm{B}$", "**(B)**", "Option B",
    "option (b)", "The correct option is (B)", "Final Answer: B", "Choice: B", "B is correct",
    "(B) is the correct answer", "B: $x = 3$", "B, because A is wrong", "B - the second one", "(B) 5",
    "B. $6.4 \\times 10^{-34}$", "[ANSWER]B[/ANSWER]", "\\boxed{B}",
    "It is B", "It must be (B).", "Definitely B", "I choose B", "B (7.5 km)",
    "\u200bB", "\ufeff(B)", "（Ｂ）", "**B** – as the cart slows down", "B: green", "[B] is correct",
]  # fmt: skip
SEVERAL = [
    "AD", "DA", "A, D", "A and D", "A & D", "A/D", "A;D", "a, d", "(A),(D)", "(A) (D)", "\\{A, D\\}", "[A, D]",
    "A, D.", "Answer: A and D", "Options (A) and (D) are correct", "Statements A and D are true", "Both A and D",
    "\\text{A and D}", "\\mathrm{A}, \\mathrm{D}", "$A$ and $D$", "All of (A), (D)",
    "A + D", "A, and D", "A), D)", "(A); (D)", "A\nD",
]  # fmt: skip
NO_LETTER = [
    "\\langle H\\rangle \\ll \\Delta E", "a car", "A car drove by", "The correct answer is unclear", "not B", "B?",
    "None of these", "all except B", "Apple", "I think so", "E = mc^2", "x = A", "bad cab", "x - 5", "d: 5 cm",
    "\u0392", "I", "x", "B and/or C", "[A]^2", "(E) = mc^2", "A - sin x", "B - A", "T: 300 K",
    "B\u202eC", "F (2)", "E. coli",
    "B. subtilis 168", "B, x", "A, Q", "C W", "A. D.", "(B) A and C", "(A) or maybe C", "E \\propto r", "P-2, Q-4",
    "P:1; Q:3", "A-2,B-1", "A \u2192 3, B \u2192 1",
]  # fmt: skip
OPTION_TEXTS = [
    "R",
    "$x$",
    "k",
    "I",
    "E",
    "P, Q",
    "I only",
    "5 m",
    "-3",
    "green",
    "DC",
    "\\frac{1}{2}",
    "Statement I is false",
]
DENIALS = [
    "is incorrect", "is not correct", "is wrong", "is ruled out", "eliminated", "can be excluded", "cannot be right",
    "isn't right", "must be rejected", "incorrect", ", wrong", "- no", "(false)", "is clearly wrong",
    "is not the answer",    "fails the test", "7 km, which is wrong", "has been discarded", "does not hold", "perhaps",
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


@pytest.mark.parametrize("text", OPTION_TEXTS)
@pytest.mark.parametrize("label", ["({})", "[{}]", "{})", "{}.", "{}:", "**({})**", "\\text{{({})}}"])
def test_a_labelled_letter_is_it_with_its_text(label: str, text: str) -> None:
    said = f"{label.format('C')} {text}"
    for reference, correct in {"C": True, "B": False}.items():
        assert grade(problem(answer_type="choice", reference=reference), said).correct is correct
    assert grade(problem(answer_type="choices", reference="CE"), said).correct is False


@given(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), st.text("abckxyzPQRSTW0123456789", min_size=1, max_size=3))
def test_any_labelled_letter_is_it_whatever_its_short_text(letter: str, text: str) -> None:
    found = read_letters(f"({letter}) {text}")
    assert found is not None and (found.letters, found.text) == ((letter,), text)


@pytest.mark.parametrize("denial", DENIALS)
@pytest.mark.parametrize("label", ["({})", "[{}]", "{}", "{})", "{}.", "\\text{{({})}}", "Option {}"])
def test_a_denied_letter_decides_nothing(label: str, denial: str) -> None:
    said = f"{label.format('C')} {denial}"
    assert denies_option(said)
    for kind in ("choice", "choices"):
        assert grade(problem(answer_type=kind, reference="C"), said).status == "undetermined"


@pytest.mark.parametrize(
    "text", ["(C) A is true but R is false", "C", "C. no change", "C because B is wrong", "D: not all"]
)
def test_a_text_that_holds_a_denial_is_none(text: str) -> None:
    assert not denies_option(text) and read_letters(text) is not None


CHOICES = ("P-3, Q-1, R-2", "P-2, Q-3, R-1", "P-1, Q-2, R-3")


@pytest.mark.parametrize(
    "text",
    [
        "P-2,Q-3,R-1", "P-(2), Q-(3), R-(1)", "P2 Q3 R1", "P \u2192 2, Q \u2192 3, R \u2192 1", "P:2; Q:3; R:1",
        "R-1, P-2, Q-3",
        "(B) P-2, Q-3, R-1", "$P \\to 2, Q \\to 3, R \\to 1$",
    ],
)  # fmt: skip
def test_matches_are_option_texts(text: str) -> None:
    for reference, correct in {"B": True, "A": False}.items():
        assert grade(problem(answer_type="choice", reference=reference, choices=CHOICES), text).correct is correct
    assert grade(problem(answer_type="choice", reference="B"), "P-2,Q-3,R-1").correct is None


def test_a_letter_with_the_text_of_another_option_decides_nothing() -> None:
    residues = ("G", "D", "Y", "K")
    for text, status in {
        "C. Y": "graded",
        "(C) K": "undetermined",
        "C: D": "undetermined",
        "\\boxed{C) Y}": "graded",
    }.items():
        verdict = grade(problem(answer_type="choice", reference="C", choices=residues), text)
        assert verdict.status == status and verdict.correct is (True if status == "graded" else None)


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
        ("EcoRI, HindIII", "EcoRI,HindIII", True),
        ("420, 117, 58", "58,117,420", True),
        ("420, 117, 580", "580,117,420", True),
        ("420, 117, 580", "580,117,421", False),
        ("2,345", "2, 345", None),
        ("2,345", "3,345", False),
        ("420,117,580", "580,117,420", None),
        ("P-2, Q-1", "Q-1,P-2", True),
        ("P-2, Q-1", "P-1, Q-2", False),
        ("P-2, Q-1", "P-2", None),
        ("P-2, Q-1", "P-2, R-1", None),
    ],
)
def test_option_texts(one: str, other: str, same: bool | None) -> None:
    assert same_text(one, other) is same
    assert same_text(other, one) is same


def test_the_text_of_exactly_one_option_is_its_letter() -> None:
    options = ("0.14", "0.24", "0.70", "0.86")
    assert [option_of_text(text, options) for text in ("0.7", "\\frac{7}{50}", "0.860", "0.5")] == ["C", "A", "D", None]
    assert option_of_text("SmaI", ("SmaI", "EcoRI", "SmaI")) is None
