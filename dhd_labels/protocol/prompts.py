"""Prompt templates: one Jinja file a role, whose blocks become chat turns.

A block named `system`, `user` or `assistant` (with an optional suffix, `user_1`) is one turn, in order of definition.
Blocks are rendered one by one, so text inside a turn can never open another one.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, cast

import jinja2

from dhd_labels.engines.base import Turn
from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.protocol.message_text import FIELD_LABELS
from dhd_labels.records import AnswerType, Message, Role, VisibleProblem
from dhd_labels.text import for_prompt, inline, quoted

_ROLES = ("system", "user", "assistant")
_SCHEMA = ".schema.json"
ANSWER_FORMS: Mapping[AnswerType, str] = {
    "choice": "The answer is the letter of one option.",
    "choices": "One or more options are right; the answer is the letters of all of them, such as ACD.",
    "choice_any": "The answer is the letter of one option.",
    "integer": "The answer is a whole number.",
    "number": "The answer is a number.",
    "quantity": "The answer is a number with its unit.",
    "range": "The answer is a number.",
    "expression": "",
    "text": "",
}
"""What a prompt says about the form of the answer. It tells no more than the type of the problem does."""

_MESSAGES = 256
"""Messages whose rendered fields are remembered."""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A loaded template. `digest` is the SHA-256 of its source."""

    name: str
    source: str
    digest: str
    template: jinja2.Template

    def turns(self, **values: Any) -> tuple[Turn, ...]:
        """Render every block into a turn."""
        context = self.template.new_context(values)
        turns = []
        for block, render in self.template.blocks.items():
            role = cast(Literal["system", "user", "assistant"], block.split("_")[0])
            try:
                turns.append(Turn(role, "".join(render(context)).strip()))
            except jinja2.UndefinedError as error:
                raise DhdError(
                    f"The prompt template {self.name!r} is that of another role: {error.message} for this one. "
                    "Choose the template of the role, e.g. standard/integrator for the integrator"
                ) from None
        return tuple(turns)


def _folder() -> Any:
    return resources.files("dhd_labels").joinpath("protocol", "prompts")


def _read(name: str, suffix: str) -> str:
    known = [
        f"{folder.name}/{file.name.removesuffix(suffix)}"
        for folder in _folder().iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(suffix)
    ]
    if name not in known:
        kind = {".jinja": "prompt template", ".gbnf": "grammar", _SCHEMA: "JSON schema"}[suffix]
        raise DhdError(f"The {kind} {name!r} is unknown. {did_you_mean(name, known)}")
    text: str = _folder().joinpath(*f"{name}{suffix}".split("/")).read_text(encoding="utf-8")
    return text


@functools.cache
def _environment() -> jinja2.Environment:
    # Plain text for a model: nothing to escape for HTML, and an undefined name is an error.
    return jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701


@functools.cache
def load_prompt(name: str) -> PromptTemplate:
    """Load a template such as `small/integrator`."""
    source = _read(name, ".jinja")
    template = _environment().from_string(source)
    unknown = [block for block in template.blocks if block.split("_")[0] not in _ROLES]
    if unknown or not template.blocks:
        raise DhdError(f"The prompt template {name!r} must have blocks named {', '.join(_ROLES)}, got {unknown}")
    return PromptTemplate(name, source, hashlib.sha256(source.encode()).hexdigest(), template)


@functools.cache
def load_grammar(name: str) -> str:
    """Load the source of a GBNF grammar such as `small/integrator`; it may ask for `choices` and `answer_type`."""
    return _read(name, ".gbnf")


def grammar_for(name: str | None, problem: VisibleProblem) -> str | None:
    """Return the grammar that an answer to this problem must follow, if the role has one."""
    if name is None:
        return None
    return _environment().from_string(load_grammar(name)).render(_problem_values(problem)).strip()


@functools.cache
def load_json_schema(name: str) -> str:
    """Load a JSON schema such as `standard/hypothesizer`, as canonical JSON."""
    return json.dumps(json.loads(_read(name, _SCHEMA)), separators=(",", ":"))


def json_schema_for(name: str | None, prompt: PromptTemplate) -> str | None:
    """Return the JSON schema that an answer to this prompt must follow, if the role has one.

    Raises:
        DhdError: no such schema, or the prompt does not ask for JSON: a model that is forced into a shape it was not
            asked for writes nonsense.
    """
    if name is None:
        return None
    if "JSON" not in prompt.source:
        raise DhdError(
            f"The 'prompt' of a role with a 'json_schema' must ask for JSON, as {name + '_json'!r} does, got "
            f"{prompt.name!r}: choose such a prompt, or set the 'json_schema' of the role to null"
        )
    return load_json_schema(name)


def recruiter_turns(prompt: PromptTemplate, problem: VisibleProblem) -> tuple[Turn, ...]:
    """Return the prompt that asks for five complementary roles."""
    return prompt.turns(**_problem_values(problem))


def hypothesizer_turns(prompt: PromptTemplate, problem: VisibleProblem, role: Role) -> tuple[Turn, ...]:
    """Return the prompt of one hypothesizer: the problem and its own role, nothing of the others."""
    return prompt.turns(**_problem_values(problem), role_name=inline(role.name), lens=inline(role.lens))


def integrator_turns(
    prompt: PromptTemplate, problem: VisibleProblem, messages: Sequence[Message], renumber: bool = False
) -> tuple[Turn, ...]:
    """Return the integrator's prompt with the messages of an arm, as ordered; none asks for an independent solve.

    A message keeps its original number, so that a removal does not rename the messages that stay; `renumber` counts
    those that are shown, as the paper does.
    """
    numbers = range(1, len(messages) + 1) if renumber else [message.slot + 1 for message in messages]
    shown = [_message_values(message, number) for message, number in zip(messages, numbers, strict=True)]
    return prompt.turns(**_problem_values(problem), messages=shown)


def _problem_values(problem: VisibleProblem) -> dict[str, Any]:
    return {
        "question": for_prompt(problem.question),
        "choices": [for_prompt(choice) for choice in problem.choices],
        "answer_type": problem.answer_type,
        "answer_form": ANSWER_FORMS[problem.answer_type],
    }


@functools.lru_cache(_MESSAGES)
def _message_values(message: Message, number: int) -> Mapping[str, Any]:
    """Return each field on one line under its name, and `sections`: (label, text of several lines, marked).

    A message is shown in most of the prompts of its problem, which follow each other.
    """
    values: dict[str, Any] = {name: inline(getattr(message, name)) for name in ("role_name", *FIELD_LABELS)}
    sections = [(label, quoted(getattr(message, name))) for name, label in FIELD_LABELS.items() if values[name]]
    return {**values, "sections": sections, "number": number}
