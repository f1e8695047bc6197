"""Which messages of a pool are repeatable, and the exact distribution of their number under a null.

A message is repeatable when the exact bootstrap over its blocks puts it on one side of 0 (`labels.stability_of`: one
rule, used here as it stands). That depends on how often each block effect of -1, -1/2, 0, 1/2, 1 occurred, not on
their order, so it is a finite automaton: the state after some blocks is the class of all such tallies that no
further block can tell apart. Five messages in their states, sorted because they are exchangeable under the nulls, make
up the state of a pool; blocks are added one by one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

from dhd_labels.labels import bootstrap_interval, stability_of
from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.arrays import FloatArray, IntArray
from dhd_labels.stats.families import placements

LETTERS = 2 * FULL_DRAWS + 1
"""Effects of a block times two, -2 to 2, are read as letters 0 to 4."""
INDETERMINATE, HELPFUL, HARMFUL = 0, 1, 2
_CODES = {"indeterminate": INDETERMINATE, "stable_helpful": HELPFUL, "stable_harmful": HARMFUL}
MAX_STATES = 2_000_000
"""Pool states times arrangements of one more block up to which the exact count is made (about half a second)."""

Law = tuple[int, int]
"""What a null keeps of a block: (sum of full draws, or -1 where it is permuted too; successes that are permuted)."""


@dataclass(frozen=True, slots=True)
class Automaton:
    """The stability rule over a fixed number of blocks.

    `steps[j][state, letter]` is the state after block j; the states after the last block are the stability codes.
    """

    steps: tuple[IntArray, ...]

    def classify(self, letters: npt.NDArray[np.int64]) -> IntArray:
        """Return the stability code of each message, from (..., n_blocks) letters in any order of blocks."""
        state = np.zeros(letters.shape[:-1], dtype=np.int64)
        for block, step in enumerate(self.steps):
            state = step[state, letters[..., block]]
        return state


@cache
def automaton(n_blocks: int) -> Automaton:
    """Return the smallest automaton of the stability rule over so many blocks."""
    later = {tally: _code(tally) for tally in tallies(n_blocks)}
    steps: list[IntArray] = []
    for done in reversed(range(n_blocks)):
        rows = {tally: tuple(later[_plus(tally, letter)] for letter in range(LETTERS)) for tally in tallies(done)}
        names = {row: state for state, row in enumerate(sorted(set(rows.values())))}
        steps.append(np.array(list(names), dtype=np.int64))
        later = {tally: names[row] for tally, row in rows.items()}
    return Automaton(tuple(steps[::-1]))


Tally = tuple[int, ...]


def tallies(n_blocks: int) -> list[Tally]:
    """Return every way in which so many blocks can spread over the letters."""
    drawn = itertools.combinations_with_replacement(range(LETTERS), n_blocks)
    return [tuple(letters.count(letter) for letter in range(LETTERS)) for letters in drawn]


def _plus(tally: Tally, letter: int) -> Tally:
    return tuple(times + (place == letter) for place, times in enumerate(tally))


def _code(tally: Tally) -> int:
    effects = np.repeat(np.arange(LETTERS) / FULL_DRAWS - 1, tally)
    return _CODES[stability_of(bootstrap_interval(effects.tolist()), len(effects))]


@cache
def arrangements(law: Law) -> tuple[IntArray, FloatArray]:
    """Return the letters of the five messages in every arrangement of a block, (n, 5), and its number of ways."""
    full, successes = law
    options = [(full, successes, 1)]
    if full < 0:
        options = [(f, successes - f, comb(FULL_DRAWS, f)) for f in range(FULL_DRAWS + 1)]
    rows, ways = [], []
    for kept, removal, times in options:
        for subset in itertools.combinations(range(POOL_SIZE), removal) if 0 <= removal <= POOL_SIZE else ():
            rows.append([kept + FULL_DRAWS * (slot not in subset) for slot in range(POOL_SIZE)])
            ways.append(float(times))
    return np.array(rows, dtype=np.int64), np.array(ways)


def canonical(laws: tuple[Law, ...]) -> tuple[Law, ...]:
    """Return the laws of a pool in the order in which they are counted: those with one arrangement first."""
    return tuple(sorted(laws, key=lambda law: (len(arrangements(law)[1]), law)))


@lru_cache(maxsize=100_000)
def stable_counts(laws: tuple[Law, ...]) -> FloatArray | None:
    """Return (6, 6) probabilities of (number stable helpful, number stable harmful) among the five messages.

    Args:
        laws: one a block, as `canonical` orders them.

    Returns:
        None where the count would take more than `MAX_STATES`.
    """
    joint = _joint(laws, len(laws))
    if joint is None:
        return None
    states, weights = joint
    table = np.zeros((POOL_SIZE + 1, POOL_SIZE + 1))
    np.add.at(table, ((states == HELPFUL).sum(axis=1), (states == HARMFUL).sum(axis=1)), weights)
    return np.asarray(table / table.sum())


@lru_cache(maxsize=24)
def _joint(laws: tuple[Law, ...], n_blocks: int) -> tuple[IntArray, FloatArray] | None:
    """Return sorted states of the five messages, (n, 5), after the first laws, and the arrangements that lead there."""
    if not laws:
        return np.zeros((1, POOL_SIZE), dtype=np.int64), np.ones(1)
    before = _joint(laws[:-1], n_blocks)
    letters, ways = arrangements(laws[-1])
    if before is None or len(before[0]) * len(ways) > MAX_STATES:
        return None
    states, weights = before
    step = automaton(n_blocks).steps[len(laws) - 1]
    reached = np.sort(step[states[:, None, :], letters[None, :, :]].reshape(-1, POOL_SIZE), axis=1)
    digits = (int(reached.max()) + 1) ** np.arange(POOL_SIZE)[::-1]
    _, first, inverse = np.unique(reached @ digits, return_index=True, return_inverse=True)
    return reached[first], np.bincount(inverse, np.outer(weights, ways).ravel()).astype(np.float64)


@cache
def family_counts(helpful: int, harmful: int) -> FloatArray:
    """Return (6, 6, 6): the chance that n tested slots count, given so many stable helpful and harmful of the five.

    A slot counts when it is stable in a direction that is looked for there; which slots are stable is uniform.
    """
    found: dict[tuple[int, int], Counter[int]] = {}
    for states in itertools.product((INDETERMINATE, HELPFUL, HARMFUL), repeat=POOL_SIZE):
        one_side, other_side = placements(helpful, harmful)[0]
        hits = sum(states[slot] == HELPFUL for slot in one_side) + sum(states[slot] == HARMFUL for slot in other_side)
        found.setdefault((states.count(HELPFUL), states.count(HARMFUL)), Counter())[hits] += 1
    table = np.zeros((POOL_SIZE + 1,) * 3)
    for (up, down), counted in found.items():
        for hit, times in counted.items():
            table[up, down, hit] = times / counted.total()
    return table


def law_of(full: int, removal: int, *, permute_full: bool) -> Law:
    """Return the law of a block with these successes of its two full and its five removal draws."""
    return (-1, full + removal) if permute_full else (full, removal)
