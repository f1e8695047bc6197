"""What can be gained at best, in points over keep-all: knowing the truth, and knowing what a selector can see.

`attainable_gain`: mean over problems of the best of keeping all and removing one message, by true success
probabilities. `attainable_from_text`: the same choice by the exact posterior mean of these probabilities given what
the pool shows: which answers agree, stated confidence, cues and words. The posterior sums over every hidden state
(which answer is right, difficulty, every combination of effects); nothing is sampled.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.outcomes import probabilities, true_values
from dhd_labels.simulate.pools import NO_ANSWER, BoolArray, IntArray, Pools, SmallIntArray, draw_pools
from dhd_labels.simulate.worlds import CONFIDENCE, CUES, FloatArray, World

POINTS = 100.0
EXPECTED_POOLS = 50_000
_EXPECTED_SEED = 20_261_130
_CHUNK = 10_000
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Ceilings in points over keep-all, with the standard errors of the means over problems (None for one)."""

    attainable_gain: float
    attainable_gain_se: float | None
    attainable_from_text: float
    attainable_from_text_se: float | None
    n_problems: int


def ceilings(world: World, true_value: FloatArray, text_value: FloatArray) -> Ceilings:
    """Return the ceilings of the problems behind these values.

    Args:
        world: the parameters.
        true_value: (n_units, 5) true trajectory values, a problem's units together.
        text_value: (n_units, 5) their posterior means, from `text_values`.
    """
    units = world.actors * len(world.integrator_scales)
    best, seen = (
        best_gain(world, values).reshape(-1, units).mean(axis=1) * POINTS for values in (true_value, text_value)
    )
    return Ceilings(float(best.mean()), _error(best), float(seen.mean()), _error(seen), len(best))


@functools.cache
def expected_ceilings(world: World) -> Ceilings:
    """Return the ceilings of the world itself, from `EXPECTED_POOLS` further pools with a seed of their own."""
    rng = np.random.default_rng(_EXPECTED_SEED)
    pools = draw_pools(world, -(-EXPECTED_POOLS // world.actors), rng)
    return ceilings(world, true_values(probabilities(world, pools)), text_values(world, pools))


def best_gain(world: World, values: FloatArray) -> FloatArray:
    """Return (n_units,) the gain in accuracy of the best of keep-all and the five removals.

    Accuracy counts `no_answer` as wrong and leaves other outcomes without a verdict out (protocol.md), so where
    outcomes are missing a gain in success is worth the share of verdicts among the two.
    """
    graded = 1 - world.missing.total
    worth = graded / (graded + world.missing.no_answer)
    best = -values.min(axis=1)
    return np.where(best > _ROUNDING, best, 0.0) * worth


def text_values(world: World, pools: Pools) -> FloatArray:
    """Return (n_units, 5) the posterior mean of each true value given what the pool shows. Exact."""
    parts = [_text_values(world, pools, slice(at, at + _CHUNK)) for at in range(0, len(pools), _CHUNK)]
    return np.concatenate(parts).reshape(-1, POOL_SIZE)


def tone_log_odds(world: World, pools: Pools) -> FloatArray:
    """Return (n_pools, 5) log P(text | helpful tone) / P(text | harmful tone): the best score for the sign."""
    total = np.zeros(pools.tone.shape)
    for column, cue in enumerate(CUES):
        harmful, helpful = world.cue_probabilities(cue)
        total += np.log(helpful / harmful)[pools.cues[:, :, column]]
    word = np.log(world.wording / (1 - world.wording))
    odds: FloatArray = np.round(total + word * (2 * pools.words.astype(np.int64) - 1).sum(axis=2), 9)
    return odds


def _text_values(world: World, pools: Pools, part: slice) -> FloatArray:
    """Return (n_pools, n_integrators, 5) of the pools in `part`."""
    answer = pools.answer[part]
    right = _right_if(answer)
    weight = _posterior(world, answer, pools.confidence[part], right)
    helpful = expit(tone_log_odds(world, pools)[part])
    effect = np.stack([1 - helpful, np.zeros_like(helpful), helpful], axis=-1) * world.carrier_share
    effect[:, :, 1] = 1 - world.carrier_share
    sums, sums_without = _sums(effect)
    signed = np.where(right, 1, np.where(answer != NO_ANSWER, -1, 0)[:, None, :])
    total = signed.sum(axis=2)
    found = np.empty((len(answer), len(world.integrator_scales), POOL_SIZE))
    for place, scale in enumerate(world.integrator_scales):
        full = _success(world, scale, POOL_SIZE)[total]
        with_all = np.einsum("nhd,nhds,ns->n", weight, full, sums, optimize=True)
        table = _success(world, scale, POOL_SIZE - 1)
        for slot in range(POOL_SIZE):
            less = table[total - signed[:, :, slot]]
            without = np.einsum("nhd,nhds,ns->n", weight, less, sums_without[slot], optimize=True)
            found[:, place, slot] = with_all - without
    return found


def _right_if(answer: IntArray) -> BoolArray:
    """Return (n, 6, 5): which messages are right if the reference is the answer of message h, or (h = 5) no answer."""
    same = (answer[:, :, None] == answer[:, None, :]) & (answer != NO_ANSWER)[:, :, None]
    return np.concatenate([same, np.zeros_like(same[:, :1])], axis=1)


def _posterior(world: World, answer: IntArray, confidence: SmallIntArray, right: BoolArray) -> FloatArray:
    """Return (n, 6, n_difficulties) the probability of each hidden state given answers and confidence.

    The size of a number says nothing, only which are equal: the wrong answers of more than one message must be the
    problem's popular error, and a lone wrong answer may be it.
    """
    silent = answer == NO_ANSWER
    wrong = ~right & ~silent[:, None, :]
    same = (answer[:, :, None] == answer[:, None, :]) & ~silent[:, :, None]
    size = np.where(wrong, same.sum(axis=2)[:, None, :], 0)
    n_wrong, largest = wrong.sum(axis=2), size.max(axis=2)
    groups_shared = ((size > 1) / np.maximum(size, 1)).sum(axis=2).round()
    rho = world.same_error
    alone = (1 - rho) ** n_wrong + n_wrong * rho * (1 - rho) ** np.maximum(n_wrong - 1, 0)
    shared = rho**largest * (1 - rho) ** (n_wrong - largest)
    pattern = np.where(groups_shared == 0, alone, np.where(groups_shared == 1, shared, 0.0))
    level = np.array([CONFIDENCE[c] for c in (0, 1, -1)])
    state = np.where(right, 1, np.where(wrong, 0, 2))
    stated = level[state, confidence[:, None, :]].prod(axis=2)
    first = np.ones(right.shape[:2], dtype=bool)  # an answer of several messages is one hypothesis
    for slot in range(POOL_SIZE):
        first[:, slot] = ~silent[:, slot] & ~same[:, slot, :slot].any(axis=1)
    n_right = right.sum(axis=2)
    weight = np.stack(
        [d.probability * d.right**n_right * (1 - d.right) ** n_wrong for d in world.difficulties], axis=-1
    ) * (first * pattern * stated)[:, :, None]  # fmt: skip
    found: FloatArray = weight / weight.sum(axis=(1, 2), keepdims=True)
    return found


def _sums(effect: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Return the distribution of the sum of all five effects, (n, 11), and of the others' for each slot, (n, 9)."""
    without = []
    for slot in range(POOL_SIZE):
        total = np.ones((len(effect), 1))
        for other in range(POOL_SIZE):
            if other != slot:
                total = _convolve(total, effect[:, other])
        without.append(total)
    return _convolve(without[-1], effect[:, -1]), without


def _convolve(total: FloatArray, one: FloatArray) -> FloatArray:
    width = total.shape[1]
    found = np.zeros((len(total), width + 2))
    for step in range(3):
        found[:, step : step + width] += total * one[:, [step]]
    return found


def _success(world: World, scale: float, shown: int) -> FloatArray:
    """Return (2 * 5 + 1, n_difficulties, 2 * shown + 1) success by signed correct answers and by the sum of effects.

    The first axis is 0, 1, ..., 5, -5, ..., -1, so that a signed count is its index.
    """
    signed = np.r_[0 : POOL_SIZE + 1, -POOL_SIZE:0]
    effects = np.arange(-shown, shown + 1)
    base = np.array([d.logit for d in world.difficulties])
    logits = base[None, :, None] + scale * (
        world.correctness_logit * signed[:, None, None] + world.carrier_logit * effects[None, None, :]
    )
    found: FloatArray = expit(np.round(logits + world.pool_size_logit * shown, 12))
    return found


def _error(values: FloatArray) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
