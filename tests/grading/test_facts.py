"""Real golds: the pairs with a known outcome, and every problem of two whole benchmarks against itself and others."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from fact_files import Facts
from support import cli, problem

from dhd_labels.grading.command import grade_line
from dhd_labels.grading.extract import extract_answer
from dhd_labels.grading.quantity import read_quantity
from dhd_labels.grading.ranges import read_ranges
from dhd_labels.grading.rules import grade
from dhd_labels.records import Problem

CASES = "cases/answer_equivalence.jsonl"
JEE_TYPES = {"MCQ": "choice", "MCQ(multiple)": "choices", "Integer": "integer", "Numeric": "number"}
PROSE = {"text", "text_set", "function", "condition"}


def known_pairs(facts: Facts) -> list[dict[str, object]]:
    return [{**row, **{f"got_{k}": v for k, v in grade_line(row, "strict").items()}} for row in facts.lines(CASES)]


def test_no_pair_gets_a_wrong_verdict(facts: Facts) -> None:
    wrong = [r for r in known_pairs(facts) if r["got_correct"] is not None and r["got_correct"] != r["equal"]]
    assert not wrong


def test_everything_but_prose_is_decided(facts: Facts) -> None:
    open_rows = [r for r in known_pairs(facts) if r["got_correct"] is None and r["answer_type"] not in PROSE]
    # An option's value without the options cannot be matched with a letter.
    assert {(r["answer_type"], r["got_rule"]) for r in open_rows} <= {("MCQS-NUM", "choice")}
    symbolic = [r for r in known_pairs(facts) if r["benchmark"] == "omni-math-2" and r["answer_type"] not in PROSE]
    assert len(symbolic) > 30 and all(r["got_status"] == "graded" for r in symbolic)


def test_option_values_are_matched_when_the_options_are_known(facts: Facts) -> None:
    choices = ["0.14", "0.24", "0.70", "0.86"]
    for row in facts.lines(CASES):
        if row["answer_type"] == "MCQS-NUM":
            assert grade_line({**row, "choices": choices}, "strict")["correct"] == row["equal"]


def test_reported_bugs_of_equivalence(facts: Facts) -> None:
    for row in facts.lines("cases/bug_inputs.jsonl"):
        if row["area"] != "answer_equivalence" or "pairs" in row["input"] or "gold" not in row["input"]:
            continue
        given = row["input"]
        verdict = grade(problem(answer_type="expression", reference=given["gold"]), given["answer"])
        equal = row["expected_behaviour"].startswith("Equal")
        assert (verdict.correct is True) == equal, (row, verdict)


def test_reported_bugs_of_extraction(facts: Facts) -> None:
    seen = 0
    for row in facts.lines("cases/bug_inputs.jsonl"):
        given = row["input"]
        if row["area"] != "mcq_extraction":
            continue
        for text in given.get("texts", [given.get("text")]):
            assert extract_answer(text, "choice").answer == given["gold"], text
            seen += 1
    assert seen > 5


def all_problems(facts: Facts) -> list[Problem]:
    jee = [
        problem(
            problem_id=f"jeebench:{r['description']}:{r['index']}",
            benchmark="jeebench",
            question=r["question"],
            reference=r["gold"],
            answer_type=JEE_TYPES[r["type"]],
        )
        for r in facts.array("benchmarks/full/jeebench.json")
    ]
    sci = [
        problem(
            problem_id=f"scibench:{r['source']}:{r['problemid']}",
            benchmark="scibench",
            question=r["problem_text"],
            reference=f"{r['answer_number'].strip()} {r['unit'].strip()}".strip(),
            answer_type="quantity",
        )
        for r in facts.lines("benchmarks/full/scibench.jsonl")
    ]
    return [*jee, *sci]


def test_every_gold_equals_itself(facts: Facts) -> None:
    problems = all_problems(facts)
    assert len(problems) == 515 + 580
    assert [p.reference for p in problems if grade(p, p.reference).correct is not True] == []


def test_every_gold_equals_its_own_value_written_otherwise(facts: Facts) -> None:
    for p in all_problems(facts):
        if p.answer_type not in ("quantity", "number", "integer"):
            continue
        gold = read_quantity(p.reference, allow_charge=True)
        assert gold is not None
        verdict = grade(p, f"$x = {float(gold.value):.12e}$")
        assert verdict.correct is True, (p.reference, verdict)
        flipped = grade(p, f"{-float(gold.value):.12e}")
        assert flipped.correct is (gold.value == 0 or abs(2 * gold.value) <= _allowed(p)), (p.reference, flipped)


def _allowed(p: Problem) -> float:
    return 0.01 if p.benchmark == "jeebench" else 0.0


def test_another_gold_is_equal_only_if_its_value_is(facts: Facts) -> None:
    problems, generator = all_problems(facts), random.Random(4)
    found = Counter[bool | None]()
    for _ in range(2000):
        one, other = generator.sample(problems, 2)
        verdict = grade(one, other.reference)
        found[verdict.correct] += 1
        if verdict.correct:
            assert _same_value(one, other), (one.reference, other.reference)
    assert found[False] > 500


def _same_value(one: Problem, other: Problem) -> bool:
    """Compare two golds with code that shares nothing with the rules but the reading of numbers."""
    if one.answer_type in ("choice", "choices"):
        return set(one.reference) == set(other.reference)
    left, right = (read_quantity(p.reference, allow_charge=True) for p in (one, other))
    assert left is not None and right is not None
    gap = abs(float(left.value) - float(right.value))
    scaled = gap if left.unit == right.unit or not (left.unit and right.unit) else 0.0
    return scaled <= (0.01 if one.benchmark == "jeebench" else 0.05 * abs(float(left.value))) + 1e-12


def test_ranges_hold_their_ends_and_middle(facts: Facts) -> None:
    rows = facts.lines("benchmarks/samples/mascqa.jsonl") + [
        {"Question Type": "NUM", "Correct Answer": r["gold"]} for r in facts.lines(CASES) if r["answer_type"] == "NUM"
    ]
    golds = {r["Correct Answer"] for r in rows if r["Question Type"] == "NUM"}
    assert golds
    for gold in golds:
        p = problem(answer_type="range", reference=gold, benchmark="mascqa")
        for interval in read_ranges(gold) or ():
            for value in (interval.low, (interval.low + interval.high) / 2, interval.high):
                assert grade(p, f"{float(value)}").correct is True
        assert grade(p, gold).correct is True


@pytest.mark.parametrize("mode", ["strict", "official"])
def test_the_command_grades_the_file(facts: Facts, tmp_path: Path, mode: str) -> None:
    done = cli("grade", str(facts.path(CASES)), "--out", str(tmp_path / "out.jsonl"), "--mode", mode)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == len(facts.lines(CASES))
    assert all({"status", "correct", "score", "rule", "gold"} <= row.keys() for row in rows)
    assert all((row["correct"] is None) == (row["status"] != "graded") for row in rows)
