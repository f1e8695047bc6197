"""What a rule decides about one answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from dhd_labels.grading.dressing import squash

MAX_ANSWER = 2000
"""Characters of an answer that rules read; longer texts are undetermined."""
_KEPT = 200


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision. `correct` is None when there is none, and `reason` then says why; `score` is in [0, 1].

    `canonical` is the form in which equal answers are equal strings.
    """

    correct: bool | None
    canonical: str
    reason: str | None = None
    timeout: bool = False
    partial: float | None = None
    """A score between wrong and right, where the official scorer gives one."""

    @property
    def score(self) -> float | None:
        """Return 1, 0, or the partial score; None when undecided."""
        if self.correct is None:
            return None
        return float(self.correct) if self.partial is None else self.partial


def undecided(answer: str, reason: str, timeout: bool = False) -> Decision:
    """Return the decision that there is none."""
    return Decision(None, canonical_text(answer), reason, timeout)


def canonical_text(answer: str) -> str:
    """Return an answer as words; long ones by their beginning and digest."""
    if len(answer) <= MAX_ANSWER:
        return squash(answer)
    return f"{' '.join(answer[:_KEPT].split())}... sha256:{hashlib.sha256(answer.encode(errors='replace')).hexdigest()}"
