"""How often the integrator is right: by K, by what the arm shows, against votes and against what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import comb

import numpy as np

from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.label_arrays import nan_mean
from dhd_labels.stats.answers import WITHHELD
from dhd_labels.stats.frames import (
    ABSENT,
    ALONE,
    ARMS,
    FULL,
    ONLY,
    PREFIX,
    STATUSES,
    FloatArray,
    IntArray,
    SmallIntArray,
)
from dhd_labels.stats.rows import Group, Row, StatTable, number
from dhd_labels.stats.tables.study import Study, interval

_MOST_SUBSETS = 200
_RECRUITER, _INTEGRATOR = 1, 1
"""Calls of a pool besides those of its messages' writers."""
_RULE = "No answer counts as incorrect; truncated, operational and undetermined outcomes are missing."


def accuracy_tables(study: Study) -> list[StatTable]:
    """Return `accuracy_by_k`, `outcomes`, `majority` and `budget`."""
    return [_accuracy_by_k(study), _outcomes(study), _majority(study), _budget(study)]


def plurality(classes: IntArray, verdict: FloatArray) -> FloatArray:
    """Return (n,) the chance that the most common answer is right when ties are broken at random.

    Args:
        classes: (n, m) class of each ballot, -1 for none.
        verdict: (n, m) 1 right, 0 wrong, NaN without a verdict.

    Returns:
        0 where no ballot was cast, NaN where a winning answer has no verdict, or a ballot is withheld.
    """
    winners = most_common(classes)
    count = winners.sum(axis=1)
    total = np.where(winners, verdict, 0.0).sum(axis=1)
    found: FloatArray = np.divide(total, count, out=np.zeros(len(classes)), where=count > 0)
    found[(classes == WITHHELD).any(axis=1)] = np.nan
    return found


def most_common(classes: IntArray) -> SmallIntArray:
    """Return (n, m) 1 for the ballots of an answer that no other outnumbers; all 0 where there is no ballot."""
    cast = classes >= 0
    votes = ((classes[:, :, None] == classes[:, None, :]) & cast[:, :, None]).sum(axis=2)
    found: SmallIntArray = (cast & (votes == votes.max(axis=1, keepdims=True))).astype(np.int8)
    return found


def _accuracy_by_k(study: Study) -> StatTable:
    rows: list[Row] = []
    for group in study.groups:
        for k, place in enumerate(PREFIX):
            codes = study.units.main[group.units, place]
            if not (codes != ABSENT).any():
                continue
            values = study.mean[group.units, place]
            found = study.mean_of(group, values)
            lost = int(((codes != ABSENT) & (codes < -1)).sum())
            study.exclude("accuracy_by_k", group, f"K={k}: outcome without a verdict", lost)
            rows.append({**group.keys, "k": k, "accuracy": found.value, **interval(found), "n": found.n})
    return StatTable(
        "accuracy_by_k",
        "Accuracy by the number of messages shown",
        "mean over problems of the mean success of the first K messages (nested prefixes, not random sets)",
        "problem; intervals resample problems",
        "none",
        rows,
        note=f"Draws outside blocks only. {_RULE}",
        points=True,
    )


def _outcomes(study: Study) -> StatTable:
    rows = [row for group in study.groups for row in _outcome_rows(study, group)]
    return StatTable(
        "outcomes",
        "How draws end, by arm",
        "share of each status among the recorded draws of an arm",
        "draw",
        "none",
        rows,
        note="Arms differ in prompt length, so compare how often each is cut off before comparing accuracies.",
        points=True,
    )


def _outcome_rows(study: Study, group: Group) -> Iterator[Row]:
    main = study.units.main[group.units]
    drawn: list[tuple[str, str, SmallIntArray]] = [("alone", "outside blocks", main[:, ALONE])]
    drawn.append(("only i", "outside blocks", main[:, ONLY]))
    drawn += [(ARMS[place], "outside blocks", main[:, place]) for place in PREFIX[1:]]
    for k in range(2, POOL_SIZE + 1):
        places = [place for place, name in enumerate(ARMS) if name.endswith(f"-of-{k}")]
        drawn.append((f"without i of {k}", "outside blocks", main[:, places]))
    drawn.append(("full", "blocks", study.units.full[group.units]))
    drawn.append(("without i of 5", "blocks", study.units.without[group.units]))
    for arm, place, codes in drawn:
        found = codes[codes != ABSENT]
        if len(found):
            shares = {status: float((found == -i).mean()) for i, status in enumerate(STATUSES) if i}
            graded = float((found >= 0).mean())
            yield {**group.keys, "arm": arm, "place": place, "draws": len(found), "graded": graded, **shares}


def _majority(study: Study) -> StatTable:
    """Compare the proposals themselves with the integrator that reads them."""
    rows: list[Row] = []
    units = study.units
    verdict = np.where(units.proposal >= 0, units.proposal, np.nan).astype(np.float64)
    full = _full_success(study)
    vote = plurality(units.answer, verdict)
    for group in study.groups:
        proposal, integrator = units.proposal[group.units], full[group.units]
        usable = np.isfinite(integrator) & (proposal >= 0).any(axis=1)
        study.exclude("majority", group, "no graded full-pool draw", int((~np.isfinite(integrator)).sum()))
        no_verdict = np.isfinite(integrator) & ~(proposal >= 0).any(axis=1)
        study.exclude("majority", group, "no proposal with a verdict", int(no_verdict.sum()))
        right = (proposal == 1).sum(axis=1)
        for name, values in (
            ("integrator", integrator),
            ("majority_of_proposals_right", (2 * right > POOL_SIZE).astype(np.float64)),
            ("most_common_proposal", vote[group.units]),
            ("some_proposal_right", (right > 0).astype(np.float64)),
        ):
            found = study.mean_of(group, np.where(usable, values, np.nan))
            rows.append({**group.keys, "diagnostic": name, "rate": found.value, **interval(found), "n": found.n})
    return StatTable(
        "majority",
        "Majority and coverage of the proposals",
        "shares of problems in which the integrator is right with the full pool; more than half of the five proposals "
        "are right; the most common proposal is right (ties at random); at least one proposal is right",
        "problem; intervals resample problems",
        "none",
        rows,
        note="An unknown proposal is not right for `majority` and `some`; a most common one leaves its problem out.",
        points=True,
    )


def _full_success(study: Study) -> FloatArray:
    """Return (n,) mean success of the full pool, outside blocks where it was drawn there, else in blocks."""
    from dhd_labels.stats.frames import accuracy

    blocks = nan_mean(accuracy(study.units.full).reshape(len(study.units), -1))
    found = study.mean[:, FULL]
    return np.where(np.isfinite(found), found, blocks)


def _budget(study: Study) -> StatTable:
    rows = [row for group in study.groups for row in _budget_rows(study, group)]
    return StatTable(
        "budget",
        "Accuracy against what it costs",
        "accuracy of the full pool, of one random message, of a vote of the proposals, and of votes of m independent "
        "solves (`independent_m`: the expected plurality vote, ties at random); compare rows of equal calls or tokens",
        "problem; intervals resample problems; rows of a group are about the problems whose solves and full pool have "
        "verdicts, less those on which a policy has none (n)",
        "none",
        rows,
        note="Calls: one recruiter, one for each message written, one integrator. Tokens: prompt and reply of all "
        f"these calls, mean over problems; missing where a server did not count them. {_RULE}",
        points=True,
    )


def _budget_rows(study: Study, group: Group) -> Iterator[Row]:
    units = study.units.take(group.units)
    alone, drawn = study.main[group.units, ALONE], units.main[:, ALONE] != ABSENT
    draws = int(drawn.any(axis=0).sum())
    full, single = _full_success(study)[group.units], nan_mean(study.mean[group.units][:, ONLY])
    usable = np.isfinite(full) & np.isfinite(alone[:, :draws]).all(axis=1)
    if not draws:
        return
    study.exclude("budget", group, "no verdict on an independent solve or the full pool", int((~usable).sum()))
    if not usable.any():
        return
    verdict = np.where(units.proposal >= 0, units.proposal, np.nan).astype(np.float64)
    recruiter, writer = (_mean(column[usable]) for column in units.pool_tokens.T)
    solve, one, five = (_mean(units.tokens[usable][:, place]) for place in ([ALONE], ONLY, [FULL]))
    written = recruiter + POOL_SIZE * writer
    policies = [(f"independent_{m}", vote, m, m * solve) for m, vote in _votes(units.alone_answer, alone, draws)]
    policies += [
        ("one_random_message", single, _RECRUITER + 1 + _INTEGRATOR, recruiter + writer + one),
        ("vote_of_proposals", plurality(units.answer, verdict), _RECRUITER + POOL_SIZE, written),
        ("full_pool", full, _RECRUITER + POOL_SIZE + _INTEGRATOR, written + five),
    ]
    for policy, values, calls, tokens in policies:
        found = study.mean_of(group, np.where(usable, values, np.nan))
        study.exclude("budget", group, f"{policy}: no verdict", int((usable & ~np.isfinite(values)).sum()))
        yield {
            **group.keys,
            "policy": policy,
            "accuracy": found.value,
            **interval(found),
            "calls": calls,
            "tokens": number(tokens),
            "n": found.n,
        }


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _votes(classes: IntArray, verdict: FloatArray, draws: int) -> Iterator[tuple[int, FloatArray]]:
    """Yield m and the (n,) expected accuracy of a vote among m of the draws, over all sets of m or 200 of them."""
    rng = np.random.default_rng(0)
    for m in range(1, draws + 1):
        chosen: list[tuple[int, ...]] = list(itertools.islice(itertools.combinations(range(draws), m), _MOST_SUBSETS))
        if comb(draws, m) > _MOST_SUBSETS:
            chosen = [tuple(rng.choice(draws, m, replace=False)) for _ in range(_MOST_SUBSETS)]
        yield m, np.mean([plurality(classes[:, list(s)], verdict[:, list(s)]) for s in chosen], axis=0)
