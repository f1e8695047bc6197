r"""Component masking: one message of a full pool with a part of it hidden, in the same place and with as many words.

A word is a run of characters without white space, and every word is replaced by one word, so a masked prompt has the
same words a line, lines and order of messages as the full one. Decided cases. An answer that the reasoning states again
is hidden there too, else nothing would be masked; an answer of one character (a letter, a digit) only where it stands
in a box or after a cue such as `answer is`, since elsewhere it may be any letter or digit. The neutral replacement also
hides the role name and the confidence: nothing of the message is left but its place and its length.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from typing import Any

from dhd_labels.records import CONTENT_FIELDS, Condition, Message, Pool, Replay
from dhd_labels.text import clean

HIDDEN = "[hidden]"
_NEUTRAL = ("this", "part", "is", "left", "empty", "on", "purpose", "and", "tells", "nothing", "about", "the", "task")
_WORD = re.compile(r"\S+")
_CUE = r"(?:\\(?:boxed|fbox)\s*\{\s*|\b(?:answer|choice|option|result)(?:\s+(?:is|must be|should be))?\s*[:=]?\s*\(?)"


def shown_messages(pool: Pool, replay: Replay) -> list[Message]:
    """Return the messages that a replay shows, in the order in which it shows them, masked where it says so."""
    return [_shown(pool.messages[slot], replay) for slot in replay.shown]


def _shown(message: Message, replay: Replay) -> Message:
    if replay.mask is None or replay.mask.target != message.slot:
        return message
    return mask_message(message, replay.mask.condition)


def mask_message(message: Message, condition: Condition) -> Message:
    """Return a message as a condition shows it. `full`, `repeat` and `removal` leave the text as it is."""
    if condition == "neutral":
        names = ("role_name", "proposed_answer", *CONTENT_FIELDS, "confidence")
        return _changed(message, {name: _neutral(getattr(message, name)) for name in names})
    if condition == "reasoning_masked":
        return _changed(message, {name: _hide(getattr(message, name)) for name in CONTENT_FIELDS})
    if condition == "answer_masked":
        answer = clean(message.proposed_answer)
        reasoning = {name: _hide_answer(getattr(message, name), answer) for name in CONTENT_FIELDS}
        return _changed(message, {"proposed_answer": _hide(message.proposed_answer), **reasoning})
    return message


def restates_answer(message: Message) -> bool:
    """Whether the reasoning of a message still shows its answer once the answer is masked."""
    answer = clean(message.proposed_answer)
    masked = mask_message(message, "answer_masked")
    return bool(answer) and any(re.search(_whole(answer), getattr(masked, name)) for name in CONTENT_FIELDS)


def _changed(message: Message, fields: Mapping[str, str]) -> Message:
    changes: dict[str, Any] = dict(fields)
    return dataclasses.replace(message, **changes)


def _hide(text: str) -> str:
    return _WORD.sub(HIDDEN, text)


def _neutral(text: str) -> str:
    words = itertools.cycle(_NEUTRAL)
    return _WORD.sub(lambda _: next(words), text)


def _hide_answer(text: str, answer: str) -> str:
    if not answer:
        return text
    pattern = _whole(answer)
    if len(answer) == 1:
        return re.sub(f"({_CUE}){pattern}", lambda found: found[1] + HIDDEN, text, flags=re.IGNORECASE)
    return re.sub(pattern, lambda found: _hide(found[0]), text)


def _whole(answer: str) -> str:
    """Return a pattern of an answer that is not part of a longer word or number, over any white space."""
    parts = r"\s+".join(map(re.escape, answer.split()))
    return rf"(?<![\w.]){parts}(?!\w|\.\d)"
