"""The words of simulated problems and messages: what their cues and words say, and noise that says nothing.

Every field is put together from phrases picked at random, so that messages differ as real ones do. Only four things in
a text depend on the message's tone, and each can be counted exactly: hedging words, whether a concrete check is named,
numbers cited, and whether a sentence more is spent; and, in a world with wording, which of two words of equal length
stands in four places. Exchanging the two word lists changes no length, count or overlap of texts.

A problem asks for a number in a record that is shown to nobody, so no reader can solve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dhd_labels.protocol.confidence import confidence_level, confidence_reason, confidence_value
from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.columns import join, numerals, take
from dhd_labels.simulate.pools import NO_ANSWER, Pools

if TYPE_CHECKING:
    import pyarrow as pa

ROLES = (
    ("Archivist", "what earlier records say"), ("Auditor", "whether entries add up"),
    ("Surveyor", "how the count was taken"), ("Statistician", "spread and outliers"),
    ("Modeller", "a simple model of the process"), ("Sceptic", "where a reading may fail"),
    ("Operator", "how the instrument works"), ("Historian", "what happened in that season"),
    ("Planner", "what capacity allows"), ("Ecologist", "seasonal cycles"),
    ("Accountant", "balances carried over"), ("Cartographer", "position and area"),
    ("Logician", "what follows from the wording"), ("Estimator", "orders of magnitude"),
)  # fmt: skip
"""Name and lens of each role; a pool has five different ones."""

WORD_PAIRS = (
    (("derive", "recall"), ("verify", "recite"), ("prove", "quote"), ("trace", "trust"), ("measure", "imitate")),
    (("exact", "vague"), ("careful", "popular"), ("rigorous", "careless"), ("precise", "hurried"), ("sound", "loose")),
    (("evidence", "folklore"), ("logic", "hunch"), ("sources", "rumours"), ("facts", "myths"),
     ("rules", "whims")),
    (("slowly", "boldly"), ("firmly", "weakly"), ("fully", "dimly"), ("twice", "never"), ("closely", "blindly")),
)  # fmt: skip
"""For each of the four places, pairs of (helpful, harmful) words of equal length; no word stands anywhere else."""

_OPENINGS = (
    "Start from the opening balance", "Follow the entries day by day", "Split the season into weeks",
    "Compare both instruments", "Work back from the closing balance", "Group the entries by observer",
    "Use the ratio of the two counts", "Treat the gaps as missing days", "Draw the curve of daily totals",
    "Take the longest unbroken run", "Add the morning and evening counts", "Put the totals on one scale",
    "Separate arrivals from departures", "Write the total as a sum over stations",
)  # fmt: skip
_FURTHER = (
    "Then repeat it for the other half and set both totals side by side.",
    "After that, redo the sum in the opposite order to see that nothing is lost.",
    "The days without an entry are then filled from their neighbours on both sides.",
    "Next, every subtotal is carried forward until the last page of the log.",
    "Finally the two columns are merged and the carried balance is removed once.",
    "In a further step the weekly totals are put against the capacity of the site.",
)  # fmt: skip
_IDEAS = (
    "The closing balance fixes the sum.", "Each entry is counted in one column only.",
    "Gaps come in pairs and cancel.", "The slope of the curve is the daily rate.",
    "Both observers saw the same gate.", "Totals of full weeks are divisible alike.",
    "The larger count holds the smaller one.", "The season has one peak.",
    "Arrivals and departures balance at the end.", "The carried balance enters both sums.",
    "Night counts are a fixed part of day counts.", "The ratio is the same at each station.",
)  # fmt: skip
_ASSUMPTIONS = (
    "No page of the log is lost.", "The instrument was not replaced.", "Each observer used the same unit.",
    "The gate was open on all days.", "Corrections were entered once.", "The opening balance is zero.",
    "Days run from noon to noon.", "The two stations do not overlap.", "The count stops at the last entry.",
    "Rounded entries are few.",
)  # fmt: skip
_CHECKS = (
    "Add up the weekly totals again and hold the sum against the closing balance.",
    "Count the days without an entry and see whether their share changes the total.",
    "Recompute the ratio of both counts for the first and the last week.",
    "Put the answer back into the balance and see that it closes.",
    "Take the two largest days out and see how far the total moves.",
    "Test the sum on a single station before all of them.",
)  # fmt: skip
_NO_CHECKS = ("The result as a whole.", "The steps above.", "The total.", "The answer once more.", "All of it.")
_CITED = ("The log gives {} {}.", "A second reading has {} {}.")
_UNITS = ("kg", "m", "L", "h", "days", "tonnes")
_HEDGES = ("perhaps", "probably", "possibly", "maybe", "likely", "presumably")
_CONFIDENCE = (
    ("low", "Low, the entries disagree", "low (30 %)", "low, 40 %"),
    ("medium", "Medium, one step is open", "medium (60 %)", "moderate"),
    ("high", "High, the steps are short", "high (90 %)", "high, 85 %"),
)  # fmt: skip
_THINGS = ("crates", "birds", "barges", "bricks", "letters", "visitors", "seedlings", "barrels", "lanterns", "coins")
_PLACES = ("Aldmoor", "Brackwell", "Carsund", "Dunholt", "Eskmere", "Farrow Bay", "Glenhythe", "Harsk", "Innwater")
_SEASONS = ("spring", "summer", "autumn", "winter")


def questions(numbers: Sequence[int]) -> list[str]:
    """Return the question of each problem; equal numbers give equal questions, and only those."""
    return [
        f"How many {_THINGS[n % 10]} were counted at {_PLACES[n // 10 % 9]} in the {_SEASONS[n // 90 % 4]} season, "
        f"according to page {n + 1} of the log?"
        for n in numbers
    ]


def message_texts(pools: Pools, rng: np.random.Generator) -> dict[str, pa.Array]:
    """Return the text columns of all messages, each (n_pools * 5,), by column name of the data set."""
    import pyarrow as pa
    import pyarrow.compute as pc

    draw = _Phrases(pools, rng)
    roles = rng.random((len(pools), len(ROLES))).argsort(axis=1)[:, :POOL_SIZE].ravel()
    hedges, check, numbers, long = (pools.cues[:, :, column].ravel() for column in range(4))
    words = [draw.word(place) for place in range(len(WORD_PAIRS))]
    direction = join(
        draw.of(_OPENINGS), draw.hedge(", which {} works", hedges > 0), ": I ", words[0], " the total from ", words[1],
        " ", words[2], ", ", words[3], ".", draw.of([f" {text}" for text in _FURTHER], long > 0),
    )  # fmt: skip
    idea = join(draw.of(_IDEAS), draw.hedge(" This {} matters.", hedges > 1), *draw.cited(numbers))
    level = pools.confidence.ravel().astype(np.int64)
    stated = level * len(_CONFIDENCE[0]) + draw.index(len(_CONFIDENCE[0]))
    confidence = [text for texts in _CONFIDENCE for text in texts]
    answer = pools.answer.ravel()
    boxed = join("\\boxed{", numerals(answer, answer != NO_ANSWER), "}")
    return {
        "role_name": take([name for name, _ in ROLES], roles),
        "lens": take([lens for _, lens in ROLES], roles),
        "proposed_answer": pc.fill_null(boxed, ""),
        "reasoning_direction": direction,
        "key_idea": idea,
        "critical_assumption": join(draw.of(_ASSUMPTIONS), draw.hedge(" That {} holds.", hedges > 2)),
        "what_to_check": pc.if_else(pa.array(check > 0), draw.of(_CHECKS), draw.of(_NO_CHECKS)),
        "confidence_text": take(confidence, stated),
        "confidence_level": take([confidence_level(text) for text in confidence], stated),
        "confidence_value": take([confidence_value(text) for text in confidence], stated),
        "confidence_reason": take([confidence_reason(text) for text in confidence], stated),
    }


class _Phrases:
    """Draws a phrase for every message, as Arrow arrays of n_messages strings."""

    def __init__(self, pools: Pools, rng: np.random.Generator) -> None:
        self.n, self.words, self.rng = pools.answer.size, pools.words.reshape(-1, len(WORD_PAIRS)), rng

    def index(self, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return self.rng.integers(0, n, self.n)

    def of(self, options: Sequence[str], where: np.ndarray[Any, Any] | None = None) -> pa.Array:
        """Return one of the options for each message, or "" where the condition does not hold."""
        drawn = self.index(len(options))
        return take([*options, ""], drawn if where is None else np.where(where, drawn, len(options)))

    def hedge(self, frame: str, where: np.ndarray[Any, Any]) -> pa.Array:
        return self.of([frame.format(word) for word in _HEDGES], where)

    def word(self, place: int) -> pa.Array:
        pairs = WORD_PAIRS[place]
        side = np.where(self.words[:, place], 0, 1)
        return take([word for pair in pairs for word in pair], 2 * self.index(len(pairs)) + side)

    def cited(self, number: np.ndarray[Any, Any]) -> list[pa.Array]:
        """Return the sentences that cite a first and a second number, below those of any answer."""
        texts = [[frame.format(n, unit) for n in range(2, 100) for unit in _UNITS] for frame in _CITED]
        return [self.of([f" {t}" for t in options], number > place) for place, options in enumerate(texts)]
