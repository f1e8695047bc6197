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
        ("So $\\boxed 5$", "5"),
        ("\\boxed 3.25.", "3.25"),
        ("First $\\boxed 5$ as a guess, later $\\boxed{7}$.", "7"),
        ("\\boxed{1} and again \\boxed{1}", "1"),
        ("The roots are \\boxed{3} and $\\boxed{-2}$.", "3, -2"),
        ("$x=\\boxed{3}$, $y=\\boxed{4}$", "3, 4"),
        ("\\boxed{3} or \\boxed{4}", "3 or 4"),
        ("\\boxed{3}. But no: \\boxed{4}", "4"),
        ("Answer: 5? No. The answer is 72.", "72"),
        ("Answer: 42" + " " * 50_000, "42"),
        ("### Answer\n42", "42"),
        ("## Final Answer\n\n42", "42"),
        ("**Answer**\n42", "42"),
        ("Answer - 42", "42"),
        ("Ans: 42", "42"),
        ("**Answer:**\n\n42", "42"),
        ("Answer\uff1a42", "42"),
        ("Answer: \u200b42", "42"),
        ("\\boxed{\ufeff42}", "42"),
        ("Answer: 42\nSo my answer is correct.", "42"),
    ],
)
def test_the_final_answer_is_found(text: str, answer: str) -> None:
    assert extract_answer(text) == Extraction(answer, "ok")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I think so.",
        "I cannot answer this.",
        "Answer: ",
        "Answer: **",
        "<think>Answer: 5",
        "\\boxed{}",
        "My answer is correct.",
        "The wrong answer is 5",
        "The answer - as we saw - is hard",
        "### Answer\n### Step 1",
        "### Answer\nWe find:",
        "Answer:\n\n## Next",
    ],
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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("\\boxed{\\text{E}}", "E"),
        ("\\boxed{E: the text of the option}", "E"),
        ("\\boxed{\\mathbf{(E)}}", "E"),
        ("\\boxed{b}", "B"),
        ("\\boxed{A, C}", "AC"),
        ("\\boxed{C} and \\boxed{A}", "AC"),
        ("\\boxed{B} or \\boxed{C}", "B or C"),
        ("$\\boxed{x \\ll \\Delta E}$\n\n**Answer: D**", "D"),
        ("The answer is B because a car moves away.", "B"),
        ("The correct options are (A), (B) and (D).", "ABD"),
        ("ANSWER: **A**", "A"),
        ("ANSWER: $A$", "A"),
        ("**ANSWER:** A", "A"),
        ("ANSWER: (A)", "A"),
        ("[ANSWER] C [/ANSWER]", "C"),
        ("<think>Answer: A</think> Answer: B", "B"),
        ("Answer - B", "B"),
        ("Ans: B", "B"),
        ("Answer:\n\n**B**", "B"),
        ("Answer\uff1aB", "B"),
        ("### Answer\n(B)", "B"),
        ("My answer would be B.", "B"),
        ("So, B is the correct answer.", "B"),
        ("Hence option (D) is the right choice, since the others fail.", "D"),
        ("**A and C** are the correct options.", "AC"),
        ("Answer: A\nNo: **B** is the correct answer.", "B"),
        ("B is the correct answer.\nAnswer: C", "C"),
        ("The answer is (C) W.", "C"),
        ("\\boxed{(B) \\text{I only}}", "B"),
        ("\\boxed{B) $k$}", "B"),
        ("Answer: **B** \u2013 as the cart slows down", "B"),
        ("Answer: B. E", "B"),
        ("Answer: \u200bB", "B"),
    ],
)
def test_option_letters_are_read_where_they_stand_for_options(text: str, answer: str) -> None:
    assert extract_answer(text, "choices") == Extraction(answer, "ok")


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{\\text{(A) incorrect}}",
        "Answer: (A) is wrong",
        "The answer is not A.",
        "Answer: neither A nor B",
        "Option A is not the correct answer.",
        "It is false that B is the correct answer.",
        "If B is the correct answer, then",
        "The wrong answer is B.",
        "\\boxed{B) eliminated}",
    ],
)
def test_a_denied_letter_is_no_answer(text: str) -> None:
    assert extract_answer(text, "choice") == Extraction(None, "no_answer")


@pytest.mark.parametrize(
    "text",
    [
        "The answer is A, C or maybe D",
        "\\boxed{P-2,Q-4}",
        "Answer: A; possibly B",
        "The answer is E. coli",
        "Answer: A - 5",
    ],
)
def test_more_than_one_letter_stays_as_it_is(text: str) -> None:
    assert len(extract_answer(text, "choice").answer or "") > 4


@pytest.mark.parametrize(
    "text", ["I would go with option B", "Look at case A. Then B.", "<think>Answer: C</think> Done.", "$\\Delta E > 0$"]
)
def test_the_last_capital_letter_is_no_answer(text: str) -> None:
    assert extract_answer(text, "choice") == Extraction(None, "no_answer")


@pytest.mark.parametrize("text", ["The answer is a car.", "Answer: I think so", "The answer is Apple pie"])
def test_words_after_a_cue_are_no_letters(text: str) -> None:
    found = extract_answer(text, "choice").answer
    assert found is not None and len(found) > 1  # the words come back: they may be the text of an option


@given(st.text(max_size=200), st.sampled_from(["choice", "choices", "choice_any", "number", "text"]))
def test_extraction_never_fails_for_any_type(text: str, kind: str) -> None:
    extract_answer(text, kind)


@pytest.mark.parametrize(
    "text",
    [
        "[ANSWER]" * 12_000,
        "Answer:" * 14_000,
        "\\boxed{" * 14_000,
        "\\boxed{1} " * 9_000,
        "answer is " + " " * 99_000,
        "Answer: B" + " " * 99_000 + "x",
        "\\boxed{B" + ";" * 99_000 + "}",
        "### Answer\n" * 9_000,
        "B is the best answer" * 5_000,
    ],
)
def test_long_hostile_texts_end(text: str) -> None:
    extract_answer(text, "choice")
    extract_answer(text)


@pytest.mark.parametrize(
    "text",
    [
        "Expert 2's answer is unconvincing, since Reader1 assumed X. I could not solve it.",
        "The answer is not clear to me; I give up.",
        "Is the answer: maybe?",
        "Answer: see above",
        "The answer is probably somewhere between the two values that the experts named, and I cannot decide",
        "Answer: \\boxed{I do not know}",
        "Answer: unknown",
        "\\boxed{\\text{cannot be determined}}",
        "Answer: ?",
    ],
)
@pytest.mark.parametrize("kind", ["expression", "text", "integer", "quantity"])
def test_a_remark_about_the_answer_is_no_answer(text: str, kind: str) -> None:
    assert extract_answer(text, kind) == Extraction(None, "no_answer")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So the answer is 42.", "42"),
        ("**Answer:** x^2 + 1", "x^2 + 1"),
        ("Answer: from left to right", "from left to right"),
        ("The answer is no.", "no"),
        ("Answer: the set of all even numbers", "the set of all even numbers"),
        ("Answer: wrong", "wrong"),
    ],
)
def test_a_value_after_a_cue_is_one(text: str, answer: str) -> None:
    assert extract_answer(text, "text") == Extraction(answer, "ok")
