"""Which split a problem belongs to: a pure function of its text.

Train, validation and test are 80, 10 and 10 of a hundred buckets of a hash of the normalised problem text.
Texts that differ only in case, white space, punctuation, signs or Unicode presentation normalise alike, so
such near-duplicates share a split. The configs, actors and integrators of one problem share it too, since
nothing but the text counts.
"""

from __future__ import annotations

import hashlib
import unicodedata
from typing import Literal

Split = Literal["train", "validation", "test"]

BUCKETS = 100
TRAIN_BELOW = 80
VALIDATION_BELOW = 90


def split_of(question: str) -> Split:
    """Return the split of the problem with this text, the same on every machine.

    The text must be the problem's own, also when the data set publishes the problem without its text.
    """
    digest = hashlib.sha256(normalise(question).encode("utf-8")).digest()
    bucket = int.from_bytes(digest[:8], "big") % BUCKETS
    if bucket < TRAIN_BELOW:
        return "train"
    return "validation" if bucket < VALIDATION_BELOW else "test"


def normalise(text: str) -> str:
    """Return the text's letters, digits and accents, NFKC and case folded: the form in which
    near-duplicates agree.

    All else goes, also signs such as `+`: texts that agree too often only share a split, which harms nothing.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LNM")
