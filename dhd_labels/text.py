"""Handling of text that a model wrote. It is untrusted: never evaluated, and defused before it enters a prompt."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def storable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def for_prompt(text: str) -> str:
    """Make a model's text safe to show to another model.

    Control and bidirectional-override characters go, and `<|` is split, so that no chat-template token (`<|im_end|>`,
    a gpt-oss channel) survives as a token. Everything else stays as it was written.
    """
    return _CONTROL.sub("", storable(text)).replace("<|", "< |").strip()


def one_line(text: str, width: int) -> str:
    """Return text on one line, cut to a width, for a terminal."""
    flat = " ".join(_CONTROL.sub("", storable(text)).split())
    return flat if len(flat) <= width else flat[: width - 3] + "..."
