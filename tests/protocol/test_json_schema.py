"""Answers forced by a JSON schema: whatever fits the schema of a role is read by the parser of that role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle, problem, reply

from dhd_labels.engines.base import EngineIdentity
from dhd_labels.errors import DhdError
from dhd_labels.protocol.message_text import FIELD_LABELS
from dhd_labels.protocol.parse import parse_message, parse_roles
from dhd_labels.protocol.prompts import json_schema_for, load_json_schema, load_prompt
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call
from dhd_labels.records import Role
from dhd_labels.replay.calls import Call
from dhd_labels.replay.run import run

ROLES = ("recruiter", "hypothesizer")
BOTH = tuple(
    setting
    for role in ROLES
    for setting in (f"roles.{role}.json_schema=standard/{role}", f"roles.{role}.prompt=standard/{role}_json")
)
WORDS = st.from_regex(r"[a-z]{1,9}( [a-z]{1,9}){0,3}", fullmatch=True)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values that fit a schema made of what ours are made of; anything else in a schema is an error."""
    if schema["type"] == "string":
        return st.sampled_from(schema["enum"]) if "enum" in schema else WORDS
    assert schema["type"] == "object" and schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"]), "hosted APIs want every field to be required"
    return st.fixed_dictionaries({name: fitting(inner) for name, inner in schema["properties"].items()})


@given(fitting(json.loads(load_json_schema("standard/hypothesizer"))))
def test_every_field_of_a_fitting_message_is_read(value: dict[str, str]) -> None:
    read = parse_message(reply(json.dumps(value)), 2, Role("Ann", "counts"))
    assert read.status == "ok" and {name: getattr(read, name) for name in FIELD_LABELS} == value


@given(fitting(json.loads(load_json_schema("standard/recruiter"))))
def test_five_fitting_roles_are_read_in_order(value: dict[str, dict[str, str]]) -> None:
    names = [role["name"] for role in value.values()]
    roles, reason = parse_roles(json.dumps(value))
    if len(set(names)) == len(names):
        assert [(role.name, role.lens) for role in roles] == [(r["name"], r["lens"]) for r in value.values()]
    else:
        assert reason and "different role names" in reason


@pytest.mark.parametrize("role", ROLES)
def test_the_prompt_shows_the_fields_of_the_schema(role: str) -> None:
    schema = json.loads(load_json_schema(f"standard/{role}"))
    source = load_prompt(f"standard/{role}_json").source
    assert all(f'"{name}"' in source for name in schema["properties"])


def calls(*settings: str) -> list[Call]:
    config, visible = oracle(*settings), problem().visible()
    return [recruiter_call(config, visible), hypothesizer_calls(config, visible, [Role("Ann", "counts")])[0]]


def test_the_schema_is_part_of_request_and_key() -> None:
    engine = EngineIdentity("openai", "v", "m", "r")
    prompts_only = [setting for setting in BOTH if "prompt" in setting]
    for role, plain, forced in zip(ROLES, calls(*prompts_only), calls(*BOTH), strict=True):
        assert (
            forced.request(0).json_schema == load_json_schema(f"standard/{role}") and forced.request(0).grammar is None
        )
        assert plain.request(0).json_schema is None and plain.turns == forced.turns
        assert plain.key(engine, 0) != forced.key(engine, 0)


@pytest.mark.parametrize("role", ROLES)
def test_a_prompt_that_asks_for_no_json_is_refused(role: str) -> None:
    with pytest.raises(DhdError, match=f"must ask for JSON, as 'standard/{role}_json' does, got 'standard/{role}'"):
        json_schema_for(f"standard/{role}", load_prompt(f"standard/{role}"))
    assert json_schema_for(None, load_prompt(f"standard/{role}")) is None


def test_an_unknown_schema_gets_a_suggestion() -> None:
    with pytest.raises(
        DhdError, match="JSON schema 'standard/recruiters' is unknown. Did you mean 'standard/recruiter'"
    ):
        load_json_schema("standard/recruiters")


def test_an_engine_without_schemas_runs_the_same_config(tmp_path: Path) -> None:
    report = run(oracle("benchmark.size=2", "protocol.blocks=2", *BOTH), tmp_path)
    assert report.tally.failed == 0 and report.tally.made > 12
    assert "recruiter_json_schema" in report.directory.path.joinpath("run.yaml").read_text()
