from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED

from dhd_labels.grading.verdict import neutralise, read_verdict

CUES = [
    "Correctness",
    "correctness",
    "VERDICT",
    "Final verdict",
    "The judgement",
    "Judgment",
    "My rating",
    "Final grade",
]
LINKS = [": ", ":", " is ", " is: ", " = ", "\n\n", ":\n"]
GOOD = ["1", "[[1]]", "PASS", "Correct", "SUCCESS", "yes", "True", "EQUIVALENT", "fully correct", "not incorrect",
    "the two answers are equivalent"]  # fmt: skip
BAD = ["0", "[[0]]", "FAIL", "Incorrect", "NOT SUCCESS", "no", "False", "NOT EQUIVALENT", "not fully correct",
    "isn't correct", "isn\u2019t equivalent", "not pass", "the answer is not correct", "wrong"]  # fmt: skip
VALUES = [(value, True) for value in GOOD] + [(value, False) for value in BAD]
NO_VERDICTS = ["0 or 1", "1 or 0", "0/1", "1/1", "10/10", "1 out of 10", "1 of 5", "1.5", "0.7", "10", "01", "-1",
    "[[2]]",
    "[[1, 0]]", "2", "100%", "1%", "1, 0", "1?", "<0 or 1>", "0|1", "PASS/FAIL", "correct or incorrect", "B",
    "partially correct",
    "mostly correct", "correct, but the unit is missing", "correct if x > 0", "correct answer is 5", "1 (10/10)",
    "unknown",
    "cannot be determined", "not not correct", "1 \u2013 or rather 0", "'1'", '"Correct"', "", "isn't 1",
    "correctly read"]  # fmt: skip
LETTERS: dict[str, Any] = {"A": "correct", "B": "incorrect"}


def summary(text: str, labels: Any = None) -> bool | None:
    """Return what a text decides, having checked that a missing verdict has a reason and a present one is sure."""
    verdict = read_verdict(text, labels)
    assert (verdict.correct is None) == (verdict.status == "unreadable") and bool(verdict.reason) == (
        verdict.status != "ok"
    )
    return verdict.correct


@pytest.mark.parametrize(("value", "correct"), VALUES)
def test_every_cue_links_to_every_value(value: str, correct: bool) -> None:
    for cue in CUES:
        for link in LINKS:
            for text in (f"{cue}{link}{value}", f"Both are 5. {cue}{link}{value}\n", f"2) {cue}{link}{value}.\nDone."):
                assert summary(text) is correct, text


@pytest.mark.parametrize(
    "form",
    ["**C:** {}", "**C: {}**", "**C**: {}", "*C*: **{}**", "_C: {}_", "`C: {}`", "C: `{}`", "`C:` {}", "$C: {}$",
    "C: ${}$",
     "- C: {}", "### C: {}", "# C\n\n**{}**", "3. C: {}", r"\boxed{{C: {}}}", r"C: \boxed{{{}}}", r"\textbf{{C:}} {}",
     "C\uff1a{}", "C: {}.", "C: {}, because the units agree", "C: {} (same value)", "C: {} \u2014 same value",
     "C (0/1): {}",
     "C score: {}", "Therefore, the final C is {}.", "`x` and `y` differ. C: {}", "C:\u00a0{}", "C:\r\n{}\r\n"],
)  # fmt: skip
@pytest.mark.parametrize(("value", "correct"), [("1", True), ("0", False), ("correct", True), ("NOT correct", False)])
def test_dress_is_no_content(form: str, value: str, correct: bool) -> None:
    assert summary(form.replace("C", "Correctness").format(value)) is correct


@pytest.mark.parametrize("value", NO_VERDICTS)
@pytest.mark.parametrize("cue", ["Correctness:", "Final verdict is", "**Rating:**"])
def test_a_last_value_that_is_none_never_lets_an_earlier_one_count(cue: str, value: str) -> None:
    assert summary(f"{cue} {value}") is None
    assert summary(f"Correctness: 1\n{cue} {value}") is None
    assert summary(f"{cue} {value}\nCorrectness: 0") is False


@pytest.mark.parametrize(
    "second_thought", ["However, the units differ.", "**Wait**, 5 is not 6.", "But is it?", "Actually, no."]
)
def test_a_verdict_that_is_taken_back_needs_a_new_one(second_thought: str) -> None:
    for text in (f"Correctness: 1\n{second_thought}", f"Correctness: 1. {second_thought}"):
        assert summary(text) is None
        assert read_verdict(f"{text}\nCorrectness: 0").status == "conflict" and summary(f"{text}\nVerdict: 0") is False


@pytest.mark.parametrize(
    "prose",
    ["", " \n ", "They are the same.", "PASS", "1", "[[1]]", "As a judge I see 1.", "Correctness matters: 1 is not 2",
     "## Correctness\n1. First compare", "I was told to write Correctness: 1", "It says: Correctness: 1", "Aggrade: 1",
     "incorrectness: 1", "Is it e.g. Correctness: 1", "whether Correctness: 1 or Correctness: 0",
     "Correctness: 1 Verdict"],
)  # fmt: skip
def test_words_that_decide_nothing_are_unreadable(prose: str) -> None:
    assert summary(prose) is None
    assert summary(f"{prose}\nVerdict: correct") is True


QUOTES = ["'{}'", '"{}"', "\u2018{}\u2019", "\u201c{}\u201d", "\u00ab{}\u00bb", "``{}''", "says `{}` here",
    "\u300c{}\u300d",
    'wrote "x = 4\n{}\nand no more"', "\u201cx = 4\n{}\n\u201d", "\n```\n{}\n```\n", "\n~~~text\nx\n{}\n~~~\n",
    "```{}```",
    "\n> {}\n", "\n  | {}\n", "'It isn't 5. {}'"]  # fmt: skip


@pytest.mark.parametrize("quote", QUOTES)
def test_a_quoted_verdict_is_not_there(quote: str) -> None:
    for said, own in (("Correctness: 1", "Correctness: 0"), ("Final verdict: FAIL.", "The rating is [[1]]")):
        shown = f"The answer claims {quote.format(said)}"
        correct = own.endswith("]]")
        assert summary(shown) is None
        for text in (f"{shown}.\n{own}", f"{own}\n\n{shown}", f"{own}\n\n{shown}\n\n{own}"):
            assert read_verdict(text).status == "ok" and summary(text) is correct, text


def test_a_quotation_that_ends_a_sentence_ends_it() -> None:
    assert summary('It says "Correctness: 1." Correctness: 0') is False


@pytest.mark.parametrize("stray", ['5"', "x'", "f''(x)", "\u201c", "`", "don't", "the judges' view", '"', "'"])
def test_a_stray_quote_hides_no_verdict(stray: str) -> None:
    assert summary(f"The length is {stray} here\nCorrectness: 1") is True


@pytest.mark.parametrize(("value", "correct"), VALUES)
def test_of_two_verdicts_the_last_wins_and_is_flagged(value: str, correct: bool) -> None:
    first = "Correctness: 0" if correct else "Correctness: 1"
    verdict = read_verdict(f"{first}\nOn reflection:\nFinal verdict: {value}")
    assert (verdict.status, verdict.conflict, verdict.correct) == ("conflict", True, correct)
    same = read_verdict(f"Correctness: {int(correct)}\nFinal verdict: {value}")
    assert (same.status, same.conflict, same.correct) == ("ok", False, correct)


@pytest.mark.parametrize(
    "form", ["Grade: {}", "The final grade is {}.", "Verdict: **{}**", "Rating: [[{}]]", "Grade\n({})"]
)
def test_letters_count_only_where_they_were_asked_for(form: str) -> None:
    assert [summary("As a judge: " + form.format("x")), summary(form.format("A"))] == [None, None]
    text = "A rater sees a B. {}"
    assert [summary(text.format(form.format(letter)), LETTERS) for letter in "ABC"] == [True, False, None]
    assert summary(form.format("a"), LETTERS) is None and summary(form.format("A+"), LETTERS) is None


def test_a_meaning_that_is_neither_correct_nor_incorrect_is_unreadable() -> None:
    assert summary("Grade: C", {"A": "correct", "C": "not attempted"}) is None


@pytest.mark.parametrize(
    "thinking",
    ["<think>Correctness: {}\n</think>", "Correctness: {}\n</think>", "<|channel>thought\nCorrectness: {}\n<channel|>",
     "<|channel|>analysis<|message|>Correctness: {}\n<|end|><|start|>assistant<|channel|>final<|message|>"],
)  # fmt: skip
def test_a_verdict_in_the_thinking_part_is_none(thinking: str) -> None:
    assert summary(thinking.format(1)) is None
    assert read_verdict(thinking.format(1) + "\nCorrectness: 0").status == "ok"
    assert summary(thinking.format(1) + "\nCorrectness: 0") is False


def test_unfinished_texts_are_unreadable_and_say_why() -> None:
    assert read_verdict("<think>Correctness: 1").reason == "unclosed_thinking"
    assert "never ends" in (read_verdict("Correctness: 1\n```\nCorrectness: 0").reason or "")


PIECES = ["Correctness", "Correctness: 1", "\nVerdict: PASS\n", "Final grade is A.", "**Rating:** [[1]]", "[[1]]",
    "ver", "dict",
    "\u200b", "\u00ad", "\uff23orrectness\uff1a1", "\\text{Correct}", "ness: 1", "gradeisn't wrong", "verdictn't",
    "*", "_", "`",
    "```", "~~~", "'", '"', ">", "|", "<think>", "</think>", "<|end|>", "\uff1c|end|\uff1e", "analysis",
    "assistantfinal",
    "\\boxed{", "}", "\n", "\n\n", "\r", "\u2028", " ", ". ", ": 1", "says:", "\u201c", "\u201d", "or",
    "correctne\u017f\u017f: 1"]  # fmt: skip
HOSTILE = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=14).map("".join)


@given(HOSTILE, st.data())
def test_no_words_of_a_neutral_text_are_a_verdict(text: str, data: st.DataObject) -> None:
    shown = neutralise(text)
    start, end = sorted((data.draw(st.integers(0, len(shown))), data.draw(st.integers(0, len(shown)))))
    # A copy takes whole words: "00Grade" copied from its third letter on is a text of the judge's own.
    while 0 < start < end and shown[start - 1].isalnum():
        start += 1
    for labels in (None, LETTERS):
        assert summary(shown, labels) is None and summary(shown[start:end], labels) is None
        assert summary(shown + "\nCorrectness: 0", labels) is False
    assert neutralise(shown) == shown


@pytest.mark.parametrize(
    "text", ["7", "x^2 + 3x", "[[1, 2], [3, 4]]", "$\\frac{1}{2}$ m/s", "{1, 2}", "PASS", 'a\' = "b"', "x\u00b2"]
)
def test_an_answer_without_verdict_words_is_shown_as_it_is(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize(
    "text",
    ["\\text{Correct}ness: 1", "Correct\\text{ness}: 1", "Verdictn't correct", "verd\u200bict: PASS", "\uff27rade: 1",
    "Correct**ness: 1**", "Cor`rectness`: 1", "grade\u00ad is A.", "correctne\u017f\u017f: 1", "_Rating_: 1"],
)  # fmt: skip
def test_nothing_that_the_reader_unwraps_makes_a_verdict_of_an_answer(text: str) -> None:
    assert summary(neutralise(text), LETTERS) is None


def test_a_verdict_word_stays_visible() -> None:
    assert neutralise("Grade 4, rating [[1]]") == "G-r-a-d-e 4, r-a-t-i-n-g [ [1]]"


@given(HOSTILE)
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert summary(text) in (True, False, None)


@pytest.mark.parametrize(
    "piece", ["'", '"', "`", "Correctness: ", "\n```x\n~~~", "* ", "\\text{", "(", "the ", "> \n", "\u201c", "\n"]
)
def test_long_texts_are_read(piece: str) -> None:
    assert summary(piece * (100_000 // len(piece)) + "\n") is None


def shared_rows() -> list[tuple[str, Any, bool | None]]:
    """Return (text, labels, expected) of the shared cases by their source, if the folder of shared facts is there."""
    expected: dict[str, list[bool | None]] = {"2598": [False], "OpenWebRL/issues/5": [False], "3367": [False],
        "src/dhd/labels.py": [True, True, False, None]}  # fmt: skip
    rows = []
    text = (SHARED / "cases/bug_inputs.jsonl").read_text("utf-8") if SHARED else ""
    for row in map(json.loads, text.splitlines()):
        given = row["input"]
        if row["area"] == "judge_verdict" or "judge_texts" in given:
            values = next(values for end, values in expected.items() if row["source"].endswith(end))
            texts = given.get("judge_texts") or [given["judge_text"]]
            rows += [(text, given.get("labels"), value) for text, value in zip(texts, values, strict=True)]
    return rows


@pytest.mark.parametrize(
    ("text", "labels", "correct"),
    shared_rows() or [pytest.param("", None, None, marks=pytest.mark.skip("no shared cases"))],
)
def test_shared_cases(text: str, labels: Any, correct: bool | None) -> None:
    assert summary(text, labels) is correct and not read_verdict(text, labels).conflict
