"""Words of errors that may be stored, logged and published: without paths, tokens and secrets."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote, unquote

_PATH = re.compile(r"(?<![\w/.:])~?/[\w.+@-]+(?:/[\w.+@-]+)+/?")
_TOKEN = re.compile(r"\b(?:hf|sk|api_org)[_-][\w*-]{6,}")
_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY")
_ESCAPED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))")
_VARIES = re.compile(r"\b[\w-]*\d[\w-]*\b")
_READ = 20_000
_LONGEST = 500
_PIECE = 8
"""A secret of `secrets` is recognised by so many of its characters in a row."""


def reason_of(error: BaseException, secrets: Sequence[str] = ()) -> str:
    """Return an error on one line, fit for the store."""
    return redact(f"{type(error).__name__}: {error}", secrets)


def alike(reason: str) -> str:
    """Return a reason without numbers and ids: what may differ between two messages that say the same."""
    return _VARIES.sub("#", reason)


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """Return a text on one line of at most 500 characters, without paths, tokens and secrets.

    A secret is what `secrets` holds and the value of every environment variable whose name says that it is one; in
    plain, in Base64, or escaped for JSON, a URL or HTML. Of those in `secrets`, pieces of 8 characters go too.
    """
    text = " ".join(text[:_READ].split())
    whole, pieces = _forms(secrets), _pieces(secrets)
    for view in _VIEWS:
        seen = view(text)
        masked = _mask(seen, whole, pieces)
        text = masked if masked != seen else text  # decoded only where that brought a secret to light
    return _TOKEN.sub("***", _PATH.sub("(path)", text))[:_LONGEST]


def _forms(secrets: Sequence[str]) -> list[str]:
    """Return every secret in every form, the longest first: one may be part of another."""
    known = {value for name, value in os.environ.items() if len(value) >= 8 and _NAMES.search(name)}
    forms = {form for secret in {*known, *secrets} if secret for form in (secret, quote(secret, safe=""))}
    forms |= {form for secret in {*known, *secrets} for form in _base64_forms(secret)}
    return sorted(forms, key=len, reverse=True)


def _base64_forms(secret: str) -> Iterator[str]:
    """Yield what Base64 makes of a secret wherever in a longer text it stands, without the edges that others share."""
    for before in range(3):
        code = base64.b64encode(b"x" * before + secret.encode("utf-8", "replace")).decode().rstrip("=")
        inner = code[(0, 2, 3)[before] : None if (before + len(secret)) % 3 == 0 else -1]
        if len(inner) >= _PIECE:
            yield inner
            yield inner.translate(str.maketrans("+/", "-_"))


def _pieces(secrets: Sequence[str]) -> set[str]:
    forms = [form for secret in secrets for form in (secret, *_base64_forms(secret))]
    return {form[at : at + _PIECE] for form in forms for at in range(len(form) - _PIECE + 1)}


def _mask(text: str, whole: Sequence[str], pieces: set[str]) -> str:
    for form in whole:
        text = text.replace(form, "***")
    starts = [at for at in range(len(text) - _PIECE + 1) if text[at : at + _PIECE] in pieces] if pieces else []
    parts, end = [], 0
    for at in starts:
        if at >= end:
            parts += [text[end:at], "***"]
        end = at + _PIECE
    return "".join([*parts, text[end:]])


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else m[3], text)


_VIEWS: tuple[Callable[[str], str], ...] = (lambda text: text, _unescape, unquote, html.unescape)
