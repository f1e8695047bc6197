r"""From a judge's text to its verdict, and how text is defused before a judge sees it.

A cue (`Correctness`, `Verdict`, ...) followed by a value is an anchor. An anchor counts when it opens a sentence or a
line (after words such as "My final") and nothing hedges its value; the last anchor decides. Decided cases: quoted,
fenced and block-quoted text is not there at all; a last anchor that is hedged ("0 or 1"), off the scale ("10/10",
"[[2]]") or inside a sentence makes the text unreadable rather than an earlier anchor count. A code span is a quotation
unless it is its whole line. An operational failure is better than a wrong verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dhd_labels.protocol.reasoning import split_reasoning
from dhd_labels.text import clean, for_prompt


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge decided. `correct` is None, with a reason, exactly when the text is unreadable.

    The status `conflict` flags a text with two different verdicts, of which `correct` is the last.
    """

    status: Literal["ok", "conflict", "unreadable"]
    correct: bool | None
    reason: str | None = None

    @property
    def conflict(self) -> bool:
        """Whether the text holds two different verdicts."""
        return self.status == "conflict"


# No possessive quantifier stands on a group here or elsewhere: early releases of CPython 3.11 match those wrongly.
_EDGE = r"(?![^\W_])"  # no letter or digit follows; markdown's underscore may
_CUES = r"(?:correctness|verdict|judge?ment|rating|grade)"
_CUE = re.compile(rf"(?<![^\W_]){_CUES}{_EDGE}", re.IGNORECASE)

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms, common in Chinese text
_UNSEEN = re.compile("[\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2064\ufe00-\ufe0f]")
_SPACE = re.compile(r"[^\S\n]")
_VERDICT_LIKE = re.compile(rf"{_CUE.pattern}|\[\[(?=\s*\d+\s*\]\])|`{{3,}}|~{{3,}}", re.IGNORECASE)

_CLOSING = "\"'\u201d\u2019\u00bb\u300d"
_GONE = "\ufffc"  # stands for a quotation
_QUOTED = re.compile(
    r"^ *(?P<fence>`{3,}+|~{3,}+)[^\n`]*\n(?:.*\n)*?(?: *(?P=fence)[`~]* *$|(?P<endless>.*\Z))"
    r"|^ *[>|].*$"
    r"|``[^`\n]*?''|(?<!\w)\"[^\"\n]*+(?:\n(?!\n)[^\"\n]*+)*\"(?!\w)|\u201c[^\u201c\u201d]*+\u201d|\u00ab[^\u00ab\u00bb]*+\u00bb"
    r"|(?<![\w'])'[^'\n]*+(?:(?<=\w)'(?=\w)[^'\n]*+)*'(?!\w)|\u2018[^\u2018\n]*\u2019(?!\w)|\u300c[^\u300c\u300d]*+\u300d",
    re.MULTILINE,
)
_OPEN_FENCE = re.compile(r"^ *(?:`{3}|~{3})[^`\n]*$", re.MULTILINE)
_CODE_LINE = re.compile(r"^([ *_]*)`([^`\n]+)`([ *_.]*)$", re.MULTILINE)
_CODE_SPAN = re.compile(r"(?<!`)(`++)[^`\n]+\1")
_CUE_AND_VALUE = re.compile(rf"{_CUE.pattern}.*[^\W_]", re.IGNORECASE)
_MACRO = re.compile(r"\\(?:boxed|fbox|text[a-z]{0,2}|math[a-z]{2})\s*\{([^{}\n]*)\}")
_SHORT_NOT = re.compile(r"\b(is|are|was|were)n['\u2019]t\b", re.IGNORECASE)

_OPENERS = "a|the|my|our|this|here|is|so|thus|therefore|hence|and|then|in|final|overall|conclusion|result|output|line"
_OPENING = re.compile(rf"\s*+(?:[-+\u2022]|\d+\))?(?:[*_`$#,:\s]|(?:{_OPENERS}|{_CUES}){_EDGE})*", re.IGNORECASE)
_BOUNDARY = re.compile(r"\n|(?<!e\.g)(?<!i\.e)[.!?;][*_)]*\s")
_WINDOW = 200

_DRESS = r"[*_`$#\s]*+"
_LINK = re.compile(
    rf"{_DRESS}(?:(?:score|value){_EDGE}{_DRESS})?(?:\([^()\n]{{0,40}}\){_DRESS}(?=:|=|is\b))?"
    rf"(?P<link>:|=>?|->|\u2192|[-\u2013\u2014]+(?=\s)|is\b:?)?{_DRESS}",
    re.IGNORECASE,
)
_LEAD = r"(?:(?:that|the|this|two|submitted|submission|answers?|it|they|both|is|are|was)\s+){0,6}"
_HOW = (
    r"(?:(?:fully|entirely|completely|totally|mathematically|numerically|symbolically|strictly|exactly|clearly|indeed"
    r"|therefore|thus|hence|quite|really|at\s+all)[\s,]+){0,4}"
)
_VALUE = re.compile(
    rf"(?:\[\[(?P<rated>[01])\]\]|(?P<number>[01])(?:\.0+)?|{_HOW}(?:{_LEAD}{_HOW}(?P<not>not\s+)?{_HOW}"
    r"(?:(?P<good>correct|right|equivalent)|(?P<bad>incorrect|wrong|inequivalent|non-?equivalent))"
    r"|(?P<denied>not\s+)?(?:(?P<yes>pass(?:ed)?|success(?:ful)?|yes|true)"
    rf"|(?P<no>fail(?:ed|ure)?|unsuccessful|no|false)))){_EDGE}",
    re.IGNORECASE,
)
_LETTER = re.compile(rf"[\[(]{{0,2}}([A-Z])[\])]{{0,2}}{_EDGE}")
_HEDGES = "but|or|and|if|unless|except|however|when|yet|though|although|yes|no|not|rather|wait|only|out|of"
_HEDGE = rf"(?!\s*\d|\s*(?:{_HEDGES})\b)"
_END = re.compile(
    r"[*_`$ ]*+(?:(?P<line>[.!]?[*_`$ ]*+(?:\n|\Z))|[.!][*_)]*+\s"
    rf"|(?:[,;(\u2013\u2014]|(?<=[ *_`$])-+(?= )){_HEDGE}|(?:because|since|as|for|given)\b)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(r"[.!?\n] {0,3}[*_]{0,2}(?:but|however|wait|actually|hmm|on reflection)\b", re.IGNORECASE)


def neutralise(text: str) -> str:
    """Make text safe to show to a judge: no words of it, copied back, are a verdict to `read_verdict`.

    A cue word is spelt with hyphens (`C-o-r-...`), a rating `[[1]]` and a code fence are spaced out; the rest is the
    text as `for_prompt` shows it. Texts that are equal stay so.
    """
    return _VERDICT_LIKE.sub(lambda m: ("-" if m[0][0].isalpha() else " ").join(m[0]), for_prompt(_folded(text)))


def read_verdict(text: str, labels: Mapping[str, Literal["correct", "incorrect"]] | None = None) -> Verdict:
    """Read the verdict from a judge's whole reply; `labels` says what a letter means if letters were asked for.

    Never raises for any text. Whatever is no clear verdict is `unreadable` with a reason.
    """
    split = split_reasoning(text)
    if split.problem:
        return Verdict("unreadable", None, split.problem)
    if not split.final.strip():
        return Verdict("unreadable", None, "the reply is empty")
    plain = _unquoted(_folded(split.final))
    if fence := _OPEN_FENCE.search(plain):
        return Verdict("unreadable", None, f"the code fence never ends: {plain[fence.start() :][:40]!r}")
    anchors = [(cue, value) for cue in _CUE.finditer(plain) if (value := _anchored(plain, cue, labels or {}))]
    if not anchors:
        return Verdict("unreadable", None, "no verdict outside of quotations")
    cue, last = anchors[-1]
    shown = plain[cue.start() :][:40]
    if last == "unclear" or _TAKEN_BACK.search(plain, cue.end()):
        return Verdict("unreadable", None, f"the last verdict is unclear or taken back: {shown!r}")
    if len({value for _, value in anchors} - {"unclear"}) > 1:
        return Verdict("conflict", last == "correct", f"two different verdicts, the last is {shown!r}")
    return Verdict("ok", last == "correct")


def _folded(text: str) -> str:
    """Return the form in which cues are both looked for and defused; folding twice changes no letter more."""
    return _SPACE.sub(" ", clean(_UNSEEN.sub("", clean(text.translate(_WIDE)))))


def _unquoted(text: str) -> str:
    """Put a mark in place of every quotation, and unwrap what is formatting only. No two letters are joined."""
    text = _SHORT_NOT.sub(r"\1 not", text)
    text = _QUOTED.sub(_mark, text)
    text = _CODE_LINE.sub(r"\1\2\3", text)
    text = _CODE_SPAN.sub(lambda m: _GONE if _CUE_AND_VALUE.search(m[0]) else m[0], text)
    return _MACRO.sub(r" \1 ", _MACRO.sub(r" \1 ", text))


def _mark(quotation: re.Match[str]) -> str:
    if quotation["endless"] is not None:
        return quotation[0]
    return _GONE + ("." if quotation[0].rstrip(_CLOSING)[-1:] in (".", "!", "?") else "")


def _anchored(text: str, cue: re.Match[str], labels: Mapping[str, str]) -> str | None:
    """Return `correct`, `incorrect` or `unclear` for what follows a cue, or None when the cue is only a word."""
    link = _LINK.match(text, cue.end())
    at = link.end() if link else cue.end()
    found, letter = _VALUE.match(text, at), _LETTER.match(text, at)
    if letter and (meaning := labels.get(letter[1])) in ("correct", "incorrect"):
        value, end = meaning, letter.end()
    elif found:
        value, end = ("correct" if _positive(found) else "incorrect"), found.end()
    else:
        return "unclear" if link and link["link"] else None
    ending = _END.match(text, end)
    # A value below its cue must be alone on its line: "1." may as well begin a list.
    whole = ending and ("\n" not in text[cue.end() : end] or ending["line"] is not None)
    return value if whole and _opens_statement(text, cue.start()) else "unclear"


def _positive(found: re.Match[str]) -> bool:
    if digit := found["rated"] or found["number"]:
        return digit == "1"
    return bool(found["good"] or found["yes"]) != bool(found["not"] or found["denied"])


def _opens_statement(text: str, at: int) -> bool:
    start = max(0, at - _WINDOW)
    *earlier, opening = _BOUNDARY.split(text[start:at])
    return (bool(earlier) or start == 0) and _OPENING.fullmatch(opening) is not None
