"""Which single message to show, when only one may be shown: rules, oracles and their regret."""

from __future__ import annotations

import numpy as np

from dhd_labels.records import POOL_SIZE
from dhd_labels.stats.frames import ABSENT, ALONE, FULL, ONLY, BoolArray, FloatArray, Units
from dhd_labels.stats.rows import Group, Row, StatTable
from dhd_labels.stats.tables.accuracy import most_common
from dhd_labels.stats.tables.study import Study, interval

RANDOM, BEST = "random_message", "best_single_outcome_oracle"
ORACLES = ("proposal_correctness_oracle", BEST)
"""Policies that know what no system knows."""


def routing_table(study: Study) -> StatTable:
    """Return `routing`."""
    rows = [row for group in study.groups for row in _rows(study, group)]
    return StatTable(
        "routing",
        "One message only: which one?",
        "mean over problems of the success of the arm that a policy chooses; diff: minus that of a random "
        "message on the "
        "same problems (its interval is ci_low to ci_high); regret: what the best single message would add",
        "problem; intervals resample problems, paired",
        "none: the interval of diff describes",
        rows,
        note="Ties are broken at random, in expectation. Oracles know verdicts or outcomes: they are bounds, "
        "not systems. "
        "The best single outcome is chosen after the fact, so it also gains from noise.",
        points=True,
    )


def choices(units: Units) -> dict[str, FloatArray]:
    """Return, by policy, (n, 5) the chance that it shows each message; a policy with nothing to go by is random."""
    confident = np.where(np.isnan(units.confidence), -np.inf, units.confidence)
    highest = np.isfinite(confident) & (confident == confident.max(axis=1, keepdims=True))
    return {
        RANDOM: np.full((len(units), POOL_SIZE), 1 / POOL_SIZE),
        "answer_consensus": _spread(most_common(units.answer) > 0),
        "highest_self_reported_confidence": _spread(highest),
        "proposal_correctness_oracle": _spread(units.proposal == 1),
    }


def _spread(chosen: BoolArray) -> FloatArray:
    count = chosen.sum(axis=1, keepdims=True)
    return np.where(count > 0, chosen / np.maximum(count, 1), 1 / POOL_SIZE)


def _rows(study: Study, group: Group) -> list[Row]:
    single, alone, full = (study.mean[group.units][:, place] for place in (ONLY, ALONE, FULL))
    if not (study.units.main[group.units][:, ONLY] != ABSENT).any():
        return []
    usable = np.isfinite(single).all(axis=1) & np.isfinite(alone) & np.isfinite(full)
    study.exclude("routing", group, "an arm without a verdict", int((~usable).sum()))
    if not usable.any():
        return []
    shown = np.nan_to_num(single)
    success = {name: (chance * shown).sum(axis=1) for name, chance in choices(study.units.take(group.units)).items()}
    success |= {BEST: shown.max(axis=1), "independent_k0": alone, "full_k5": full}
    best = float(success[BEST][usable].mean())
    rows = []
    for policy, values in success.items():
        found = study.mean_of(group, np.where(usable, values, np.nan))
        diff = study.mean_of(group, np.where(usable, values - success[RANDOM], np.nan))
        own = {"ci_low": None, "ci_high": None, "ci_reason": "the reference"} if policy == RANDOM else interval(diff)
        regret = best - float(values[usable].mean())
        rows.append(
            {
                **group.keys,
                "policy": policy,
                "accuracy": found.value,
                **interval(found, "accuracy_ci_"),
                "diff": diff.value,
                **own,
                "regret": regret,
                "oracle": policy in ORACLES,
                "n": found.n,
            }
        )
    return rows
