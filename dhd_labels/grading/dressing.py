"""Take off what dresses an answer without changing it: LaTeX spacing, sizing and fonts, markdown, Unicode spellings."""

from __future__ import annotations

import re
import unicodedata

FONTS = r"text|textbf|textit|textrm|texttt|textsf|textnormal|mbox|hbox|mathrm|mathbf|mathit|mathsf|bf|rm|operatorname"
_FONT = re.compile(rf"\\(?:{FONTS}|boldsymbol|bm|emph)\*?\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile(r"[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = re.compile(r"([0-9]*)\s*([¼½¾⅐-⅞])")
_SPACING = re.compile(
    r"\\(?:left|right|bigl?|bigr|Bigl?|Bigr|biggl?|biggr|Biggl?|Biggr|displaystyle|textstyle|limits|nolimits|qquad|quad"
    r"|thinspace|enspace)(?![A-Za-z])|\\[,;!:> ()\[\]]|(?<!\\)~|\\phantom\{[^{}]*\}|\\[hv]space\{[^{}]*\}"
)
# Only before these: a doubled backslash elsewhere is a line break of a matrix.
_DOUBLED = re.compile(r"\\\\(?=(?:circ|frac|dfrac|tfrac|sqrt|pi|text|mathrm|times|cdot|left|right|pm|boxed)(?![a-z]))")
# Zero-width characters, the soft hyphen and the byte order mark. Not the marks that turn the reading direction around.
_UNSEEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
_SAME = {
    "\u2212": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\ufe63": "-", "\u00d7": r"\times ",
    "\u22c5": r"\cdot ", "\u00b7": r"\cdot ", "\u00f7": "/", "\u2044": "/", "\u221a": r"\sqrt ", "\u03c0": r"\pi ",
    "\u221e": r"\infty ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\neq ", "\u2248": r"\approx ",
    "\u00b1": r"\pm ", "\u222a": r"\cup ", "\u2208": r"\in ", "\u2016": "|", "\u2032": "'", "\u2019": "'",
}  # fmt: skip
_SAME_RUN = re.compile("|".join(_SAME))


def visible(text: str) -> str:
    """Return the text without the characters that nobody sees, such as a zero-width space before a digit."""
    return _UNSEEN.sub("", text)


def plain(text: str) -> str:
    """Return the text without dressing; fonts such as \\text{...} stay, so that words can be told from symbols."""
    text = visible(text)
    text = _SUPERSCRIPT_RUN.sub(lambda m: "^{" + m[0].translate(_SUPERSCRIPTS) + "}", text)
    text = _VULGAR.sub(_vulgar, text)
    text = _SAME_RUN.sub(
        lambda m: _SAME[m[0]], unicodedata.normalize("NFKC", _SAME_RUN.sub(lambda m: _SAME[m[0]], text))
    )
    text = re.sub(r"(?<=[0-9])\\[,:;](?=[0-9]{3}(?![0-9]))", "", text)
    text = _DOUBLED.sub(r"\\", text).replace("{,}", ",").replace(r"{\,}", ",")
    text = re.sub(r"\\[dtc]frac(?![A-Za-z])", r"\\frac", _SPACING.sub(" ", text))
    text = re.sub(r"\\\\(?=\s*$)", "", text)
    return _markdown(_math_dollars(text))


def unwrapped(text: str) -> str:
    """Return `plain` text without fonts as well: "\\text{ km}" becomes " km "."""
    text = plain(text)
    for _ in range(4):
        text, found = _FONT.subn(r" \1 ", text)
        if not found:
            break
    return text.strip()


def squash(text: str) -> str:
    """Return a text for comparison as words: no dressing, one case, single spaces, no full stop."""
    return " ".join(unwrapped(text).replace("$", " ").casefold().split())


def _vulgar(found: re.Match[str]) -> str:
    value = unicodedata.normalize("NFKC", found[2]).replace("\u2044", "/")
    return f"({found[1]}+{value})" if found[1] else f"({value})"


def _math_dollars(text: str) -> str:
    """Turn delimiters into spaces and keep money: an escaped dollar sign, or a single one, is a currency."""
    text = re.sub(r"\\\$", " dollar ", text)
    return text.replace("$", " dollar " if text.count("$") == 1 else " ")


def _markdown(text: str) -> str:
    text = re.sub(r"\*\*|__(?=\S)|`", " ", text).strip()
    return text.rstrip(".").strip() if re.search(r"(?<!\.)\.$", text) else text
