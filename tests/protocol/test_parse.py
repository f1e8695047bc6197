from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import message, problem, reply

from dhd_labels.protocol.parse import confidence_level, confidence_value, parse_message, parse_roles
from dhd_labels.protocol.prompts import integrator_turns, load_prompt
from dhd_labels.records import Role

ROLE = Role("Checker", "units")
FIVE = "1. Ann: counts\n2. Bob: checks units\n3. Cy: draws\n4. Di: estimates\n5. Ed: works backwards"


def test_five_roles_are_read_from_lines() -> None:
    roles, reason = parse_roles(f"Here is the team:\n{FIVE}\nGood luck!")
    assert reason is None and roles[1] == Role("Bob", "checks units")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected 5 numbered roles, got 0"),
        ("\n".join(FIVE.splitlines()[:4]), "got 4"),
        (FIVE + "\n6. Fay: sings", "got 6"),
        (FIVE.replace("Bob", "ANN"), "expected 5 different role names, got 4"),
        (f"<think>{FIVE}</think> I would rather not.", "got 0"),
    ],
)
def test_anything_but_five_different_roles_is_refused(text: str, reason: str) -> None:
    roles, found = parse_roles(text)
    assert roles == () and found is not None and reason in found


def test_markdown_and_dashes_around_roles_are_formatting() -> None:
    roles, _ = parse_roles("\n".join(f"{i}) **Name {i}** - lens {i}" for i in range(1, 6)))
    assert roles[4] == Role("Name 5", "lens 5")


def test_sections_are_read_with_their_labels() -> None:
    text = (
        "**Proposed answer:** \\boxed{\\frac{1}{2}}\nReasoning direction: halve it\nand halve again\n"
        "- Key idea: symmetry\nCritical assumption: it is fair\n### What to check: the sum\nConfidence: high"
    )
    found = parse_message(reply(text), 2, ROLE)
    assert found.status == "ok" and found.slot == 2 and found.raw == text
    assert found.proposed_answer == "\\frac{1}{2}"
    assert found.reasoning_direction == "halve it\nand halve again"
    assert (found.key_idea, found.critical_assumption) == ("symmetry", "it is fair")
    assert (found.what_to_check, found.confidence) == ("the sum", "high")


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("", "empty", "empty"),
        ("  \n", "ok", "empty"),
        ("no labels here", "ok", "parse_failed"),
        ("Confidence: high", "ok", "not_renderable"),
        ("Key idea: x", "truncated", "truncated"),
        ("", "server_error", "server_error"),
        ("Key idea: x", "ok", "ok"),
    ],
)
def test_status_says_why_a_message_cannot_be_used(text: str, status: str, expected: str) -> None:
    assert parse_message(reply(text, status), 0, ROLE).status == expected


def test_text_before_the_end_of_thinking_is_no_message() -> None:
    text = "Proposed answer: \\boxed{1}\nKey idea: draft</think>\nProposed answer: \\boxed{2}"
    found = parse_message(reply(text), 0, ROLE)
    assert found.proposed_answer == "2" and found.key_idea == ""


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("high", "high"),
        ("Medium.", "medium"),
        ("low", "low"),
        ("uncertain", "low"),
        ("not confident", "low"),
        ("not very sure", "low"),
        ("low; 1 unverified assumption", "low"),
        ("Low: highly dependent on the bound", "low"),
        ("0.7", None),
        ("who knows", None),
        ("", None),
    ],
)
def test_confidence_level(text: str, level: str | None) -> None:
    assert confidence_level(text) == level


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.7", 0.7),
        ("70%", 0.7),
        ("about 70 %", 0.7),
        ("100%", 1.0),
        ("high", None),
        ("low; 1 unverified assumption", None),
        ("0.2 or 0.7", None),
        ("170%", None),
        ("7", None),
    ],
)
def test_confidence_value(text: str, value: float | None) -> None:
    assert confidence_value(text) == value


plain = st.text(st.characters(codec="ascii", categories=("L", "N", "Zs")), min_size=1, max_size=40).map(str.strip)


@given(plain.filter(bool), plain.filter(bool), plain.filter(bool), plain.filter(bool), plain.filter(bool))
def test_what_is_rendered_for_the_integrator_can_be_parsed_back(a: str, b: str, c: str, d: str, e: str) -> None:
    given_message = message(
        0, proposed_answer=a, reasoning_direction=b, key_idea=c, critical_assumption=d, what_to_check=e
    )
    turns = integrator_turns(load_prompt("standard/integrator"), problem().visible(), [given_message])
    section = turns[-1].content.partition("Message 1, from Role 0\n")[2].partition("\n\nReason step by step")[0]
    found = parse_message(reply(section), 0, Role("Role 0", "a lens"))
    fields = ("proposed_answer", "reasoning_direction", "key_idea", "critical_assumption", "what_to_check")
    assert [getattr(found, f) for f in fields] == [a, b, c, d, e]
