"""Reading of reference answers ("golds") into one normal form an answer type. Exact: no value passes through a float.

The normal forms, which the grading rules take:

* `choice` "B"; `choices` "ACD" (sorted); `choice_any` "C OR D" (either one is right)
* `integer` "3780"; `number` "-11.62" (plain decimal, digits as given)
* `quantity` "3.52e-19 J" (number, optional exponent, optional unit)
* `range` "0.90 to 0.94 or -0.94 to -0.90" (closed intervals, low end first)
* `expression`, `text`: as given

What had to be read around (a Unicode minus, a thousands comma, a letter for a digit) is counted in `noted`.
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal

from dhd_labels.records import AnswerType

MINUS = str.maketrans(dict.fromkeys("\u2212\u2013\u2010\u2011\ufe63\uff0d", "-"))
"""Every character that upstream files use for a minus sign."""
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_COMMAS = re.compile(r"[+-]?\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d*)?")
_QUANTITY = re.compile(r"(\S+?)(e[+-]?\d{1,4})?(?:\s+(\S.*))?", re.IGNORECASE)
# Another value, or a word that joins two, where a unit should be.
_NO_UNIT = re.compile(r"\b(?:or|and|to)\b|(?:^|\s)[+-]?\d(?!\s*/)", re.IGNORECASE)
# "T0" for "TO", and a letter O or o inside a number ("48O").
_T0 = re.compile(r"(?<=\s)[Tt]0(?=\s)")
_DIGIT_O = re.compile(r"(?<=\d)[Oo]|(?<![A-Za-z])[Oo](?=[\d.])")
_BETWEEN = re.compile(r"\s+to\s+|\s*:\s*", re.IGNORECASE)
_UNION = re.compile(r"\s+or\s+", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*[,;&/]\s*|\s+(?:AND\s+)?")
_EITHER = re.compile(r"[A-Z](?:\s+OR\s+[A-Z])+")
_VOID = re.compile(r"marks?\s+to\s+all", re.IGNORECASE)


def is_void(text: str) -> bool:
    """Whether a key says that everybody gets the mark: such a question has no answer."""
    return _VOID.search(text) is not None


def read_gold(answer_type: AnswerType, text: str, noted: Counter[str]) -> str:
    """Return the normal form of a reference answer.

    Raises:
        ValueError: the text is not of that type.
    """
    if answer_type == "range":
        return read_range(text, noted)
    if answer_type in ("choice", "choices", "choice_any"):
        kind, letters = read_letters(text, noted)
        # One letter is a set of one, but a set or an alternative is not one letter.
        if kind != answer_type and (kind != "choice" or answer_type == "choice_any"):
            raise ValueError(f"must be of type {answer_type}, got {text!r}")
        return letters
    if answer_type == "integer":
        number = read_number(text, noted)
        if number.partition(".")[2].strip("0"):
            raise ValueError(f"must be an integer, got {text!r}")
        return number
    if answer_type == "number":
        return read_number(text, noted)
    if answer_type == "quantity":
        return _read_quantity(text, noted)
    return text.strip()


def read_number(text: str, noted: Counter[str]) -> str:
    """Return a plain decimal: ASCII minus, no plus, no thousands commas; the digits stay as they are.

    Raises:
        ValueError: the text is not one number.
    """
    plain = text.translate(MINUS).strip()
    if plain != text.strip():
        noted["unicode_minus"] += 1
    if _COMMAS.fullmatch(plain):
        noted["thousands_comma"] += 1
        plain = plain.replace("{,}", "").replace(",", "")
    # isascii: \d would also take the digits of other scripts.
    if not _PLAIN.fullmatch(plain) or not plain.isascii():
        raise ValueError(f"must be a number, got {text!r}")
    return plain.removeprefix("+").rstrip(".")


def read_letters(text: str, noted: Counter[str]) -> tuple[AnswerType, str]:
    """Return the answer type of a letter key and its normal form: "C", "ACD" or "C OR D".

    Raises:
        ValueError: the text is not made of option letters.
    """
    key = text.strip().upper()
    if _EITHER.fullmatch(key):
        letters = sorted(set(re.split(r"\s+OR\s+", key)))
        noted["either_letter"] += 1
        return ("choice_any", " OR ".join(letters)) if len(letters) > 1 else ("choice", letters[0])
    parts = _SEPARATOR.split(key)
    # Letters without separators must ascend ("ACD"): else every word in capitals would be a key.
    if len(parts) == 1 and sorted(set(key)) == list(key):
        parts = list(key)
    if not parts or not all(re.fullmatch("[A-Z]", part) for part in parts):
        raise ValueError(f"must be option letters, got {text!r}")
    if len(set(parts)) < len(parts):
        raise ValueError(f"must name each option once, got {text!r}")
    return "choice" if len(parts) == 1 else "choices", "".join(sorted(parts))


def read_range(text: str, noted: Counter[str]) -> str:
    """Return closed intervals as "a to b", several joined by "or". A single number is not a range.

    Raises:
        ValueError: the text is neither `a to b` nor `a : b` nor several of them.
    """
    fixed = _DIGIT_O.sub("0", _T0.sub("TO", text))
    if fixed != text:
        noted["letter_for_digit"] += 1
    return " or ".join(_interval(part, text, noted) for part in _UNION.split(fixed.strip()))


def _interval(part: str, text: str, noted: Counter[str]) -> str:
    ends = [read_number(end, noted) for end in _BETWEEN.split(part.strip())]
    if len(ends) != 2:
        raise ValueError(f"must be a range `a to b`, got {text!r}")
    low, high = ends
    if Decimal(low) > Decimal(high):
        noted["reversed_range"] += 1
        low, high = high, low
    return f"{low} to {high}"


def _read_quantity(text: str, noted: Counter[str]) -> str:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or _NO_UNIT.search(found[3] or ""):
        raise ValueError(f"must be a number with a unit, got {text!r}")
    number, exponent, unit = found.groups()
    return f"{read_number(number, noted)}{(exponent or '').lower()}{' ' + unit if unit else ''}"
