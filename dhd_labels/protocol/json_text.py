r"""JSON as models write it: inside prose or a fence, with LaTeX whose backslashes were not doubled.

`"\frac{1}{2}"` is valid JSON for a form feed and "rac{1}{2}". No model ever means that, so escapes that begin a LaTeX
command are read as LaTeX before anything is decoded. What cannot be repaired is not decoded at all.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

_MAX_DEPTH = 64
_MAX_TRIES = 32
_START = re.compile(r'\{\s*["}]|\[\s*[\[{"]')
# A string runs to the end of the text when it is not closed: an unclosed one is then scanned once, not once a quote.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?\Z)|[{}\[\]]', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|([a-zA-Z]+)|(.))", re.DOTALL)
# LaTeX commands that begin like the escapes for newline, return and tab. Backspace and form feed are never meant.
_LATEX_COMMANDS = """
nabla natural ncong ne nearrow neg neq newcommand newline newpage nexists ngeq ngtr ni nleq nless nmid nobreak nolimits
nonumber norm normalsize not notin nparallel nprec nrightarrow nsim nsubseteq nsucc nsupseteq nu num nwarrow
raise rangle rbrace rbrack rceil ref relax renewcommand rfloor rgroup rho right rightarrow rightharpoonup rVert rvert
rightleftarrows rightleftharpoons rightrightarrows rightsquigarrow rm root rtimes rule
tag tan tanh tau tbinom tfrac therefore theta thickapprox thicksim thinspace tilde times tiny to top tr triangle
triangledown triangleleft trianglelefteq triangleq triangleright trianglerighteq tt twoheadrightarrow
"""
_LATEX = frozenset(_LATEX_COMMANDS.split())


def json_values(text: str) -> Iterator[tuple[int, Any]]:
    """Yield (start, value) of the objects and arrays in a text, from left to right, not those inside others.

    Objects come as dictionaries in which the first of equal keys won; numbers come as the text that was written. The
    search ends at an object that never closes: what stands inside it would be taken for something it is not.
    """
    position = 0
    for _ in range(_MAX_TRIES):
        start = _START.search(text, position)
        found = _scan(text, start.start()) if start else None
        if start is None or found is None:
            return
        repaired, position = found
        try:
            value = json.loads(
                repaired,
                strict=False,
                object_pairs_hook=_first_wins,
                parse_int=str,
                parse_float=str,
                parse_constant=str,
            )
        except (ValueError, RecursionError):
            continue
        yield start.start(), value


def as_text(value: Any) -> str:
    """Return a decoded value as text: a list of words on one line, other lists and objects one item a line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "\n".join(f"{key}: {as_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        items = [as_text(item) for item in value]
        return (", " if not any(re.search(r"\s", item) for item in items) else "\n").join(items)
    return str(value)


def key_words(key: str) -> str:
    r"""Return a key as lower-case words: `keyIdea`, `key_idea`, `key\_idea` and `Key idea:` are all "key idea"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", unicodedata.normalize("NFKC", key[:200]))
    return " ".join(re.findall(r"\w+", spaced.replace("_", " "))).lower()


def _scan(text: str, start: int) -> tuple[str, int] | None:
    """Return the balanced value that begins at `start`, repaired, and its end; or None when it never closes."""
    pieces: list[str] = []
    depth, done = 0, start
    for token in _TOKEN.finditer(text, start):
        between, done = text[done : token.start()], token.end()
        # A comma before a closing bracket is the commonest fault that changes no meaning.
        pieces.append(between.rstrip().removesuffix(",") if token[0] in "}]" else between)
        if token[0][0] == '"':
            pieces.append(_ESCAPE.sub(_repaired_escape, token[0]))
            continue
        pieces.append(token[0])
        depth += 1 if token[0] in "{[" else -1
        if depth == 0:
            return "".join(pieces), done
        if depth > _MAX_DEPTH:
            return None
    return None


def _repaired_escape(escape: re.Match[str]) -> str:
    """Double the backslash of an escape that JSON does not know or that begins a LaTeX command."""
    letters, other = escape.groups()
    if letters is None:
        # `\'` is what JavaScript would write; the rest (`\_`, `\(`, `\,`) is LaTeX or Markdown.
        return "'" if other == "'" else escape[0] if other in ('"', "\\", "/", None) else "\\" + escape[0]
    known_escape = letters[0] in "bfnrt"
    latex = len(letters) > 1 and (letters[0] in "bf" or letters in _LATEX or letters.startswith("text"))
    return escape[0] if known_escape and not latex else "\\" + escape[0]


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found
