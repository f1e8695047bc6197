"""What matched blocks say: noise of identical inputs, trajectory values, stability."""

from __future__ import annotations

from functools import cache

import numpy as np

from dhd_labels.records import POOL_SIZE
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.simulate.label_arrays import nan_mean
from dhd_labels.stats.frames import ABSENT, BoolArray, FloatArray
from dhd_labels.stats.intervals import wilson
from dhd_labels.stats.message_interval import message_interval
from dhd_labels.stats.rows import Group, Row, StatTable, number
from dhd_labels.stats.tables.study import Study, by_proposal, interval

STABILITIES = ("stable_helpful", "indeterminate", "stable_harmful")
_RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
_NULL_RATES = tuple(place / 20 for place in range(1, 20))


def repeat_tables(study: Study) -> list[StatTable]:
    """Return `identical_input`, `mean_value` and `stability`."""
    return [_identical_input(study), _mean_value(study), _stability(study)]


def _identical_input(study: Study) -> StatTable:
    full = study.units.full
    compared, recorded = np.all(full >= 0, axis=2), np.any(full != ABSENT, axis=2)
    once = np.any(full == ABSENT, axis=2) & recorded
    differ = compared & (full[:, :, 0] != full[:, :, 1])
    rows: list[Row] = []
    for group in study.groups:
        first = study.common_blocks(group)
        drawn, same, unlike, single = (part[group.units][:, :first] for part in (recorded, compared, differ, once))
        study.exclude("identical_input", group, "block with one full draw", int(single.sum()))
        lost = int((drawn & ~same & ~single).sum())
        study.exclude("identical_input", group, "full draw without a verdict", lost)
        if not drawn.any():
            continue
        n, found = int(same.sum()), int(unlike.sum())
        low, high = wilson(found, n)
        by_problem = study.estimate(group, *(part.sum(axis=1).astype(np.float64) for part in (unlike, same)))
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
                "blocks_used": _used(first),
            }
        )
    return StatTable(
        "identical_input",
        "Identical-input disagreement",
        "chance that two full draws of one block, the same input twice, end differently",
        "block; the Wilson interval takes blocks as independent, the clustered one resamples problems",
        "none",
        rows,
        note="This is the noise that every one-draw effect contains.",
        points=True,
    )


def _used(first: int | None) -> str:
    """Say which blocks an estimate is from; see `Study.common_blocks`."""
    return "all" if first is None else f"first {first} of each problem"


def block_values(study: Study, group: Group) -> FloatArray:
    """Return (n_group, 5) trajectory values from the blocks that every problem of the group has."""
    first = study.common_blocks(group)
    if first is None:
        value: FloatArray = study.checked.labels.trajectory_value[group.units]
        return value
    full, without = (codes[group.units][:, :first] for codes in (study.units.full, study.units.without))
    effects = study.effect(full).mean(axis=2)[:, :, None] - study.effect(without)
    return nan_mean(effects.transpose(0, 2, 1))


def _mean_value(study: Study) -> StatTable:
    rows: list[Row] = []
    for group in study.groups:
        found, proposal = block_values(study, group), study.units.proposal[group.units]
        known = np.isfinite(found)
        recorded = study.recorded_blocks[group.units] > 0
        study.exclude("mean_value", group, "message of a pool without blocks", int((~recorded).sum()) * POOL_SIZE)
        study.exclude("mean_value", group, "no complete block", int((~known & recorded[:, None]).sum()))
        if not known.any():
            continue
        study.exclude("mean_value", group, "proposal without a verdict", int((known & (proposal < 0)).sum()))
        sums: list[FloatArray] = []
        for name, chosen in by_proposal(proposal):
            part = [(chosen * np.nan_to_num(found)).sum(axis=1), (chosen * known).sum(axis=1)]
            sums += part
            rows.append(_value_row(study, group, name, part))
        rows.append(_value_row(study, group, "correct_minus_wrong", sums))
    return StatTable(
        "mean_value",
        "Mean trajectory value by proposal",
        "mean over messages of the trajectory value: mean over complete blocks of (mean of the two full draws minus "
        "the draw without the message); positive is helpful",
        "message; intervals resample problems",
        "none",
        rows,
        note="Removing a message also makes the pool smaller; the value includes that.",
    )


def _value_row(study: Study, group: Group, name: str, sums: list[FloatArray]) -> Row:
    """Return a row from value sums and counts of one proposal verdict, or of both for their difference."""
    if len(sums) == len(("value", "count")):
        found = study.estimate(group, *sums)
    else:
        found = study.difference(group, np.column_stack(sums[::2]), np.column_stack(sums[1::2]))
    return {
        **group.keys,
        "proposal": name,
        "mean": found.value,
        **interval(found),
        "n": int(sum(part.sum() for part in sums[1::2])),
        "n_problems": found.n,
        "blocks_used": _used(study.common_blocks(group)),
    }


def _stability(study: Study) -> StatTable:
    labels, units = study.checked.labels, study.units
    rows: list[Row] = []
    for group in study.groups:
        stability, blocks = labels.stability[group.units], labels.n_blocks[group.units]
        proposal = units.proposal[group.units]
        _count_without_blocks(study, group, blocks == 0)
        if not blocks.any():
            continue
        note = coverage_note(int(np.median(blocks[blocks > 0])))
        for name, code in (("correct", 1), ("wrong", 0), ("unknown", -1)):
            of_kind = stability[(proposal == code) & (blocks > 0)]
            for label in STABILITIES if len(of_kind) or code >= 0 else ():
                n = int((of_kind == label).sum())
                rows.append({**group.keys, "proposal": name, "label": label, "n": n, "coverage_note": note})
    return StatTable(
        "stability",
        "Stable and indeterminate messages",
        "counts of messages whose exact 95 % bootstrap interval over their blocks lies above 0, below 0 or neither",
        "message",
        "none: this is a description, not a test",
        tuple(rows),
        hidden=frozenset({"coverage_note"}),
        note=" ".join([*dict.fromkeys(row["coverage_note"] for row in rows), "Claims rest on the exact tests."]),
    )


def _count_without_blocks(study: Study, group: Group, blockless: BoolArray) -> None:
    """Count the (n_group, 5) messages that have no block which could make them stable."""
    recorded = study.recorded_blocks[group.units] > 0
    stopped = study.stopped[group.units] & recorded
    for reason, pools in (
        ("message of a pool without blocks", ~recorded),
        ("stopped after screening", stopped),
        ("no complete block", recorded & ~stopped),
    ):
        study.exclude("stability", group, reason, int((blockless & pools[:, None]).sum()))


@cache
def coverage_note(blocks: int) -> str:
    """Say what the interval of one message from so many blocks is worth, exactly: coverage, and noise called stable."""
    if blocks < FULL_DRAWS:
        return "With one block no message can be stable."
    coverage = [message_interval(blocks, full, removal).coverage for full in _RATES for removal in _RATES]
    null = {p: message_interval(blocks, p, p) for p in _NULL_RATES}
    stable = {p: found.stable_helpful + found.stable_harmful for p, found in null.items()}
    worst = max(stable, key=stable.__getitem__)
    return (
        f"With {blocks} blocks the 95 % interval of a message covers its value in {100 * min(coverage):.0f} to "
        f"{100 * max(coverage):.0f} % of cases (success .1 to .9 with and without it), and calls a message without "
        f"effect stable in up to {100 * stable[worst]:.1f} % (at success {worst:.2f}), so some of these are chance."
    )
