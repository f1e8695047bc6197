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
LICENCE_FILE = "LICENSE.md"
"""The file that says under which licence each row is, where the page can only say `other`: the Hub links it by name."""

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


_IDS = """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0
    etalab-2.0 eupl-1.1 eupl-1.2 fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 intel-research
    isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 lppl-1.3c mit mpl-2.0 ms-pl
    ncsa odbl odc-by ofl-1.1 open-mdw openrail openrail++ osl-3.0 other pddl postgresql unknown unlicense wtfpl
    zlib
"""
ON_THE_HUB = frozenset(_IDS.split())
"""Ids that the Hub takes as `license`."""
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
    if len(given) == 1:
        return _alone(given.pop())
    if given - set(STRICTNESS):
        return Overall(OTHER, "see-the-licence-of-each-row", LICENCE_FILE)
    if any(pair <= given for pair in _APART):
        return Overall(OTHER, "several-licences-by-row", LICENCE_FILE)
    return Overall(max(sorted(given), key=STRICTNESS.__getitem__))


def _alone(licence: str) -> Overall:
    """Return the only licence that there is; the Hub takes others than its own under a name."""
    if licence in (UNKNOWN, OTHER):
        return Overall(OTHER, "see-the-licence-of-each-row", LICENCE_FILE)
    return Overall(licence) if licence in ON_THE_HUB else Overall(OTHER, _NAME.sub("-", licence), LICENCE_FILE)


def at_least_as_strict(licence: object, than: str) -> bool:
    """Return whether a licence that a person chose gives away no more than another; unknown ones cannot be told."""
    return isinstance(licence, str) and overall((licence, than)) == Overall(licence)
