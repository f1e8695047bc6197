"""What of a problem may be published: texts that stay out, quotations of them, and whole problems that are left out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import cli, message, oracle, outcome, pool, problem

from dhd_labels.benchmarks import facts
from dhd_labels.dataset import schema, terms
from dhd_labels.dataset.build import build
from dhd_labels.dataset.load import load_frame
from dhd_labels.dataset.rows import rows_of
from dhd_labels.dataset.terms import LICENCE, NO_TEXT, Terms
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.labels import Proposal
from dhd_labels.records import Arm, Problem
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.run import run
from dhd_labels.stats.command import compute
from dhd_selectors.features import build_features

QUESTION = "A train leaves at noon and travels north at forty miles an hour; when does it arrive?"
QUOTE = "so the train LEAVES, at noon -- and travels  north at 40"
CANARY = "NOT FOR TRAINING. canary GUID test:0000"


def result(one: Problem, *, key_idea: str = "", answer: str = "7") -> ProblemResult:
    found = pool(one, [message(0, key_idea=key_idea), *(message(slot) for slot in range(1, 5))])
    replayed = dataclasses.replace(outcome(Arm.alone(), None, 0, True), answer=answer)
    proposals = tuple(Proposal("graded", True) for _ in range(5))
    return ProblemResult(one, "ok", None, (), found.messages, found, proposals, (replayed,), (), 1)


def withheld(**changes: object) -> Problem:
    return problem(question=QUESTION, redistribute_text=False, **changes)


def first(one: Problem, config: str, chosen: Terms | None = None, **given: str) -> dict[str, Any]:
    return rows_of("run", result(one, **given), "missing", chosen or Terms())[config][0]


def test_a_quotation_of_a_withheld_problem_stays_out_and_the_row_says_so() -> None:
    row = first(withheld(), "messages", key_idea=QUOTE)
    assert row["key_idea"] is None and row["reasoning_direction"] == "direction 0"
    assert row["text_withheld"] == f"{LICENCE}; it is quoted in key_idea"
    replay = first(withheld(), "replays", answer=QUOTE)
    assert replay["answer"] is None and replay["text_withheld"] == f"{LICENCE}; it is quoted in answer"
    assert replay["correct"] is True
    shown = first(problem(question=QUESTION), "messages", key_idea=QUOTE)
    assert shown["key_idea"] == QUOTE and shown["text_withheld"] is None


def test_seven_words_are_no_quotation_and_eight_are() -> None:
    said = terms.words(QUESTION)
    for start in range(len(said) - 7):
        seven, eight = " ".join(said[start : start + 7]), " ".join(said[start : start + 8])
        assert first(withheld(), "messages", key_idea=seven)["key_idea"] == seven
        assert first(withheld(), "messages", key_idea=f"(see {eight.upper()}!)")["key_idea"] is None


def test_the_whole_of_a_shorter_question_is_a_quotation_but_an_option_or_the_reference_is_an_answer() -> None:
    short = problem(
        question="What is 3 plus 4?", choices=("seven", "eight"), answer_type="choice", reference="A",
        redistribute_text=False,
    )  # fmt: skip
    assert first(short, "messages", key_idea="Well, what is 3 + plus 4, really?")["key_idea"] is None
    assert first(short, "messages", key_idea="3 plus 4 is seven: A")["key_idea"] == "3 plus 4 is seven: A"
    long = " ".join(f"word{n}" for n in range(9))
    options = problem(
        question=QUESTION, choices=(long, "b"), answer_type="choice", reference="A", redistribute_text=False
    )
    assert first(options, "replays", answer=long)["answer"] is None
    assert first(options, "replays", answer="A")["answer"] == "A"


@given(st.integers(0, 12), st.text(alphabet=" \n,.!?-'\"", min_size=1, max_size=4), st.booleans())
def test_spelling_and_punctuation_do_not_hide_a_quotation(start: int, between: str, capitals: bool) -> None:
    said = [word.upper() if capitals else word for word in terms.words(QUESTION)][: start + 8][-8:]
    text = between.join(said) if between.strip("'") else " ".join(said)
    assert first(withheld(), "messages", key_idea=text)["key_idea"] is None


def test_a_withheld_problem_has_no_text_in_its_row() -> None:
    row = first(withheld(choices=("x", "y"), answer_type="choice", reference="B"), "problems")
    assert (row["question"], row["choices"], row["reference"], row["text_withheld"]) == (None, None, None, LICENCE)
    assert row["problem_id"] == "t:1" and row["answer_type"] == "choice"


def test_without_texts_the_numbers_and_labels_stay(tmp_path: Path) -> None:
    directory = run(oracle("benchmark.size=6", "protocol.blocks=2"), tmp_path / "run").directory
    build(directory, tmp_path / "all")
    build(directory, tmp_path / "none", Terms(texts=False))
    for config in ("messages", "replays", "problems"):
        full, bare = (load_frame(tmp_path / name, config, schema.SPLITS) for name in ("all", "none"))
        gone = [name for name in (*terms.PROBLEM_TEXTS, *terms.MODEL_TEXTS) if name in full]
        assert gone and bare[gone].isna().all().all()
        stays = full.drop(columns=[*gone, "text_withheld"])
        assert stays.equals(bare.drop(columns=[*gone, "text_withheld"]))
        assert set(bare["text_withheld"]) <= {NO_TEXT, None} and NO_TEXT in set(bare["text_withheld"])
        assert full["text_withheld"].isna().all()
    messages = load_frame(tmp_path / "none", "messages", schema.SPLITS).assign(answer_type="integer", question=None)
    assert (build_features(messages)["has_content"] == 0).all()
    full, bare = (compute(str(tmp_path / name)) for name in ("all", "none"))
    for table, name, policy in (
        ("majority", "diagnostic", "most_common_proposal"),
        ("budget", "policy", "vote_of_proposals"),
        ("budget", "policy", "independent_1"),
    ):
        votes = [[row["n"] for row in found.table(table).rows if row[name] == policy] for found in (full, bare)]
        assert min(votes[0]) > 0 and max(votes[1]) == 0, "answers that are not shown are no answers that are wrong"


def test_texts_come_on_request_where_the_licence_allows_it_and_with_their_canary() -> None:
    for name in ("lab-bench", "mascqa"):
        one = withheld(benchmark=name, metadata={"canary": CANARY} if facts(name).canary else {})
        assert first(one, "problems")["question"] is None
        row = first(one, "problems", Terms(redistribute_text=(name.upper(),)).checked(), key_idea=QUOTE)
        assert row["question"] == QUESTION and row["attribution"] == facts(name).attribution
        for config in ("problems", "messages", "replays"):
            assert first(one, config)["canary"] == (CANARY if facts(name).canary else None)
        assert CANARY not in repr(one.visible()), "prompts of actors are made of what is visible"


@pytest.mark.parametrize("name", ["omni-math-2", "jsonl"])
def test_texts_that_no_licence_lets_go_out_cannot_be_asked_for(name: str) -> None:
    if facts(name).redistribute_text:
        assert not Terms(redistribute_text=(name,)).checked().shows(withheld(benchmark="omni-math-2"))
    else:
        with pytest.raises(DhdError, match=f"The texts of '{name}' must stay out"):
            Terms(redistribute_text=(name,)).checked()
    with pytest.raises(DhdError, match="Did you mean 'lab-bench'"):
        Terms(redistribute_text=("lab-bnch",)).checked()


@pytest.mark.parametrize(("use", "why"), [(True, None), (False, "is not allowed"), (None, "is not settled")])
def test_commercial_use_must_be_allowed_in_so_many_words(use: bool | None, why: str | None) -> None:
    one = problem(commercial_use=use)
    assert Terms().excludes(one) is None
    found = Terms(noncommercial=False).excludes(one)
    assert found is None if why is None else found is not None and why in found


def test_problems_that_are_left_out_are_counted_in_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = run(oracle("benchmark.size=6", "protocol.blocks=1"), tmp_path / "run").directory
    banned = {"oracle:001", "oracle:003"}
    allowed = Terms.excludes
    monkeypatch.setattr(Terms, "excludes", lambda t, p: allowed(t, _terms(p, banned)))
    report = build(directory, tmp_path / "data", Terms(noncommercial=False))
    assert report.problems == 4
    assert ("problem", "oracle: commercial use is not settled", "2") in report.exclusions.rows
    assert "commercial use is not settled" in (tmp_path / "data/README.md").read_text()
    for config in ("messages", "replays", "problems"):
        assert not banned & set(load_frame(tmp_path / "data", config, schema.SPLITS)["problem_id"])
    monkeypatch.setattr(Terms, "excludes", lambda t, p: "commercial use is not allowed")
    with pytest.raises(NothingMadeError, match="oracle:000: commercial use is not allowed"):
        build(directory, tmp_path / "nothing", Terms(noncommercial=False))
    assert not (tmp_path / "nothing").exists()


def _terms(one: Problem, unsettled: set[str]) -> Problem:
    return dataclasses.replace(one, commercial_use=None) if one.problem_id in unsettled else one


def test_a_reason_that_quotes_the_problem_stays_out_also_of_a_data_set_without_texts() -> None:
    for one in (withheld(), problem(question=QUESTION)):
        for said, stays in ((f"recruiter: {QUOTE}", False), ("recruiter: four roles", True)):
            found = dataclasses.replace(result(one), status="no_roles", reason=said, pool=None)
            row = rows_of("run", found, "missing", Terms(texts=False))["problems"][0]
            assert row["question"] is None and row["text_withheld"] == NO_TEXT
            assert row["pool_reason"] == (said if stays else None)


def test_the_command_says_what_stays_out(tmp_path: Path) -> None:
    run(oracle("benchmark.size=3", "protocol.blocks=1"), tmp_path / "run")
    chosen = ("--no-text", "--exclude-noncommercial", "--redistribute-text", "lab-bench")
    done = cli("build", str(tmp_path / "run"), "--out", str(tmp_path / "data"), *chosen)
    assert done.returncode == 0, done.stderr
    assert load_frame(tmp_path / "data", "problems", schema.SPLITS)["question"].isna().all()
    refused = cli("build", str(tmp_path / "run"), "--out", str(tmp_path / "x"), "--redistribute-text", "omni-math-2")
    assert refused.returncode == 2 and "must stay out of a published data set" in refused.stderr
