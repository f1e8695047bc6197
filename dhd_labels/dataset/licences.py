"""Licences by how much they ask of a user, and the one that a whole data set can carry.

Each row keeps the licence of its own problem. A page of the Hub can name a single licence, and whoever obeys that one
must not break another: it is the strictest one included, and where no single one covers the others it is `other`, with
a name and a link to the table of the card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

OTHER = "other"
UNKNOWN = "unknown"
SECTION_LINK = "#licences"
"""Where the card lists the licence of every benchmark."""

STRICTNESS: Mapping[str, int] = {
    "cc0-1.0": 0,
    "pddl": 0,
    "unlicense": 0,
    "mit": 1,
    "bsd-2-clause": 2,
    "bsd-3-clause": 3,
    "apache-2.0": 4,
    "cdla-permissive-2.0": 4,
    "odc-by": 5,
    "cc-by-3.0": 6,
    "cc-by-4.0": 7,
    "cc-by-sa-4.0": 8,
    "cc-by-nc-4.0": 9,
    "cc-by-nc-sa-4.0": 10,
}
"""Licence, as the Hub spells it, to its place in the order; a higher one asks for more. Others cannot be compared."""
_APART = (
    frozenset({"cc-by-sa-4.0", "cc-by-nc-4.0"}),
    frozenset({"cc-by-sa-4.0", "cc-by-nc-sa-4.0"}),
    frozenset({"apache-2.0", "cdla-permissive-2.0"}),
)
"""Pairs of which neither may be passed on under the other: share-alike fixes the licence of what is made from it."""


_NAME = re.compile(r"[^a-z0-9.]+")


@dataclass(frozen=True, slots=True)
class Overall:
    """The licence of a whole: its id on the Hub, and for `other` the name and link that the Hub then wants."""

    license: str
    name: str | None = None
    link: str | None = None


def overall(licences: Iterable[str]) -> Overall:
    """Return the licence that covers all the given ones.

    Args:
        licences: ids as the Hub spells them; an empty one or `unknown` is a question that is not settled.
    """
    given = {licence.strip().lower() or UNKNOWN for licence in licences} or {UNKNOWN}
    strange = sorted(given - set(STRICTNESS))
    if len(given) == 1 and not strange:
        return Overall(given.pop())
    if strange:
        known = _NAME.sub("-", strange[0]).strip("-") if len(given) == 1 and strange[0] not in (UNKNOWN, OTHER) else ""
        return Overall(OTHER, known or "see-the-licence-of-each-row", SECTION_LINK)
    if any(pair <= given for pair in _APART):
        return Overall(OTHER, "several-licences-by-row", SECTION_LINK)
    return Overall(max(sorted(given), key=STRICTNESS.__getitem__))


def at_least_as_strict(licence: object, than: str) -> bool:
    """Return whether a licence that a person chose gives away no more than another; unknown ones cannot be told."""
    return isinstance(licence, str) and overall((licence, than)) == Overall(licence)
