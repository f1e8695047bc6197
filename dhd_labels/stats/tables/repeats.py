"""What matched blocks say: noise of identical inputs, trajectory values, stability."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement
from math import factorial

import numpy as np

from dhd_labels.labels import bootstrap_interval, stability_of
from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.frames import ABSENT, FloatArray
from dhd_labels.stats.intervals import wilson
from dhd_labels.stats.rows import Group, Row, StatTable, number
from dhd_labels.stats.tables.study import Study, by_proposal, interval

STABILITIES = ("stable_helpful", "indeterminate", "stable_harmful")
_NULL_SUCCESS = tuple(np.arange(1, 20) / 20)


def repeat_tables(study: Study) -> list[StatTable]:
    """Return `identical_input`, `mean_value` and `stability`."""
    return [_identical_input(study), _mean_value(study), _stability(study)]


def _identical_input(study: Study) -> StatTable:
    graded = study.units.full >= 0
    compared, recorded = graded.all(axis=2), (study.units.full != ABSENT).any(axis=2)
    differ = compared & (study.units.full[:, :, 0] != study.units.full[:, :, 1])
    rows: list[Row] = []
    for group in study.groups:
        n, found = int(compared[group.units].sum()), int(differ[group.units].sum())
        lost = recorded[group.units] & ~compared[group.units]
        once = (study.units.full[group.units] == ABSENT).any(axis=2) & lost
        study.exclude("identical_input", group, "block with one full draw", int(once.sum()))
        study.exclude("identical_input", group, "full draw without a verdict", int((lost & ~once).sum()))
        if not recorded[group.units].any():
            continue
        low, high = wilson(found, n)
        by_problem = study.estimate(group, *(m[group.units].sum(axis=1).astype(float) for m in (differ, compared)))
        rows.append(
            {
                **group.keys,
                "disagree": found,
                "n": n,
                "rate": found / n if n else None,
                "wilson_low": number(low),
                "wilson_high": number(high),
                **interval(by_problem, "clustered_"),
                "n_problems": by_problem.n,
            }  # fmt: skip
        )
    return StatTable(
        "identical_input", "Identical-input disagreement",
        "chance that two full draws of one block, the same input twice, end differently",
        "block; the Wilson interval takes blocks as independent, the clustered one resamples problems", "none",
        tuple(rows), note="This is the noise that every one-draw effect contains.", points=True,
    )  # fmt: skip


def _mean_value(study: Study) -> StatTable:
    value = study.checked.labels.trajectory_value
    rows: list[Row] = []
    for group in study.groups:
        found, proposal = value[group.units], study.units.proposal[group.units]
        known = np.isfinite(found)
        recorded = (study.units.without[group.units] != ABSENT).any(axis=(1, 2))
        study.exclude("mean_value", group, "message of a pool without blocks", int((~recorded).sum()) * POOL_SIZE)
        study.exclude("mean_value", group, "no complete block", int((~known & recorded[:, None]).sum()))
        if not known.any():
            continue
        study.exclude("mean_value", group, "proposal without a verdict", int((known & (proposal < 0)).sum()))
        sums: list[FloatArray] = []
        for name, chosen in by_proposal(proposal):
            part = [(chosen * np.nan_to_num(found)).sum(axis=1), (chosen * known).sum(axis=1)]
            sums += part
            rows.append(_value_row(study, group, name, part, int(part[1].sum())))
        rows.append(_value_row(study, group, "correct_minus_wrong", sums, int(sums[1].sum() + sums[3].sum())))
    return StatTable(
        "mean_value", "Mean trajectory value by proposal",
        "mean over messages of the trajectory value: mean over complete blocks of (mean of the two full draws minus "
        "the draw without the message); positive is helpful",
        "message; intervals resample problems", "none", tuple(rows),
        note="Removing a message also makes the pool smaller; the value includes that.",
    )  # fmt: skip


def _value_row(study: Study, group: Group, name: str, sums: list[FloatArray], n: int) -> Row:
    """Return a row from value sums and counts of one proposal verdict, or of both for their difference."""
    if len(sums) == len(("value", "count")):
        found = study.estimate(group, *sums)
    else:
        found = study.difference(group, np.column_stack(sums[::2]), np.column_stack(sums[1::2]))
    return {**group.keys, "proposal": name, "mean": found.value, **interval(found), "n": n, "n_problems": found.n}


def _stability(study: Study) -> StatTable:
    labels, units = study.checked.labels, study.units
    rows: list[Row] = []
    for group in study.groups:
        stability, blocks = labels.stability[group.units], labels.n_blocks[group.units]
        proposal = units.proposal[group.units]
        if not blocks.any():
            continue
        note = coverage_note(int(np.median(blocks[blocks > 0])))
        for name, code in (("correct", 1), ("wrong", 0), ("unknown", -1)):
            of_kind = stability[(proposal == code) & (blocks > 0)]
            for label in STABILITIES if len(of_kind) or code >= 0 else ():
                n = int((of_kind == label).sum())
                rows.append({**group.keys, "proposal": name, "label": label, "n": n, "coverage_note": note})
    return StatTable(
        "stability", "Stable and indeterminate messages",
        "counts of messages whose exact 95 % bootstrap interval over their blocks lies above 0, below 0 or neither",
        "message", "none: this is a description, not a test",
        tuple(rows), hidden=frozenset({"coverage_note"}),
        note=f"{rows[0]['coverage_note']} Claims rest on the exact tests." if rows else "",
    )  # fmt: skip


@cache
def coverage_note(blocks: int) -> str:
    """Say how often the interval of a message without any effect misses 0 with so many blocks.

    Exact, over success probabilities .05, .10, ... .95 that are the same with and without the message.
    """
    if blocks < FULL_DRAWS:
        return "With one block no message can be stable."
    rates = [false_stable_rate(blocks, p) for p in _NULL_SUCCESS]
    worst = int(np.argmax(rates))
    return (
        f"With {blocks} blocks the interval of a message without effect misses 0 in up to {100 * rates[worst]:.1f} % "
        f"of cases (at success {_NULL_SUCCESS[worst]:.2f}), so some of these are stable by chance."
    )


def false_stable_rate(blocks: int, success: float) -> float:
    """Return the exact chance that a message without effect is called stable.

    Args:
        blocks: complete blocks, at least 1.
        success: success probability of every draw.
    """
    return sum(_chance(pattern, success) for pattern in _stable_patterns(blocks))


@cache
def _stable_patterns(blocks: int) -> tuple[tuple[float, ...], ...]:
    """Return the block effects, sorted, that give a stable label."""
    steps = [step / FULL_DRAWS for step in range(-FULL_DRAWS, FULL_DRAWS + 1)]
    return tuple(
        pattern
        for pattern in combinations_with_replacement(steps, blocks)
        if stability_of(bootstrap_interval(pattern), blocks) != "indeterminate"
    )


def _chance(pattern: tuple[float, ...], p: float) -> float:
    """Return the multinomial chance of a multiset of block effects when nothing has an effect."""
    one = dict(_block_effect_chances(p))
    arrangements = factorial(len(pattern))
    chance = 1.0
    for effect in set(pattern):
        times = pattern.count(effect)
        arrangements //= factorial(times)
        chance *= one[effect] ** times
    return arrangements * chance


def _block_effect_chances(p: float) -> Iterator[tuple[float, float]]:
    q = 1 - p
    full = {0: q * q, 1: 2 * p * q, 2: p * p}
    for step in range(-FULL_DRAWS, FULL_DRAWS + 1):
        chance = sum(
            full[sum_of_full] * (p if removed else q)
            for sum_of_full in full
            for removed in (0, 1)
            if sum_of_full - FULL_DRAWS * removed == step
        )
        yield step / FULL_DRAWS, chance
