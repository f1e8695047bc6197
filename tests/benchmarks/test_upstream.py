from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dhd_labels.benchmarks import facts
from dhd_labels.benchmarks.lab_bench import SUBSETS
from dhd_labels.benchmarks.omni_math_2 import answer_type, unwrapped
from dhd_labels.benchmarks.scibench import split_unit
from dhd_labels.errors import DhdError, NothingMadeError
from tests.benchmarks.upstream_rows import CANARY, ROWS, read, row

ID = {
    "omni-math-2": "id", "jeebench": "index", "scibench": "problemid", "lab-bench": "id", "mascqa": "Question_Info",
}  # fmt: skip
QUESTION = {
    "omni-math-2": "problem", "jeebench": "question", "scibench": "problem_text", "lab-bench": "question",
    "mascqa": "QUESTION",
}  # fmt: skip
GOLD = {
    "omni-math-2": "answer", "jeebench": "gold", "scibench": "answer_number", "lab-bench": "ideal",
    "mascqa": "Correct_Answer",
}  # fmt: skip
every_benchmark = pytest.mark.parametrize("name", ROWS)


@every_benchmark
def test_a_problem_carries_the_licence_of_its_benchmark(tmp_path: Path, name: str) -> None:
    (problem,) = read(tmp_path, name, [row(name)]).problems
    entry = facts(name)
    assert problem.benchmark == name and problem.problem_id.startswith(f"{name}:")
    assert (problem.license, problem.train_allowed, problem.commercial_use, problem.redistribute_text) == (
        entry.license, entry.train_allowed, entry.commercial_use, entry.redistribute_text,
    )  # fmt: skip
    assert all(isinstance(value, str) and value for value in problem.metadata.values())


@every_benchmark
def test_a_bad_row_is_counted_and_the_others_are_read(tmp_path: Path, name: str) -> None:
    blank = row(name, **{ID[name]: "x", GOLD[name]: "  "})
    nothing = row(name, **{ID[name]: "y", QUESTION[name]: None})
    lacking = {column: value for column, value in row(name).items() if column != QUESTION[name]}
    found = read(tmp_path, name, [blank, "{cut off", row(name), "[]", nothing, lacking, "17"])
    assert len(found.problems) == 1
    assert found.excluded == {"bad_value": 1, "missing_column": 1, "no_reference": 1, "not_json": 3}
    assert found.rows == 7 and set(found.examples) == set(found.excluded)


@every_benchmark
def test_a_file_that_lacks_a_column_is_of_another_schema(tmp_path: Path, name: str) -> None:
    column = {"mascqa": "Correct Answer"}.get(name, GOLD[name])
    rows = [{key: value for key, value in row(name).items() if key != column} for _ in range(3)]
    with pytest.raises(DhdError, match=f"column '{column}' is missing from every row") as caught:
        read(tmp_path, name, rows)
    assert caught.value.exit_code == 2


@every_benchmark
def test_repeated_rows_are_dropped_and_colliding_ids_are_told_apart(tmp_path: Path, name: str) -> None:
    other = row(name, **{QUESTION[name]: "Something else? (A) x (B) y (C) z (D) w"})
    rows = [row(name), other, row(name)]
    found = read(tmp_path, name, rows)
    assert found.excluded == {"duplicate": 1} and found.duplicates == 1
    assert found.noted["colliding_id"] == len({p.problem_id for p in found.problems}) == 2
    turned = read(tmp_path, name, rows[::-1])
    assert {p.problem_id: p for p in turned.problems} == {p.problem_id: p for p in found.problems}


@every_benchmark
def test_reading_is_repeatable_and_does_not_depend_on_the_other_rows(tmp_path: Path, name: str) -> None:
    rows = [row(name, **{ID[name]: f"n{i}", QUESTION[name]: f"Number {i}?"}) for i in range(20)]
    found = read(tmp_path, name, rows)
    assert len(found.problems) == 20 and read(tmp_path, name, rows) == found
    random.Random(0).shuffle(rows)
    assert set(map(repr, read(tmp_path, name, rows).problems)) == set(map(repr, found.problems))


@pytest.mark.parametrize(("name", "key"), [("jeebench", "subject"), ("scibench", "source"), ("mascqa", "TOPIC")])
def test_a_subset_is_a_part_by_name(tmp_path: Path, name: str, key: str) -> None:
    rows = [row(name, **{ID[name]: f"n{i}", key: part}) for i, part in enumerate(["one", "two", "one"])]
    found = read(tmp_path, name, rows, subset="one")
    assert len(found.problems) == 2 and found.excluded == {"other_subset": 1}
    with pytest.raises(DhdError, match="'oen' is unknown. Did you mean 'one'"):
        read(tmp_path, name, rows, subset="oen")


# JEEBench


@pytest.mark.parametrize(
    ("kind", "gold", "expected"),
    [
        ("MCQ", "B", ("choice", "B")),
        ("MCQ(multiple)", "ACD", ("choices", "ACD")),
        ("MCQ(multiple)", "C", ("choices", "C")),
        ("Integer", "3780", ("integer", "3780")),
        ("Numeric", "-11.62", ("number", "-11.62")),
        ("Numeric", "1.00", ("number", "1.00")),
    ],
)
def test_jeebench_types(tmp_path: Path, kind: str, gold: str, expected: tuple[str, str]) -> None:
    (problem,) = read(tmp_path, "jeebench", [row("jeebench", type=kind, gold=gold)]).problems
    assert (problem.answer_type, problem.reference) == expected
    assert problem.problem_id == "jeebench:Exam 1:7" and problem.metadata["type"] == kind
    assert problem.choices == (("one", "two", "three", "four") if kind.startswith("MCQ") else ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "MCQ(single)"}, "unknown_answer_type"),
        ({"gold": "E"}, "gold_error"),
        ({"gold": "AB"}, "gold_error"),
        ({"type": "Integer", "gold": "1.5"}, "gold_error"),
        ({"type": "Numeric", "gold": "5/6"}, "gold_error"),
        ({"type": "Numeric", "gold": True}, "bad_value"),
    ],
)
def test_jeebench_rows_that_cannot_be_graded(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    found = read(tmp_path, "jeebench", [row("jeebench", index=1), row("jeebench", **changes)])
    assert found.excluded == {reason: 1} and "rows.jsonl:2" in found.examples[reason] + "rows.jsonl:2"


def test_jeebench_options_that_cannot_be_split_stay_in_the_question(tmp_path: Path) -> None:
    text = "Which? (A) $x (B) y$ (C) z (D) w"
    found = read(tmp_path, "jeebench", [row("jeebench", question=text)])
    assert (found.problems[0].question, found.problems[0].choices) == (text, ())
    assert found.noted == {"options_in_question": 1}


# SciBench


@pytest.mark.parametrize(
    ("number", "unit", "kind", "reference", "asked"),
    [
        ("3.52", "$10^{-19} \\mathrm{~J}$", "quantity", "3.52e-19 J", "J"),
        ("7", " $\\mathrm{10^7} \\mathrm{~km}$", "quantity", "7e7 km", "km"),
        ("4.2", "$10^{42}$", "quantity", "4.2e42", None),
        ("89,034.79", " $", "quantity", "89034.79 $", "$"),
        ("15.1", "% ", "quantity", "15.1 %", "%"),
        ("40.7", "$^\\circ$", "quantity", "40.7 \u00b0", "\u00b0"),
        ("+65.49", "$\\mathrm{kJ} \\mathrm{mol}^{-1}$", "quantity", "65.49 kJ mol^-1", "kJ mol^-1"),
        ("\u22121.642876", " ", "number", "-1.642876", None),
        ("0", "", "number", "0", None),
    ],
)
def test_scibench_numbers_and_units(
    tmp_path: Path, number: str, unit: str, kind: str, reference: str, asked: str | None
) -> None:
    (problem,) = read(tmp_path, "scibench", [row("scibench", answer_number=number, unit=unit)]).problems
    assert (problem.answer_type, problem.reference) == (kind, reference)
    assert problem.question == "How far?" + (f"\n\nThe unit of the answer is {asked}." if asked else "")
    assert problem.metadata["answer_number"] == number.strip() and problem.metadata.get("unit", "") == unit.strip()
    assert problem.metadata["comment"] == "first part only" and problem.problem_id == "scibench:calculus:1.2"


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        ("$\\mathrm{~J} \\mathrm{~K}^{-1} \\mathrm{~mol}^{-1}$", (0, "J K^-1 mol^-1")),
        ("${ }^{\\circ} \\mathrm{C}$", (0, "\u00b0C")),
        ("${\\circ}$", (0, "\u00b0")),
        ("$\\mu \\mathrm{C} / \\mathrm{m}$", (0, "\u00b5C / m")),
        ("$10^{-17} \\mathrm{~J} \\cdot$ electron ${ }^{-1}$", (-17, "J electron^-1")),
        ("$\\mathrm{KJ} \\mathrm{mol}^{-1}$", (0, "kJ mol^-1")),
        ("$\\mathrm{JK}^{-1} \\mathrm{~mol}^{-1}$", (0, "J K^-1 mol^-1")),
        ("$10^{10} \\text { electrons; }$", (10, "electrons")),
        ("$\\mathrm{~N} \\hat{\\mathrm{i}}$", (0, "N")),
        ("$\\mathrm{cm^2}$", (0, "cm^2")),
        ("$10^{-3} \\%$", (-3, "%")),
        ("$\\$$", (0, "$")),
        ("", (0, "")),
    ],
)
def test_scibench_units_as_plain_text(latex: str, plain: tuple[int, str]) -> None:
    assert split_unit(latex) == plain


def test_scibench_slips_are_counted(tmp_path: Path) -> None:
    rows = [
        row("scibench", problemid="a"),
        row("scibench", problemid="b", answer_number="1,000", problem_text="Why?"),
        row("scibench", problemid="c", answer_number="\u22122", unit=" ", problem_text="When?"),
        row("scibench", problemid="d", answer_number="3 or 4", problem_text="Which?"),
    ]
    found = read(tmp_path, "scibench", rows)
    assert found.noted == {"power_of_ten_unit": 2, "thousands_comma": 1, "unicode_minus": 1}
    assert found.excluded == {"gold_error": 1}


# LAB-Bench


def test_lab_bench_options_are_shuffled_by_the_row_alone(tmp_path: Path) -> None:
    rows = [row("lab-bench", id=f"i{i}", question=f"Which, {i}?", ideal=" adenine\n base") for i in range(40)]
    found = read(tmp_path, "lab-bench", rows).problems
    for problem in found:
        assert problem.choices["ABCD".index(problem.reference)] == "adenine base" == problem.metadata["ideal"]
        assert sorted(problem.choices) == ["adenine base", "cytosine", "guanine", "thymine"]
    assert set(Counter(p.reference for p in found)) == set("ABCD")
    # Worked out apart from the reader: the paper's order must not change under us.
    (known,) = read(tmp_path, "lab-bench", [row("lab-bench")]).problems
    assert (known.problem_id, known.choices) == (
        "lab-bench:SeqQA:00000000-0001",
        ("guanine", "cytosine", "adenine", "thymine"),
    )


def test_lab_bench_repeated_ideal_makes_either_letter_right(tmp_path: Path) -> None:
    rows = [row("lab-bench", distractors=["guanine", "adenine ", "guanine"])]
    found = read(tmp_path, "lab-bench", rows)
    (problem,) = found.problems
    letters = [chr(65 + i) for i, choice in enumerate(problem.choices) if choice == "adenine"]
    assert (problem.answer_type, problem.reference) == ("choice_any", " OR ".join(letters)) and len(letters) == 2
    assert found.noted == {"ideal_among_distractors": 1}


def test_lab_bench_canary_stays_in_the_metadata(tmp_path: Path) -> None:
    leaky = row("lab-bench", id="b", question=f"Which? {CANARY}")
    option = row("lab-bench", id="c", distractors=["x", "Canary GUID other"])
    unmarked = row("lab-bench", id="d", canary="")
    found = read(tmp_path, "lab-bench", [row("lab-bench"), leaky, option, unmarked])
    (problem,) = found.problems
    assert problem.metadata["canary"] == CANARY and CANARY not in repr(problem.visible())
    assert found.excluded == {"bad_value": 1, "canary_in_question": 2}


def test_lab_bench_protocol_comes_first(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, "lab-bench", [row("lab-bench", tag="protocolqa", protocol="Step 1: mix")]).problems
    assert problem.question == "Protocol:\nStep 1: mix\n\nQuestion:\nWhich base?"


def test_lab_bench_reads_the_papers_subsets_only(tmp_path: Path) -> None:
    tags = ["ProtocolQA", "seqqa", "cloningscenarios", "figqa", "dbqa"]
    rows = [row("lab-bench", id=f"i{i}", tag=tag, protocol="p") for i, tag in enumerate(tags)]
    found = read(tmp_path, "lab-bench", rows)
    assert [p.metadata["subset"] for p in found.problems] == list(SUBSETS) and found.excluded == {"other_subset": 2}
    assert len(read(tmp_path, "lab-bench", rows, subset="SeqQA").problems) == 1


@pytest.mark.parametrize("distractors", [[], ["x"] * 26, "xyz", [1, 2], None])
def test_lab_bench_options_must_be_texts_that_letters_suffice_for(tmp_path: Path, distractors: object) -> None:
    found = read(tmp_path, "lab-bench", [row("lab-bench"), row("lab-bench", id="b", distractors=distractors)])
    assert found.excluded == {"bad_value": 1}


# MaScQA


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        ("MCQS", "A", ("choice", "A")),
        ("MCQS", "A,B,C", ("choices", "ABC")),
        ("MCQS", "B; D", ("choices", "BD")),
        ("MATCH", "C OR D", ("choice_any", "C OR D")),
        ("MCQS-NUM", "D", ("choice", "D")),
        ("NUM", "6.00 : 7.30", ("range", "6.00 to 7.30")),
        ("NUM", "155.0 T0 165.0", ("range", "155.0 to 165.0")),
        ("NUM", "48O TO 494", ("range", "480 to 494")),
        ("NUM", " -1600 TO -1500", ("range", "-1600 to -1500")),
        ("NUM", "0.90 TO 0.94 OR -0.94 TO -0.90", ("range", "0.90 to 0.94 or -0.94 to -0.90")),
        ("NUM", "4", ("number", "4")),
        ("NUM", 0.5, ("number", "0.5")),
    ],
)
def test_mascqa_keys(tmp_path: Path, kind: str, key: object, expected: tuple[str, str]) -> None:
    (problem,) = read(tmp_path, "mascqa", [row("mascqa", Question_Type=kind, Correct_Answer=key)]).problems
    assert (problem.answer_type, problem.reference) == expected
    assert problem.metadata["type"] == kind and problem.metadata["gold"] == str(key).strip()
    if kind != "NUM":
        assert (problem.question, problem.choices) == ("Which?", ("one", "two", "three", "four"))


@pytest.mark.parametrize(
    ("kind", "key", "reason"),
    [
        ("NUM", "Marks to all ", "void_key"),
        ("MCQS", "MARKS TO ALL", "void_key"),
        ("NUM", "C OR D", "gold_error"),
        ("NUM", "about 5", "gold_error"),
        ("MCQS", "0.86", "gold_error"),
        ("MCQS", "E", "gold_error"),
        ("MCQS", "", "no_reference"),
        ("MSQ", "A", "unknown_answer_type"),
    ],
)
def test_mascqa_rows_that_cannot_be_graded(tmp_path: Path, kind: str, key: str, reason: str) -> None:
    bad = row("mascqa", Question_Info="G-2", Question_Type=kind, Correct_Answer=key)
    assert read(tmp_path, "mascqa", [row("mascqa"), bad]).excluded == {reason: 1}


@pytest.mark.parametrize(
    ("cell", "question"),
    [
        ("['one\\n', '\\n', 'two $\\\\alpha$']", "one\ntwo $\\alpha$"),
        ("[brackets] are no list", "[brackets] are no list"),
        ("['\\mu is an escape that Python does not know']", "\\mu is an escape that Python does not know"),
        ("[" * 5000, "[" * 5000),
        ("[__import__('os')]", "[__import__('os')]"),
        ("plain", "plain"),
    ],
)
def test_mascqa_question_cells_are_read_as_data(tmp_path: Path, cell: str, question: str) -> None:
    rows = [row("mascqa", Question_Type="NUM", Correct_Answer="4", QUESTION=cell)]
    assert read(tmp_path, "mascqa", rows).problems[0].question == question


def test_mascqa_questions_about_a_figure_are_counted(tmp_path: Path) -> None:
    rows = [row("mascqa"), row("mascqa", Question_Info="G-2", QUESTION="See the Figure. (A) x (B) y (C) z (D) w")]
    assert read(tmp_path, "mascqa", rows).noted == {"mentions_figure": 1}


# Omni-MATH-2


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("16", "integer"),
        ("$16$", "integer"),
        ("\\[\n\\boxed{-7}\n\\]", "integer"),
        ("1/4", "expression"),
        ("0.5", "expression"),
        ("\\frac{1}{2}", "expression"),
        ("\\[\n\\boxed{2, 3, 7}\n\\]", "expression"),
        ("(-\\frac{13}{96}, \\frac{13}{40})", "expression"),
        ("\\pm \\frac{9}{4}", "expression"),
        ("45^\\circ", "expression"),
        ("90 degrees", "expression"),
        ("f(x) = 0 \\text{ or } f(x) = x", "expression"),
        ("x", "expression"),
        ("$a$ and $b$ = 1", "expression"),
        ("\\text{Yes}", "text"),
        ("No", "text"),
        ("All odd integers", "text"),
    ],
)
def test_omni_math_answer_types(tmp_path: Path, gold: str, kind: str) -> None:
    (problem,) = read(tmp_path, "omni-math-2", [row("omni-math-2", answer=gold)]).problems
    assert problem.answer_type == kind == answer_type(unwrapped(gold))
    assert problem.reference == (unwrapped(gold) if kind == "integer" else gold)
    assert problem.metadata["answer"] == gold and problem.problem_id == "omni-math-2:1"


def test_omni_math_keeps_what_carries_no_tag(tmp_path: Path) -> None:
    tags: list[Any] = [[], ["proof"], ["should delete", "duplicate"], None, "[]", "image"]
    found = read(tmp_path, "omni-math-2", [row("omni-math-2", id=i, tags=tag) for i, tag in enumerate(tags)])
    assert [p.problem_id[-1] for p in found.problems] == ["0", "3", "4"]
    assert found.excluded == {"bad_value": 1, "tagged": 2} and found.expected == 4428
    assert found.noted == {"repeated_question": 2}


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("", "no_reference"),
        ("$ $", "no_reference"),
        ("\\boxed{}", "no_reference"),
        (None, "no_reference"),
        ("\\frac{11}{2^{20}", "gold_error"),
        ("x = 1 OR", "gold_error"),
        ("n =", "gold_error"),
    ],
)
def test_omni_math_golds_that_are_blank_or_cut_off(tmp_path: Path, gold: object, reason: str) -> None:
    rows = [row("omni-math-2"), row("omni-math-2", id=2, answer=gold)]
    assert read(tmp_path, "omni-math-2", rows).excluded == {reason: 1}


@pytest.mark.parametrize(
    ("gold", "read_as"),
    [
        ("108^{\\\\circ}", "108^{\\circ}"),
        ("\\begin{cases} 1 \\\\text{a} \\end{cases}", "\\begin{cases} 1 \\\\text{a} \\end{cases}"),
        ("\\{x \\mid x > 1\\}", "\\{x \\mid x > 1\\}"),
    ],
)
def test_omni_math_doubled_backslashes(tmp_path: Path, gold: str, read_as: str) -> None:
    found = read(tmp_path, "omni-math-2", [row("omni-math-2", answer=gold)])
    assert found.problems[0].reference == read_as
    assert found.noted == ({"doubled_backslash": 1} if gold != read_as else {})


def test_omni_math_authors_rows_and_original_rows(tmp_path: Path) -> None:
    shipped = {"question": "What is $1+1$?", "answer": None, "answer_number": "2", "difficulty": 1.0, "source": "own"}
    found = read(tmp_path, "omni-math-2", [shipped, shipped | {"question": "And 2+2?", "answer_number": "4"}])
    assert [p.reference for p in found.problems] == ["2", "4"] and found.expected == 4181
    assert len({p.problem_id for p in found.problems}) == 2 and not found.noted
    original = {key: value for key, value in row("omni-math-2").items() if key not in ("id", "tags")}
    found = read(tmp_path, "omni-math-2", [original])
    assert (len(found.problems), found.noted, found.expected) == (1, {"untagged": 1}, 4428)


def test_omni_math_without_tags_but_with_ids_is_another_version(tmp_path: Path) -> None:
    rows = [{key: value for key, value in row("omni-math-2").items() if key != "tags"}]
    with pytest.raises(DhdError, match="column 'tags' is missing"):
        read(tmp_path, "omni-math-2", rows)


def test_nothing_usable_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        NothingMadeError, match=r"no usable problem: tagged: 1 \(The row rows.jsonl:1 is tagged proof\)"
    ):
        read(tmp_path, "omni-math-2", [row("omni-math-2", tags=["proof"])])
