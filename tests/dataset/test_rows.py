from __future__ import annotations

import pytest
from support import problem

from dhd_labels.dataset.rows import rows_of
from dhd_labels.replay.collect import ProblemResult


@pytest.mark.parametrize("allowed", [True, False])
def test_text_that_may_not_be_redistributed_stays_out(allowed: bool) -> None:
    one = problem(choices=("red", "blue"), answer_type="choice", reference="B", redistribute_text=allowed)
    result = ProblemResult(one, "recruiter_failed", "why", (), (), None, (), (), (), 0)
    (row,) = rows_of("run", result, "missing")["problems"]
    texts = (row["question"], row["choices"], row["reference"])
    assert texts == ((one.question, ["red", "blue"], "B") if allowed else (None, None, None))
    assert (row["problem_id"], row["license"]) == (one.problem_id, one.license)
