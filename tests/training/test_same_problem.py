"""`same-problem` with `hindsight` is the paper's estimator: exactly, and without bias."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from dhd_labels.records import POOL_SIZE
from dhd_labels.simulate import scenario, simulate_outcomes
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.cross_fit import Selection, same_problem_selection
from dhd_selectors.actions import FULL, N_ACTIONS
from dhd_selectors.policy import RemoveWorst
from training.crossfit import Decisions, cross_fit
from training.data import LabelData, assemble
from training.estimands import make_folds


class Hindsight(BaseEstimator):
    """The value of each message on the blocks that it may know."""

    requires: ClassVar[tuple[str, ...]] = ("trajectory_value",)
    threshold: ClassVar[float | None] = 0.0
    learns: ClassVar[bool] = False

    def fit(self, X: pd.DataFrame, y: np.ndarray, *, labels: Any = None, sample_weight: Any = None) -> Self:
        return self

    def predict_value(self, X: pd.DataFrame, labels: pd.DataFrame | None = None) -> np.ndarray:
        assert labels is not None
        return np.nan_to_num(labels["trajectory_value"].to_numpy(dtype=float))


def data_of(blocks: Blocks) -> LabelData:
    """Labels that hold nothing but these blocks."""
    n = blocks.n_pools
    names = pd.Series([f"p{i:05d}" for i in range(n)], dtype=object)
    pools = pd.DataFrame({"pool_id": names, "integrator": "i", "order": "original", "problem_id": names,
                          "benchmark": "b", "actor": "a", "split": "train"}, dtype=object)  # fmt: skip
    y = np.full(n * POOL_SIZE, 9.0)  # what all blocks say: nobody may read it here
    return LabelData(
        X=pd.DataFrame({"slot": np.tile(np.arange(5.0), n)}),
        texts=None,
        labels=pd.DataFrame({"trajectory_value": y, "in_pool_effect": y}),
        y=y,
        weight=np.ones(n * POOL_SIZE),
        slot=np.tile(np.arange(POOL_SIZE), n),
        pool=np.repeat(np.arange(n), POOL_SIZE),
        rows=np.arange(n * POOL_SIZE).reshape(n, POOL_SIZE),
        trainable=np.ones(n * POOL_SIZE, dtype=bool),
        pools=pools,
        success=np.full((n, N_ACTIONS), np.nan),
        recorded=np.ones((n, N_ACTIONS), dtype=bool),
        blocks=blocks,
    )


def ours(data: LabelData) -> Decisions:
    return cross_fit(Hindsight(), RemoveWorst(), data, make_folds(data, "same-problem", 0).folds, seed=0)


def sums(decisions: Decisions, n_pools: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (n_pools,) summed success of the chosen action, of keeping all, and the folds."""
    row = np.arange(len(decisions.pool))
    chosen, full = decisions.success[row, decisions.action], decisions.success[:, FULL]
    return tuple(np.bincount(decisions.pool, v, minlength=n_pools) for v in (chosen, full, np.ones(len(row))))  # type: ignore[return-value]


def assert_equal(decisions: Decisions, theirs: Selection, n_pools: int) -> None:
    chosen, full, folds = sums(decisions, n_pools)
    assert np.flatnonzero(folds).tolist() == theirs.pool.tolist()
    assert folds[theirs.pool].tolist() == theirs.folds.tolist()
    # Successes are halves: their sums, and so the estimates, are exactly equal.
    assert chosen[theirs.pool].tolist() == theirs.success["cross_fit"].tolist()
    assert full[theirs.pool].tolist() == theirs.success["keep_all"].tolist()


def paper(blocks: Blocks) -> Selection:
    return same_problem_selection(blocks, np.full((blocks.n_pools, POOL_SIZE), -1), np.random.default_rng(0))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(2, 6), st.booleans())
def test_equals_the_paper_on_any_blocks(seed: int, n_pools: int, most: int, rare: bool) -> None:
    """Few outcomes, so that ties are everywhere; blocks missing at random, down to none."""
    rng = np.random.default_rng(seed)
    outcomes = (rng.random((n_pools, most, 7)) < (0.15 if rare else 0.5)).astype(np.int8)
    blocks = Blocks.of(outcomes)
    kept = rng.random(len(blocks.pool)) < 0.8
    kept[:2] = True  # at least one pool takes part
    blocks = blocks.where(kept)
    assert_equal(ours(data_of(blocks)), paper(blocks), n_pools)


@pytest.mark.parametrize("name", ["null", "correctness", "reasoning"])
def test_equals_the_paper_on_simulated_worlds(name: str) -> None:
    made = simulate_outcomes(scenario(name), 400, 5, np.random.default_rng(1))
    blocks = Blocks.of(np.concatenate([made.full, made.without], axis=2))
    assert_equal(ours(data_of(blocks)), paper(blocks), 400)


def test_equals_the_paper_on_a_data_set(kit: Any) -> None:
    """Through the rows of a data set: joined by block and draw, with incomplete blocks and ungraded draws."""
    world = kit.simulate(30, 3, n_blocks=4)
    replays = world.replays.sample(frac=0.97, random_state=0).reset_index(drop=True)
    ungraded = np.random.default_rng(0).random(len(replays)) < 0.02
    replays.loc[ungraded, "correct"] = None
    replays.loc[ungraded, "status"] = "no_answer"
    data = assemble(world.messages, replays, world.problems)
    assert 0 < len(data.blocks.pool) < 120
    assert_equal(ours(data), paper(data.blocks), 30)


def test_blocks_of_a_screen_choose_nothing_and_judge_nothing(kit: Any) -> None:
    world = kit.simulate(6, 0, n_blocks=5)
    data = assemble(world.messages.assign(screen_blocks=2), world.replays, world.problems)
    assert set(data.blocks.number) == {2, 3, 4}
    assert len(make_folds(data, "same-problem", 0).folds) == 3


def test_the_simulated_gain_is_recovered_without_bias() -> None:
    """Mean over 150 small simulations: the gain in truth of what the rule chose, within three standard errors."""
    errors = []
    for seed in range(150):
        made = simulate_outcomes(scenario("reasoning"), 30, 4, np.random.default_rng(seed))
        decisions = ours(data_of(Blocks.of(np.concatenate([made.full, made.without], axis=2))))
        chosen, full, folds = sums(decisions, 30)
        removed = FULL ^ decisions.action
        slot = np.log2(np.maximum(removed, 1)).astype(int)
        true = np.where(removed > 0, -made.true_value[decisions.pool, slot], 0.0)
        errors.append((chosen - full).sum() / folds.sum() - true.mean())
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(len(errors))
    assert np.std(errors) / np.sqrt(len(errors)) < 0.01


def test_the_held_out_block_is_out_of_all_that_is_read(kit: Any) -> None:
    """Whatever the held-out block says, the fold decides the same; what the other blocks say decides."""
    data = kit.simulate(8, 0, n_blocks=3).data
    turn = np.arange(24) % 3
    for number, moves in ((0, False), (1, True)):
        outcomes = data.blocks.outcomes.copy()
        outcomes[turn == number] = 1 - outcomes[turn == number]
        changed = dataclasses.replace(data, blocks=dataclasses.replace(data.blocks, outcomes=outcomes))
        first, second = (cross_fit(Hindsight(), RemoveWorst(), d, make_folds(d, "same-problem", 0).folds[:1], seed=0)
                         for d in (data, changed))  # fmt: skip
        assert np.array_equal(first.action, second.action) != moves
