"""Split a reply into what the model thought and what it says.

Three forms are known: thinking tags (`<think>`, whose opening may be missing because the chat template had put it into
the prompt), Gemma's `<|channel>thought ... <channel|>`, and gpt-oss harmony channels. A malformed or unfinished reply
has no final part but a problem: nothing is guessed from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNCLOSED = "unclosed_thinking"
"""The problem of a text that ends before any final part began."""

_OPEN = re.compile(r"<(?:think|thinking)>|\[THINK\]|<\|channel>(?:thought\b)?", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking)>|\[/THINK\]|<channel\|>", re.IGNORECASE)
_HARMONY = re.compile(r"<\|(start|end|message|channel|constrain|return|call)\|>")
_HARMONY_START = re.compile(r"\s*<\|(?:start|channel|message)\|>")
_STOP = re.compile(r"(?:<\|(?:return|end|im_end|eot_id|endoftext|eom_id)\|>|<end_of_turn>|<turn\|>|</s>|<eos>)\s*\Z")
_CHANNELS = ("analysis", "commentary", "final")
# What is left of harmony when a server drops its tokens but keeps the words between them.
_BARE_START, _BARE_FINAL = re.compile(r"\s*analysis(?=\S)"), "assistantfinal"


@dataclass(frozen=True, slots=True)
class SplitText:
    """A reply in two parts. `final` is empty when `problem` says why there is none."""

    reasoning: str
    final: str
    problem: str | None = None


def split_reasoning(text: str) -> SplitText:
    """Split a whole reply into reasoning and final part. Linear in the length of the text; never raises."""
    if _HARMONY_START.match(text):
        channels = _split_harmony(text)
        return channels if channels.problem else _split_tags(channels.final, before=channels.reasoning)
    bare = _BARE_START.match(text)
    if bare and _BARE_FINAL in text:
        reasoning, _, final = text[bare.end() :].partition(_BARE_FINAL)
        return _split_tags(final, before=reasoning)
    return _split_tags(text)


def has_harmony(text: str) -> bool:
    """Whether a text contains a harmony token."""
    return bool(_HARMONY.search(text))


def _split_tags(text: str, before: str = "") -> SplitText:
    closings = list(_CLOSE.finditer(text))
    end = closings[-1] if closings else None
    final = text[end.end() :] if end else text
    reasoning = _join([before, _OPEN.sub("", text[: end.start()]) if end else ""])
    if _OPEN.search(final):
        return SplitText(_join([reasoning, _OPEN.sub("", final)]), "", UNCLOSED)
    final = _STOP.sub("", final)
    if stray := _HARMONY.search(final):
        return SplitText(reasoning, "", f"malformed_harmony: {stray[0]} outside of a channel")
    return SplitText(reasoning, final)


def _split_harmony(text: str) -> SplitText:
    """Read harmony messages; the one on the channel `final` is the final part, the others are reasoning."""
    harmony = _Harmony(text)
    messages = harmony.read()
    others = [content for channel, content in messages if channel != "final"]
    finals = [content for channel, content in messages if channel == "final"]
    problem = harmony.problem
    if problem is None and len(finals) != 1:
        problem = f"malformed_harmony: {len(finals)} final channels" if finals else UNCLOSED
    return SplitText(_join(others), "" if problem else finals[0], problem)


class _Harmony:
    """Reader of `<|start|>role<|channel|>name<|message|>content<|end|>` sequences. `problem` is set by `read`."""

    def __init__(self, text: str) -> None:
        # Pieces alternate: text, token, text, token, ..., text.
        self._pieces = _HARMONY.split(text.strip())
        self.problem: str | None = None

    def read(self) -> list[tuple[str, str]]:
        """Return (channel, content) of every message before the end or the first problem."""
        found: list[tuple[str, str]] = []
        at = 0
        while at < len(self._pieces) and self.problem is None:
            at = self._message(at, found)
        return found

    def _message(self, at: int, found: list[tuple[str, str]]) -> int:
        """Read one message that begins with the text piece `at`; return where the next begins."""
        header: dict[str, str] = {}
        if self._pieces[at].strip():
            return self._fail(f"text {self._pieces[at].strip()[:20]!r} between messages")
        while True:
            if at + 1 >= len(self._pieces):
                return self._fail("a header without <|message|>") if header else len(self._pieces)
            part, after = self._pieces[at + 1], self._pieces[at + 2]
            at += 2
            if part == "message":
                break
            if part not in ("start", "channel", "constrain") or part in header:
                return self._fail(f"<|{part}|> in place of <|message|>")
            header[part] = after.strip()
        channel = self._channel(header)
        if channel is None:
            return len(self._pieces)
        found.append((channel, self._pieces[at].strip()))
        if at + 1 < len(self._pieces) and self._pieces[at + 1] not in ("end", "return", "call"):
            return self._fail(f"<|{self._pieces[at + 1]}|> inside a message")
        return at + 2

    def _channel(self, header: dict[str, str]) -> str | None:
        """Return the channel that a header names, or None and set the problem."""
        role = header.get("start", "assistant").split()
        if role[:1] != ["assistant"]:
            self._fail(f"a turn of {' '.join(role)[:20]!r}")
            return None
        name, *_ = [*header.get("channel", "").split(), ""]
        # Tool calls write `commentary to=functions.x`: what follows the name is no part of it.
        if name not in _CHANNELS:
            self._fail(f"unknown channel {name[:20]!r}" if name else "a message without a channel")
            return None
        return name

    def _fail(self, what: str) -> int:
        self.problem = f"malformed_harmony: {what}"
        return len(self._pieces)


def _join(parts: list[str]) -> str:
    return "\n".join(part.strip() for part in parts if part.strip())
