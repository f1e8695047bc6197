"""The notation of answers as tokens, and the trees that they are read into."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from dhd_labels.grading.dressing import FONTS, plain

MAX_LENGTH = 1500
"""Characters of an expression; longer texts are derivations, not answers."""
MAX_TOKENS = 300
"""Symbols of an expression. Trees lean to one side, so this bounds their depth too."""

RELATIONS = {
    "=": "=", "<": "<", ">": ">", r"\le": "<=", r"\leq": "<=", r"\leqslant": "<=", r"\ge": ">=", r"\geq": ">=",
    r"\geqslant": ">=", r"\lt": "<", r"\gt": ">", r"\neq": "!=", r"\ne": "!=", r"\approx": "~", r"\simeq": "~",
    r"\in": "in", r"\equiv": "mod",
}  # fmt: skip
FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln", "log", "lg",
    "exp", "min", "max", "gcd", "lcm",
}  # fmt: skip
_GREEK_NAMES = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon phi
varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega pi infty ell
"""
GREEK = {"\\" + name for name in _GREEK_NAMES.split()}
_SHORT_WORDS_TEXT = """
an as at be by do for has if in is it its no not of off on one two ten six to up we all any are but can did odd per set
so the was yes few iff non such
"""
_SHORT_WORDS = set(_SHORT_WORDS_TEXT.split())
_FONT = re.compile(rf"\\(?:{FONTS}|boldsymbol|bm)\*?\s*\{{([^{{}}]*)\}}")
_TOKEN = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"|(?P<command>\\[A-Za-z]+|\\[{}|%#])|(?P<word>[A-Za-z]+)|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)


class UnreadableError(ValueError):
    """A text that is no expression this reader knows; the message says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """A tree. `kind` says what it is, `name` the symbol, function, relation or brackets, `value` that of a number."""

    kind: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of an expression."""

    kind: str
    text: str


def _font(found: re.Match[str]) -> str:
    """Return what a font holds, when it is a symbol, a number, a function or a connective; else keep it unreadable."""
    content = found[1].strip()
    if len(content) == 1 and found[0].startswith("\\text") and re.search(r"[0-9}]\s*$", found.string[: found.start()]):
        return r"\text "  # "5 \\text{ m}": a unit
    simple = len(content) == 1 or content in FUNCTIONS or content in ("or", "and", ",", ";")
    return f" {content} " if simple or re.fullmatch(r"[-+0-9.,^{}/ ]+", content) else r"\text "


def tokens(text: str, thousands: bool) -> list[Token]:
    """Split a text into tokens.

    Raises:
        UnreadableError: too long, or with a word in it.
    """
    if len(text) > MAX_LENGTH:
        raise UnreadableError(f"longer than {MAX_LENGTH} characters")
    found: list[Token] = []
    depth = 0
    for match in _TOKEN.finditer(_FONT.sub(_font, plain(text))):
        kind, piece = str(match.lastgroup), match[0]
        depth += piece in ("(", "[", r"\{")
        depth -= piece in (")", "]", r"\}")
        if kind == "word":
            found += _letters(piece)
        elif kind == "number" and "," in piece and (depth or not thousands):
            found += [Token("other" if part == "," else "number", part) for part in re.split("(,)", piece)]
        elif kind != "space":
            found.append(Token(kind, piece.replace(",", "") if kind == "number" else piece))
    if len(found) > MAX_TOKENS:
        raise UnreadableError(f"more than {MAX_TOKENS} symbols")
    return found


def _letters(word: str) -> list[Token]:
    """Read a run of letters: a function, a connective, or a product of symbols."""
    if word in FUNCTIONS or word in ("or", "and", "pi", "sqrt", "infty"):
        kind = "separator" if word in ("or", "and") else "command"
        return [Token(kind, word if kind == "separator" else "\\" + word)]
    if len(word) > 3 or word.casefold() in _SHORT_WORDS:
        raise UnreadableError(f"the word {word[:20]!r}")
    return [Token("word", letter) for letter in word]
