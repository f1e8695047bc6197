from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.dataset.splits import normalise, split_of

FROZEN = [
    "train",
    "train",
    "train",
    "train",
    "test",
    "train",
    "train",
    "train",
    "train",
    "test",
    "train",
    "train",
    "train",
    "train",
    "test",
]
TEXT = "A café's 2 kg load: what is $x^{2}$?"
NEAR = (
    "a CAFÉ'S 2 kg load: what is $x^{2}$?",
    "  A cafe\u0301's   2 kg\nload — what is $x^2$",
    "Ａ café’s 2\u00a0kg load: what is x^2 ?",
)


def test_near_duplicates_share_a_split() -> None:
    assert {normalise(text) for text in NEAR} == {normalise(TEXT)}


def test_other_numbers_are_another_problem() -> None:
    assert normalise(TEXT) != normalise(TEXT.replace("2 kg", "3 kg"))


def test_shares_are_80_10_10() -> None:
    shares = Counter(split_of(f"problem {number}") for number in range(10_000))
    assert abs(shares["train"] - 8_000) < 150
    assert abs(shares["validation"] - 1_000) < 120
    assert abs(shares["test"] - 1_000) < 120


def test_splits_are_frozen_and_the_same_in_another_process() -> None:
    """Publishing a problem in another split than last time would leak it from test into train."""
    texts = ["What is 2+2?", "名前", "", *(f"problem {number}" for number in range(12))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    code = f"from dhd_labels.dataset.splits import split_of; print([split_of(t) for t in {texts!a}])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert out.strip() == str([split_of(text) for text in texts])
    assert [split_of(text) for text in texts] == FROZEN


@given(st.text(st.characters()))
def test_any_text_has_a_split_and_spacing_does_not_change_it(text: str) -> None:
    assert split_of(text) == split_of(f"\t{text} .")
    assert split_of("\udc00") == split_of("")
