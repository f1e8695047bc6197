"""Tests where nothing matters, tests where something does, and how many of the discoveries are false."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from dhd_labels.simulate.outcomes import simulate_outcomes
from dhd_labels.simulate.worlds import World, scenario
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.exact_null import problem_tests, removals_null, seven_null
from dhd_labels.stats.families import CORRECT, FAMILIES, NULLS, WRONG, Family, Null, target_slots
from dhd_labels.stats.multiplicity import discoveries
from dhd_labels.stats.pooled import pooled_test
from tests.bench.calibration.checks import Check, mean_check, rate_check
from tests.stats.worlds import drawn

LEVELS = (0.01, 0.05, 0.1)
BLOCKS = 5
NULL_WORLDS = {
    "null, equal difficulty": scenario("null", difficulty="equal"),
    "null, unequal difficulty": scenario("null", difficulty="unequal"),
}
HIGH, LOW = 0.95, 0.05
EFFECT = f"one message decides ({HIGH:.0%} against {LOW:.0%})"
"""The named effect: success is 95 % with the message and 5 % without it, or the reverse."""
POWER, POWER_LEVEL = 0.9, 0.05
MORE_BLOCKS = 7
"""Blocks that show a lone effect among hundreds of problems; the floor of five does not."""


def made(world: World, n: int, n_blocks: int, seed: int) -> tuple[Blocks, np.ndarray, np.ndarray]:
    """Return blocks, (n, 5) correctness codes and (n,) whether any message has an effect."""
    found = simulate_outcomes(world, n, n_blocks, np.random.default_rng(seed), draws=0)
    matters = np.any(np.abs(found.true_value) > 1e-12, axis=1)
    return Blocks.of(found.blocks), found.pools.correct.astype(int), np.asarray(matters)


def sizes(n: int) -> Iterator[Check]:
    """Check P(p <= a) of the problem tests where no message matters."""
    for seed, (name, world) in enumerate(NULL_WORLDS.items()):
        blocks, codes, _ = made(world, n, BLOCKS, seed)
        for family, null in itertools.product(FAMILIES, NULLS):
            p = problem_tests(blocks, codes, family, null).p
            for level in LEVELS:
                yield rate_check(f"P(p <= {level}), {family}", f"{name}, {null}", p <= level, "at most", level)


def attainable_sizes(n: int, level: float = LEVELS[-1]) -> Iterator[Check]:
    """Check that P(p <= a) is what can be reached: p has few values, so it is below a, and by how much is known.

    Given the counts of a pool, P(p <= a) is the largest tail of its null distribution that is not above a. A statistic
    or a distribution that is slightly off shows here even where the test is far from its level.
    """
    for seed, (name, world) in enumerate(NULL_WORLDS.items()):
        blocks, codes, _ = made(world, n, BLOCKS, 100 + seed)
        for family, null in itertools.product(FAMILIES, NULLS):
            found = problem_tests(blocks, codes, family, null)
            helpful, harmful = (side.sum(axis=1)[found.pool] for side in target_slots(codes, family))
            tails = _tails(blocks.outcomes.reshape(n, BLOCKS, 7)[found.pool], helpful, harmful, null)
            reached = float(np.mean([tail[tail <= level].max(initial=0.0) for tail in tails]))
            what = f"P(p <= {level}) as attainable, {family}"
            yield rate_check(what, f"{name}, {null}", found.p <= level, "equal to", reached)


def _tails(outcomes: np.ndarray, helpful: np.ndarray, harmful: np.ndarray, null: Null) -> Iterator[np.ndarray]:
    full, removal = outcomes[..., :2].sum(axis=(1, 2)), np.sort(outcomes[..., 2:].sum(axis=2), axis=1)
    counts = np.sort(outcomes.sum(axis=2), axis=1)
    for row in range(len(outcomes)):
        slots = int(helpful[row]), int(harmful[row])
        if null == "seven":
            yield seven_null(tuple(counts[row].tolist()), *slots).tail
        else:
            mixed = tuple(k for k in removal[row].tolist() if 0 < k < 5)
            yield removals_null(mixed, int(full[row] - 2 * (removal[row] == 5).sum()), *slots).tail


def pooled_sizes(data_sets: int, n: int) -> Iterator[Check]:
    """Check P(p <= a) of the pooled test over n problems a data set; it is one-sided by design."""
    for seed, (name, world) in enumerate(NULL_WORLDS.items()):
        p: dict[tuple[Family, Null], list[float]] = {key: [] for key in itertools.product(FAMILIES, NULLS)}
        for turn in range(data_sets):
            blocks, codes, _ = made(world, n, BLOCKS, 10_000 * (seed + 1) + turn)
            for (family, null), values in p.items():
                values.append(pooled_test(blocks, codes, family, null, np.random.default_rng(turn)).p)
        for (family, null), values in p.items():
            for level in LEVELS[1:]:
                hits = np.array(values) <= level
                what = f"pooled P(p <= {level}), {family}"
                yield rate_check(what, f"{name}, {null}", hits, "at most", level, "data sets")


def planted(rng: np.random.Generator, n: int, family: Family, n_blocks: int) -> tuple[Blocks, np.ndarray]:
    """Return problems in each of which one message of a family decides, in a random direction that the family has."""
    codes = rng.integers(WRONG, CORRECT + 1, (n, 5))
    sign = {"wrong_helpful": np.ones(n, dtype=bool), "correct_harmful": np.zeros(n, dtype=bool)}
    helpful = sign.get(family, rng.random(n) < 0.5)
    codes[:, 0] = np.where(helpful, WRONG, CORRECT)
    rates = np.repeat(np.where(helpful, HIGH, LOW)[:, None], 7, axis=1)
    rates[:, 2] = np.where(helpful, LOW, HIGH)
    return drawn(rng, rates, n_blocks), codes


def powers(n: int) -> Iterator[Check]:
    """Check that the named effect is found: a test that never rejects passes every other check."""
    for seed, family in enumerate(FAMILIES):
        blocks, codes = planted(np.random.default_rng(seed), n, family, BLOCKS)
        for null in NULLS:
            hits = problem_tests(blocks, codes, family, null).p <= POWER_LEVEL
            what = f"power, P(p <= {POWER_LEVEL}), {family}"
            yield rate_check(what, f"{EFFECT}, {null}", hits, "at least", POWER)


FEW_EFFECTS = {
    f"{difficulty} difficulty, 2 % of messages matter": dataclasses.replace(
        scenario("reasoning", difficulty=difficulty), carrier_share=0.02, carrier_logit=6.0
    )
    for difficulty in ("equal", "unequal")
}


def false_discovery_rates(data_sets: int, n: int) -> Iterator[Check]:
    """Check BH: the mean share of discoveries in which no message matters. Both q are held by one set of worlds."""
    for seed, (name, world) in enumerate(FEW_EFFECTS.items()):
        false: dict[tuple[Family, float], list[float]] = {key: [] for key in itertools.product(FAMILIES, (0.05, 0.2))}
        for turn in range(data_sets):
            blocks, codes, matters = made(world, n, MORE_BLOCKS, 20_000 * (seed + 1) + turn)
            for (family, q), shares in false.items():
                pools = discoveries(problem_tests(blocks, codes, family, "seven"), q).bh
                shares.append(float((~matters[pools]).sum() / max(1, len(pools))))
        for (family, q), shares in false.items():
            yield mean_check(f"FDR, q = {q}, {family}", f"{name}, seven", np.array(shares), "at most", q)


def found_by_bh(data_sets: int, n: int) -> Iterator[Check]:
    """Check that BH finds the named effect where one problem in ten has it, and holds its rate there too."""
    found, false = [], []
    for turn in range(data_sets):
        rng = np.random.default_rng(30_000 + turn)
        rates = np.repeat(rng.uniform(LOW, HIGH, (n, 1)), 7, axis=1)
        true = np.arange(n) < n // 10
        rates[true], rates[true, 2] = HIGH, LOW
        pools = discoveries(
            problem_tests(drawn(rng, rates, MORE_BLOCKS), np.full((n, 5), WRONG), "wrong_helpful", "seven")
        ).bh
        found.append(float(true[pools].sum() / true.sum()))
        false.append(float((~true[pools]).sum() / max(1, len(pools))))
    where = f"10 % of problems: {EFFECT}, seven"
    yield mean_check("share found, q = 0.05, wrong_helpful", where, np.array(found), "at least", POWER)
    yield mean_check("FDR, q = 0.05, wrong_helpful", where, np.array(false), "at most", 0.05)
