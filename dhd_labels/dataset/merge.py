"""Stand-in until the card's merge is in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MergedCard:
    """A card, and the names of the sections in which a person's text stayed."""

    text: str
    kept: tuple[str, ...]


def merge_card(fresh: str, there: str | None) -> MergedCard:
    """Return the card that goes up."""
    return MergedCard(fresh, ())
