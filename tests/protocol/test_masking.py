"""Component masking: what is hidden, and that nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import message, problem

from dhd_labels.protocol.masking import HIDDEN, mask_message, restates_answer
from dhd_labels.protocol.prompts import integrator_turns, load_prompt
from dhd_labels.records import CONDITIONS, CONTENT_FIELDS, Message

FIELDS = ("role_name", "proposed_answer", *CONTENT_FIELDS, "confidence")
texts = st.text(st.sampled_from("ab7 \n.,=()$\\{}") | st.characters(exclude_categories=["Cs"]), max_size=40)


def prompt(shown: Message, template: str) -> str:
    messages = [shown if m.slot == shown.slot else m for m in map(message, range(5))]
    return "\n".join(t.content for t in integrator_turns(load_prompt(template), problem().visible(), messages))


@given(st.fixed_dictionaries(dict.fromkeys(FIELDS, texts)), st.sampled_from(CONDITIONS))
def test_a_masked_prompt_has_as_many_words_in_as_many_lines(fields: dict[str, str], condition: str) -> None:
    whole = message(2, **fields)
    masked = mask_message(whole, condition)  # type: ignore[arg-type]
    for template in ("standard/integrator", "small/integrator"):
        before, after = prompt(whole, template).splitlines(), prompt(masked, template).splitlines()
        assert [len(line.split()) for line in before] == [len(line.split()) for line in after]
    assert masked.slot == whole.slot and masked.raw == whole.raw


def test_each_condition_hides_its_part_and_nothing_else() -> None:
    whole = message(
        1, proposed_answer="3.52 J", reasoning_direction="use work", key_idea="E = 3.52 J here",
        critical_assumption="c", what_to_check="sign", confidence="high",
    )  # fmt: skip
    assert all(mask_message(whole, name) == whole for name in ("full", "repeat", "removal"))
    answer = mask_message(whole, "answer_masked")
    assert (answer.proposed_answer, answer.key_idea) == (f"{HIDDEN} {HIDDEN}", f"E = {HIDDEN} {HIDDEN} here")
    assert (answer.reasoning_direction, answer.confidence, answer.role_name) == ("use work", "high", "Role 1")
    reasoning = mask_message(whole, "reasoning_masked")
    assert reasoning.proposed_answer == "3.52 J" and reasoning.confidence == "high"
    assert all(set(getattr(reasoning, name).split()) == {HIDDEN} for name in CONTENT_FIELDS)
    neutral = mask_message(whole, "neutral")
    words = " ".join(getattr(neutral, name) for name in FIELDS)
    assert not any(part in words for part in ("3.52", "work", "sign", "high", "Role 1", HIDDEN))


@pytest.mark.parametrize(
    ("answer", "idea", "hidden"),
    [
        ("42", "so x=42.", "so x=[hidden]."),
        ("42", "x is 142 or 42.5", "x is 142 or 42.5"),
        ("42", "42, thus \\boxed{42}", "[hidden], thus \\boxed{[hidden]}"),
        ("7", "7 days; the answer is 7", "7 days; the answer is [hidden]"),
        ("B", "Bees: choice B, not A", "Bees: choice [hidden], not A"),
        ("7", "take 7 steps", "take 7 steps"),
        ("x^2+1", "f = x^2+1", "f = [hidden]"),
        ("a b", "so a  b", "so [hidden]  [hidden]"),
        ("42", "x is 42.0, or 0042", "x is [hidden], or [hidden]"),
        ("1,000", "it is 1000 m", "it is [hidden] m"),
        ("5 cm", "5 cm = 5.0 cm = 50 mm", "[hidden] [hidden] = [hidden] cm = 50 mm"),
        ("\\text{yes}", "yes, since eyes", "[hidden], since eyes"),
        ("-3", "x = -3 or 3", "x = [hidden] or 3"),
        ("", "anything", "anything"),
    ],
)
def test_an_answer_that_the_reasoning_repeats_is_hidden_too(answer: str, idea: str, hidden: str) -> None:
    assert mask_message(message(0, proposed_answer=answer, key_idea=idea), "answer_masked").key_idea == hidden


def test_what_still_shows_the_answer_is_flagged() -> None:
    assert restates_answer(message(0, proposed_answer="7", key_idea="take 7 steps"))
    assert not restates_answer(message(0, proposed_answer="42", key_idea="x=42"))
    assert not restates_answer(message(0, proposed_answer="", key_idea="take 7 steps"))
