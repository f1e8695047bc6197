"""What removing one message could gain when other blocks of the same problem choose it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dhd_labels.stats.cross_fit import PLACEBOS, POLICIES, PRIVILEGED, same_problem_selection
from dhd_labels.stats.frames import ABSENT, FloatArray, IntArray
from dhd_labels.stats.rows import Group, Row, StatTable
from dhd_labels.stats.tables.problem_tests import group_blocks
from dhd_labels.stats.tables.study import SEED, Study, interval


def selection_table(study: Study) -> StatTable:
    """Return `same_problem_selection`."""
    rows = [row for group in study.groups for row in _rows(study, group)]
    return StatTable(
        "same_problem_selection",
        "Same-problem selection: keep all, or remove one message",
        "mean over held-out blocks of the success of the action that the other blocks of the problem choose, "
        "and its gain "
        "over keeping all on the same blocks",
        "held-out block (fold); intervals resample problems",
        "none: shuffled_evidence shows what a selection without knowledge of the problem gains",
        rows,
        note="Cross-fitted, so it is an opportunity of these problems, not a promise for new ones. hindsight policies "
        "choose by what they are scored on and are optimistic; kind marks what knows verdicts or outcomes "
        "(privileged). Of the placebos, shuffled_evidence should gain nothing; a real gain stays in one_full_draw.",
        points=True,
    )


def _rows(study: Study, group: Group) -> Iterator[Row]:
    recorded = (study.units.full[group.units] != ABSENT).any(axis=(1, 2))
    if not recorded.any():
        return
    blocks = group_blocks(study, group.units)
    # A screen chose the problems that go on by its own outcomes, so it scores nothing.
    blocks = blocks.where(blocks.number >= study.units.screen[group.units][blocks.pool])
    found = same_problem_selection(blocks, study.units.proposal[group.units], np.random.default_rng(SEED))
    stopped = study.stopped[group.units] & recorded
    few = blocks.per_pool[recorded & ~stopped]
    study.exclude("same_problem_selection", group, "stopped after screening", int(stopped.sum()))
    study.exclude("same_problem_selection", group, "no complete block", int((few == 0).sum()))
    study.exclude("same_problem_selection", group, "one complete block", int((few == 1).sum()))
    for reason, count in blocks.excluded.items():
        study.exclude("blocks", group, f"block left out: {reason.replace('_', ' ')}", count)
    if not len(found.pool):
        return

    def spread(values: FloatArray | IntArray) -> FloatArray:
        whole = np.zeros(len(group.units))
        whole[found.pool] = values
        return whole

    folds = spread(found.folds)
    for policy in POLICIES:
        accuracy = study.estimate(group, spread(found.success[policy]), folds)
        gain = study.estimate(group, spread(found.gain[policy]), folds)
        kind = "placebo" if policy in PLACEBOS else "privileged" if policy in PRIVILEGED else "plain"
        ends: Row = interval(gain)
        if policy == "keep_all":
            ends = {"ci_low": None, "ci_high": None, "ci_reason": "the reference"}
        yield {
            **group.keys,
            "policy": policy,
            "accuracy": accuracy.value,
            "gain": gain.value,
            **ends,
            "folds": int(found.folds.sum()),
            "kind": kind,
            "n_problems": gain.n,
        }
