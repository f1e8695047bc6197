"""The evaluator's prompt. It holds two answers and nothing else: no problem, no message, no arm."""

from __future__ import annotations

from dhd_labels.engines.base import Turn
from dhd_labels.grading.verdict import neutralise
from dhd_labels.protocol.prompts import PromptTemplate
from dhd_labels.text import inline, quoted


def evaluator_turns(prompt: PromptTemplate, reference: str, answer: str, answer_type: str) -> tuple[Turn, ...]:
    """Return the prompt that asks whether a submitted (extracted) answer is the reference answer.

    Both are defused and marked line by line, so neither can end its part or bring its own verdict (`neutralise`).
    """
    return prompt.turns(reference=_shown(reference), answer=_shown(answer), answer_type=inline(answer_type))


def _shown(text: str) -> str:
    return quoted(neutralise(text)) or "(empty)"
