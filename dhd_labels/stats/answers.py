"""Which answers to one problem are the same, for votes. Spelling only: nothing is evaluated."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

WITHHELD = -2
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_FONT = re.compile(r"\\(?:text|mathrm|mathbf)\s*\{([^{}]*)\}")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def answer_key(answer: str) -> str:
    """Return an answer without box, font, delimiters, spaces and letter case; "" when nothing is left.

    Two spellings of one value that differ otherwise (1/2 and 0.5) stay apart, so a vote is never helped by a reading
    that a grader would have to confirm; plain decimals are reduced (2.50 is 2.5).
    """
    text = unicodedata.normalize("NFKC", answer)
    if found := _BOX.search(text):
        text = found[1]
    text = "".join(_FONT.sub(r"\1", text).replace("$", "").replace("\\,", "").split()).casefold().rstrip(".")
    if _NUMBER.fullmatch(text):
        sign = "-" if text.startswith("-") else ""
        whole, _, decimals = text.lstrip("+-").partition(".")
        whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
        text = f"{sign}{whole}" + (f".{decimals}" if decimals else "")
    return text


def answer_classes(
    problem: npt.NDArray[Any], answers: pd.Series[Any], withheld: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the class of each answer: equal numbers where problem and key are equal, -1 without an answer.

    Args:
        problem: (n,) code of the problem of each answer.
        answers: (n,) texts, None for none.
        withheld: (n,) whether there is an answer whose text the data set does not show; its class is `WITHHELD`.
    """
    import pandas as pd

    spelling, texts = pd.factorize(answers)
    keys = np.array([answer_key(str(text)) for text in texts] + [""], dtype=object)
    key, names = pd.factorize(keys)
    empty = np.array([name == "" for name in names], dtype=bool)
    of_answer = key[spelling]
    classes, _ = pd.factorize(problem.astype(np.int64) * len(names) + of_answer)
    return np.where(withheld, WITHHELD, np.where(empty[of_answer], -1, classes)).astype(np.int64)
