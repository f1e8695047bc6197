"""Cheap, deterministic measurements of one text: words, numbers, kinds of words, normalised answers.

Everything works on one text at a time, in plain Python, so that a single pool costs as little as its share of a
million, and gets the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

NUMBER = r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_UNITS = (
    r"%|°\s?[CF]?|[numkcM]?m(?:ol|in)?|[mk]?g|[nm]?s|h|d|[mk]?L|[kM]?J|[kM]?eV|[kM]?W|[kM]?Pa|[kMG]?Hz|[km]?V|m?A|N|K|atm|bar"
    r"|seconds?|minutes?|hours?|days?|weeks?|years?|met(?:er|re)s?|(?:centi|kilo)met(?:er|re)s?|lit(?:er|re)s?"
    r"|(?:kilo|milli)?grams?|moles?|degrees?|dollars?|cents?|euros?|percent"
)
PLAIN_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?"


def _kind(words: str) -> frozenset[str]:
    return frozenset(words.split())


HEDGES = _kind("""
    maybe perhaps might could possibly probably presumably likely unlikely seem seems appear appears roughly
    approximately approx around unsure uncertain unclear assume assumes assumed assuming guess guesses guessed guessing
""")
HEDGING_PHRASES = ("not sure", "i think")
CERTAINTY = _kind(
    "certainly clearly definitely obviously undoubtedly surely always must necessarily exactly guaranteed"
)
REASONS = _kind("because since therefore thus hence so implies follows then consequently")
NEGATIONS = _kind("not no none cannot without neither nor")
CHECKS = _kind("""
    check checks verify confirm compare recompute recalculate compute calculate test substitute plug count recount
    evaluate differentiate integrate solve estimate ensure whether
""")
"""Kinds of words, lower-cased. General English, not taken from any data set."""

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(NUMBER)
_UNIT = re.compile(rf"{NUMBER}\s?(?:{_UNITS})(?!\w)")
_END = re.compile(r"[.!?](?=\s|$)|\n")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_PLAIN = re.compile(PLAIN_NUMBER)
_WHOLE = re.compile(r"[-+]?\d+")
_BOX = re.compile(r"\\boxed\s*\{(.*)\}", re.DOTALL)
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|left|right|displaystyle)\b|[\\${}\s]|,(?=\d{3}(?!\d))")
_CHOICE = re.compile(r"\(?([a-z])[).:]?")


def words(text: str) -> list[str]:
    """Return the lower-cased words of a text; a number counts as a word."""
    return _WORD.findall(text.lower())


def count_in(found: Iterable[str], kind: frozenset[str]) -> int:
    """Return how many of the words are of a kind."""
    return sum(map(kind.__contains__, found))


def count_hedges(text: str, found: Sequence[str]) -> int:
    """Return the hedging words and phrases in a text with these words."""
    lowered = text.lower()
    return count_in(found, HEDGES) + sum(lowered.count(phrase) for phrase in HEDGING_PHRASES)


def numbers(text: str) -> list[str]:
    """Return the numbers in a text as they are written."""
    return _NUMBER.findall(text)


def count_units(text: str) -> int:
    """Return the numbers in a text that carry a unit."""
    return len(_UNIT.findall(text))


def count_sentences(text: str) -> int:
    """Return the sentences of a text; a line ends one too."""
    return sum(map(bool, map(str.strip, _END.split(text))))


def count_commands(text: str) -> int:
    """Return the LaTeX commands in a text."""
    return len(_COMMAND.findall(text)) if "\\" in text else 0


@lru_cache(maxsize=1 << 16)  # answers and numbers repeat a lot across messages
def normalise_answer(answer: str) -> str:
    r"""Return an answer in a form in which equal answers usually compare equal; "" when there is none.

    Cheap on purpose: it drops boxes, LaTeX wrappers, spaces, thousands separators and case, and writes
    numbers one way (`\boxed{1,200.0}` -> `1200`, `(B)` -> `b`). It is no grader: it knows no units and no
    algebra.
    """
    box = _BOX.search(answer)
    bare = _WRAPPER.sub("", box.group(1) if box else answer).lower().rstrip(".")
    if (choice := _CHOICE.fullmatch(bare)) is not None:
        return choice.group(1)
    if _PLAIN.fullmatch(bare):
        return _plain_number(bare)
    return bare


def _plain_number(digits: str) -> str:
    if _WHOLE.fullmatch(digits):
        return str(int(digits)) if len(digits) < 1000 else digits
    value = float(digits)
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.12g}"


def is_number(normal: str) -> bool:
    """Return whether a normalised answer is a plain number."""
    return _PLAIN.fullmatch(normal) is not None


def names_answer(normal: str, text: str, found: Iterable[str], cited: Iterable[str]) -> bool:
    """Return whether a text names a normalised answer, as a word or as a number of the same value.

    Args:
        normal: the answer; "" is never named.
        text: the text.
        found: its words.
        cited: its numbers.
    """
    if not normal:
        return False
    if len(normal) == 1 and normal.isalpha():  # a choice; in small letters it is a word such as "a"
        return re.search(rf"\b{re.escape(normal.upper())}\b", text) is not None
    return normal in found or any(normalise_answer(number) == normal for number in cited)
