"""Same-problem selection: what is there to gain by removing one message, when other blocks of the problem choose it?

Six actions: keep all (action 0), or remove message i (action i + 1). For each held-out block the action with the
highest mean success on the *other* blocks of that problem is taken (full = mean of both draws; ties go to keep all,
then to the lowest slot) and scored on the held-out block. Estimand: mean success of the chosen action minus that of
keeping all on the same blocks. The held-out block had no say, so the mean is that of a selection which knows B - 1
blocks, without the optimism of scoring a choice on what it was made from (`hindsight_problem` has it).

A fold is a (problem, held-out block). A problem needs two complete blocks. Unit: the problem; folds of one
problem are dependent, so intervals must be clustered by it: give `sums` and `folds` to
`intervals.cluster_bootstrap`, which makes the mean over folds. Source: protocol, selection opportunity.

Comparators, scored on the same folds:

| policy | action of a held-out block |
|---|---|
| `keep_all` | keep all: the reference |
| `cross_fit` | chosen by the other blocks |
| `remove_first_wrong` | removes the first wrong message if there is one; knows the verdicts |
| `random_of_six` | each action with 1/6: exact expectation |
| `random_removal` | each removal with 1/5: exact expectation |
| `hindsight_problem` | best on all blocks, the held-out one too: not cross-fitted, optimistic |
| `hindsight_block` | best of the six outcomes of that very block: nobody can know it |
| `one_full_draw` | placebo: as `cross_fit`, but keep all is known by its first draw only, in choosing and scoring |
| `shuffled_evidence` | placebo: chosen by the blocks of another problem |

`one_full_draw` has its own reference, the first full draw: there keep all is as noisy as a removal, so an advantage
of averaging two draws shows as a difference from `cross_fit`. `shuffled_evidence` keeps what is true of all problems
(such as that fewer messages are better) and nothing that is true of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.arrays import BoolArray, FloatArray, IntArray
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.families import CORRECT, UNKNOWN, WRONG

Policy = Literal[
    "keep_all", "cross_fit", "remove_first_wrong", "random_of_six", "random_removal", "hindsight_problem",
    "hindsight_block", "one_full_draw", "shuffled_evidence",
]  # fmt: skip
POLICIES: tuple[Policy, ...] = get_args(Policy)
KEEP_ALL = 0
"""The action that removes nothing; action i + 1 removes message i."""
PLACEBOS: frozenset[Policy] = frozenset({"one_full_draw", "shuffled_evidence"})
PRIVILEGED: frozenset[Policy] = frozenset({"remove_first_wrong", "hindsight_problem", "hindsight_block"})
"""Policies that know a verdict or the outcome; tables mark them."""
_MIN_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Selection:
    """The folds of all policies, summed within each problem.

    Attributes:
        pool: (n,) pools with at least two complete blocks.
        folds: (n,) held-out blocks of each.
        success: policy -> (n,) sum over the folds of a problem of the success of that policy.
        gain: policy -> (n,) the same of success minus that of its reference, paired on the same blocks.
        excluded: pools left out, by reason.
    """

    pool: IntArray
    folds: IntArray
    success: Mapping[Policy, FloatArray]
    gain: Mapping[Policy, FloatArray]
    excluded: Mapping[str, int]

    def accuracy(self, policy: Policy) -> float | None:
        """Return the mean success of a policy over folds; None without a fold."""
        return float(self.success[policy].sum() / self.folds.sum()) if len(self.pool) else None


def same_problem_selection(blocks: Blocks, proposals: npt.ArrayLike, rng: np.random.Generator) -> Selection:
    """Score every policy on every fold.

    Args:
        blocks: complete blocks, of any number a pool.
        proposals: (n_pools, 5) correctness codes of `families`.
        rng: pairs problems for the placebo of shuffled evidence.
    """
    per_pool = blocks.per_pool
    pool = np.flatnonzero(per_pool >= _MIN_BLOCKS)
    reasons = {"no_complete_block": int((per_pool == 0).sum()), "one_block": int((per_pool == 1).sum())}
    excluded = {reason: count for reason, count in reasons.items() if count}
    codes = np.asarray(proposals)
    if codes.shape != (blocks.n_pools, POOL_SIZE) or not np.isin(codes, (CORRECT, WRONG, UNKNOWN)).all():
        raise ValueError(f"The proposals must be a ({blocks.n_pools}, {POOL_SIZE}) array of 1, 0, -1, got {codes!r}")
    cube, held = _action_cube(blocks, pool, FULL_DRAWS)
    single, _ = _action_cube(blocks, pool, 1)
    scored = _scores(cube, held, codes[pool], rng)
    scored["one_full_draw"] = _taken(single, cross_fitted(single, held))
    reference = {policy: single if policy == "one_full_draw" else cube for policy in POLICIES}
    unit = float(FULL_DRAWS)
    success = {policy: _folded(scored[policy], held) / unit for policy in POLICIES}
    gain = {policy: _folded(scored[policy] - reference[policy][..., KEEP_ALL], held) / unit for policy in POLICIES}
    return Selection(pool, per_pool[pool], success, gain, excluded)


def cross_fitted(cube: IntArray, held: BoolArray) -> IntArray:
    """Return (n, b) the action of each held-out block, chosen by the other blocks of its problem.

    Args:
        cube: (n, b, 6) whole-number success of each action in each block; 0 where a problem has no such block.
        held: (n, b) which blocks there are.
    """
    others = cube.sum(axis=1, keepdims=True) - cube  # sums over as many blocks, so the highest sum is the highest mean
    return np.where(held, others.argmax(axis=2), KEEP_ALL)  # the first of equals: keep all, then the lowest slot


def _action_cube(blocks: Blocks, pool: IntArray, full_draws: int) -> tuple[IntArray, BoolArray]:
    """Return (n, b, 6) twice the success of each action in each block, packed to the left, and which are there."""
    place = np.full(blocks.n_pools, -1)
    place[pool] = np.arange(len(pool))
    used = np.flatnonzero(place[blocks.pool] >= 0)
    used = used[np.argsort(blocks.pool[used], kind="stable")]
    sizes = blocks.per_pool[pool]
    first = np.cumsum(sizes) - sizes
    row = place[blocks.pool[used]]
    turn = np.arange(len(used)) - first[row]
    outcomes = blocks.outcomes[used].astype(np.int64)
    cube = np.zeros((len(pool), int(sizes.max(initial=0)), 1 + POOL_SIZE), dtype=np.int64)
    cube[row, turn, KEEP_ALL] = outcomes[:, :full_draws].sum(axis=1) * (FULL_DRAWS // full_draws)
    cube[row, turn, 1:] = FULL_DRAWS * outcomes[:, FULL_DRAWS:]
    held = np.arange(cube.shape[1]) < sizes[:, None]
    return cube, held


def _scores(cube: IntArray, held: BoolArray, codes: IntArray, rng: np.random.Generator) -> dict[Policy, FloatArray]:
    """Return policy -> (n, b) twice the success on each held-out block, of those that know both full draws."""
    chosen = cross_fitted(cube, held)
    wrong = codes == WRONG
    first_wrong = np.where(wrong.any(axis=1), 1 + wrong.argmax(axis=1), KEEP_ALL)
    best = cube.sum(axis=1).argmax(axis=1)
    shape = held.shape
    return {
        "keep_all": cube[..., KEEP_ALL].astype(np.float64),
        "cross_fit": _taken(cube, chosen),
        "remove_first_wrong": _taken(cube, np.broadcast_to(first_wrong[:, None], shape)),
        "random_of_six": cube.mean(axis=2),
        "random_removal": cube[..., 1:].mean(axis=2),
        "hindsight_problem": _taken(cube, np.broadcast_to(best[:, None], shape)),
        "hindsight_block": cube.max(axis=2).astype(np.float64),
        "shuffled_evidence": _taken(cube, _of_another_problem(chosen, held, rng)),
    }


def _of_another_problem(chosen: IntArray, held: BoolArray, rng: np.random.Generator) -> IntArray:
    """Return the actions that a random other problem chose; its folds are gone through in turn.

    With a single problem there is no other, and all are kept.
    """
    n = len(chosen)
    if n < 2:
        return np.full_like(chosen, KEEP_ALL)
    circle = rng.permutation(n)
    other = np.empty(n, dtype=np.int64)
    other[circle] = np.roll(circle, 1)
    turn = np.arange(chosen.shape[1]) % held.sum(axis=1)[other][:, None]
    return np.asarray(chosen[other[:, None], turn])


def _taken(cube: IntArray, actions: npt.NDArray[np.int64]) -> FloatArray:
    return np.take_along_axis(cube, actions[..., None], axis=2)[..., 0].astype(np.float64)


def _folded(values: FloatArray, held: BoolArray) -> FloatArray:
    return np.asarray(np.where(held, values, 0.0).sum(axis=1), dtype=np.float64)
