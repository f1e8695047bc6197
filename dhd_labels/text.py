"""Handling of text that a model wrote. It is untrusted: never evaluated, and defused before it enters a prompt."""

from __future__ import annotations

import re

QUOTE = "  |"
"""Starts every line but the first of a field shown in a prompt, so that no line of ours can be forged."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Everything that some reader takes for the end of a line; a model may treat any of them as one.
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Control characters, marks that turn the reading direction around, the byte order mark and the invisible tag letters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
# The ways in which chat templates write their tokens: `<|end|>`, `<channel|>`, `</s>`, `<start_of_turn>`, `[INST]`.
_TEMPLATE_TOKEN = re.compile(
    r"<(?=[|\uff5c]|/?\w{1,24}\|>|/?(?:s|bos|eos|pad|unk|think|thinking|start_of_turn|end_of_turn)>)"
    r"|\[(?=/?(?:INST|THINK|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS)\])",
    re.IGNORECASE,
)


def storable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def clean(text: str) -> str:
    r"""Return text in the one form in which it is read and compared.

    Lone surrogates become U+FFFD, every kind of line break becomes `\n`, control characters, direction marks and
    invisible tag letters go, and so do spaces at the end of a line and around the whole. Applying it twice changes
    nothing more.
    """
    visible = _INVISIBLE.sub("", _LINE_BREAK.sub("\n", storable(text)))
    return "\n".join(line.rstrip() for line in visible.split("\n")).strip()


def for_prompt(text: str) -> str:
    """Make a model's text safe to show to another model.

    The text is cleaned, and chat-template tokens (`<|im_end|>`, `<end_of_turn>`, a gpt-oss channel) are split by a
    space, so that none survives as a token. It may still have several lines: show it with `inline` or `quoted`.
    """
    return _TEMPLATE_TOKEN.sub(r"\g<0> ", clean(text))


def inline(text: str) -> str:
    """Return text defused and on one line, for a place in the middle of a line of a prompt."""
    return " ".join(line.strip() for line in for_prompt(text).split("\n") if line.strip())


def quoted(text: str) -> str:
    """Return text defused, with every line but the first marked by `QUOTE`: what starts a line is always ours.

    Text of one line stays as it is. `unquoted` undoes one marked line.
    """
    first, *others = for_prompt(text).split("\n")
    return "\n".join([first, *(f"{QUOTE} {line}".rstrip() for line in others)])


def unquoted(line: str) -> str | None:
    """Return the text of a line that `quoted` marked, or None when the line has no mark."""
    if not line.startswith(QUOTE):
        return None
    return line[len(QUOTE) :].removeprefix(" ")


def one_line(text: str, width: int) -> str:
    """Return text on one line, cut to a width, for a terminal."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."
