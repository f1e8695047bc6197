"""Which features the decisions hang on: each is permuted among held-out messages, and the decisions are made again."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from dhd_labels.records import POOL_SIZE
from dhd_selectors.base import FloatArray, Selector, uses_text
from training.crossfit import Decisions, Fitted, decide
from training.data import LabelData
from training.diagnostics import fitted_folds
from training.estimands import Fold
from training.evidence import Evidence
from training.gain import POINTS
from training.references import Study, chosen

MOST_POOLS = 500
"""Most held-out pools of a fold on which features are permuted: one decision in 500 is 0.2 %."""
_STREAM = 77


@dataclass(frozen=True, slots=True)
class Importance:
    """What permuting one feature among held-out messages does, mean over folds and its standard deviation.

    `changed` is the share of decisions that change, `lost` the points that the changed decisions gain less.
    """

    feature: str
    changed: float
    changed_sd: float | None
    lost: float


def importance(study: Study, decisions: Decisions, selector: Selector) -> tuple[Importance, ...] | str:
    """Permute every feature among held-out messages, and return what becomes of the decisions; largest change first.

    Returns:
        The features that change a decision, or why there is no such table.
    """
    if uses_text(selector):
        return "the selector reads texts, so no column says what it uses"
    rng = np.random.default_rng([study.seed, _STREAM])
    folds = [_permuted(study, fitted, fold, rng) for fitted, fold in fitted_folds(study, decisions)]
    if not folds:
        return "nothing was fitted"
    changed, lost = (np.array([fold[part] for fold in folds]) for part in (0, 1))
    spread = changed.std(axis=0, ddof=1) if len(folds) > 1 else None
    rows = [
        Importance(str(name), float(changed[:, n].mean()), None if spread is None else float(spread[n]),
                   POINTS * float(lost[:, n].mean()))
        for n, name in enumerate(study.data.X.columns)
    ]  # fmt: skip
    return tuple(sorted((row for row in rows if row.changed > 0), key=lambda row: (-row.changed, row.feature)))


def _sample(data: LabelData, fold: Fold, rng: np.random.Generator) -> tuple[LabelData, Fold]:
    """Return some test pools of a fold as data of their own."""
    test = np.sort(rng.choice(fold.test, min(len(fold.test), MOST_POOLS), replace=False))
    rows, local = data.rows[test].ravel(), np.arange(len(test))
    small = dataclasses.replace(
        data,
        X=data.X.iloc[rows].reset_index(drop=True),
        labels=data.labels.iloc[rows].reset_index(drop=True),
        texts=None,
        y=data.y[rows],
        weight=data.weight[rows],
        slot=data.slot[rows],
        pool=np.repeat(local, POOL_SIZE),
        rows=np.arange(len(rows)).reshape(-1, POOL_SIZE),
        trainable=data.trainable[rows],
        pools=data.pools.iloc[test].reset_index(drop=True),
        success=data.success[test],
        recorded=data.recorded[test],
    )
    learn, judge = (
        Evidence(side.y[rows], side.weight[rows], side.success[test], side.blocks) for side in (fold.learn, fold.judge)
    )
    return small, Fold(local[:0], local, learn, judge, fold.name)


def _permuted(study: Study, fitted: Fitted, fold: Fold, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return (n_features,) shares of decisions that change, and the success that is lost, for one fold."""
    data, small = _sample(study.data, fold, rng)
    before = decide(fitted, study.policy, data, small)
    success = small.judge.success
    changed, lost = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    for place, name in enumerate(data.X.columns):
        values = data.X[name].to_numpy()
        if np.ptp(values) == 0:
            continue
        other = dataclasses.replace(data, X=data.X.assign(**{str(name): rng.permutation(values)}))
        after = decide(fitted, study.policy, other, small)
        changed[place] = (after != before).mean()
        loss = chosen(success, before) - chosen(success, after)
        lost[place] = np.where(np.isfinite(loss), loss, 0.0).mean()
    return changed, lost
