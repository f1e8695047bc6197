"""Probabilities against the formula, draws against probabilities, labels against `labels.label_pool`."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from support import outcome, pool

from dhd_labels.errors import DhdError
from dhd_labels.labels import NO_BLOCK, STOPPED, Proposal, label_pool
from dhd_labels.records import Arm, Outcome
from dhd_labels.simulate import SCENARIOS, Outcomes, scenario, simulate_outcomes
from dhd_labels.simulate.label_arrays import label_arrays
from dhd_labels.simulate.outcomes import ARMS, BLOCK_ARMS, FULL, STATUS, WITHOUT
from dhd_labels.simulate.worlds import Missing, World

EVERYTHING = scenario(
    "mixed", difficulty="unequal", pool_size_logit=0.2, missing=0.3, benchmarks=3, actors=2, integrators=2
)


def simulate(world: World, n: int, blocks: int = 5, seed: int = 0, draws: int = 1) -> Outcomes:
    return simulate_outcomes(world, n, blocks, np.random.default_rng(seed), draws=draws)


def test_every_probability_follows_the_stated_formula() -> None:
    made = simulate(EVERYTHING, 15)
    for unit, row in enumerate(made.probability):
        p, scale = unit // 2, (1.0, 0.5)[unit % 2]
        for arm, probability in zip(ARMS, row, strict=True):
            logit = EVERYTHING.difficulties[made.pools.difficulty[p]].logit + 0.2 * len(arm.kept)
            for slot in arm.kept:
                right = {1: 1, 0: -1, -1: 0}[int(made.pools.correct[p, slot])]
                logit += scale * (0.4 * right + 2.5 * int(made.pools.effect[p, slot]))
            assert probability == pytest.approx(1 / (1 + math.exp(-logit)))


def test_true_values_are_full_minus_without() -> None:
    made = simulate(EVERYTHING, 10)
    for slot in range(5):
        without = made.probability[:, ARMS.index(Arm.without(slot))]
        np.testing.assert_allclose(made.true_value[:, slot], made.probability[:, ARMS.index(Arm.full())] - without)


@pytest.mark.parametrize("name", SCENARIOS)
def test_draws_have_the_true_probabilities(name: str) -> None:
    """Block effects are unbiased for the true values, message by message and on average."""
    made = simulate(SCENARIOS[name], 4000, seed=3)
    p = made.probability
    for drawn, true in ((made.full.mean(axis=2), p[:, [FULL]]), (made.without, p[:, None, WITHOUT])):
        error = (drawn - true).mean(axis=(0, 1))
        assert (np.abs(error) < 4 * np.sqrt(0.25 / (drawn.shape[0] * drawn.shape[1]))).all()
    value = (made.full.mean(axis=2)[:, :, None] - made.without).mean(axis=1)
    slope = (value * made.true_value).sum() / max((made.true_value**2).sum(), 1e-9)
    assert slope == pytest.approx(0.0 if name == "null" else 1.0, abs=0.06)


def test_main_draws_have_the_true_probabilities_of_their_own_arm() -> None:
    made = simulate(SCENARIOS["correctness"], 4000, seed=4)
    error = (made.main[:, :, 0] - made.probability).mean(axis=0)
    assert error.shape == (25,) and (np.abs(error) < 4 * np.sqrt(0.25 / 4000)).all()


def test_null_is_null() -> None:
    made = simulate(scenario("null", difficulty="unequal", integrators=2), 500)
    assert (made.true_value == 0).all()
    assert (made.probability == made.probability[:, [0]]).all()


def test_a_pool_size_effect_is_the_same_for_every_message() -> None:
    made = simulate(scenario("null", difficulty="equal", pool_size_logit=0.3), 50)
    assert np.allclose(made.true_value, made.true_value[0, 0]) and made.true_value[0, 0] > 0


def test_a_near_deterministic_world_has_few_problems_with_a_mixed_block() -> None:
    for name in SCENARIOS:
        successes = (simulate(scenario(name, difficulty="near-deterministic"), 3000).blocks == 1).sum(axis=2)
        assert 0.15 < ((successes > 0) & (successes < 7)).any(axis=1).mean() <= 0.35


def test_missing_outcomes_come_at_the_rates_that_were_asked_for() -> None:
    rates = Missing(no_answer=0.05, truncated=0.1, operational=0.02, undetermined=0.01)
    made = simulate(dataclasses.replace(SCENARIOS["null"], missing=rates), 3000)
    for code, status in enumerate(STATUS[1:], 1):
        assert (made.blocks == -code).mean() == pytest.approx(getattr(rates, status), abs=0.004)
    graded = made.blocks >= 0
    drawn = made.probability[:, None, BLOCK_ARMS].repeat(5, axis=1)
    assert made.blocks[graded].mean() == pytest.approx(drawn[graded].mean(), abs=0.006)


def test_the_same_seed_gives_the_same_outcomes() -> None:
    one, two, other = (simulate(EVERYTHING, 50, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.blocks, two.blocks) and not np.array_equal(one.blocks, other.blocks)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((0, 5, 1), "problems must be between 1"),
        ((5, -1, 1), "blocks must be between 0"),
        ((5, 5, 101), "draws must be between 0 and 100, got 101"),
        ((5, 0, 0), "must not both be 0"),
    ],
)
def test_sizes_out_of_range(sizes: tuple[int, int, int], words: str) -> None:
    n, blocks, draws = sizes
    with pytest.raises(DhdError, match=words):
        simulate(SCENARIOS["null"], n, blocks, draws=draws)


def records(made: Outcomes, unit: int) -> list[Outcome]:
    """The outcomes of a unit as a run would have them."""

    def record(arm: Arm, block: int | None, draw: int, code: int) -> Outcome:
        return outcome(arm, block, draw, bool(code) if code >= 0 else None, STATUS[max(-code, 0)])

    found = [
        record(arm, None, draw, code)
        for arm, codes in zip(ARMS, made.main[unit].tolist(), strict=True)
        for draw, code in enumerate(codes)
    ]
    for block, codes in enumerate(made.blocks[unit].tolist()):
        found += [record(ARMS[a], block, int(n == 1), codes[n]) for n, a in enumerate(BLOCK_ARMS)]
    return found


@pytest.mark.parametrize("screened", [False, True])
@pytest.mark.parametrize(("blocks", "draws"), [(5, 1), (5, 0), (3, 2), (1, 1), (0, 3), (7, 0)])
def test_labels_are_those_of_a_real_run(blocks: int, draws: int, screened: bool) -> None:
    world = dataclasses.replace(EVERYTHING, missing=Missing(0.1, 0.1, 0.1, 0.1))
    made = simulate(world, 40, blocks, draws=draws)
    correct = made.pools.correct.repeat(2, axis=0)
    screen = np.arange(len(correct)) % 3 if screened else np.zeros(len(correct), dtype=int)
    labels = label_arrays(made, correct, screen) if screened else label_arrays(made, correct)
    for unit, verdicts in enumerate(correct):
        proposals = [Proposal("no_answer", None) if c < 0 else Proposal("graded", bool(c)) for c in verdicts]
        why_none = STOPPED if screen[unit] else NO_BLOCK
        outcomes = records(made, unit)
        for label in label_pool(pool(), proposals, outcomes, "missing", int(screen[unit]), why_none):
            for field in dataclasses.fields(labels):
                value, wanted = getattr(labels, field.name)[unit, label.slot], getattr(label, field.name)
                if wanted is None:
                    assert value is None or np.isnan(value), field.name
                else:
                    assert value == wanted, field.name
    kinds = {None, *labels.cell.ravel()}
    assert len(kinds) == 7 and np.isnan(labels.single_effect).any() | (draws == 3)
