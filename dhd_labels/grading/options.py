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
    rf"\s*(?:(?:hence|so|thus|therefore|definitely|certainly|clearly)\b[\s,]*)?(?:the\s+)?(?:(?:final|correct|best|right)\s+)*"
    rf"{_NOUN}\s*(?:\bis\b|\bare\b|:|=)?\s*|\s*(?:all\s+of|both|only|either)\b\s*:?\s*|\s*[:=]\s*"
    r"|\s*(?:definitely|certainly|clearly)\b[\s,]*"
    r"|\s*(?:it|this)\s+(?:is|must\s+be|has\s+to\s+be)\b\s*|\s*i\s+(?:choose|pick|select|chose)\b\s*",
    re.IGNORECASE,
)
_TAIL = re.compile(
    rf"\s*(?:\bonly\b|\b(?:is|are)\s+(?:all\s+)?(?:the\s+)?(?:correct|right|true)(?:\s+{_NOUN})?)\s*$", re.IGNORECASE
)
_REASON = re.compile(
    r"(?<![\s,;(])[\s,;(]+(?:because|since|due to|as\s+(?:the|it|this|a)\b).*", re.IGNORECASE | re.DOTALL
)
_OPEN, _CLOSE = r"[(\[{]\s*", r"\s*[)\]}]"
_ITEM = rf"(?:{_OPEN}[A-Za-z]{_CLOSE}|[A-Za-z](?:[.)](?!\w))?(?![A-Za-z]))"
_SEPARATOR = r"(?:\s*(?:[,;/&+]\s*(?:(?:and|or)\b)?|\b(?:and|or)\b)\s*|[ \t]*\n\s*)"
_LIST = re.compile(rf"{_ITEM}(?:{_SEPARATOR}{_ITEM})*|{_OPEN}[A-Za-z]{_CLOSE}(?:\s*{_OPEN}[A-Za-z]{_CLOSE})+")
_ENCLOSED = re.compile(r"\\?[(\[{](.*?)\\?[)\]}]", re.DOTALL)
# A letter and its own text. Each alternative: a letter, then the text.
_LABELLED = re.compile(
    r"[(\[]\s*([A-Z]|[a-h])\s*[)\]]\s*[.:\-]?\s*(.+)"
    r"|([A-HJ-Z]|[a-h])\s*[.)](?=\s|[^A-Za-z\s])\s*(.+)"
    r"|([A-HJ])\s*:(?=\s|[^A-Za-z\s])\s*(.+)"
    r"|([A-HJ])\s+-+\s+(?!(?:sin|cos|tan|log|exp|min|max)\b)([A-Za-z]{3}.*)"  # "A - 5" may be a difference
    r"|([A-HJ])\s+([0-9].*)"
    r"|([A-D])\s+\(\s*([-+.]?[0-9].*)\)",  # "F (x)" may be a function
    re.DOTALL,
)
_NO_TEXT = re.compile(
    r"[,;/&+=^*<>|_]|\\(?:ll|gg|cup|cap|times|cdot|propto|approx|le|ge|neq)\b|(?:and|or)\b", re.IGNORECASE
)
"""What cannot begin the text of an option: an operator, or more of a list."""
_OTHER_LETTER = re.compile(r"[(\[]\s*[A-Z]\s*[)\]]|(?:^|[\s,;])[B-HJ-Z][.):](?:\s|$)")
_DOTTED = re.compile(r"\W*[A-J]\.\s*[A-J]\.\W*")  # "A. C.": two letters, or one with its text
# "E. coli", "C. elegans" are species.
_SPECIES = re.compile(r"[A-Z]\.\s+[a-z]{2,}(?:us|is|i|ae|um|a|[ae]ns|aster|pombe)(?:\s+\S+){0,2}")
_DENIED = r"(?:incorrect|wrong|false|untrue|invalid|impossible|excluded|eliminated|discarded|rejected|ruled\s+out)"
_DENIAL = re.compile(
    r"[-:(\s]*(?:"
    rf"(?:(?:is|are|was|were|can|could|must|should|may|will|would|has|have|be|been|gets?|being)\b(?:\s+\w+){{0,3}}?\s+)?{_DENIED}(?!\w)"
    r"|(?:is|are|was|were|can|could|must|should|may|will|would|does|do|did|has|have)(?:n't|\s+not|\s+never|\s+no\s+longer)\b"
    r"|cannot\b|fails?\b|contradicts?\b"
    r"|not\s+(?:\w+\s+){0,2}?(?:correct|right|true|valid|possible|chosen|sure)\b|(?:no|not|never|maybe|perhaps|probably|unsure)\W*$)"
    rf"|.*[,;(-]\s*(?:(?:which|but\s+(?:this|that|it)|this|that)\s+is\s+)?(?!false){_DENIED}\W*$",
    re.IGNORECASE | re.DOTALL,
)
_ANY_LETTER = re.compile(r"[(\[{\s$*]*([A-Z])(?!\w|')[)\]}.:$*]*\s*(?:[-,]\s*)?(.*)", re.DOTALL)
_DENIED_BEFORE = re.compile(
    rf"(?:not|neither|never|except)\b\s*(?:option|choice)?\s*{_ITEM}.*", re.IGNORECASE | re.DOTALL
)
_VALUE = r"(?:[0-9]{1,2}|[ivx]+|[IVX]+|[a-z])"
_PAIR = rf"[A-Z]\s*(?:(?:-+>?|=>|:|=|\u2192|\\(?:to|rightarrow))\s*\(?\s*{_VALUE}\s*\)?|[0-9]{{1,2}})"
_PAIRS = re.compile(rf"{_PAIR}(?:\s*[,;]?\s+{_PAIR}|\s*[,;]\s*{_PAIR})+")
_PAIR_PARTS = re.compile(rf"([A-Z])\W*?(?:(?:\\(?:to|rightarrow))\W*)?({_VALUE})(?!\w)")
_REFUSAL = re.compile(
    r"insufficient information|not enough information|cannot be (?:determined|answered)|can't be determined|unclear"
    r"|\b(?:do not|don't) know\b|\bunsure\b|\bno answer\b",
    re.IGNORECASE,
)
_MAX_SAID = 2000
"""Characters of an answer that is looked at for option letters."""
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
_SPACED_COMMA = re.compile(r"(?<![0-9\s])\s*([,;])\s*|\s*([,;])\s*(?![0-9\s])")
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
    if len(text) > _MAX_SAID:
        return None
    said = _said(text)
    if denies_option(said) or _pairs(said) or _DOTTED.fullmatch(text):
        return None
    core = _without_tail(said)
    return _letter_list(core.replace("*", " ")) or _letter_with_text(said) or _letter_with_text(core)


def denies_option(text: str) -> bool:
    """Whether an answer only says of an option that it is not the one: "(B) is wrong", "not B"."""
    if len(text) > _MAX_SAID:
        return False
    said = _said(text)
    found = _ANY_LETTER.fullmatch(said)
    return bool((found and _DENIAL.match(found[2])) or _DENIED_BEFORE.fullmatch(said))


def is_species(text: str) -> bool:
    """Whether an answer is the name of a species ("E. coli"), whose capital is no option letter."""
    return bool(_SPECIES.fullmatch(_said(text[:_MAX_SAID])))


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
    """Compare two option texts: as words, residues, sequences, matches ("P-2, Q-4") or lists of numbers in any order.

    None if undecided: among others when a comma may group thousands or part two numbers, and that decides.
    """
    left, right = (_SPACED_COMMA.sub(lambda m: (m[1] or m[2]) + " ", squash(text)) for text in (one, other))
    if left == right:
        return True
    if left in _RESIDUE_OF and right in _RESIDUE_OF:
        return _RESIDUE_OF[left] == _RESIDUE_OF[right]
    sequences = [re.sub(r"[\s'-]|[53](?=['\s-])", "", text).upper() for text in (left, right)]
    if all(_SEQUENCE.fullmatch(sequence) for sequence in sequences):
        return sequences[0] == sequences[1]
    matches = _pairs(unwrapped(one)), _pairs(unwrapped(other))
    if matches[0] and matches[1]:
        return matches[0] == matches[1] if matches[0].keys() == matches[1].keys() else None
    return _same_lists(one, other)


def _said(text: str) -> str:
    """Return an answer without tags, leads such as "The correct option is", and reasons."""
    text = re.sub(r"\n[\n ]+", "\n", re.sub(r"[^\S\n]+", " ", tagged(text) or text))
    core = _REASON.sub("", unwrapped(text).strip(" \t\n\"'*_"))
    while (found := _LEAD.match(core)) and found.end():
        core = core[found.end() :]
    return _trimmed(core)


def _without_tail(said: str) -> str:
    return _trimmed(_TAIL.sub("", said))


def _trimmed(text: str) -> str:
    return re.sub(r"(?:\s+-+|:)$", "", text.strip(" \t\n\"'*_.,;"))


def _letter_list(core: str) -> Letters | None:
    """Read a single letter, a run of capitals ("ACD"), or letters that something other than a blank parts."""
    if len(core) > 100:
        return None
    if _LIST.fullmatch(core):
        words = re.findall(r"[A-Za-z]+", core)
        letters = [word for word in words if len(word) == 1]
        if not all(map(_is_listed if len(letters) > 1 else _is_option, letters)) or core in ("I", "i"):
            return None
        alike = len({letter.isupper() for letter in letters}) == 1
        alternatives = "or" in map(str.casefold, words)
        return Letters(tuple(dict.fromkeys("".join(letters).upper())), alternatives) if alike else None
    if _is_run(core):
        return Letters(tuple(core))
    inner = _ENCLOSED.fullmatch(core)
    return _letter_list(inner[1].strip()) if inner else None


def _is_listed(letter: str) -> bool:
    return letter.upper() <= _LAST_RUN_LETTER


def _is_option(letter: str) -> bool:
    return letter.isupper() or letter <= "h"


def _is_run(token: str) -> bool:
    return (
        token.isascii()
        and token.isalpha()
        and token.isupper()
        and len(set(token)) == len(token)
        and max(token) <= _LAST_RUN_LETTER
    )


def _letter_with_text(core: str) -> Letters | None:
    found = _LABELLED.fullmatch(core)
    if found is None or is_species(core):
        return None
    letter, text = (group for group in found.groups() if group is not None)
    text = text.strip()
    if not re.search(r"[\w\\]", text) or _NO_TEXT.match(text) or _OTHER_LETTER.search(text):
        return None
    listed = _letter_list(text)
    if listed and len(listed.letters) > 1 and not _is_run(text):
        return None  # "(B) A and C": a list, or B with its text
    return Letters((letter.upper(),), text=text if _without_tail(f"- {text}") else "")


def _pairs(text: str) -> dict[str, str] | None:
    """Read what is matched with what: "P-2, Q-(4)"; None if the text says anything else, or a letter twice."""
    if len(text) > 300 or not _PAIRS.fullmatch(text):
        return None
    found = _PAIR_PARTS.findall(text)
    pairs = dict(found)
    return pairs if len(pairs) == len(found) else None


def _same_lists(one: str, other: str) -> bool | None:
    """Compare lists of numbers under both readings of a comma; another text that has no such comma settles which."""
    readings = [(_numbers(text), _numbers(text, grouped=False)) for text in (one, other)]
    as_number = _same_numbers(readings[0][0], readings[1][0])
    if all(grouped == parted for grouped, parted in readings):
        return as_number
    if as_number or as_number is None:
        return as_number
    as_list = _same_numbers(readings[0][1], readings[1][1])
    settled = any(grouped == parted and len(grouped or ()) > 2 for grouped, parted in readings)
    return as_list if settled or not as_list else None


def _numbers(text: str, grouped: bool = True) -> list[Quantity] | None:
    """Read a list of numbers; a comma groups thousands only if wanted and where the whole text is one number."""
    plain = unwrapped(text)
    if len(plain) > 300:
        return None
    parts = (
        [plain] if grouped and _THOUSANDS.fullmatch(plain) else [part for part in _ITEM_SEPARATOR.split(plain) if part]
    )
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
