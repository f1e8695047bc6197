"""From a model's free text to roles and structured messages.

Parsing never raises and never guesses: what cannot be read becomes a status with a reason.
"""

from __future__ import annotations

import dataclasses
import re

from dhd_labels.engines.base import ChatReply
from dhd_labels.grading.extract import boxed_answers, final_part
from dhd_labels.records import POOL_SIZE, Message, MessageStatus, Role

_ROLE_LINE = re.compile(r"^\W{0,4}(\d{1,2})[.):]\s*(.+?)\s*(?::|\s[-\u2013\u2014]\s)\s*(.+)$")
_LABELS = {
    "proposed answer": "proposed_answer",
    "answer": "proposed_answer",
    "reasoning direction": "reasoning_direction",
    "reasoning": "reasoning_direction",
    "key idea": "key_idea",
    "critical assumption": "critical_assumption",
    "what to check": "what_to_check",
    "confidence": "confidence",
}
_LABEL_LINE = re.compile(rf"^[\s*#>\-]*({'|'.join(_LABELS)})\s*\**\s*:\s*\**\s*(.*)$", re.IGNORECASE)
_MAX_NAME = 80


def parse_roles(text: str) -> tuple[tuple[Role, ...], str | None]:
    """Read five numbered `Name: lens` lines.

    Returns:
        The five roles and None, or no roles and the reason: a wrong number of roles, or two with one name.
    """
    roles = []
    for line in final_part(text).splitlines():
        found = _ROLE_LINE.match(line.strip())
        if found:
            name = found.group(2).strip(" *_`")[:_MAX_NAME]
            roles.append(Role(name, found.group(3).strip(" *_`")))
    if len(roles) != POOL_SIZE:
        return (), f"expected {POOL_SIZE} numbered roles, got {len(roles)}"
    names = {role.name.casefold() for role in roles}
    if len(names) != POOL_SIZE:
        return (), f"expected {POOL_SIZE} different role names, got {len(names)}"
    return tuple(roles), None


def parse_message(reply: ChatReply, slot: int, role: Role) -> Message:
    """Read one hypothesizer's message. Its status says whether it can be shown to the integrator."""
    fields = _sections(final_part(reply.text))
    boxes = boxed_answers(fields.get("proposed_answer", "")) or boxed_answers(final_part(reply.text))
    message = Message(
        slot=slot,
        role_name=role.name,
        lens=role.lens,
        proposed_answer=boxes[-1] if boxes else fields.get("proposed_answer", ""),
        reasoning_direction=fields.get("reasoning_direction", ""),
        key_idea=fields.get("key_idea", ""),
        critical_assumption=fields.get("critical_assumption", ""),
        what_to_check=fields.get("what_to_check", ""),
        confidence=fields.get("confidence", ""),
        raw=reply.text,
        status="ok",
    )
    return dataclasses.replace(message, status=_message_status(reply, message, bool(fields)))


def _message_status(reply: ChatReply, message: Message, any_section: bool) -> MessageStatus:
    if reply.status in ("server_error", "prompt_too_long"):
        return "server_error"
    if reply.status == "truncated":
        return "truncated"
    if reply.status == "empty" or not reply.text.strip():
        return "empty"
    if not any_section:
        return "parse_failed"
    return "ok" if message.renderable else "not_renderable"


def _sections(text: str) -> dict[str, str]:
    """Collect labelled lines; a section runs to the next label. A label that comes twice keeps its first text."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        label = _LABEL_LINE.match(line)
        if label:
            name = _LABELS[label.group(1).lower()]
            lines = [label.group(2)]
            found.setdefault(name, lines)
        elif lines is not None:
            lines.append(line)
    return {name: "\n".join(parts).strip() for name, parts in found.items()}


_LEVELS = {"low": "low", "medium": "medium", "moderate": "medium", "high": "high"}
_LOW_WORDS = re.compile(
    r"\b(uncertain|unsure|not (?:very |too |really |so |at all )?(?:confident|sure|certain|high))\b"
)
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(%?)(?![\w])")


def confidence_level(text: str) -> str | None:
    """Return `high`, `medium` or `low`, or None when the text does not say."""
    lowered = text.lower()
    if _LOW_WORDS.search(lowered):
        return "low"
    for word in re.findall(r"[a-z]+", lowered):
        if word in _LEVELS:
            return _LEVELS[word]
    return None


def confidence_value(text: str) -> float | None:
    """Return a stated confidence as a fraction of 1 ("0.7", "70%"), or None when there is not exactly one."""
    found = _NUMBER.findall(text)
    if len(found) != 1:
        return None
    value = float(found[0][0]) / (100 if found[0][1] else 1)
    return value if 0 <= value <= 1 and (found[0][1] or "." in found[0][0]) else None
