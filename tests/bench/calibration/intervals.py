"""How often intervals miss: those that resample problems, and those of single messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from dhd_labels.labels import bootstrap_interval
from dhd_labels.report.table import Table
from dhd_labels.simulate.outcomes import FULL, WITHOUT, simulate_outcomes
from dhd_labels.simulate.worlds import World, scenario
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.cross_fit import Policy, same_problem_selection
from dhd_labels.stats.intervals import Estimate, cluster_bootstrap, contrast
from dhd_labels.stats.message_interval import MessageInterval, message_interval
from dhd_labels.stats.pooled import stability_codes
from tests.bench.calibration.checks import Check, Kind, mean_check, rate_check

BLOCKS, PROBLEMS, RESAMPLES = 5, 200, 1000
MISSES = 0.05
WORLDS = {
    "mixed, unequal difficulty": dataclasses.replace(scenario("mixed", difficulty="unequal"), carrier_logit=4.0),
    "null, unequal difficulty": scenario("null", difficulty="unequal"),
}
PROPOSALS = {"correct": 1, "wrong": 0}
SELECTED: dict[Policy, int] = {"cross_fit": BLOCKS - 1, "hindsight_problem": BLOCKS}
"""Blocks that choose."""
Values = dict[str, float]


def true_values(world: World, n: int, seed: int) -> Values:
    """Return the estimands in the population of problems, from the success rates of so many of them."""
    rng = np.random.default_rng(seed)
    found = simulate_outcomes(world, n, 0, rng)
    full, without = found.probability[:, [FULL]], found.probability[:, WITHOUT]
    flip = full * (1 - without) + (1 - full) * without
    values: Values = {"accuracy, full pool": float(full.mean())}
    for name, code in PROPOSALS.items():
        chosen = found.pools.correct == code
        values[f"mean trajectory value, {name}"] = float((full - without)[chosen].mean())
        values[f"flip rate, {name}"] = float(flip[chosen].mean())
    values["mean trajectory value, correct minus wrong"] = (
        values["mean trajectory value, correct"] - values["mean trajectory value, wrong"]
    )
    values["gain, cross_fit"] = chosen_gain(found.probability, BLOCKS - 1, rng)
    return values


def chosen_gain(probability: np.ndarray, n_blocks: int, rng: np.random.Generator) -> float:
    """Return the true gain over keep all of the action that so many new blocks choose, from success rates of arms."""
    actions = probability[:, [FULL, *WITHOUT]]
    evidence = rng.binomial(n_blocks, actions, actions.shape) * 2
    evidence[:, 0] = rng.binomial(2 * n_blocks, actions[:, 0])
    chosen = evidence.argmax(axis=1)
    return float((actions[np.arange(len(actions)), chosen] - actions[:, 0]).mean())


def estimates(world: World, seed: int) -> tuple[dict[str, Estimate], dict[Policy, float]]:
    """Return what one data set of `PROBLEMS` problems says, with problem-clustered intervals, and the errors of gains.

    The error of a gain is against the true gain, on the same problems, of what so many blocks choose.
    """
    rng = np.random.default_rng(seed)
    made = simulate_outcomes(world, PROBLEMS, BLOCKS, rng, draws=0)
    blocks, codes = Blocks.of(made.blocks), made.pools.correct
    value = blocks.pool_sums(blocks.effects) / (2 * BLOCKS)
    flips = made.blocks[:, 0, :1] != made.blocks[:, 0, 2:]
    found: dict[str, Estimate] = {}

    def ratio(name: str, top: np.ndarray, bottom: np.ndarray) -> None:
        (found[name],) = cluster_bootstrap(top, bottom, rng, n_resamples=RESAMPLES)

    ratio("accuracy, full pool", made.blocks[:, 0, 0], np.ones(PROBLEMS))
    sums = []
    for name, code in PROPOSALS.items():
        chosen = codes == code
        sums.append(((chosen * value).sum(axis=1), chosen.sum(axis=1)))
        ratio(f"mean trajectory value, {name}", *sums[-1])
        ratio(f"flip rate, {name}", (chosen * flips).sum(axis=1), chosen.sum(axis=1))
    top, bottom = (np.column_stack(part) for part in zip(*sums, strict=True))
    found["mean trajectory value, correct minus wrong"] = contrast(top, bottom, rng, n_resamples=RESAMPLES)
    selection = same_problem_selection(blocks, codes, rng)
    ratio("gain, cross_fit", selection.gain["cross_fit"], selection.folds)
    errors = {
        policy: float(selection.gain[policy].sum() / selection.folds.sum())
        - chosen_gain(made.probability, n_blocks, rng)
        for policy, n_blocks in SELECTED.items()
    }
    return found, errors


def coverage_and_bias(data_sets: int, population: int) -> Iterator[Check]:
    """Check misses of clustered 95 % intervals, then the bias of the two gains; the naive one must be optimistic."""
    for number, (name, world) in enumerate(WORLDS.items()):
        truth = true_values(world, population, 40_000 + number)
        made = [estimates(world, 50_000 + 10_000 * number + turn) for turn in range(data_sets)]
        for what, true in truth.items():
            missed = np.array([not covers(found[what], true) for found, _ in made])
            yield rate_check(f"misses of {what}", name, missed, "at most", MISSES, "data sets")
        kinds: dict[Policy, Kind] = {"cross_fit": "equal to", "hindsight_problem": "more than"}
        for policy, kind in kinds.items():
            errors = np.array([error[policy] for _, error in made])
            yield mean_check(f"gain, {policy}, minus true gain", name, errors, kind, 0.0)


def covers(found: Estimate, true: float) -> bool:
    """Whether an interval holds the truth; one that does not exist misses."""
    return found.low is not None and found.high is not None and found.low <= true <= found.high


RATES = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


def message_coverage(n_blocks: int = BLOCKS) -> Table:
    """Exact coverage of per-message 95 % intervals, by the success rates with and without the message."""
    rows = tuple(
        (f"{full:.2f}", *(f"{100 * message_interval(n_blocks, full, removal).coverage:.1f}" for removal in RATES))
        for full in RATES
    )
    columns = ("success with the message", *(f"without it {rate:.2f}" for rate in RATES))
    note = (
        "Estimand: the chance that the bootstrap interval over the blocks of one message holds its trajectory value; "
        "exact, nothing is drawn. Where both rates are near 0 or 1, most intervals are one point. No bound: this is "
        "published, and no claim rests on these intervals."
    )
    return Table(f"Coverage in % of per-message 95 % intervals, {n_blocks} blocks", columns, rows, note)


def messages_called_stable(n: int) -> Iterator[Check]:
    """Check coverage and the share of nulls called stable, of n simulated messages, against their exact chances."""
    for number, rate in enumerate(RATES):
        rng = np.random.default_rng(60_000 + number)
        blocks = Blocks.of(rng.random((n, BLOCKS, 7)) < rate)
        exact: MessageInterval = message_interval(BLOCKS, rate, rate)
        where = f"success {rate:.2f} with and without it, {BLOCKS} blocks"
        stable = stability_codes(blocks)[:, 0] != 0
        chance = exact.stable_helpful + exact.stable_harmful
        yield rate_check("null message called stable, as exact", where, stable, "equal to", chance, "messages")
        effects, place = np.unique(np.sort(blocks.effects[:, 0].reshape(n, BLOCKS)), axis=0, return_inverse=True)
        ends = [bootstrap_interval((row / 2).tolist()) for row in effects]
        covered = np.array([end.low <= 1e-9 and end.high >= -1e-9 for end in ends])[place.ravel()]
        yield rate_check("95 % interval covers, as exact", where, covered, "equal to", exact.coverage, "messages")
