"""The labels of `dhd_labels.labels`, for all messages of a simulation at once. A test holds the two equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, get_args

import numpy as np
import numpy.typing as npt

from dhd_labels.labels import NO_BLOCK, STOPPED, bootstrap_interval, stability_of
from dhd_labels.records import POOL_SIZE, Arm, Stability
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.simulate.outcomes import ALONE, FULL, ONLY, WITHOUT, success
from dhd_labels.simulate.pools import IntArray, SmallIntArray
from dhd_labels.simulate.worlds import FloatArray

TextArray = npt.NDArray[np.object_]
_STEPS = 2 * FULL_DRAWS + 1
"""A block effect is one of -1, -1/2, 0, 1/2, 1: so many values."""
_STABILITY: tuple[Stability, ...] = get_args(Stability)


class Drawn(Protocol):
    """Outcomes of n_units units, as `simulate.outcomes.Outcomes` has them."""

    @property
    def main(self) -> SmallIntArray:
        """Return (n_units, len(ARMS), draws) codes outside of blocks."""
        ...

    @property
    def full(self) -> FloatArray:
        """Return (n_units, n_blocks, 2) success of the full draws; NaN where missing."""
        ...

    @property
    def without(self) -> FloatArray:
        """Return (n_units, n_blocks, 5) success of the removal draws; NaN where missing."""
        ...


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of n_units x 5 messages, each (n_units, 5); NaN or None where `MessageLabel` has None."""

    single_effect: FloatArray
    single_effect_reason: TextArray
    in_pool_effect: FloatArray
    in_pool_effect_reason: TextArray
    trajectory_value: FloatArray
    trajectory_value_reason: TextArray
    ci_low: FloatArray
    ci_high: FloatArray
    n_blocks: IntArray
    screen_blocks: IntArray
    stability: TextArray
    cell: TextArray
    stable_cell: TextArray


def label_arrays(outcomes: Drawn, correct: npt.NDArray[np.int8], screen_blocks: IntArray | None = None) -> Labels:
    """Label every message of every unit, by the rule that `no_answer` is missing.

    Args:
        outcomes: n_units units.
        correct: (n_units, 5) 1 right proposal, 0 wrong, -1 without a verdict.
        screen_blocks: (n_units,) first blocks that decided how many more there are; 0 each when not given. A value that
            no later block gives has the reason of a stopped problem, also when its later blocks are incomplete.
    """
    screen = np.zeros(len(correct), dtype=np.int64) if screen_blocks is None else np.asarray(screen_blocks)
    number = np.arange(outcomes.full.shape[1])
    later = (number >= screen[:, None])[:, :, None]
    single, why_no_single = _single(outcomes)
    pair_mean, pair_first = _pairs(outcomes, later & (screen > 0)[:, None, None])
    effects = np.where(later, outcomes.full.mean(axis=2)[:, :, None] - outcomes.without, np.nan)
    value = _blocks(effects)
    proposal = _named(("wrong", "correct", None), correct)
    sign = _named(("neutral", "helpful", "harmful"), np.sign(np.nan_to_num(pair_first)).astype(int))
    known = correct >= 0
    stable = value.stability != _STABILITY.index("indeterminate")
    return Labels(
        single_effect=single,
        single_effect_reason=why_no_single,
        in_pool_effect=pair_mean,
        in_pool_effect_reason=_reason(pair_mean, "no graded pair of a full draw and a removal draw"),
        trajectory_value=value.mean,
        trajectory_value_reason=np.where((screen > 0)[:, None], *(_reason(value.mean, r) for r in (STOPPED, NO_BLOCK))),
        ci_low=value.low,
        ci_high=value.high,
        n_blocks=value.n_blocks,
        screen_blocks=np.repeat(screen[:, None], POOL_SIZE, axis=1),
        stability=_named(_STABILITY, value.stability),
        cell=_joined(proposal, sign, known & np.isfinite(pair_first)),
        stable_cell=_joined(proposal, _named([s[7:] for s in _STABILITY], value.stability), known & stable),
    )


def _single(outcomes: Drawn) -> tuple[FloatArray, TextArray]:
    """Return mean success of `only i` minus mean success of `alone`, and the reasons where there is none."""
    only = nan_mean(success(outcomes.main[:, ONLY]))
    alone = nan_mean(success(outcomes.main[:, [ALONE]]))
    names = _named([f"no graded draw of {Arm.only(slot).name}" for slot in range(POOL_SIZE)], np.arange(POOL_SIZE))
    reason = np.where(np.isnan(only), names, _reason(alone, f"no graded draw of {Arm.alone().name}"))
    return only - alone, reason


def _pairs(outcomes: Drawn, left_out: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the first of the one-draw-against-one effects: unmatched ones, else draw 0 of each block.

    Args:
        outcomes: n_units units.
        left_out: (n_units, n_blocks, 1) blocks that do not count.
    """
    unmatched = success(outcomes.main[:, [FULL]]) - success(outcomes.main[:, WITHOUT])
    matched = np.where(left_out, np.nan, outcomes.full[:, :, [0]] - outcomes.without).transpose(0, 2, 1)
    has = np.isfinite(unmatched).any(axis=2)
    return tuple(np.where(has, of(unmatched), of(matched)) for of in (nan_mean, first_known))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class _Values:
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    n_blocks: IntArray
    stability: IntArray
    """Index into `_STABILITY`."""


def _blocks(effects: FloatArray) -> _Values:
    """Return trajectory values and intervals of (n_units, n_blocks, 5) block effects, NaN where incomplete.

    Which blocks had which effect does not matter, only how often each of five values came: so there are few patterns,
    and each is bootstrapped once.
    """
    steps = np.where(np.isnan(effects), np.nan, (effects + 1) * FULL_DRAWS)
    counts = np.stack([(steps == step).sum(axis=1) for step in range(_STEPS)], axis=-1)
    n_blocks = counts.sum(axis=-1)
    keys = counts @ (effects.shape[1] + 1) ** np.arange(_STEPS)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    patterns = counts.reshape(-1, _STEPS)[first]
    rows = [_interval(pattern) for pattern in patterns]
    mean, low, high, stability = np.array(rows, dtype=np.float64).reshape(-1, 4).T[:, place].reshape(4, *keys.shape)
    return _Values(mean, low, high, n_blocks, stability.astype(np.int64))


def _interval(pattern: IntArray) -> tuple[float, float, float, int]:
    """Return mean, ends and stability (index) of the block effects that came `pattern[step]` times each."""
    effects = np.repeat(np.arange(_STEPS) / FULL_DRAWS - 1, pattern)
    if not len(effects):
        return np.nan, np.nan, np.nan, _STABILITY.index(stability_of(None, 0))
    value = bootstrap_interval(list(effects))
    return value.mean, value.low, value.high, _STABILITY.index(stability_of(value, len(effects)))


def nan_mean(values: FloatArray) -> FloatArray:
    """Return the mean over the last axis of what is not NaN; NaN where nothing is."""
    known = np.isfinite(values)
    number = known.sum(axis=-1)
    total = np.where(known, values, 0.0).sum(axis=-1)
    mean: FloatArray = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return mean


def first_known(values: FloatArray) -> FloatArray:
    """Return the first value of the last axis that is not NaN; NaN where nothing is."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    place = np.isfinite(values).argmax(axis=-1)
    found: FloatArray = np.take_along_axis(values, place[..., None], axis=-1)[..., 0]
    return found


def _named(options: Sequence[str | None], index: npt.NDArray[np.integer]) -> TextArray:
    table = np.empty(len(options), dtype=np.object_)
    table[:] = options
    named: TextArray = table[index]
    return named


def _reason(values: FloatArray, why: str) -> TextArray:
    return _named((None, why), np.isnan(values).astype(int))


def _joined(left: TextArray, right: TextArray, where: npt.NDArray[np.bool_]) -> TextArray:
    """Return "left_right" where known, else None."""
    found = np.full(left.shape, None, dtype=object)
    found[where] = left[where] + "_" + right[where]
    return found
