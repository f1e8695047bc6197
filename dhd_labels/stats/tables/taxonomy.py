"""Helpful, neutral, harmful: single-draw flips by proposal, and how single and full outcomes go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dhd_labels.records import POOL_SIZE, Arm
from dhd_labels.simulate.label_arrays import first_known
from dhd_labels.stats.frames import ABSENT, ALONE, FULL, ONLY, PLACE, PREFIX, FloatArray
from dhd_labels.stats.rows import Group, Row, StatTable
from dhd_labels.stats.tables.study import Study, by_proposal, interval

_UNIT = "message; intervals resample problems"
_PAIR = "success with the message minus success without it, one draw against one draw of the same number"


@dataclass(frozen=True, slots=True)
class Flips:
    """Counts of one-draw effects, and the two rates that the paper prints.

    `rate` is the share of eligible messages that flip the outcome; `helpful_share` the share of flips that help. None
    where nothing is eligible or nothing flips: 0 would say that something was measured.
    """

    helpful: int
    neutral: int
    harmful: int

    @property
    def eligible(self) -> int:
        """Messages with a verdict on their proposal and both outcomes graded."""
        return self.helpful + self.neutral + self.harmful

    @property
    def rate(self) -> float | None:
        """Share of eligible messages that flip."""
        return (self.helpful + self.harmful) / self.eligible if self.eligible else None

    @property
    def helpful_share(self) -> float | None:
        """Share of flips that help."""
        flips = self.helpful + self.harmful
        return self.helpful / flips if flips else None


@dataclass(frozen=True, slots=True)
class OneDrawEffects:
    """One-draw effects of one replay at one K: (n, k) of -1, 0, 1, NaN where a draw is missing or ungraded."""

    replay: str
    k: int
    values: FloatArray
    recorded: bool


def one_draw_effects(study: Study) -> list[OneDrawEffects]:
    """Return the effects of both replays for every K.

    `single` is `only i` against `alone`; `loo` is the prefix of K messages against the same without message i. At K=5 a
    data set without unmatched draws has the first pair of its blocks, as the label `cell` has.
    """
    units, drawn = study.units, study.effect(study.units.main)
    single = first_known(drawn[:, ONLY] - drawn[:, [ALONE]])
    found = [OneDrawEffects("single", 1, single, bool((units.main[:, ONLY] != ABSENT).any()))]
    for k in range(2, POOL_SIZE + 1):
        places = [PLACE[Arm.without(slot, k).name] for slot in range(k)]
        values = first_known(drawn[:, [PREFIX[k]]] - drawn[:, places])
        recorded = bool((units.main[:, places] != ABSENT).any())
        if k == POOL_SIZE:
            pairs = study.effect(units.full[:, :, :1]) - study.effect(units.without)
            values = np.where(np.isfinite(values), values, first_known(pairs.transpose(0, 2, 1)))
            recorded = recorded or bool((units.without != ABSENT).any())
        found.append(OneDrawEffects("loo", k, values, recorded))
    return found


def taxonomy_tables(study: Study) -> list[StatTable]:
    """Return `taxonomy`, `flips`, `flips_by_k` and `single_by_full`."""
    effects = [e for e in one_draw_effects(study) if e.recorded]
    counts: list[Row] = []
    pooled: list[Row] = []
    by_k: list[Row] = []
    for group in study.groups:
        parts = [OneDrawEffects(e.replay, e.k, e.values[group.units], e.recorded) for e in effects]
        parts = [e for e in parts if (e.replay == "loo" and e.k == POOL_SIZE) or np.isfinite(e.values).any()]
        for e in parts:
            _count_excluded(study, group, e)
        counts += [row for e in parts for row in _taxonomy_rows(study, group, e)]
        by_k += [row for e in parts for row in _flip_rows(study, group, e.replay, [e])]
        for replay in ("single", "loo"):
            pooled += _flip_rows(study, group, replay, [e for e in parts if e.replay == replay])
    how = "Unknown proposals and pairs with a missing outcome are excluded and counted, never neutral."
    return [
        StatTable(
            "taxonomy",
            "Messages by proposal and one-draw effect",
            f"counts of the sign of: {_PAIR}",
            "message",
            "none",
            tuple(counts),
            note=how,
        ),
        StatTable(
            "flips",
            "Flips, all K together",
            "rate: share of messages whose presence flips the outcome; helpful share: share of flips that help (its "
            "interval is ci_low to ci_high)",
            _UNIT,
            "none",
            tuple(pooled),
            hidden=frozenset({"n_problems"}),
            note=how,
            points=True,
        ),
        StatTable(
            "flips_by_k",
            "Flips by K",
            "as in the table of flips, for each prefix size",
            _UNIT,
            "none",
            tuple(by_k),
            hidden=frozenset({"n_problems"}),
            points=True,
        ),
        _single_by_full(study),
    ]


def _taxonomy_rows(study: Study, group: Group, effects: OneDrawEffects) -> Iterator[Row]:
    proposal = study.units.proposal[group.units][:, : effects.values.shape[1]]
    for name, chosen in by_proposal(proposal):
        found = _flips(effects.values[chosen > 0])
        yield {
            **group.keys,
            "replay": effects.replay,
            "k": effects.k,
            "proposal": name,
            "helpful": found.helpful,
            "neutral": found.neutral,
            "harmful": found.harmful,
            "eligible": found.eligible,
        }


def _flips(values: FloatArray) -> Flips:
    return Flips(*(int((values == sign).sum()) for sign in (1, 0, -1)))


def _flip_rows(study: Study, group: Group, replay: str, effects: list[OneDrawEffects]) -> Iterator[Row]:
    if not effects:
        return
    values = np.concatenate([e.values for e in effects], axis=1)
    proposal = np.concatenate([study.units.proposal[group.units][:, : e.values.shape[1]] for e in effects], axis=1)
    for name, chosen in by_proposal(proposal):
        helpful, flipped = ((chosen * found).sum(axis=1) for found in (values == 1, np.abs(values) == 1))
        eligible = (chosen * np.isfinite(values)).sum(axis=1)
        share, rate = study.estimate(group, helpful, flipped), study.estimate(group, flipped, eligible)
        yield {
            **group.keys,
            "replay": replay,
            "k": effects[0].k if len(effects) == 1 else None,
            "proposal": name,
            "n": int(eligible.sum()),
            "flips": int(flipped.sum()),
            "rate": rate.value,
            **interval(rate, "rate_ci_"),
            "helpful_share": share.value,
            **interval(share),
            "n_problems": rate.n,
        }


def _count_excluded(study: Study, group: Group, effects: OneDrawEffects) -> None:
    proposal = study.units.proposal[group.units][:, : effects.values.shape[1]]
    known = np.isfinite(effects.values)
    what = f"{effects.replay}, K={effects.k}: "
    study.exclude("taxonomy", group, f"{what}proposal without a verdict", int((known & (proposal < 0)).sum()))
    study.exclude("taxonomy", group, f"{what}no graded pair of draws", int((~known).sum()))


def _single_by_full(study: Study) -> StatTable:
    """Cross the outcome with one message with that of the full pool."""
    drawn = study.effect(study.units.main)
    single, full = first_known(drawn[:, ONLY]), first_known(drawn[:, FULL])
    rows: list[Row] = []
    for group in study.groups:
        one, all_five = single[group.units], np.broadcast_to(full[group.units][:, None], (len(group.units), POOL_SIZE))
        proposal = study.units.proposal[group.units]
        drawn_both = np.isfinite(one).any() and np.isfinite(all_five).any()
        if drawn_both:
            study.exclude("single_by_full", group, "proposal without a verdict", int((proposal < 0).sum()))
        for name, chosen in by_proposal(proposal):
            both = (chosen > 0) & np.isfinite(one) & np.isfinite(all_five)
            total = int(both.sum())
            if drawn_both:
                lost = int(chosen.sum()) - total
                study.exclude("single_by_full", group, f"{name} proposal without both outcomes graded", lost)
            for first, second in ((1, 1), (1, 0), (0, 1), (0, 0)) if total else ():
                n = int((both & (one == first) & (all_five == second)).sum())
                words = [("wrong", "correct")[value] for value in (first, second)]
                rows.append(
                    {**group.keys, "proposal": name, "single": words[0], "full": words[1], "n": n, "share": n / total}
                )
    return StatTable(
        "single_by_full",
        "Outcome with one message by outcome with the full pool (2 x 2)",
        "joint counts of success with only this message and success with all five, first graded draw of each",
        "message",
        "none",
        tuple(rows),
        note="Missing outcomes and unknown proposals are left out and counted.",
        points=True,
    )
