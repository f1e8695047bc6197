"""From a recruiter's text to five roles. Fewer or more than five different ones is a reason, never a shorter team."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dhd_labels.protocol.json_text import as_text, json_values, key_words
from dhd_labels.protocol.reasoning import has_harmony, split_reasoning
from dhd_labels.records import POOL_SIZE, Role
from dhd_labels.text import clean

_MAX_NAME = 80
_DECORATION = " \t*_`#>\"'"
_NUMBERED = re.compile(
    r"^[\s*#>_(\[-]{0,8}(?:(?:role|expert|agent|specialist|member)\s{1,3})?#?\d{1,2}\s{0,2}(?:[.):\]]|-(?=\s))(.*)$",
    re.IGNORECASE,
)
_BULLETED = re.compile(r"^\s{0,8}(?:[-*+\u2022\u2013\u25cf]\s)(.*)$")
_BOLD = re.compile(r"^\s{0,8}(?:\*\*|__)(?=\S)(.*)$")
_BOLD_NAME = re.compile(r"^\s*(?:\*\*|__)(.+?)(?:\*\*|__)\s*(.*)$")
_SEPARATOR = re.compile(r"\s*(?:[:\uff1a]|\s[-\u2013\u2014]{1,2}\s)\s*")
_LENS_LABEL = re.compile(r"^(?:reasoning )?(?:lens|perspective|focus)[*_]{0,2}\s*[:\uff1a-]\s*", re.IGNORECASE)
_NAME_KEYS = ("name", "role name", "role", "expert name", "expert", "title", "agent", "agent name")
_LENS_KEYS = ("lens", "reasoning lens", "reasoning", "reason", "perspective", "focus", "approach", "description")


def parse_roles(text: str) -> tuple[tuple[Role, ...], str | None]:
    """Read five roles from JSON, numbered lines, bulleted lines or lines that begin with a bold name.

    Returns:
        The five roles and None, or no roles and the reason: thinking that never ends, malformed channels, a wrong
        number of roles, or roles with the same name (compared without case, in NFKC).
    """
    split = split_reasoning(clean(text))
    if split.problem:
        return (), split.problem
    roles = _from_json(split.final) or _from_lines(split.final.split("\n"))
    if len(roles) != POOL_SIZE:
        return (), f"expected {POOL_SIZE} roles with a name and a lens, got {len(roles)}"
    if twice := _repeated(roles):
        return (), f"expected {POOL_SIZE} different role names, got {', '.join(map(repr, twice))} more than once"
    if any(has_harmony(role.name + role.lens) for role in roles):
        return (), "malformed_harmony: a harmony token in a role"
    return tuple(roles), None


def _repeated(roles: Iterable[Role]) -> list[str]:
    counts = Counter(unicodedata.normalize("NFKC", role.name).casefold() for role in roles)
    return [name for name, count in counts.items() if count > 1]


def _role(name: str, lens: str) -> Role | None:
    """Return a role with both parts on one line and without decoration, or None when a part is missing."""
    name = " ".join(name.split()).strip(_DECORATION + ":")[:_MAX_NAME].strip()
    lens = _LENS_LABEL.sub("", " ".join(lens.split()).strip(_DECORATION)).strip(_DECORATION)
    return Role(name, lens) if name and lens else None


def _from_lines(lines: list[str]) -> list[Role]:
    """Read the first style of list that the text has; what surrounds the list is prose."""
    for style in (_NUMBERED, _BULLETED, _BOLD):
        items = _items(lines, style)
        if items:
            return [role for head, below in items if (role := _from_item(head, below))]
    return []


def _items(lines: list[str], style: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return (first line, the lines below it up to a blank one) of every list item."""
    items: list[tuple[str, list[str]]] = []
    open_item = False
    for line in lines:
        found = style.match(line)
        if found:
            items.append((line if style is _BOLD else found[1], []))
        elif open_item and line.strip():
            items[-1][1].append(_BULLETED.sub(r"\1", line))
        open_item = bool(found) or (open_item and bool(line.strip()))
    return [(head, " ".join(below)) for head, below in items]


def _from_item(head: str, below: str) -> Role | None:
    bold = _BOLD_NAME.match(head)
    if bold and _SEPARATOR.search(bold[1].rstrip(": ")) is None:
        return _role(bold[1], _unseparated(bold[2]) or below)
    parts = _SEPARATOR.split(head.strip(), maxsplit=1)
    return _role(parts[0], parts[1] if len(parts) == 2 and parts[1].strip(_DECORATION) else below)


def _unseparated(lens: str) -> str:
    return lens.lstrip(" :\uff1a-\u2013\u2014")


def _from_json(text: str) -> list[Role]:
    """Read roles from the first array of roles, or from objects that stand one after another."""
    values = [value for _, value in json_values(text)]
    for value in values:
        listed = _role_list(value)
        if listed:
            return listed
    return [role for value in values if (role := _from_value(value))]


def _role_list(value: Any) -> list[Role]:
    """Return the roles of an array, of an object that holds one array, or of an object from names to lenses."""
    if isinstance(value, list):
        return [role for item in value if (role := _from_value(item))]
    if not isinstance(value, dict) or _from_value(value):
        return []
    for item in value.values():
        if isinstance(item, list) and (roles := _role_list(item)):
            return roles
    if all(isinstance(item, str) for item in value.values()):
        return [role for name, lens in value.items() if (role := _from_pair(name, lens))]
    return [role for item in value.values() if (role := _from_value(item))]


def _from_pair(name: str, lens: str) -> Role | None:
    """Read `"Ann": "counts"`, or `"1": "Ann: counts"` and `"role 1": "Ann: counts"`."""
    return _from_item(lens, "") if re.search(r"\d\s*$", name) else _role(name, lens)


def _from_value(value: Any) -> Role | None:
    if isinstance(value, str):
        numbered = _NUMBERED.match(value)
        return _from_item(numbered[1] if numbered else value, "")
    if not isinstance(value, dict):
        return None
    words = {key_words(key): as_text(item) for key, item in reversed(value.items())}
    return _role(_first(words, _NAME_KEYS), _first(words, _LENS_KEYS))


def _first(values: dict[str, str], keys: Iterable[str]) -> str:
    return next((values[key] for key in keys if values.get(key)), "")
