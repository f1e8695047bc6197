"""The order in which the calls of a problem are sent. Pure.

Prompts of a problem begin alike, so a server that caches prefixes computes the common part once, if it still has it
when the next prompt comes. Two rules bring that together with labels that no cache may bend:

* Unmatched arms are compared as means over problems, and their order is free. They are sent depth first over the tree
  of shown messages, the longest first: each shares with an earlier one all that it can share with any, and the very
  first (the full pool) warms the cache for most of the others.
* The arms of a matched block are compared with each other, so their order inside the block is a random permutation that
  the plan drew and stored (`position`), drawn anew for each block. Only where blocks stand among each other is free:
  after the unmatched arms of the same problem, one block after the other. All prefixes that a block can share lie in
  one problem, so it hardly matters for the tokens computed in which order its arms come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from dhd_labels.records import Replay
from dhd_labels.replay.plan import call_of


def sending_order(replays: Iterable[Replay]) -> list[Replay]:
    """Return one replay for each distinct call of a problem, in the order in which the calls are to be sent."""
    calls: dict[object, Replay] = {}
    for replay in replays:
        calls.setdefault(call_of(replay), replay)
    free = [replay for replay in calls.values() if is_free(replay)]
    return sorted(free, key=_depth_first) + [replay for replay in calls.values() if not is_free(replay)]


def is_free(replay: Replay) -> bool:
    """Whether a replay belongs to no block and no masking repeat, so that its place and company do not matter."""
    return replay.block is None and replay.mask is None


def merged(replays: Iterable[Replay]) -> Iterator[list[Replay]]:
    """Yield replays that may be one request for several draws: unmatched ones that show the same messages.

    Args:
        replays: distinct calls in their sending order, where equal prompts stand side by side.
    """
    group: list[Replay] = []
    for replay in replays:
        if group and not (is_free(replay) and is_free(group[-1]) and replay.shown == group[-1].shown):
            yield group
            group = []
        group.append(replay)
    if group:
        yield group


def _depth_first(replay: Replay) -> tuple[float, ...]:
    """Sort key: by the shown messages, a longer list before every list that it begins with."""
    return (*replay.shown, math.inf)
