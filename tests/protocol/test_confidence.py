from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.protocol.parse import confidence_level, confidence_value

LEVELS = {
    "high": [
        "high", "**High**", "Confidence: High", "very high", "fairly high", "high (0.9)", "90% (high)", "HIGH.",
        "Very confident", "highly confident", "I'd say high", "full confidence", "no doubt", "low uncertainty",
        "High — low risk of error", "High; not sure about the sign", "high, low risk", "not verified, but high",
        "high: medium effort", "I am sure that it holds",
    ],
    "medium": ["Medium.", "moderate", "mid", "moderately confident", "somewhat confident", "somewhat high"],
    "low": [
        "low", "very low", "uncertain", "I am highly uncertain", "unsure", "not confident", "not very sure", "a guess",
        "not very confident", "isn't high", "I'm not at all sure", "can't be fully certain", "cannot be certain",
        "not 100% sure", "confidence is not high", "not very high", "no confidence", "little confidence",
        "lack of confidence", "high uncertainty", "slightly confident", "somewhat low",
        "low; 1 unverified assumption", "Low: highly dependent on the bound", "low, but high if the bound holds",
    ],
    None: [
        "", "0.7", "8/10", "who knows", "high, medium or low", "high/medium/low", "Low | Medium | High", "low to high",
        "high or low", "not low", "not medium", "not uncertain", "it rests on certain assumptions", "highly likely",
        "confidence", "I am not completely convinced", "lower bound", "some doubt",
    ],
}  # fmt: skip
RANGES = {"medium-high": "medium", "medium to high": "medium", "high/medium": "medium", "low-medium": "low",
    "moderate or low": "low"}  # fmt: skip


@pytest.mark.parametrize(("text", "level"), [(text, level) for level, texts in LEVELS.items() for text in texts])
def test_the_first_clear_statement_is_the_level(text: str, level: str | None) -> None:
    assert confidence_level(text) == level


@pytest.mark.parametrize(("text", "level"), RANGES.items())
def test_a_range_of_neighbours_is_its_lower_end(text: str, level: str) -> None:
    assert confidence_level(text) == level


VALUES = {
    0.7: ["0.7", ".7", "0.70", "70%", "70 %", "70 percent", "about 70 %", "~0.7", "70\\%", "7/10", "7 out of 10",
        "0.7/1",
          "70/100", "high (0.7)", "0.7 based on 2 checks", "70% (0.7)", "p=0.7", "0.7."],
    1.0: ["100%", "1.0", "10/10"],
    0.0: ["0%", "0.0"],
    0.5: ["50/50", "50%"],
    None: ["", "high", "7", "1", "low; 1 unverified assumption", "low (30% chance of error)", "0.2 or 0.7", "0.6-0.8",
           "80-90%", "60 to 70 %", "between 70 and 80%", "170%", "1.5", "11/10", "-0.7", "1/3", "1.2.3",
           "not 100% sure",
           "x0.7", "step 3.1.4", "30% uncertain"],
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), [(text, value) for value, texts in VALUES.items() for text in texts])
def test_exactly_one_stated_share_is_the_value(text: str, value: float | None) -> None:
    assert confidence_value(text) == (value if value is None else pytest.approx(value))


@given(st.integers(0, 100))
def test_a_percentage_and_its_fraction_are_the_same_value(percent: int) -> None:
    forms = (f"{percent}%", f"{percent / 100:.2f}", f"{percent} out of 100")
    assert [confidence_value(text) for text in forms] == [pytest.approx(percent / 100)] * 3


@given(st.text(max_size=200))
def test_any_text_gives_a_level_and_a_value_in_range_or_none(text: str) -> None:
    value = confidence_value(text)
    assert confidence_level(text) in ("low", "medium", "high", None) and (value is None or 0 <= value <= 1)
