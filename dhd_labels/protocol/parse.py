"""From a model's free text to roles and structured messages.

Parsing never raises and never guesses: what cannot be read becomes a status with a reason, and a message keeps the
whole text in `raw`. Every parser takes time linear in the length of the text.
"""

from __future__ import annotations

import dataclasses

from dhd_labels.engines.base import ChatReply
from dhd_labels.protocol.confidence import confidence_level, confidence_value
from dhd_labels.protocol.message_text import FIELD_LABELS, read_fields
from dhd_labels.protocol.reasoning import UNCLOSED, SplitText, has_harmony, split_reasoning
from dhd_labels.protocol.roles_text import parse_roles
from dhd_labels.records import Message, MessageStatus, Role
from dhd_labels.text import clean

__all__ = ["confidence_level", "confidence_value", "parse_message", "parse_roles"]


def parse_message(reply: ChatReply, slot: int, role: Role) -> Message:
    """Read one hypothesizer's message. Its status says whether it can be shown to the integrator.

    The fields hold text in the form of `text.clean`; a field that the model did not state is empty. Thinking that
    never ends is `truncated`; malformed channels and text without labels or JSON are `parse_failed`.
    """
    split = split_reasoning(clean(reply.text))
    fields = None if split.problem else read_fields(split.final)
    if fields and any(has_harmony(value) for value in fields.values()):
        # A JSON string can spell a token that the text does not show.
        fields = None
    values = {name: (fields or {}).get(name, "") for name in FIELD_LABELS}
    message = Message(slot=slot, role_name=role.name, lens=role.lens, raw=reply.text, status="ok", **values)
    return dataclasses.replace(message, status=_status(reply, split, message, fields is not None))


def _status(reply: ChatReply, split: SplitText, message: Message, stated: bool) -> MessageStatus:
    if reply.status in ("server_error", "prompt_too_long", "refused"):
        return "server_error"
    if reply.status == "truncated" or (reply.status == "ok" and split.problem == UNCLOSED):
        return "truncated"
    if reply.status == "empty" or not (split.problem or split.final.strip()):
        return "empty"
    if not stated:
        return "parse_failed"
    return "ok" if message.renderable else "not_renderable"
