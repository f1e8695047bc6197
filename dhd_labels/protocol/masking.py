r"""Component masking: one message of a full pool with a part of it hidden, in the same place and with as many words.

A word is a run of characters without white space, and every word is replaced by one word, so a masked prompt has the
same words a line, lines and order of messages as the full one. Decided cases. An answer that the reasoning states
again, in the same words or as a number of the same value, is hidden there too, else nothing would be masked; an answer
of one character (a letter, a digit) only where it stands in a box or after a cue such as `answer is`, since elsewhere
it may be any letter or digit. Other spellings of an answer ("forty-two", an equivalent formula) are not recognised. The
neutral replacement also hides the role name and the confidence: nothing of the message is left but place and length.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from dhd_labels.records import CONTENT_FIELDS, Condition, Message, Pool, Replay
from dhd_labels.text import clean

HIDDEN = "[hidden]"
_NEUTRAL = ("this", "part", "is", "left", "empty", "on", "purpose", "and", "tells", "nothing", "about", "the", "task")
_WORD = re.compile(r"\S+")
_CUED = re.compile(
    r"(?:\\(?:boxed|fbox)\s*\{\s*|\b(?:answer|choice|option|result)(?:\s+(?:is|must be|should be))?\s*[:=]?\s*\(?)$",
    re.IGNORECASE,
)
_FONT = re.compile(r"\\(?:text|mathrm|mathbf|textbf|operatorname)\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"(?<![\w.,])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\d,]*\d|\.\d)")


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
    """Whether the reasoning of a message still shows its answer, in words or as a number, once the answer is masked."""
    answer = clean(message.proposed_answer)
    masked = mask_message(message, "answer_masked")
    return any(_places(getattr(masked, name), answer) for name in CONTENT_FIELDS)


def _changed(message: Message, fields: Mapping[str, str]) -> Message:
    changes: dict[str, Any] = dict(fields)
    return dataclasses.replace(message, **changes)


def _hide(text: str) -> str:
    return _WORD.sub(HIDDEN, text)


def _neutral(text: str) -> str:
    words = itertools.cycle(_NEUTRAL)
    return _WORD.sub(lambda _: next(words), text)


def _hide_answer(text: str, answer: str) -> str:
    """Hide every place that states the answer; of an answer of one character only those in a box or after a cue."""
    for start, end in reversed(_places(text, answer)):
        if len(_bare(answer)) > 1 or _CUED.search(text[:start]):
            text = f"{text[:start]}{_hide(text[start:end])}{text[end:]}"
    return text


def _places(text: str, answer: str) -> list[tuple[int, int]]:
    """Return where a text states an answer, in order: the same words, or a number of the same value (42.0, 1,000)."""
    bare = _bare(answer)
    if not bare:
        return []
    found = [match.span() for match in re.finditer(_whole(bare), text)]
    value = _number(bare)
    if value is not None:
        found += [match.span() for match in _NUMBER.finditer(text) if _decimal(match[0]) == value]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _bare(answer: str) -> str:
    """Return an answer without a font around it and without the delimiters of mathematics."""
    text = answer.strip().strip("$").strip()
    font = _FONT.fullmatch(text)
    return font[1].strip() if font else text


def _number(answer: str) -> Decimal | None:
    """Return the number that an answer is, with or without a unit after it."""
    found = _NUMBER.match(answer)
    if found is None or re.search(r"[\d\\^/*+=]", answer[found.end() :]):
        return None
    return _decimal(found[0])


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", ""))
    except InvalidOperation:
        return None


def _whole(answer: str) -> str:
    """Return a pattern of an answer that is not part of a longer word or number, over any white space."""
    parts = r"\s+".join(map(re.escape, answer.split()))
    return rf"(?<![\w.]){parts}(?!\w|\.\d)"
