"""Option letters and option texts of multiple-choice answers.

A letter counts only where it stands as an option: alone, in brackets, in a list of letters, or before its own text.
The article "a", the E of \\Delta E and the capital of "Answer" are no options.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dhd_labels.grading.dressing import squash, unwrapped
from dhd_labels.grading.quantity import Quantity, read_quantity

_NOUN = r"(?:answers?|options?|choices?|statements?|alternatives?)"
_LEAD = re.compile(
    rf"\s*(?:(?:hence|so|thus|therefore)\b[\s,]*)?(?:the\s+)?(?:(?:final|correct|best|right)\s+)*{_NOUN}\s*(?:\bis\b|\bare\b|:|=)?\s*"
    rf"|\s*(?:all\s+of|both|only|either)\b\s*:?\s*|\s*[:=]\s*",
    re.IGNORECASE,
)
_TAIL = re.compile(
    rf"\s*(?:\bonly\b|\b(?:is|are)\s+(?:all\s+)?(?:the\s+)?(?:correct|right|true)(?:\s+{_NOUN})?)\s*$", re.IGNORECASE
)
_REASON = re.compile(r"[\s,;(]+(?:because|since|due to|as\s+(?:the|it|this|a)\b).*", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(r"[A-Za-z]+|[^\sA-Za-z]")
_LETTER_TEXT = re.compile(
    r"[(\[]\s*([A-Za-z])\s*[)\]]\s*[.:\-]?\s*(.+)|([A-Za-z])\s*[.:)\-](?=\s|[^A-Za-z\s])\s*(.+)|([A-Z])\s+(?=[0-9$\\]|-[0-9])(.+)",
    re.DOTALL,
)
_OTHER_LETTER = re.compile(r"[(\[]\s*[A-Z]\s*[)\]]|(?:^|[\s,;])[B-HJ-Z][.):]\s")
_REFUSAL = re.compile(
    r"insufficient information|not enough information|cannot be (?:determined|answered)|can't be determined|unclear"
    r"|\b(?:do not|don't) know\b|\bunsure\b|\bno answer\b",
    re.IGNORECASE,
)
_LAST_RUN_LETTER = "J"
"""Letters beyond this in a run such as "ABD" mean that the run is a word."""
_RESIDUES = {
    "alanine": "ala a", "arginine": "arg r", "asparagine": "asn n", "aspartic acid": "asp d", "aspartate": "asp d",
    "cysteine": "cys c", "glutamine": "gln q", "glutamic acid": "glu e", "glutamate": "glu e", "glycine": "gly g",
    "histidine": "his h", "isoleucine": "ile i", "leucine": "leu l", "lysine": "lys k", "methionine": "met m",
    "phenylalanine": "phe f", "proline": "pro p", "serine": "ser s", "threonine": "thr t", "tryptophan": "trp w",
    "tyrosine": "tyr y", "valine": "val v",
}  # fmt: skip
_RESIDUE_OF = {name: names.split()[0] for full, names in _RESIDUES.items() for name in (full, *names.split())}
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9,])[^,;]*")
_ITEM_SEPARATOR = re.compile(r"\s*(?:[,;]\s*(?:and\b)?|\band\b|&)\s*")
_SEQUENCE = re.compile(r"[ACGTUN]{6,}")
_COUNTED = {"bp", "nt", "aa", "base", "residue", "fragment", "basepair", "pair"}


@dataclass(frozen=True, slots=True)
class Letters:
    """Option letters in the order they were named, whether they were alternatives ("B or C"), and text after one."""

    letters: tuple[str, ...]
    alternatives: bool = False
    text: str = ""

    def __str__(self) -> str:
        return ("|" if self.alternatives else "").join(sorted(set(self.letters)))


def read_letters(text: str) -> Letters | None:
    """Read the option letters that an answer names; None if it names none, or says more than that."""
    core = _core(text)
    return _letter_list(core) or _letter_with_text(core) or _letter_list(core.replace("*", " "))


def tagged(text: str) -> str | None:
    """Return what the last [ANSWER]...[/ANSWER] of a text holds."""
    lower = text.casefold() if len(text.casefold()) == len(text) else text
    end = lower.rfind("[/answer]")
    start = lower.rfind("[answer]", 0, end) if end >= 0 else -1
    return text[start + len("[answer]") : end].strip() if start >= 0 else None


def is_refusal(text: str) -> bool:
    """Whether an answer says that there is none; never a correct option."""
    return bool(_REFUSAL.search(text))


def option_of_text(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter of the one option whose text this is; None when none or several match."""
    exact = [i for i, choice in enumerate(choices) if squash(choice) == squash(text)]
    found = exact or [i for i, choice in enumerate(choices) if same_text(choice, text)]
    return chr(65 + found[0]) if len(found) == 1 else None


def same_text(one: str, other: str) -> bool | None:
    """Compare two option texts: as words, residues, sequences or lists of numbers in any order; None if undecided."""
    left, right = squash(one), squash(other)
    if left == right:
        return True
    if left in _RESIDUE_OF and right in _RESIDUE_OF:
        return _RESIDUE_OF[left] == _RESIDUE_OF[right]
    sequences = [re.sub(r"[\s'-]|[53](?=['\s-])", "", text).upper() for text in (left, right)]
    if all(_SEQUENCE.fullmatch(sequence) for sequence in sequences):
        return sequences[0] == sequences[1]
    return _same_numbers(_numbers(one), _numbers(other))


def _core(text: str) -> str:
    """Return an answer without tags, leads such as "The correct option is", closing words and reasons."""
    core = _REASON.sub("", unwrapped(tagged(text) or text).strip(" \t\n\"'*_"))
    while (found := _LEAD.match(core)) and found.end():
        core = core[found.end() :]
    return _TAIL.sub("", core).strip(" \t\n\"'*_.,;")


def _letter_list(core: str) -> Letters | None:
    found: list[str] = []
    alternatives = False
    if len(core) > 100:
        return None
    for piece in _TOKEN.findall(core):
        if piece.casefold() in ("and", "or"):
            alternatives |= piece.casefold() == "or"
        elif len(piece) == 1 and piece.isalpha():
            found.append(piece.upper())
        elif piece.isalpha():
            if not _is_run(piece):
                return None
            found += piece
        elif piece not in "()[]{}\\,;/&.:":
            return None
    return Letters(tuple(dict.fromkeys(found)), alternatives) if found else None


def _is_run(token: str) -> bool:
    return token.isupper() and len(set(token)) == len(token) and max(token) <= _LAST_RUN_LETTER


def _letter_with_text(core: str) -> Letters | None:
    found = _LETTER_TEXT.fullmatch(core)
    if found is None:
        return None
    letter, text = (group for group in found.groups() if group is not None)
    if _OTHER_LETTER.search(text):
        return None
    return Letters((letter.upper(),), text=text.strip())


def _numbers(text: str) -> list[Quantity] | None:
    """Read a list of numbers; a comma groups thousands only where the whole text is one number."""
    plain = unwrapped(text)
    if len(plain) > 300:
        return None
    parts = [plain] if _THOUSANDS.fullmatch(plain) else [part for part in _ITEM_SEPARATOR.split(plain) if part]
    found = [read_quantity(part) for part in parts]
    return [quantity for quantity in found if quantity] if found and all(found) else None


def _same_numbers(one: list[Quantity] | None, other: list[Quantity] | None) -> bool | None:
    if one is None or other is None:
        return None
    units = [{q.unit.factors for q in side if q.unit.factors} for side in (one, other)]
    nouns = {noun for q in (*one, *other) for noun in q.unit.nouns} - _COUNTED
    percent = {(("percent", 1),)}
    if nouns or (units[0] != units[1] and not units[0] | units[1] <= percent):
        return None
    counts: list[Counter[Fraction]] = [Counter(q.value for q in side) for side in (one, other)]
    return counts[0] == counts[1]
