"""Aligned arrays of a simulated world without its texts, and the true success of every recorded subset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate.outcomes import ARMS, Outcomes, simulate_outcomes
from dhd_labels.simulate.pools import NO_ANSWER, Pools
from dhd_labels.simulate.worlds import CUES, World
from dhd_labels.stats.blocks import Blocks
from dhd_selectors.actions import ACTION_OF_ARM, FULL, N_ACTIONS, REMOVALS
from dhd_selectors.features import FEATURE_NAMES
from training.data import LabelData

_ARM_ACTIONS = [ACTION_OF_ARM[arm.name] for arm in ARMS]


@dataclass(frozen=True, slots=True)
class Cheap:
    """What a selector sees and is judged by, and the (n_pools, 32) true success rates, NaN where not recorded."""

    data: LabelData
    truth: np.ndarray


def cheap_world(world: World, n_problems: int, blocks: int, seed: int) -> Cheap:
    """Simulate a world of one integrator whose outcomes all have a verdict."""
    made = simulate_outcomes(world, n_problems, blocks, np.random.default_rng(seed))
    n = len(made.pools)
    truth = np.full((n, N_ACTIONS), np.nan)
    truth[:, _ARM_ACTIONS] = made.probability
    success = np.full((n, N_ACTIONS), np.nan)
    success[:, _ARM_ACTIONS] = made.main.mean(axis=2)
    success[:, FULL] = made.full.mean(axis=(1, 2))
    success[:, REMOVALS] = made.without.mean(axis=1)
    value = (success[:, [FULL]] - success[:, REMOVALS]).ravel()
    names = [f"p{number // world.actors:05d}" for number in range(n)]
    pools = pd.DataFrame(dict.fromkeys(("integrator", "order", "benchmark", "actor"), "x"), index=range(n))
    pools = pools.assign(pool_id=[f"pool{number}" for number in range(n)], problem_id=names, split="train")
    slots = np.tile(np.arange(POOL_SIZE), n)
    data = LabelData(
        X=_features(made.pools),
        texts=None,
        labels=_labels(made, value, blocks),
        y=value,
        weight=np.full(n * POOL_SIZE, float(blocks)),
        slot=slots,
        pool=np.repeat(np.arange(n), POOL_SIZE),
        rows=np.arange(n * POOL_SIZE).reshape(n, POOL_SIZE),
        trainable=np.ones(n * POOL_SIZE, dtype=bool),
        pools=pools.astype(object),
        success=success,
        recorded=np.isfinite(success),
        blocks=Blocks.of(made.blocks),
    )
    return Cheap(data, truth)


def _features(pools: Pools) -> pd.DataFrame:
    """Return X with the columns that such messages differ in; all others are 0."""
    answer = pools.answer
    proposes = answer != NO_ANSWER
    same = (answer[:, :, None] == answer[:, None, :]) & proposes[:, :, None]
    backers = same.sum(axis=2)
    most = backers.max(axis=1, keepdims=True)
    found: dict[str, np.ndarray] = {
        "slot": np.broadcast_to(np.arange(POOL_SIZE), answer.shape),
        "has_answer": proposes,
        "answer_agreement": np.maximum(backers - 1, 0) / (POOL_SIZE - 1),
        "answer_is_plurality": (backers == most) & proposes,
        "answer_is_minority": (backers < most) & proposes,
        "answer_is_unique": backers == 1,
        "pool_top_share": np.broadcast_to(most / POOL_SIZE, answer.shape),
        "has_confidence_level": np.ones(answer.shape),
        "confidence_level": pools.confidence + 1,
        **{_COLUMN[cue.name]: pools.cues[:, :, place] for place, cue in enumerate(CUES)},
    }
    zero = np.zeros(answer.size)
    return pd.DataFrame({name: found[name].ravel().astype(float) if name in found else zero for name in FEATURE_NAMES})


_COLUMN = {"hedges": "hedges", "check": "what_to_check_words", "numbers": "numbers", "long": "content_words"}
"""The feature that shows each trait of a text."""


def _labels(made: Outcomes, value: np.ndarray, blocks: int) -> pd.DataFrame:
    correct = made.pools.correct.ravel()
    graded = correct >= 0
    return pd.DataFrame(
        {
            "proposal_status": np.where(graded, "graded", "no_answer"),
            "proposal_correct": pd.array(np.where(graded, correct == 1, None), dtype="boolean"),
            "pool_right": np.repeat((made.pools.correct == 1).sum(axis=1), POOL_SIZE),
            "trajectory_value": value,
            "ci_low": np.nan,
            "ci_high": np.nan,
            "n_blocks": blocks,
        }
    )
