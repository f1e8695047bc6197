from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import problem, reply

from dhd_labels.grading.grader import grade_by_rules
from dhd_labels.protocol.parse import parse_message, parse_roles
from dhd_labels.protocol.reasoning import UNCLOSED, SplitText, has_harmony, split_reasoning
from dhd_labels.protocol.roles import is_final
from dhd_labels.records import Role
from dhd_labels.replay.collect import judge_reply

ROLE = Role("Checker", "units")
ANALYSIS = "<|channel|>analysis<|message|>2+2"
FINAL = "<|start|>assistant<|channel|>final<|message|>"


@pytest.mark.parametrize(
    ("text", "reasoning", "final"),
    [
        ("4", "", "4"),
        ("<think>hm</think>4", "hm", "4"),
        ("<thinking>hm</thinking>4", "hm", "4"),
        ("[THINK]hm[/THINK]4", "hm", "4"),
        ("hm</think>4", "hm", "4"),
        ("a</think>b</think>4", "a</think>b", "4"),
        ("<think></think>4", "", "4"),
        ("<|channel>thought\nhm<channel|>4<turn|>", "hm", "4"),
        (f"{ANALYSIS}<|end|>{FINAL}4<|return|>", "2+2", "4"),
        (f"{ANALYSIS}<|end|>{FINAL}4", "2+2", "4"),
        (f"<|start|>assistant{ANALYSIS}<|end|>{FINAL}4<|end|>", "2+2", "4"),
        (f"{ANALYSIS}<|end|><|start|>assistant<|channel|>commentary to=f<|message|>x<|call|>{FINAL}4", "2+2\nx", "4"),
        ("<|channel|>final <|constrain|>json<|message|>4", "", "4"),
        ("analysis2+2assistantfinal4", "2+2", "4"),
        (f"{FINAL}<think>hm</think>4", "hm", "4"),
        ("4<|return|>", "", "4"),
        ("4<|im_end|>\n", "", "4"),
    ],
)
def test_thinking_is_kept_apart(text: str, reasoning: str, final: str) -> None:
    assert split_reasoning(text) == SplitText(reasoning, final, None)


@pytest.mark.parametrize(
    "text", ["<think>Answer: 5", "a</think>b<think>Answer: 5", "[THINK]5", "<|channel>thought\n5", ANALYSIS,
    f"{ANALYSIS}<|end|>"]
)  # fmt: skip
def test_a_text_cut_inside_thinking_has_no_final_part(text: str) -> None:
    assert split_reasoning(text).final == "" and split_reasoning(text).problem == UNCLOSED


MALFORMED = {
    f"{ANALYSIS}<|end|><|start|>assistant<|channel|>finalx<|message|>4": "unknown channel 'finalx'",
    f"{ANALYSIS}<|end|><|start|>assistant<|channel|>\u2013\u2013commentary<|message|>4": "unknown channel",
    "<|channel|>final 4<|return|>": "in place of <|message|>",
    "<|channel|>final 4": "without <|message|>",
    "<|message|>4<|return|>": "without a channel",
    f"{ANALYSIS}<|end|><|start|>user<|message|>4": "a turn of 'user'",
    f"{FINAL}4<|end|>{FINAL}5": "2 final channels",
    f"{FINAL}4<|channel|>x": "inside a message",
    f"{FINAL}4<|end|>and 5": "between messages",
    "Answer: 4 <|message|> 5": "outside of a channel",
    "hm</think>Answer: 4<|end|>5": "outside of a channel",
}


@pytest.mark.parametrize(("text", "reason"), MALFORMED.items())
def test_malformed_harmony_is_a_failure_with_a_reason(text: str, reason: str) -> None:
    split = split_reasoning(text)
    assert split.final == "" and split.problem is not None and split.problem.startswith("malformed_harmony: ")
    assert reason in split.problem
    message = parse_message(reply(text), 0, ROLE)
    assert message.status == "parse_failed" and message.raw == text and message.proposed_answer == ""
    assert parse_roles(text) == ((), split.problem)


@pytest.mark.parametrize("text", [*MALFORMED, "<think>Answer: 7"])
def test_an_integrator_that_says_nothing_final_is_operational_and_asked_again(text: str) -> None:
    graded = judge_reply(reply(text), problem(), grade_by_rules)
    assert (graded.status, graded.correct) == ("operational", None) and graded.reason == split_reasoning(text).problem
    assert not is_final(reply(text))


@pytest.mark.parametrize(
    ("text", "status", "reasoning"), [("<think>12</think>", "ok", None), ("", "empty", "so the value is 12."), ("",
    "ok", "12")]
)  # fmt: skip
def test_tokens_without_a_final_part_are_operational(text: str, status: str, reasoning: str | None) -> None:
    answer = replace(reply(text, status), reasoning=reasoning, completion_tokens=812)
    graded = judge_reply(answer, problem(), grade_by_rules)
    assert (graded.status, graded.reason, graded.correct) == ("operational", "empty_final_with_tokens", None)
    assert not is_final(answer)
    assert parse_message(answer, 0, ROLE).status == "empty"


def test_a_cut_off_reply_stays_truncated_whatever_it_was_inside() -> None:
    assert judge_reply(reply("<think>7", "truncated"), problem(), grade_by_rules).status == "truncated"
    assert parse_message(reply("<think>Key idea: x"), 0, ROLE).status == "truncated"


def test_an_integrator_in_harmony_is_graded_by_its_final_channel() -> None:
    text = f"{ANALYSIS}, maybe \\boxed{{9}}<|end|>{FINAL}Answer: \\boxed{{7}}<|return|>"
    assert judge_reply(reply(text), problem(), grade_by_rules).correct is True


tokens = st.sampled_from(
    ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "assistant", "final", "analysis", "<think>",
     "</think>", "x", " ", "\n", "Key idea: ", '{"key_idea": "', '"}', "\\u003c|end|\\u003e"]
)  # fmt: skip


@given(st.lists(tokens, max_size=14).map("".join))
def test_no_harmony_token_reaches_a_field(text: str) -> None:
    assert not has_harmony(split_reasoning(text).final)
    message = parse_message(reply(text), 0, ROLE)
    assert not has_harmony(message.key_idea) and message.raw == text


@given(st.text(max_size=100), st.text(max_size=100))
def test_well_formed_harmony_gives_back_both_parts(thought: str, said: str) -> None:
    text = f"<|channel|>analysis<|message|>{thought}<|end|>{FINAL}{said}<|return|>"
    expected_problem = has_harmony(thought + said)
    split = split_reasoning(text)
    assert bool(split.problem) == expected_problem or (split.reasoning, split.final) == (thought.strip(), said.strip())


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<|channel|>", "<|end|>",
    "<|start|>assistant<|channel|>final<|message|>x<|end|>"])  # fmt: skip
def test_a_megabyte_of_one_token_is_read_in_time(piece: str) -> None:
    split_reasoning(piece * (1_000_000 // len(piece)))
