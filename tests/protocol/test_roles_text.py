from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.protocol.parse import parse_roles
from dhd_labels.records import Role

NAMES, LENSES = ("Ann", "Bob", "Cy", "Di", "Ed"), ("counts", "checks units", "draws", "estimates", "works backwards")
TEAM = tuple(Role(name, lens) for name, lens in zip(NAMES, LENSES, strict=True))
FIVE = "\n".join(f"{i + 1}. {role.name}: {role.lens}" for i, role in enumerate(TEAM))
OBJECTS = [{"name": role.name, "lens": role.lens} for role in TEAM]


def lines(form: str) -> str:
    return "\n".join(form.format(i=i + 1, name=role.name, lens=role.lens) for i, role in enumerate(TEAM))


FORMS = [
    *map(lines, (
        "{i}. {name}: {lens}", "{i}) {name} - {lens}", "({i}) {name} \u2014 {lens}", "{i}. **{name}**: {lens}",
        "{i}. **{name}:** {lens}", "**{i}. {name}**: {lens}", "### {i}. {name}: {lens}", "Role {i}: {name}: {lens}",
        "- **Expert {i}:** {name} - {lens}", "- {name}: {lens}", "* **{name}** \u2013 {lens}", "\u2022 {name}: {lens}",
        "**{name}**: {lens}", "**{name}** - {lens}", "**{name}:** {lens}", "{i}. **{name}** {lens}",
        "{i}. {name}\n   - Lens: {lens}", "{i}. **{name}**\n{lens}\n", "{i}. {name}\uff1a{lens}",
        "{i} - {name}: {lens}",
    )),
    json.dumps(OBJECTS),
    json.dumps({"roles": OBJECTS}, indent=1),
    json.dumps([f"{role.name}: {role.lens}" for role in TEAM]),
    json.dumps([f"{i}. {role.name} - {role.lens}" for i, role in enumerate(TEAM, 1)]),
    json.dumps({role.name: role.lens for role in TEAM}),
    json.dumps({f"role_{i}": f"{role.name}: {role.lens}" for i, role in enumerate(TEAM, 1)}),
    json.dumps([{"roleName": role.name, "Reasoning Lens": role.lens} for role in TEAM]),
    "\n".join(json.dumps({"expert_name": role.name, "reason": role.lens}) for role in TEAM),
    json.dumps(OBJECTS).replace("_name", "\\_name").replace("]", ",]"),
]  # fmt: skip


@pytest.mark.parametrize("text", FORMS)
@pytest.mark.parametrize(
    "around", ["{}", "Here is the team:\n\n{}\n\nGood luck!", "<think>1. X: y</think>{}", "```json\n{}\n```"]
)
def test_every_form_of_five_roles_is_read(text: str, around: str) -> None:
    assert parse_roles(around.replace("{}", text)) == (TEAM, None)


def test_latex_in_json_survives() -> None:
    text = json.dumps(OBJECTS).replace('"draws"', '"uses \\pmod{7} and \\frac{1}{2}"')
    roles, reason = parse_roles(text.replace('"name"', '"expert\\_name"'))
    assert reason is None and roles[2].lens == "uses \\pmod{7} and \\frac{1}{2}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected 5 roles with a name and a lens, got 0"),
        ("\n".join(FIVE.splitlines()[:4]), "got 4"),
        (FIVE + "\n6. Fay: sings", "got 6"),
        (FIVE.replace("Bob: checks units", "Bob"), "got 4"),
        (FIVE.replace("Bob", "ANN"), "expected 5 different role names, got 'ann' more than once"),
        (FIVE.replace("Bob", "\uff21nn"), "'ann' more than once"),
        (FIVE.replace("Bob", "Stra\u00dfe").replace("Cy", "STRASSE"), "'strasse' more than once"),
        (f"<think>{FIVE}</think> I would rather not.", "got 0"),
        (f"<think>{FIVE}", "unclosed_thinking"),
        (json.dumps(OBJECTS[:4]), "got 4"),
        (json.dumps([*OBJECTS, *OBJECTS[:1]]), "got 6"),
        (json.dumps(OBJECTS[0]), "got 1"),
        (json.dumps([*OBJECTS[:4], {"name": "Ed"}]), "got 4"),
        (json.dumps(OBJECTS)[:-30], "got 0"),
        (
            json.dumps([{"name": f"<|end|>{i}", "lens": "x"} for i in range(5)]).replace("<", "\\u003c"),
            "malformed_harmony",
        ),
    ],
)
def test_anything_but_five_different_roles_is_refused(text: str, reason: str) -> None:
    roles, found = parse_roles(text)
    assert roles == () and found is not None and reason in found


@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(["1. ", "- ", "**", ": ", "a", "\n", "{", '"', "[",
    "]", "}", ",", "\\"])).map("".join)))  # fmt: skip
def test_roles_are_five_different_ones_or_a_reason(text: str) -> None:
    roles, reason = parse_roles(text)
    assert (len(roles), reason is None) in ((5, True), (0, False))
    assert all("\n" not in role.name + role.lens for role in roles)


@pytest.mark.parametrize("piece", ["1. a: b\n", "- ", "**", "1. x ", '{"a', '["', "[[", "1", "Ann: x - y ", " - ", " "])
def test_a_megabyte_is_read_in_time(piece: str) -> None:
    parse_roles(piece * (1_000_000 // len(piece)))
