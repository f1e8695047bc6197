"""From what a message says of its own confidence to a level or a value.

The first statement counts, so what follows it ("low; 1 unverified assumption") changes nothing. Decided cases:
a range of neighbours is its lower end ("medium-high" is medium), a range over everything and an echo of the prompt
("high, medium or low") are unclear, and so are denials that leave two levels open ("not low"). Unclear is None.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

Level = Literal["low", "medium", "high"]

_ORDER: tuple[Level, ...] = ("low", "medium", "high")
_NAMES: dict[str, Level] = {
    **dict.fromkeys(("low", "lowest", "weak", "minimal"), "low"),
    **dict.fromkeys(("medium", "moderate", "mid", "middling", "average", "intermediate"), "medium"),
    **dict.fromkeys(("high", "highest", "strong"), "high"),
}
_FEELINGS: dict[str, Level] = {
    **dict.fromkeys(("uncertain", "unsure", "unconfident", "doubtful", "speculative", "guess", "guessing"), "low"),
    **dict.fromkeys(("confident", "sure", "certain"), "high"),
}
_DOUBT = {"uncertainty", "doubt", "doubts", "risk"}
_NEGATORS = frozenset(
    ["not", "no", "never", "hardly", "barely", "cannot", "without", "lack", "lacking", "little", "zero"]
)
_FULL = {"full", "complete", "total", "absolute", "utmost", "great"}
_SOFTENERS = {"moderately", "somewhat", "partly", "partially"}
_FILLER_WORDS = """
a absolutely all am an any at be being completely entirely especially exactly extremely fairly feel fully have highly i
in is m much my of overly particularly pretty quite rather really reasonably so terribly that the too totally very
"""
_FILLERS = frozenset(_FILLER_WORDS.split())
# `certain cases` and `sure signs` are no statements; these may follow one.
_CONNECTIVES = "about and as at because but for i if in it of on or that the this though we with"
_AFTER_FEELING = frozenset(_CONNECTIVES.split())
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[^\sa-z]")
_LEVEL = "|".join(sorted(_NAMES, key=len, reverse=True))
_RANGE = re.compile(rf"\b({_LEVEL})(?:\s*[/|]\s*|[-\u2013]|\s*(?:-|\u2013)?\s*\b(?:to|or)\b\s*-?)({_LEVEL})\b")
_ECHO = re.compile(rf"\b({_LEVEL})\b(?:\W{{1,3}}(?:or\W)?({_LEVEL})\b)(?:\W{{1,3}}(?:or\W)?({_LEVEL})\b)")


def confidence_level(text: str) -> Level | None:
    """Return `high`, `medium` or `low`, or None when the text does not clearly say."""
    lowered = _plain(text)
    if (echo := _ECHO.search(lowered)) and len({_NAMES[name] for name in echo.groups()}) == len(_ORDER):
        return None
    words = _WORD.findall(lowered)
    for place, word in enumerate(words):
        stated = _stated(words, place)
        if stated is not None:
            span = _RANGE.search(lowered) if word in _NAMES else None
            return _lower_end(span[1], span[2]) if span and span[1] == word else _denied(words, place, stated)
        if word in ("confidence", *_DOUBT) and (noun := _of_noun(words, place)):
            return noun
    return None


def _stated(words: Sequence[str], place: int) -> Level | None:
    """Return the level that a word states, before any denial of it."""
    word = words[place]
    following = words[place + 1] if place + 1 < len(words) else ""
    if word in _NAMES:
        return _opposite(_NAMES[word]) if following in _DOUBT else _NAMES[word]
    if word not in _FEELINGS or (following.isalpha() and following not in _AFTER_FEELING and _FEELINGS[word] == "high"):
        return None
    softened = _FEELINGS[word] == "high" and place > 0 and words[place - 1] in _SOFTENERS
    return "medium" if softened else _FEELINGS[word]


def _denied(words: Sequence[str], place: int, stated: Level) -> Level | None:
    """Apply a denial: not high is low; not low and not medium leave two levels open."""
    if words[place - 1 : place] == ["slightly"] and words[place] in _FEELINGS:
        return "low"
    if place > 0 and words[place - 1] in _SOFTENERS and words[place] == "high":
        stated = "medium"
    if _negator_before(words, place) is None:
        return stated
    return "low" if stated == "high" else None


def _of_noun(words: Sequence[str], place: int) -> Level | None:
    """Read "no confidence", "full confidence", "without doubt"."""
    negator = _negator_before(words, place)
    if words[place] in _DOUBT:
        return "high" if negator else None
    if negator:
        return "low"
    return "high" if place > 0 and words[place - 1] in _FULL else None


def _negator_before(words: Sequence[str], place: int) -> str | None:
    """Return the negator that reaches a word over fillers only."""
    for word in reversed(words[:place]):
        if word in _NEGATORS or word.endswith("n't"):
            return word
        if word not in _FILLERS and not word.isdigit() and word not in (".", "%"):
            return None
    return None


def _opposite(level: Level) -> Level:
    return _ORDER[-1 - _ORDER.index(level)]


def _lower_end(one: str, other: str) -> Level | None:
    levels = {_NAMES[one], _NAMES[other]}
    return None if levels == {"low", "high"} else min(levels, key=_ORDER.index)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower().replace("\u2019", "'")


def confidence_reason(text: str) -> str | None:
    """Return why the level or the value of a stated confidence is None, or None when both are there."""
    level, value = confidence_level(text), confidence_value(text)
    if not text.strip():
        return "no confidence stated"
    missing = ["no clear level"] * (level is None) + ["no clear number"] * (value is None)
    return ", ".join(missing) or None


_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
_ALONE = r"(?<![\w.,/^-])"
_MEASURE = r"(?:\\?%|percent\b)"
_OF_ERROR = r"(?!\s+(?:\w{1,20}\s+){0,3}(?:uncertain|unsure|doubt|risk|error|wrong|mistake))"
_PERCENT = re.compile(rf"{_ALONE}({_NUMBER})\s{{0,3}}{_MEASURE}{_OF_ERROR}")
_SHARE = re.compile(rf"{_ALONE}({_NUMBER})\s{{0,3}}(?:/|out\s+of)\s{{0,3}}(\d{{1,12}})(?![\w%]|\.\d)")
_FRACTION = re.compile(
    rf"{_ALONE}(\d{{0,12}}\.\d{{1,12}})(?![\w%/]|\.\d|\s{{0,3}}(?:{_MEASURE}|/|out\s+of)){_OF_ERROR}"
)
_UNCLEAR = re.compile(
    r"[\d%]\s{0,3}[-\u2013\u2014]\s{0,3}\.?\d"  # 0.6-0.8
    rf"|\d\s{{0,3}}(?:\bto\b|\band\b)\s{{0,3}}{_NUMBER}\s{{0,3}}{_MEASURE}"  # 60 to 70 %
    r"|(?<![\w.])-\.?\d|\bnot\s+(?:\w{1,12}\s+)?\d"  # -0.7, not 100% sure
)
_SCALES = ("1", "5", "10", "100")


def confidence_value(text: str) -> float | None:
    """Return a stated confidence as a fraction of 1 ("0.7", "70%", "8/10"), or None when there is not exactly one.

    Whole numbers without a scale are no statement ("1 unverified assumption"), nor is a chance of error. A range, two
    different values, a denied one and one outside of 0 to 1 are unclear.
    """
    plain = _plain(text)
    if _UNCLEAR.search(plain):
        return None
    values = {float(number) / 100 for number in _PERCENT.findall(plain)}
    values |= {float(number) for number in _FRACTION.findall(plain)}
    for number, scale in _SHARE.findall(plain):
        if scale not in _SCALES:
            return 0.5 if (number, scale) == ("50", "50") and not values else None
        values.add(float(number) / float(scale))
    value = values.pop() if len(values) == 1 else None
    return value if value is not None and 0 <= value <= 1 else None
