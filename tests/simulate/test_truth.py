"""Ceilings against brute force over every hidden state."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from dhd_labels.simulate import SCENARIOS, scenario, simulate_outcomes
from dhd_labels.simulate.pools import Pools, draw_pools
from dhd_labels.simulate.truth import best_gain, ceilings, expected_ceilings, text_values, tone_log_odds
from dhd_labels.simulate.worlds import CONFIDENCE, Missing, World


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def chance_of_answers(world: World, right: float, answers: list[int], reference: int | None) -> float:
    """Probability of who agrees with whom, summed over every way in which wrong answers are popular or unique."""
    wrong = [slot for slot in range(5) if answers[slot] and answers[slot] != reference]
    verdicts = np.prod([
        world.no_proposal if not a else (1 - world.no_proposal) * (right if a == reference else 1 - right)
        for a in answers
    ])  # fmt: skip
    total = 0.0
    for popular in itertools.product((True, False), repeat=len(wrong)):
        shared = [answers[slot] for slot, p in zip(wrong, popular, strict=True) if p]
        unique = [answers[slot] for slot, p in zip(wrong, popular, strict=True) if not p]
        if len(set(shared)) <= 1 and len(set(unique)) == len(unique) and not set(shared) & set(unique):
            total += np.prod([world.same_error if p else 1 - world.same_error for p in popular])
    return float(verdicts * total)


def brute_force(world: World, pools: Pools, n: int, scale: float) -> np.ndarray:
    """Posterior mean of the true values of one pool, state by state."""
    answers = pools.answer[n].tolist()
    helpful = [sigmoid(odds) for odds in tone_log_odds(world, pools)[n]]
    weights, values = [], []
    for d, reference in itertools.product(world.difficulties, {None, *filter(None, answers)}):
        verdict = [0 if not a else 1 if a == reference else -1 for a in answers]
        stated = np.prod([
            CONFIDENCE[{1: 1, -1: 0, 0: -1}[v]][level] for v, level in zip(verdict, pools.confidence[n], strict=True)
        ])  # fmt: skip
        chance = d.probability * chance_of_answers(world, d.right, answers, reference) * stated
        for signs in itertools.product((-1, 0, 1), repeat=5):
            carried = [
                (1 - world.carrier_share) if s == 0 else world.carrier_share * (h if s > 0 else 1 - h)
                for s, h in zip(signs, helpful, strict=True)
            ]
            u = [
                scale * (world.correctness_logit * v + world.carrier_logit * s)
                for v, s in zip(verdict, signs, strict=True)
            ]
            full = sigmoid(d.logit + sum(u) + 5 * world.pool_size_logit)
            without = [sigmoid(d.logit + sum(u) - one + 4 * world.pool_size_logit) for one in u]
            weights.append(chance * np.prod(carried))
            values.append([full - w for w in without])
    return np.average(values, axis=0, weights=weights)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_text_value_is_the_posterior_mean(name: str) -> None:
    world = scenario(name, difficulty="unequal", pool_size_logit=-0.1, integrators=2)
    pools = draw_pools(world, 12, np.random.default_rng(5))
    found = text_values(world, pools).reshape(12, 2, 5)
    for n in range(12):
        for place, scale in enumerate(world.integrator_scales):
            np.testing.assert_allclose(found[n, place], brute_force(world, pools, n, scale), atol=1e-12)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_the_text_promises_is_kept(name: str) -> None:
    """The true gain of the policy that follows the text value is its promise, within four standard errors."""
    world = SCENARIOS[name]
    made = simulate_outcomes(world, 20_000, 1, np.random.default_rng(6))
    seen = text_values(world, made.pools)
    promised, worst = best_gain(world, seen), seen.argmin(axis=1)
    kept = np.where(promised > 0, -made.true_value[np.arange(len(seen)), worst], 0.0)
    assert abs((kept - promised).mean()) <= 4 * (kept - promised).std() / np.sqrt(len(kept))


@pytest.mark.parametrize("name", SCENARIOS)
def test_attainable_gain_is_the_best_of_six_arms(name: str) -> None:
    world = scenario(name, actors=2, integrators=2)
    made = simulate_outcomes(world, 30, 1, np.random.default_rng(7))
    best = [max(0.0, *(-value for value in row)) for row in made.true_value]
    found = ceilings(world, made.true_value, text_values(world, made.pools))
    assert found.attainable_gain == pytest.approx(100 * np.mean(best))
    assert found.n_problems == 30


@pytest.mark.parametrize("name", SCENARIOS)
def test_text_never_promises_more_than_the_truth(name: str) -> None:
    found = expected_ceilings(SCENARIOS[name])
    if name == "null":
        assert (found.attainable_gain, found.attainable_from_text) == (0, 0)
        return
    assert 1 < found.attainable_from_text < found.attainable_gain
    assert 0 < found.attainable_from_text_se < 0.02
    other = np.random.default_rng(8)
    again = simulate_outcomes(SCENARIOS[name], 20_000, 1, other)
    here = ceilings(SCENARIOS[name], again.true_value, text_values(SCENARIOS[name], again.pools))
    for key in ("attainable_gain", "attainable_from_text"):
        error = np.hypot(getattr(found, f"{key}_se"), getattr(here, f"{key}_se"))
        assert abs(getattr(found, key) - getattr(here, key)) < 4 * error


def test_text_that_says_nothing_promises_nothing_beyond_correctness() -> None:
    world = dataclasses.replace(SCENARIOS["reasoning"], cue_tilt=0.0)
    pools = draw_pools(world, 2000, np.random.default_rng(9))
    values = text_values(world, pools)
    assert np.abs(values - values.mean(axis=1, keepdims=True)).max() < 1e-12


def test_unanswered_outcomes_make_a_gain_smaller_and_others_do_not() -> None:
    values = np.array([[0.2, -0.4, 0.0, 0.0, 0.0]])
    silent = dataclasses.replace(SCENARIOS["null"], missing=Missing(no_answer=0.25))
    lost = dataclasses.replace(SCENARIOS["null"], missing=Missing(operational=0.25))
    assert best_gain(silent, values) == pytest.approx([0.3])
    assert best_gain(lost, values) == pytest.approx([0.4])
