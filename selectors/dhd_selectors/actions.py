"""Which messages are shown, as one whole number: bit i is set when slot i is kept (0 to 31).

`FULL` shows the whole pool, `ALONE` nothing. Arms that show the same messages (`only-0` and `prefix-1`) are one action.
"""

from __future__ import annotations

from dhd_labels.records import POOL_SIZE, Arm

N_ACTIONS = 1 << POOL_SIZE
FULL = N_ACTIONS - 1
ALONE = 0
REMOVALS = tuple(FULL ^ (1 << slot) for slot in range(POOL_SIZE))
"""By slot: everything but that message."""
SINGLES = tuple(1 << slot for slot in range(POOL_SIZE))
"""By slot: only that message."""

_ARMS = (
    Arm.alone(),
    *(Arm.only(slot) for slot in range(POOL_SIZE)),
    *(Arm.prefix(k) for k in range(1, POOL_SIZE + 1)),
    *(Arm.without(slot, k) for k in range(2, POOL_SIZE + 1) for slot in range(k)),
)


def action_of(slots: tuple[int, ...]) -> int:
    """Return the action that keeps these slots."""
    return sum(1 << slot for slot in slots)


def slots_of(action: int) -> tuple[int, ...]:
    """Return the kept slots of an action, ascending."""
    return tuple(slot for slot in range(POOL_SIZE) if action >> slot & 1)


ACTION_OF_ARM = {arm.name: action_of(arm.kept) for arm in _ARMS}
"""The action of every named arm; a `subset` says what it keeps in the column `kept`."""


def action_name(action: int) -> str:
    """Name an action as the protocol names its arm; other sets of slots are `subset-...`."""
    return _NAMES.get(action) or Arm.subset(slots_of(action)).name


_NAMES = {
    action_of(arm.kept): arm.name for arm in reversed(_ARMS) if not (arm.k < POOL_SIZE and arm.removed is not None)
}
