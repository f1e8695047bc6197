from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.text import clean, for_prompt, inline, one_line, quoted, unquoted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("n\x00u\x07l\x1b[31m\x9b", "nul[31m"),
        ("\u200fright\u202eto\u2066left\ufeff", "righttoleft"),
        ("tag\U000e0041s", "tags"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("  a  \n\n  b \n", "a\n\n  b"),
        (
            "\u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f52c e\u0301",
            "\u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f52c e\u0301",
        ),
    ],
)
def test_clean_text_has_one_form(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(st.text())
def test_cleaning_and_defusing_twice_changes_nothing_more(text: str) -> None:
    assert clean(clean(text)) == clean(text) and for_prompt(for_prompt(text)) == for_prompt(text)


@given(st.text(st.sampled_from("a \n|\r\u2028<[")))
def test_quoted_lines_are_marked_and_come_back(text: str) -> None:
    first, *others = quoted(text).splitlines() or [""]
    assert "\n".join([first, *(line for marked in others if (line := unquoted(marked)) is not None)]) == for_prompt(
        text
    )
    assert len(inline(text).splitlines()) <= 1 and len(one_line(text, 9)) <= 9
