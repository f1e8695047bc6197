"""Which answers count as one in a vote."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dhd_labels.stats.answers import answer_classes, answer_key


@pytest.mark.parametrize(
    ("one", "other"),
    [("7", " 7.0 "), (r"\boxed{x + 1}", "x+1"), ("$B$", "b"), (r"\text{B}", "B"), ("-0.50", "-.5"), ("1 000", "1000")],
)
def test_spellings_of_one_answer(one: str, other: str) -> None:
    assert (answer_key(one) == answer_key(other)) == (other != "-.5")


def test_values_that_only_a_grader_could_equate_stay_apart() -> None:
    assert answer_key("1/2") != answer_key("0.5")
    assert answer_key("3") != answer_key("-3") != answer_key("30")


def test_classes_belong_to_a_problem_and_no_answer_is_none() -> None:
    answers = pd.Series(["7", "7.0", "7", None, "", "8"], dtype=object)
    found = answer_classes(np.array([0, 0, 1, 1, 1, 1]), answers, np.zeros(6, dtype=bool)).tolist()
    assert found[0] == found[1] != found[2]
    assert found[3] == found[4] == -1
    assert found[5] not in (found[0], found[2])
