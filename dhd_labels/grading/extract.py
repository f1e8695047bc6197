"""Find the final answer in a model's text.

The last complete box outside the thinking part wins (several boxes joined by "and" or commas are a list); without a
box, what follows the last answer cue; else there is no answer. A box that the text ends inside of is a truncated
answer. For option letters a box or cue counts only if it names a letter; "the last capital letter" never counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from dhd_labels.grading.dressing import visible
from dhd_labels.grading.options import denies_option, is_species, read_letters, tagged
from dhd_labels.protocol.reasoning import split_reasoning

OPTION_TYPES = ("choice", "choices", "choice_any")

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*(?:(\{)|(\\[A-Za-z]+(?:\s*\{[^{}]*\})+|[^\s${}\\]+))")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# "Answer: 42", "**Answer:** 42", "The answer is 42", also with the answer on the next line; a heading "### Answer"; a
# dash only where the answer opens the line. Possessive: a cue before a page of blanks must not backtrack.
_NOT_WRONG = r"(?<!wrong )(?<!incorrect )(?<!not the )(?<!not an )"
_OPENED = (
    r"^[ \t*_#>]*+(?:(?:my|final|correct)[ \t]++){0,2}ans(?:wer)?\b[*_]*+[ \t]++[-\u2013\u2014][ \t]++[*_]*+"
    r"|^[ \t]*+(?:#{1,6}[ \t*_]*+|\*\*)(?:final[ \t]++)?answer[ \t*_]*+\n\s*+(?!#)"
)
_IS = r"[*_ \t]*+(?:(?:is|are)\b[ \t]*+[:\uff1a]?|[:=\uff1a\uff1d])[*_ \t]*+(?:\n[ \t]*+){0,2}"
_CUE = re.compile(rf"{_OPENED}|{_NOT_WRONG}\bans(?:wer)?\b{_IS}", re.IGNORECASE | re.MULTILINE)
_OPTION_CUE = re.compile(
    rf"{_OPENED}|{_NOT_WRONG}\b(?:answers?|ans|(?:correct|right|best)\s+(?:options?|choices?|statements?)|options?\s+chosen)\b"
    rf"(?:{_IS}|[ \t]++(?:would|must)[ \t]++be\b[ \t]*+)",
    re.IGNORECASE | re.MULTILINE,
)
# "So, B is the correct answer.", "A and C are the correct options."
_SAID_LETTER = r"[*$(\[]*[A-J]\b[*$)\]]*"
_OPTION_SAID = re.compile(
    r"(?:^|[.!?:]\s)[ \t*_>#-]*(?:(?:so|thus|hence|therefore|clearly|consequently)\b,?[ \t]+)?"
    rf"(?:(?:the[ \t]+)?options?[ \t]+)?({_SAID_LETTER}(?:(?:,[ \t]*|,?[ \t]+and[ \t]+){_SAID_LETTER}){{0,9}})"
    r"[ \t]+(?:is|are)[ \t]+(?:the[ \t]+)?(?:only[ \t]+)?(?:correct|right|best|final)[ \t]+"
    r"(?:answers?|options?|choices?)\b[*_ \t]*(?=[.!,;\n]|$|because\b|since\b|as\b)",
    re.IGNORECASE | re.MULTILINE,
)
_ONLY_REMARKED = re.compile(r"(?:correct|incorrect|wrong)[.!]?", re.IGNORECASE)
"""After "my answer is" these speak about the answer; after "Answer:" they are one."""
_REFUSAL = re.compile(
    r"(?:i (?:do not|don't|don’t|cannot|can't|can’t|could not|couldn't) \w+.*|(?:it is )?(?:unknown|not sure|unsure|n/a"
    r"|unclear|undetermined|no answer|not known|not given|cannot be determined|can not be determined"
    r"|impossible to (?:say|tell).*)|\?+|-+)[.!]?"
)
_REMARK = re.compile(
    r"(?:not|un(?:clear|known|convincing|certain|sure|likely)|likely|probably|maybe|perhaps|see|given|wrong|right|correct"
    r"|incorrect|based|found|obtained|hard|difficult|impossible|still|also|therefore|because|since)\b(?!\s*$)|(?:unclear|unknown|unconvincing|uncertain|unsure|maybe|perhaps)\b",
    re.IGNORECASE,
)
_MAX_CUED_WORDS = 16
_MAX_CUED = 500
"""Characters after a cue that are looked at for option letters."""
_MAX_JOINT = 60
# "\boxed{3} and $x = \boxed{5}$": what may stand between boxes of one list.
_JOINT = re.compile(
    r"[\s$]*(?:,|;|&|\\quad|\\qquad|\\text\s*\{\s*(?:,\s*)?(?:and|or)?\s*\}|\band\b|\bor\b|[\s$])+[\s$]*(?:[A-Za-z](?:_\w)?\s*=\s*)?[\s$]*"
)
# "B because ...", "B, since ...": after a cue the letter is the first thing said.
_CUED_LETTER = re.compile(
    r"[\s$*_(\[]*\b([A-Z])\b(?!['’])[\s$*_)\]]*(?=$|[.,;:)]|because\b|since\b|as\b|due\b|for\b|-(?!\s*(?:[A-Za-z]\b|[0-9])))"
)
# "A, C or maybe D": the first letter is not all that is said.
_LISTED_NEXT = re.compile(
    r"[\s$*_)\],;.:]*(?:(?:and|or|but|maybe|possibly)\b\s*)*[$*_(\[]*(?:[B-HJ]\b(?!['’])|[AI]\b(?!['’]|\s+[a-z]))"
)


@dataclass(frozen=True, slots=True)
class Extraction:
    """An extracted answer, or why there is none."""

    answer: str | None
    status: Literal["ok", "no_answer", "truncated"]


@dataclass(frozen=True, slots=True)
class _Box:
    start: int
    end: int
    content: str


def final_part(text: str) -> str:
    """Return the text after the thinking part; empty when that never ends or is malformed (`split_reasoning`)."""
    return split_reasoning(text).final


def boxed_answers(text: str) -> list[str]:
    """Return the contents of all complete boxes, in order, found by counting braces."""
    return [box.content for box in _boxes(text)[0]]


def extract_answer(text: str, answer_type: str | None = None) -> Extraction:
    """Extract the final answer from a whole reply.

    Args:
        text: the reply, thinking included.
        answer_type: the declared type (`records.AnswerType`); for options, the answer is their letters ("B", "AD").
            Without it, the cues of every type count and the answer is not looked into.
    """
    final = visible(final_part(text))
    boxes, cut_off = _boxes(final)
    if cut_off:
        return Extraction(None, "truncated")
    if answer_type in OPTION_TYPES:
        return _option_answer(final, boxes)
    if boxes:
        return _found(_last_list(final, boxes))
    cued = _last_cue(final, _CUE if answer_type else _OPTION_CUE)
    return _found(cued if cued and states_a_value(cued) else None)


def _found(answer: str | None) -> Extraction:
    return Extraction(answer, "ok") if answer and not is_refusal(answer) else Extraction(None, "no_answer")


def is_refusal(answer: str) -> bool:
    """Whether an answer says that there is none: that is no answer, and nobody judges it."""
    return bool(_REFUSAL.fullmatch(" ".join(re.sub(r"\\text\w*|[{}$*_]", " ", answer).casefold().split())))


def states_a_value(cued: str) -> bool:
    """Whether what follows an answer cue outside a box is a value, and not a sentence about the answer.

    A value is short and does not begin as a remark does ("not clear", "unconvincing, since ...", "see above").
    """
    words = cued.split()
    return len(words) <= _MAX_CUED_WORDS and not _REMARK.match(cued) and not cued.endswith("?")


def _option_answer(final: str, boxes: list[_Box]) -> Extraction:
    """Return letters from the box, else from a tag or cue; else the box or cue as it is: it may be an option's text."""
    boxed = _last_list(final, boxes) if boxes else None
    cued = tagged(final) or _last_option_cue(final)
    for text, reader in ((boxed, _letters), (cued, _cued_letters)):
        if text and (letters := reader(text)):
            return Extraction(letters, "ok")
    said = boxed or cued
    return _found(None if said and denies_option(said) else said)


def _letters(text: str) -> str | None:
    found = read_letters(text)
    if found is None:
        return None
    return " or ".join(sorted(found.letters)) if found.alternatives else "".join(sorted(found.letters))


def _cued_letters(text: str) -> str | None:
    """Read the letters of a cue: all of it, or the first word when a reason follows, not a denial or more letters."""
    if letters := _letters(text):
        return letters
    start = text[:_MAX_CUED]
    found = _CUED_LETTER.match(start)
    if not found or denies_option(start) or is_species(start) or _LISTED_NEXT.match(start, found.end()):
        return None
    return found[1]


def _last_cue(final: str, cue: re.Pattern[str]) -> str | None:
    found = _cue_and_answer(final, cue)
    return found[1] if found else None


def _last_option_cue(final: str) -> str | None:
    """Return what follows the last cue, or the letters that are called the answer if that comes later or is the cue."""
    cued = _cue_and_answer(final, _OPTION_CUE)
    said = [found for found in _OPTION_SAID.finditer(final) if read_letters(found[1])]
    if said and (cued is None or said[-1].end() > cued[0]):
        return said[-1][1]
    return cued[1] if cued else None


def _cue_and_answer(final: str, cue: re.Pattern[str]) -> tuple[int, str] | None:
    """Return where the last cue that has an answer starts, and the rest of its line: no heading, no lead to a list."""
    for found in reversed(list(cue.finditer(final))):
        answer = final[found.end() :].partition("\n")[0].strip(" \t\r*$.")
        remark = found[0].rstrip().endswith(("is", "are")) and _ONLY_REMARKED.fullmatch(answer)
        if answer and not remark and not answer.startswith("#") and not answer.endswith(":"):
            return found.start(), answer
    return None


def _last_list(final: str, boxes: list[_Box]) -> str:
    """Return the last box, with those before it that it is joined to; equal boxes count once."""
    first, joint = len(boxes) - 1, ", "
    for after, before in pairwise(reversed(boxes)):
        between = final[before.end : after.start]
        if len(between) > _MAX_JOINT or not _JOINT.fullmatch(between):
            break
        joint = " or " if re.search(r"\bor\b", between) else joint
        first -= 1
    contents = list(dict.fromkeys(box.content for box in boxes[first:] if box.content))
    return joint.join(contents) if boxes[-1].content else ""


def _boxes(text: str) -> tuple[list[_Box], bool]:
    """Return all complete boxes, and whether the last one is cut off."""
    closings = _closing_braces(text)
    found: list[_Box] = []
    cut_off = False
    for match in _BOX.finditer(text):
        cut_off = False
        if match[1] is None:
            found.append(_Box(match.start(), match.end(), match[2].rstrip(".,;:!?)*").strip()))
        elif (end := closings.get(match.end() - 1)) is None:
            cut_off = True
        else:
            found.append(_Box(match.start(), end + 1, text[match.end() : end].strip()))
    return found, cut_off


def _closing_braces(text: str) -> dict[int, int]:
    """Return the index of the closing brace for that of every opening one; one pass, escaped braces do not count."""
    opened: list[int] = []
    pairs = {}
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            opened.append(found.start())
        elif found[0] == "}" and opened:
            pairs[opened.pop()] = found.start()
    return pairs
