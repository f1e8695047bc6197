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
        {**GOOD, "id": "f", "answer_type": "choice", "choices": ["x"] * 27},
        {**GOOD, "id": "g", "answer_type": "number_line"},
        "{cut off",
        "[1]",
        {"id": "h", "question": "no type?"},
    )
    found = read_problems(config)
    assert [p.problem_id for p in found.problems] == ["jsonl:a", "jsonl:d"]
    assert found.excluded == {
        "bad_value": 1, "duplicate_id": 1, "gold_error": 2, "missing_column": 1, "no_reference": 1, "not_json": 2,
        "unknown_answer_type": 1,
    }  # fmt: skip
    assert found.duplicates == 1 and found.rows == len(found.problems) + sum(found.excluded.values()) == 11
    assert set(found.examples) == set(found.excluded) and "mine.jsonl:10" in found.examples["not_json"]
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
def test_a_bad_line_is_named_when_nothing_else_is_there(tmp_path: Path, row: object, words: str) -> None:
    with pytest.raises(DhdError) as caught:
        read_problems(write(tmp_path, row))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("answer_type", "given", "kept"),
    [
        ("choices", "c, A", "AC"),
        ("choice_any", "B or A", "A OR B"),
        ("quantity", "-3.52E-19 J", "-3.52e-19 J"),
        ("quantity", 12, "12"),
        ("quantity", "5 1/s", "5 1/s"),
        ("range", "0.5 : 1", "0.5 to 1"),
        ("expression", " \\frac{1}{2}", "\\frac{1}{2}"),
        ("text", "mercury", "mercury"),
    ],
)
def test_own_references_of_every_type_get_their_normal_form(
    tmp_path: Path, answer_type: str, given: object, kept: str
) -> None:
    row = {
        **GOOD,
        "answer_type": answer_type,
        "reference": given,
        "choices": ["x", "y", "z"] * ("choice" in answer_type),
    }
    assert read_problems(write(tmp_path, row)).problems[0].reference == kept


@pytest.mark.parametrize(
    ("answer_type", "reference"),
    [
        ("choices", "AD"),
        ("choices", "A OR B"),
        ("choice_any", "A"),
        ("choice_any", "AB"),
        ("quantity", "J"),
        ("quantity", "3 or 4 J"),
        ("quantity", "3 4e5 J"),
        ("range", "5"),
        ("range", "a to b"),
    ],
)
def test_own_references_of_another_type_are_gold_errors(tmp_path: Path, answer_type: str, reference: str) -> None:
    row = {**GOOD, "id": "b", "answer_type": answer_type, "reference": reference, "choices": ["x", "y", "z"]}
    assert read_problems(write(tmp_path, GOOD, row)).excluded == {"gold_error": 1}


def test_a_line_break_of_unicode_and_a_byte_that_is_no_utf8_stay_in_their_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    good = json.dumps({**GOOD, "question": "one\u2028two"}, ensure_ascii=False)
    file.write_bytes(b"\xef\xbb\xbf" + good.encode() + b"\n\xff\xfe\n")
    found = read_problems(BenchmarkConfig(name="jsonl", path=str(file)))
    assert [p.question for p in found.problems] == ["one\u2028two"] and found.excluded == {"not_json": 1}


def test_the_licence_of_an_own_row_follows_it(tmp_path: Path) -> None:
    terms = {"license": "cc-by-4.0", "train_allowed": False, "commercial_use": True, "redistribute_text": False}
    found = read_problems(write(tmp_path, {**GOOD, **terms})).problems[0]
    assert {name: getattr(found, name) for name in terms} == terms and not found.metadata


def test_an_empty_benchmark_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NothingMadeError, match="no usable problem: it has no rows"):
        read_problems(write(tmp_path))
    with pytest.raises(NothingMadeError, match="no_reference: 1"):
        read_problems(write(tmp_path, {**GOOD, "reference": ""}))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (BenchmarkConfig(name="quikstart"), "Did you mean 'quickstart'?"),
        (BenchmarkConfig(name="quickstart", subset="reprt"), "Did you mean 'report'?"),
        (BenchmarkConfig(name="quickstart", path="x"), "must be unset"),
        (BenchmarkConfig(name="jsonl"), "must name a file"),
        (BenchmarkConfig(name="jsonl", path="nowhere.jsonl"), "that exists, got 'nowhere.jsonl'"),
        (BenchmarkConfig(name="oracle", subset="x"), "must be unset"),
    ],
)
def test_bad_settings_say_what_to_do(config: BenchmarkConfig, words: str) -> None:
    with pytest.raises(DhdError) as caught:
        read_problems(config)
    assert words in str(caught.value)


def test_names_are_forgiving_about_case_and_underscores() -> None:
    assert read_problems(BenchmarkConfig(name="Quickstart", size=1)).problems
