"""Words of errors that may be stored, logged and published: without paths, tokens and secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_PATH = re.compile(r"(?<![\w/.:])~?/[\w.+@-]+(?:/[\w.+@-]+)+/?")
_TOKEN = re.compile(r"\b(?:hf|sk|api_org)[_-][\w*-]{6,}")
_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY")
_LONGEST = 500


def reason_of(error: BaseException, secrets: Sequence[str] = ()) -> str:
    """Return an error on one line, fit for the store."""
    return redact(f"{type(error).__name__}: {error}", secrets)


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Return a text on one line of at most 500 characters, without paths, tokens and secrets.

    A secret is what `secrets` holds and the value of every environment variable whose name says that it is one.
    """
    text = " ".join(text.split())
    known = [value for name, value in os.environ.items() if len(value) >= 8 and _NAMES.search(name)]
    for value in sorted({*known, *secrets}, key=len, reverse=True):  # the longest first: one may be part of another
        text = text.replace(value, "***") if value else text
    return _TOKEN.sub("***", _PATH.sub("(path)", text))[:_LONGEST]
