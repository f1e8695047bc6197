"""Find the final answer in a model's text.

The last complete box outside the thinking part wins; without a box, what follows the last answer cue; else there is no
answer. A box that the text ends inside of is a truncated answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dhd_labels.protocol.reasoning import split_reasoning

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
# "Answer: 42", "**Answer:** 42", "The answer is 42", also with the answer on the next line.
_CUE = re.compile(r"\banswer\b[*_ \t]*(?:is\b[ \t]*:?|[:=])[*_ \t]*\n?[ \t]*([^\n]*\S)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Extraction:
    """An extracted answer, or why there is none."""

    answer: str | None
    status: Literal["ok", "no_answer", "truncated"]


def final_part(text: str) -> str:
    """Return the text after the thinking part; empty when that never ends or is malformed (`split_reasoning`)."""
    return split_reasoning(text).final


def boxed_answers(text: str) -> list[str]:
    """Return the contents of all complete boxes, in order, found by counting braces."""
    closings = _closing_braces(text)
    ends = [(found.end(), closings.get(found.end() - 1)) for found in _BOX.finditer(text)]
    return [text[start:end].strip() for start, end in ends if end is not None]


def extract_answer(text: str) -> Extraction:
    """Extract the final answer from a whole reply."""
    final = final_part(text)
    boxes = boxed_answers(final)
    opened = list(_BOX.finditer(final))
    if opened and opened[-1].end() - 1 not in _closing_braces(final):
        return Extraction(None, "truncated")
    if boxes:
        return Extraction(boxes[-1], "ok") if boxes[-1] else Extraction(None, "no_answer")
    cues = [answer for cue in _CUE.finditer(final) if (answer := cue.group(1).strip(" *$."))]
    return Extraction(cues[-1], "ok") if cues else Extraction(None, "no_answer")


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
