from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import cli

from dhd_labels.errors import DhdError
from dhd_labels.grading.command import grade_line, rule_name, write_results


def write(folder: Path, *lines: object) -> str:
    path = folder / "in.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return str(path)


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_grade_adds_a_verdict_to_every_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"benchmark": "jeebench", "answer_type": "MCQ(multiple)", "gold": "ABCD", "candidate": "ABC", "mine": 1},
        {
            "benchmark": "LAB_Bench",
            "answer_type": "mcq_letter",
            "gold": "B",
            "candidate": "two",
            "choices": ["1", "two"],
        },
        "",
        {"benchmark": "mascqa", "answer_type": "NUM", "gold": "MARKS TO ALL", "candidate": "3"},
        {"benchmark": "omni-math-2", "answer_type": "fraction", "gold": "\\frac12", "candidate": ""},
        {"benchmark": "mine", "answer_type": "quantity", "gold": "3 km", "candidate": 3},
        {
            "benchmark": "mine",
            "answer_type": "integer",
            "gold": 7,
            "candidate": "7 apples",
            "question": "How many apples?",
        },
    )
    done = cli("grade", path, "--mode", "official")
    assert done.returncode == 0, done.stderr
    found = [(r["status"], r["correct"], r["score"], r["rule"]) for r in rows(done.stdout)]
    assert found == [
        ("graded", False, 0.75, "official:jeebench"),
        ("graded", False, 0.0, "official:lab-bench"),
        ("gold_error", None, None, "range"),
        ("no_answer", None, None, "expression"),
        ("graded", True, 1.0, "quantity"),
        ("graded", True, 1.0, "integer"),
    ]
    assert rows(done.stdout)[0]["mine"] == 1
    strict = rows(cli("grade", path).stdout)
    assert [(r["correct"], r["score"]) for r in strict[:2]] == [(False, 0.0), (True, 1.0)]


def test_lines_that_cannot_be_used_say_why_and_lose_nothing(tmp_path: Path) -> None:
    good = {"benchmark": "jeebench", "answer_type": "Integer", "gold": "7", "candidate": "7"}
    bad: list[object] = [
        "not json", [1], {**good, "answer_type": "Integr"}, {**good, "gold": None}, {**good, "choices": "AB"},
        '{"benchmark": "jeebench", "answer_type": "Integer", "gold": NaN, "candidate": "7"}', {"candidate": "7"},
    ]  # fmt: skip
    done = cli("grade", write(tmp_path, good, *bad, good), "--out", str(tmp_path / "out.jsonl"))
    found = rows((tmp_path / "out.jsonl").read_text())
    assert done.returncode == 3 and len(found) == len(bad) + 2
    assert found[0]["correct"] is found[-1]["correct"] is True
    for number, row in enumerate(found[1:-1], start=2):
        assert row["status"] == "undetermined" and row["correct"] is None
        assert f"in.jsonl:{number}: The" in row["reason"] and "must be" in row["reason"]
    assert "Did you mean 'integer'?" in found[3]["reason"]


def test_a_line_that_the_grader_fails_on_costs_no_other_line(tmp_path: Path) -> None:
    good = {"benchmark": "jeebench", "answer_type": "Integer", "gold": "7", "candidate": "7"}
    path = Path(write(tmp_path, good, {**good, "candidate": "boom"}, {**good, "mine": [float("inf")]}, good))
    path.write_text(path.read_text().replace("Infinity", "1e999"))

    def work(row: dict[str, Any]) -> dict[str, Any]:
        if row["candidate"] == "boom":
            raise OverflowError("too large")
        return grade_line(row, "official")

    # The output may be the input itself.
    assert write_results(path, path, work, keep=True, say=print) == 1
    found = rows(path.read_text())
    assert [r["correct"] for r in found] == [True, None, True, True]
    assert found[1]["status"] == "undetermined" and "grader_error: OverflowError" in found[1]["reason"]


def test_extract_gives_answer_and_status(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"text": "<think>\\boxed{1}</think> So \\boxed{2}.", "answer_type": "Integer"},
        {"text": "\\boxed{\\text{E}}", "answer_type": "MCQ"},
        {"text": "\\boxed{A} and \\boxed{C}", "answer_type": "choices"},
        {"text": "I think so.", "answer_type": "number"},
        {"text": "\\boxed{\\frac{1}{2", "answer_type": "expression"},
        {"text": "Answer: 4"},
        {"answer_type": "number"},
    )
    done = cli("extract", path)
    assert done.returncode == 3
    assert [(r["answer"], r["status"]) for r in rows(done.stdout)] == [
        ("2", "ok"), ("E", "ok"), ("AC", "ok"), (None, "no_answer"), (None, "truncated"), ("4", "ok"),
        (None, "no_answer"),
    ]  # fmt: skip


def test_a_missing_file_or_mode_is_bad_usage(tmp_path: Path) -> None:
    missing = cli("grade", str(tmp_path / "none.jsonl"))
    assert missing.returncode == 2 and "cannot be read" in missing.stderr
    path = write(tmp_path, {"text": "x"})
    wrong = cli("grade", path, "--mode", "lenient")
    assert wrong.returncode == 2 and "'lenient'" in wrong.stderr


@pytest.mark.parametrize(
    ("benchmark", "kind", "gold", "rule"),
    [
        ("jeebench", "MCQ", "B", "choice"),
        ("jeebench", "MCQ(multiple)", "B", "choices"),
        ("jeebench", "Numeric", "1", "number"),
        ("jeebench", "number", "1", "number"),
        ("scibench", "currency", "1 $", "quantity"),
        ("lab-bench", "mcq_option_text", "His", "option_text"),
        ("mascqa", "MCQS", "A,C", "choices"),
        ("mascqa", "MCQS", "A", "choice"),
        ("mascqa", "MATCH", "C OR D", "choice_any"),
        ("mascqa", "NUM", "1 to 2", "range"),
        ("omni-math-2", "integer", "1", "expression"),
        ("omni-math-2", "text_set", "all", "text"),
        ("", "Numeric", "1", "number"),
        ("", "range", "1 to 2", "range"),
    ],
)
def test_upstream_names_of_types(benchmark: str, kind: str, gold: str, rule: str) -> None:
    if (benchmark, kind) == ("", "Numeric"):  # means three things upstream
        with pytest.raises(DhdError, match="must be known"):
            rule_name(benchmark, kind, gold)
    else:
        assert rule_name(benchmark, kind, gold) == rule
