from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.grading.extract import Extraction, boxed_answers, extract_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Answer: \\boxed{7}", "7"),
        ("Hence \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("First \\boxed{5}, later \\boxed{7}.", "7"),
        ("So \\fbox{5}$.", "5"),
        ("\\boxed {12}", "12"),
        ("<think>\\boxed{3}</think> The answer is 72.", "72"),
        ("17*23.</think>\n\\boxed{391}", "391"),
        ("**Answer:** 42", "42"),
        ("Final answer is: 9 km.", "9 km"),
        ("Answer:\n42", "42"),
        ("**Answer**: 42", "42"),
        ("Answer: 3\nNo. Answer: 4", "4"),
        ("\\boxed{a\\\\}", "a\\\\"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
    ],
)
def test_the_final_answer_is_found(text: str, answer: str) -> None:
    assert extract_answer(text) == Extraction(answer, "ok")


@pytest.mark.parametrize(
    "text", ["", "I think so.", "I cannot answer this.", "Answer: ", "Answer: **", "<think>Answer: 5", "\\boxed{}"]
)
def test_no_box_and_no_cue_is_no_answer(text: str) -> None:
    if text.startswith("<think>"):
        text += "</think> done"
    assert extract_answer(text) == Extraction(None, "no_answer")


@pytest.mark.parametrize("text", ["Answer: \\boxed{7", "\\boxed{5} and then \\boxed{\\frac{1}{2}"])
def test_a_cut_off_box_is_truncated(text: str) -> None:
    assert extract_answer(text) == Extraction(None, "truncated")


@given(st.text(max_size=300))
def test_extraction_never_fails(text: str) -> None:
    extract_answer(text)


@given(st.text(st.characters(exclude_characters="{}\\"), max_size=40), st.text(max_size=40))
def test_a_box_gives_back_its_content(content: str, before: str) -> None:
    before = before.replace("\\", "").replace("</think>", "")
    assert boxed_answers(f"{before} \\boxed{{{content}}} end")[-1] == content.strip()
