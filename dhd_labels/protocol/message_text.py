r"""From a hypothesizer's final text to the fields of a message: labelled sections, or one JSON object.

Decided cases. An object counts only before the first label, so a section may quote JSON. Of two equal labels the first
wins; the second stays text of the section it stands in, except that an answer and a confidence end there. A line like
our own header (`Message 3, from ...`) below a label begins a quotation that runs to the next blank line. Lines marked
by `text.quoted` are text whatever they say. A proposed answer is unboxed, and a box counts as one only in its section,
before the first label, or alone on a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dhd_labels.grading.extract import boxed_answers
from dhd_labels.protocol.json_text import as_text, json_values, key_words
from dhd_labels.text import clean, unquoted

FIELD_LABELS = {
    "reasoning_direction": "Reasoning direction",
    "key_idea": "Key idea",
    "critical_assumption": "Critical assumption",
    "what_to_check": "What to check",
    "proposed_answer": "Proposed answer",
    "confidence": "Confidence",
}
"""The fields of a message in the order and under the labels in which a prompt asks for them and shows them."""

_SYNONYMS = {
    "reasoning_direction": "reasoning direction|direction of reasoning|reasoning approach|reasoning|direction|approach",
    "key_idea": "key ideas?|main idea|core idea|central idea|key insights?",
    "critical_assumption": "(?:critical|key|main|crucial) assumptions?|assumptions?",
    "what_to_check": "what to (?:check|verify)|what should be (?:checked|verified)|things to (?:check|verify)"
    "|to (?:check|verify)|points to check|verification",
    "proposed_answer": "(?:my )?(?:proposed )?(?:final )?answer|proposal|proposed solution",
    "confidence": "(?:my )?confidence(?: (?:level|score|rating))?",
    "": "role(?: name)?",
}
"""Patterns of the labels that are understood. The role is known already: its section is read and left out."""

_NAMED = "|".join(f"(?P<f{i}>{pattern})" for i, pattern in enumerate(_SYNONYMS.values()))
_FIELDS = tuple(_SYNONYMS)
_LABEL = re.compile(
    r"^(?P<before>[\s*#>_+\u2022\u2013\u2014\u25cf`\[-]{0,16}(?:\(?(?:\d{1,2}|[a-zA-Z])[.):\]]\s{0,4}[*_`]{0,3})?"
    r"(?:\\(?:textbf|textit|emph|underline)\{)?)"
    rf"(?:{_NAMED.replace(' ', '[ _-]{1,3}')})(?![^\W_])",
    re.IGNORECASE,
)
_WHOLE_KEY = re.compile(_NAMED, re.IGNORECASE)
_COLON = re.compile(r"\s{0,4}(?:\([^()]{0,60}\))?\s{0,4}[:\uff1a=]\s*")
_DASH = re.compile(r"\s{1,4}[-\u2013\u2014]{1,2}\s+")
_HEADER = re.compile(r"^\W{0,6}Message\s+\d{1,3}\s*,\s*from\b", re.IGNORECASE)
_BOX_LINE = re.compile(r"^[\s*$]{0,6}\\(?:boxed|fbox)\s*\{.*\}[\s*$.]{0,6}$")
_ONE_STATEMENT = ("proposed_answer", "confidence")


def read_fields(text: str) -> dict[str, str] | None:
    """Return the fields that a final text states, cleaned, or None when it has neither labels nor a JSON object."""
    lines = text.split("\n")
    first_label = next((at for at, line in enumerate(lines) if _label(line)), len(lines))
    preamble = "\n".join(lines[:first_label])
    fields = _from_json(text, len(preamble))
    if fields is None:
        if first_label == len(lines):
            return None
        fields = _from_labels(lines[first_label:])
        if not fields.get("proposed_answer"):
            fields["proposed_answer"] = _unlabelled_answer(preamble, lines)
    answer = fields.get("proposed_answer", "")
    boxes = boxed_answers(answer)
    return {name: clean(value) for name, value in {**fields, "proposed_answer": boxes[-1] if boxes else answer}.items()}


def _label(line: str) -> tuple[str, str] | None:
    """Return (field, text after the label) of a line that begins with a label."""
    if unquoted(line) is not None or (found := _LABEL.match(line)) is None:
        return None
    text = _after_label(line[found.end() :], _closer(found["before"]))
    return None if text is None else (_field(found), text)


def _field(found: re.Match[str]) -> str:
    return next(field for i, field in enumerate(_FIELDS) if found[f"f{i}"] is not None)


def _closer(before: str) -> str:
    """Return what closes the decoration that was opened before a label, or an empty string."""
    if before.endswith("{"):
        return "}"
    for mark in ("**", "__"):
        if mark in before:
            return mark
    return {"*": "*", "_": "_", "`": "`", "[": "]"}.get(before[-1:], "")


def _after_label(rest: str, closer: str) -> str | None:
    """Return the text that belongs to a label, or None when what follows shows that it was none."""
    closed = bool(closer) and rest.startswith(closer)
    rest = rest[len(closer) :] if closed else rest
    separator = _COLON.match(rest) or _DASH.match(rest)
    if separator is None:
        # A heading has its text below; a bold label may do without a colon.
        return rest.strip() if not rest.strip() or (closed and closer in ("**", "__")) else None
    text = rest[separator.end() :]
    if closer and not closed:
        text = text[len(closer) :] if text.startswith(closer) else text.rstrip().removesuffix(closer)
    return text.strip()


def _from_labels(lines: list[str]) -> dict[str, str]:
    """Collect labelled sections; a section runs to the next new label."""
    found: dict[str, list[str]] = {}
    section: list[str] = []
    current, quoting = "", False
    for line in lines:
        marked = unquoted(line)
        quoting = bool(line.strip()) and (quoting or (marked is None and bool(_HEADER.match(line))))
        label = None if quoting else _label(line)
        if label is None:
            section.append(line if marked is None else marked)
        elif label[0] not in found:
            current, section = label[0], [label[1]]
            found[current] = section
        elif current in _ONE_STATEMENT:
            section = []
        else:
            section.append(line)
    return {name: "\n".join(parts).strip() for name, parts in found.items() if name}


def _unlabelled_answer(preamble: str, lines: list[str]) -> str:
    """Return the box that stands for the answer when no section does, or an empty string."""
    alone = [box for line in lines if _BOX_LINE.match(line) for box in boxed_answers(line)]
    boxes = alone or boxed_answers(preamble)
    return boxes[-1] if boxes else ""


def _from_json(text: str, before: int) -> dict[str, str] | None:
    """Return the fields of the first object that has any and begins at most at the index `before`."""
    for start, value in json_values(text):
        if start > before:
            return None
        for candidate in _objects(value):
            fields = _object_fields(candidate)
            if fields:
                return fields
    return None


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a decoded value, outer ones first."""
    waiting = [value]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, dict):
            yield item
        if isinstance(item, dict | list):
            waiting.extend(item.values() if isinstance(item, dict) else item)


def _object_fields(value: dict[str, Any]) -> dict[str, str]:
    """Return the known fields of an object: exact names first, then synonyms, of equals the first."""
    words = [(key_words(key), item) for key, item in value.items()]
    fields: dict[str, str] = {}
    for key, item in words:
        exact = key.replace(" ", "_")
        if exact in FIELD_LABELS and exact not in fields:
            fields[exact] = as_text(item)
    for key, item in words:
        found = _WHOLE_KEY.fullmatch(key)
        # `role` is understood but no field.
        if found and (field := _field(found)):
            fields.setdefault(field, as_text(item))
    return fields
