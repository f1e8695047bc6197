from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from dhd_labels.benchmarks import read_problems
from dhd_labels.config import BenchmarkConfig
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.grading.extract import boxed_answers
from dhd_labels.grading.rules import grade
from dhd_labels.protocol.prompts import load_prompt

GOOD = {"id": "a", "question": "1+1?", "reference": "2", "answer_type": "integer"}


def write(path: Path, *rows: object) -> BenchmarkConfig:
    file = path / "mine.jsonl"
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return BenchmarkConfig(name="jsonl", path=str(file))


def test_quickstart_has_two_halves_of_checked_problems() -> None:
    whole = read_problems(BenchmarkConfig(name="quickstart"))
    halves = {half: read_problems(BenchmarkConfig(name="quickstart", subset=half)) for half in ("tune", "report")}
    assert len(whole.problems) >= 32 and not whole.excluded
    assert sum(len(half.problems) for half in halves.values()) == len(whole.problems)
    for half in halves.values():
        assert len(half.problems) >= 16
        assert len(Counter(p.metadata["band"] for p in half.problems)) >= 4
    assert len({p.question for p in whole.problems}) == len(whole.problems)
    for p in whole.problems:
        assert grade(p, p.reference).correct is True
        assert (p.answer_type == "choice") == bool(p.choices)


def test_no_report_problem_is_a_tune_problem_or_a_worked_example_with_other_numbers() -> None:
    """The prompts were tuned on `tune`, so a near copy of one of those in `report` would flatter the demo."""
    halves = {half: read_problems(BenchmarkConfig(name="quickstart", subset=half)) for half in ("tune", "report")}
    prompts = "\n".join(load_prompt(f"small/{role}").source for role in ("recruiter", "hypothesizer", "integrator"))
    examples = {line.partition("Question: ")[2] for line in prompts.splitlines() if "Question: " in line}
    seen = {shape(q) for q in examples | {p.question for p in halves["tune"].problems}}
    exact = {p.question for p in halves["tune"].problems} | examples
    report = halves["report"].problems
    assert examples and not exact & {p.question for p in report}
    boxed = {answer for answer in boxed_answers(prompts) if not answer.isalpha()}
    assert len(boxed) >= 5 and not boxed & {p.reference for p in report}, (
        "an example shows an answer of the report half"
    )
    # A unit question has only so many wordings; of those with other numbers at most these few may remain.
    assert sum(shape(p.question) in seen for p in report) <= 7


def shape(question: str) -> str:
    return re.sub(r"[\d.]+", "#", question)


def test_the_first_problems_mix_the_bands() -> None:
    found = read_problems(BenchmarkConfig(name="quickstart", subset="report", size=4))
    assert len({p.metadata["band"] for p in found.problems}) == 4


def test_own_problems_are_read_and_the_rest_counted(tmp_path: Path) -> None:
    config = write(
        tmp_path,
        GOOD,
        "",
        {**GOOD, "question": "again?"},
        {**GOOD, "id": "b", "reference": None},
        {**GOOD, "id": "c", "reference": "two"},
        {**GOOD, "id": "d", "reference": 3.5, "answer_type": "number", "topic": "x"},
        {**GOOD, "id": "e", "answer_type": "choice", "choices": ["x", "y"], "reference": "C"},
    )
    found = read_problems(config)
    assert [p.problem_id for p in found.problems] == ["jsonl:a", "jsonl:d"]
    assert found.excluded == {"duplicate_id": 1, "no_reference": 1, "unreadable_reference": 2}
    assert found.rows == 6
    assert found.problems[1].reference == "3.5" and found.problems[1].metadata == {"topic": "x"}
    assert found.problems[0].license == "unknown" and not found.problems[0].commercial_use


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", "mine.jsonl:1 must be a JSON object"),
        ("[1]", "got list"),
        ({**GOOD, "id": ""}, "'id' of mine.jsonl:1 must be a non-empty string"),
        ({**GOOD, "question": 5}, "'question' of mine.jsonl:1"),
        ({**GOOD, "answer_type": "intger"}, "got 'intger'. Did you mean 'integer'?"),
        ({**GOOD, "reference": ["12", "twelve"]}, "'reference' of mine.jsonl:1 must be a string or a number"),
        ({**GOOD, "choices": "AB"}, "'choices' of mine.jsonl:1"),
        ({**GOOD, "train_allowed": "false"}, "'train_allowed' of mine.jsonl:1 must be true or false, got 'false'"),
        ({**GOOD, "license": None}, "'license' of mine.jsonl:1 must be a non-empty string, got None"),
        ("[" * 100_000, "mine.jsonl:1 must be a JSON object"),
        ('{"id": "a", "reference": ' + "9" * 5000 + "}", "mine.jsonl:1 must be a JSON object"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: object, words: str) -> None:
    with pytest.raises(DhdError) as caught:
        read_problems(write(tmp_path, row))
    assert words in str(caught.value)


def test_an_empty_benchmark_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NothingMadeError, match="no usable problem \\(it has no rows\\)"):
        read_problems(write(tmp_path))
    with pytest.raises(NothingMadeError, match="no_reference: 1"):
        read_problems(write(tmp_path, {**GOOD, "reference": ""}))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (BenchmarkConfig(name="quikstart"), "Did you mean 'quickstart'?"),
        (BenchmarkConfig(name="quickstart", subset="reprt"), "Did you mean 'report'?"),
        (BenchmarkConfig(name="quickstart", path="x"), "must be unset"),
        (BenchmarkConfig(name="jsonl"), "must name a JSONL file"),
        (BenchmarkConfig(name="jsonl", path="nowhere.jsonl"), "'nowhere.jsonl' cannot be read"),
    ],
)
def test_bad_settings_say_what_to_do(config: BenchmarkConfig, words: str) -> None:
    with pytest.raises(DhdError) as caught:
        read_problems(config)
    assert words in str(caught.value)


def test_names_are_forgiving_about_case_and_underscores() -> None:
    assert read_problems(BenchmarkConfig(name="Quickstart", size=1)).problems
