"""What may be published of a problem: the licence columns of its rows, and which of their texts stay out.

A problem is withheld when its licence does not let its text be redistributed and nobody asked for it where the licence
allows that. Of a withheld problem the question, the options, the reference and every text that quotes it are null. A
text quotes a problem when it holds `QUOTED_WORDS` consecutive words of the question, of one option or of the reference,
or, where the question is shorter than that, all of its words in a row. A word is a run of letters and digits, case
folded after Unicode's NFKC, or one Chinese or Japanese character; all else only parts words. A short option or
reference is an answer and no quotation: the letter or number that a message proposes stays.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dhd_labels.benchmarks.registry import NAMES, facts, resolve_name
from dhd_labels.errors import DhdError
from dhd_labels.records import Problem

QUOTED_WORDS = 8
"""Consecutive words that make a quotation."""
NO_TEXT = "the data set was built without texts"
LICENCE = "the licence does not let the text of the problem be redistributed"
PROBLEM_TEXTS = ("question", "choices", "reference")
MODEL_TEXTS = (
    "role_name", "lens", "proposed_answer", "reasoning_direction", "key_idea", "critical_assumption", "what_to_check",
    "confidence_text", "answer",
)  # fmt: skip
"""Columns that a model wrote."""
NOTES = ("reason", "pool_reason")
"""Columns that say why something is missing; they can quote a model, who can quote the problem."""
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class Terms:
    """What goes into a data set.

    Attributes:
        texts: whether there are free texts at all; numbers, slots, verdicts and labels always stay.
        noncommercial: whether rows stay whose commercial use is not allowed, or not settled.
        redistribute_text: benchmarks whose problem texts are asked for although they are withheld by default.
    """

    texts: bool = True
    noncommercial: bool = True
    redistribute_text: tuple[str, ...] = ()

    def checked(self) -> Terms:
        """Return the terms with canonical names of benchmarks.

        Raises:
            DhdError: a benchmark is unknown, or its licence does not let its texts be published on request.
        """
        names = tuple(dict.fromkeys(resolve_name(name) for name in self.redistribute_text))
        for name in names:
            entry = facts(name)
            if not (entry.redistribute_text or entry.text_on_request):
                raise DhdError(
                    f"The texts of {name!r} must stay out of a published data set, got 'redistribute_text' for it: its "
                    f"licence ({entry.license}) does not settle that they may be redistributed. Leave it out."
                )
        return Terms(self.texts, self.noncommercial, names)

    def excludes(self, problem: Problem) -> str | None:
        """Return why a problem is left out, or None."""
        if self.noncommercial or problem.commercial_use:
            return None
        return "commercial use is not settled" if problem.commercial_use is None else "commercial use is not allowed"

    def shows(self, problem: Problem) -> bool:
        """Return whether the text of a problem is in the data set."""
        return self.texts and (problem.redistribute_text or problem.benchmark in self.redistribute_text)


def licence_columns(problem: Problem) -> dict[str, Any]:
    """Return the columns that say what may be done with the rows of a problem."""
    known = facts(problem.benchmark) if problem.benchmark in NAMES else None
    return {
        "license": problem.license,
        "train_allowed": problem.train_allowed,
        "commercial_use": problem.commercial_use,
        "attribution": (known.attribution if known else "") or None,
        "canary": problem.metadata.get("canary") or None,
    }


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class Withholding:
    """Takes texts of one problem out of its rows, and says so in `text_withheld`."""

    def __init__(self, problem: Problem, terms: Terms) -> None:
        self._texts, self._shown = terms.texts, terms.shows(problem)
        self._quotes = None if self._shown else _Quotes(problem)

    def apply(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row without what may not be in it."""
        if self._shown:
            return {**row, "text_withheld": None}
        notes = [name for name in NOTES if self._is_quoted(row.get(name))]
        if not self._texts:
            gone, why = [*(n for n in (*PROBLEM_TEXTS, *MODEL_TEXTS) if n in row), *notes], NO_TEXT
        else:
            quoting = [name for name in MODEL_TEXTS if self._is_quoted(row.get(name))] + notes
            gone = [*(name for name in PROBLEM_TEXTS if name in row), *quoting]
            why = LICENCE + (f"; it is quoted in {', '.join(quoting)}" if quoting else "")
        held = any(row[name] not in (None, "", []) for name in gone)
        return {**row, **dict.fromkeys(gone), "text_withheld": why if held else None}

    def _is_quoted(self, text: str | None) -> bool:
        return bool(text) and self._quotes is not None and self._quotes.found_in(str(text))


class _Quotes:
    """Every run of words that counts as a quotation of a problem."""

    def __init__(self, problem: Problem) -> None:
        self._runs: dict[int, set[tuple[str, ...]]] = {}
        self._known: dict[str, bool] = {}
        question = words(problem.question)
        if 0 < len(question) < QUOTED_WORDS:
            self._runs[len(question)] = {tuple(question)}
        for text in (question, *map(words, (*problem.choices, problem.reference))):
            self._runs.setdefault(QUOTED_WORDS, set()).update(_runs(text, QUOTED_WORDS))

    def found_in(self, text: str) -> bool:
        """Return whether a text quotes the problem. Answers repeat, so what was found is remembered."""
        if text not in self._known:
            found = words(text)
            self._known[text] = any(run in wanted for n, wanted in self._runs.items() for run in _runs(found, n))
        return self._known[text]


def _runs(found: list[str], length: int) -> set[tuple[str, ...]]:
    return {tuple(found[i : i + length]) for i in range(len(found) - length + 1)}
