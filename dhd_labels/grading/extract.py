"""Find the final answer in a model's text.

The last complete box outside the thinking part wins; without a box, what follows the last answer cue; else there is no
answer. A box that the text ends inside of is a truncated answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_CUE = re.compile(r"(?:final\s+)?answer\s*(?:is)?\s*[:=]?\s*\**\s*[:=]?\s*\**\s*(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extraction:
    """An extracted answer, or why there is none."""

    answer: str | None
    status: Literal["ok", "no_answer", "truncated"]


def final_part(text: str) -> str:
    """Return the text after the last `</think>`; an opening tag may be missing."""
    return text.rpartition("</think>")[2]


def boxed_answers(text: str) -> list[str]:
    """Return the contents of all complete boxes, in order, found by counting braces."""
    contents = []
    for found in _BOX.finditer(text):
        end = _closing_brace(text, found.end())
        if end is not None:
            contents.append(text[found.end() : end].strip())
    return contents


def extract_answer(text: str) -> Extraction:
    """Extract the final answer from a whole reply."""
    final = final_part(text)
    boxes = boxed_answers(final)
    opened = list(_BOX.finditer(final))
    if opened and _closing_brace(final, opened[-1].end()) is None:
        return Extraction(None, "truncated")
    if boxes:
        return Extraction(boxes[-1], "ok") if boxes[-1] else Extraction(None, "no_answer")
    for line in reversed(final.splitlines()):
        cue = _CUE.search(line)
        if cue:
            return Extraction(cue.group(1).strip(" *$."), "ok")
    return Extraction(None, "no_answer")


def _closing_brace(text: str, start: int) -> int | None:
    """Return the index of the brace that closes the one before `start`, or None if the text ends first."""
    depth = 1
    for index in range(start, len(text)):
        if text[index] == "\\":
            continue
        if text[index] in "{}" and text[index - 1] != "\\":
            depth += 1 if text[index] == "{" else -1
            if depth == 0:
                return index
    return None
