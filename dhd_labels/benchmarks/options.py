"""Splitting of options that an upstream file keeps inside the question text."""

from __future__ import annotations

import re

# "(A)", "[A]", "$[\mathrm{A}]", "(\text{A})".
_MARK = r"(\$?)[(\[]\s*(?:\\(?:mathrm|text|textbf)\s*\{)?\s*([A-H])\s*\}?\s*[)\]]"
_ANYWHERE = re.compile(_MARK)
_AT_LINE_START = re.compile(rf"^[ \t]*{_MARK}", re.MULTILINE)


def split_options(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a question into its stem and its options, without the marks.

    The marks must be A, B, C, ... once each and in order, at line starts or else anywhere; every part must be non-empty
    and close the mathematics and braces that it opens. Otherwise the split is not safe and the text comes back whole,
    with no options.
    """
    for pattern in (_AT_LINE_START, _ANYWHERE):
        marks = list(pattern.finditer(text))
        if len(marks) < 2 or "".join(mark[2] for mark in marks) != "ABCDEFGH"[: len(marks)]:
            continue
        ends = [*(mark.start() for mark in marks[1:]), len(text)]
        stem = text[: marks[0].start()].strip()
        # A dollar before the mark opens the mathematics of the option.
        options = tuple(mark[1] + text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))
        if all(_is_whole(part) for part in (stem, *options)):
            return stem, options
    return text.strip(), ()


def _is_whole(part: str) -> bool:
    bare = part.replace("\\\\", "").replace("\\$", "").replace("\\{", "").replace("\\}", "")
    return bool(bare.strip("$ ")) and bare.count("$") % 2 == 0 and bare.count("{") == bare.count("}")
