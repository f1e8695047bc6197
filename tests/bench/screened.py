"""Screened against fixed allocation: discoveries and calls, calibration, and which effects may be reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from dhd_labels.report.table import Table
from dhd_labels.simulate.outcomes import simulate_outcomes
from dhd_labels.simulate.worlds import World, scenario
from dhd_labels.stats.allocation import all_effects, later_effects, screen_effects
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.exact_null import problem_tests
from dhd_labels.stats.families import FAMILIES, NULLS, Null
from dhd_labels.stats.multiplicity import discoveries
from tests.stats.worlds import drawn, near_deterministic, noisy
from tests.stats.worlds import screened as screen

PROBLEMS, SEEDS = 1000, 10
LEVELS = (0.01, 0.05, 0.1)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Problems with all their blocks: (n, 5) correctness codes, and true values (success with minus without)."""

    blocks: Blocks
    codes: np.ndarray
    truth: np.ndarray


Make = Callable[[np.random.Generator, int, int], Drawn]
"""(generator, problems, blocks) -> problems."""


def rates(make: Callable[[np.random.Generator, int], np.ndarray]) -> Make:
    """Return a world of (n, 7) success rates in which every proposal is wrong."""

    def drawing(rng: np.random.Generator, n: int, n_blocks: int) -> Drawn:
        found = make(rng, n)
        return Drawn(drawn(rng, found, n_blocks), np.zeros((n, 5), dtype=int), found[:, :1] - found[:, 2:])

    return drawing


def simulated(world: World) -> Make:
    """Return a world of the simulator."""

    def drawing(rng: np.random.Generator, n: int, n_blocks: int) -> Drawn:
        found = simulate_outcomes(world, n, n_blocks, rng, draws=0)
        return Drawn(Blocks.of(found.blocks), found.pools.correct.astype(int), found.true_value)

    return drawing


def needed(low: float, high: float, noise: float = 0.01, share: float = 0.05) -> Make:
    """Return a world like the paper's: nearly always or never solved; a share needs one message.

    Without that message they are solved at a rate between `low` and `high`, another one in each problem.
    """

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        found, needs = near_deterministic(rng, n, share, noise)
        found[needs, 2] = rng.uniform(low, high, needs.sum())
        return found

    return rates(make)


def few_noisy(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return rates where the noise is that of a few problems: the rest are decided but for 2 in 1,000."""
    base = np.where(rng.random(n) < 0.8, 0.998, 0.002)
    base = np.where(rng.random(n) < 0.06, rng.uniform(0.1, 0.9, n), base)
    needs = rng.random(n) < 0.05
    found = np.repeat(np.where(needs, rng.uniform(0.85, 1, n), base)[:, None], 7, axis=1)
    found[needs, 2] = rng.uniform(0, 0.5, needs.sum())
    return found


def strong(difficulty: str) -> World:
    """Return the simulator's scenario `reasoning` with effects that five to eight blocks can show."""
    return dataclasses.replace(scenario("reasoning", difficulty=difficulty), carrier_logit=6.0)


NEAR: dict[str, tuple[Make, int]] = {
    "1 % noise, removal succeeds 1 %": (needed(0.01, 0.01), 5),
    "1 % noise, removal succeeds 7 %": (needed(0.07, 0.07), 5),
    "1 % noise, removal succeeds 0 to 30 %": (needed(0.0, 0.3), 5),
    "a few noisy problems, removal succeeds 0 to 50 %": (rates(few_noisy), 8),
}
"""Worlds like the paper's, and the blocks that show their effects: at most 35 % of problems with a mixed block."""
OTHER: dict[str, tuple[Make, int]] = {
    "1 % noise, removal succeeds 0 to 30 %, 8 blocks": (needed(0.0, 0.3), 8),
    "simulated, near-deterministic, effects of 6 logits": (simulated(strong("near-deterministic")), 8),
    "4 % noise, removal succeeds 11 %": (needed(0.11, 0.11, noise=0.04), 5),
    "simulated, unequal difficulty, effects of 6 logits": (simulated(strong("unequal")), 8),
    "most blocks mixed": (rates(lambda rng, n: noisy(rng, n, 0.3)[0]), 5),
}
Way = tuple[int, float | None]
"""Blocks of the screen, and the share of the fixed calls that all blocks together may take (None: any)."""
WAYS: tuple[Way, ...] = ((1, None), (2, None), (2, 0.5), (1, 0.28))


def kept(whole: Blocks, n_blocks: int, way: Way) -> Blocks:
    """Return the blocks that a way of screening makes of all blocks."""
    screen_blocks, share = way
    return screen(whole, n_blocks, None if share is None else int(share * len(whole.pool)), screen_blocks)


def found(data: Drawn, blocks: Blocks) -> set[int]:
    """Return the problems with a wrong but helpful message that BH finds at 0.05."""
    return set(discoveries(problem_tests(blocks, data.codes, "wrong_helpful", "seven")).bh.tolist())


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sums over seeds: problems found by fixed allocation, by screened, by both; false ones; shares."""

    fixed: float
    screened: float
    both: float
    false: float
    calls: float
    mixed: float


def compare(make: Make, n_blocks: int, way: Way, seeds: Sequence[int]) -> Comparison:
    """Draw a world once a seed and compare; shares are means over the seeds."""
    rows = []
    for seed in seeds:
        data = make(np.random.default_rng(seed), PROBLEMS, n_blocks)
        some = kept(data.blocks, n_blocks, way)
        fixed, mine = found(data, data.blocks), found(data, some)
        helpful = ((data.truth > 1e-9) & (data.codes == 0)).any(axis=1)
        mixed = np.isin(data.blocks.counts, range(1, 7)).reshape(PROBLEMS, -1).any(axis=1).mean()
        false = sum(not helpful[problem] for problem in mine)
        calls = len(some.pool) / len(data.blocks.pool)
        rows.append((len(fixed), len(mine), len(fixed & mine), false, calls, mixed))
    sums, means = np.sum(rows, axis=0), np.mean(rows, axis=0)
    return Comparison(*(float(value) for value in (*sums[:4], *means[4:])))


def screened() -> Table:
    """Discoveries against calls, screened beside fixed with as many blocks at most."""
    rows = []
    for name, (make, n_blocks) in (NEAR | OTHER).items():
        for way in WAYS:
            c = compare(make, n_blocks, way, range(SEEDS))
            how = f"{way[0]} of {n_blocks}" + (f", at most {way[1]:.0%} of calls" if way[1] else "")
            shares = (f"{c.calls:.1%}", f"{c.fixed / SEEDS:.1f}", f"{c.screened / SEEDS:.1f}")
            false = f"{c.false / c.screened:.1%}" if c.screened else "-"
            rows.append((name, f"{c.mixed:.0%}", how, *shares, f"{c.both / c.fixed:.1%}" if c.fixed else "-", false))
    columns = ("world", "mixed", "screen", "calls", "found, fixed", "found, screened", "of the fixed", "false")
    title = f"Screened against fixed allocation: {PROBLEMS:,} problems, BH at 0.05, {SEEDS} seeds"
    note = (
        "Mixed: problems with a block that is neither all right nor all wrong. Calls: of those of fixed allocation. It "
        "does not pay where most blocks are mixed, or where a budget cuts off problems as mixed as those it serves."
    )
    return Table(title, columns, tuple(rows), note)


NULL_WORLDS = {
    "null, spread": scenario("null"),
    "null, unequal": scenario("null", difficulty="unequal"),
    "null, near-deterministic": scenario("null", difficulty="near-deterministic"),
}


def worst_levels(world: World, way: Way, null_: Null, problems: int, seed: int) -> list[float]:
    """Return the largest share of p-values at most a over the four families, for each level; stopped ones count."""
    data = simulated(world)(np.random.default_rng(seed), problems, 5)
    blocks = kept(data.blocks, 5, way)
    tests = [problem_tests(blocks, data.codes, family, null_) for family in FAMILIES]
    assert all(len(t.p) + t.excluded.get("no_target_slot", 0) == problems for t in tests), "stopped problems stay"
    return [max(float((t.p <= level).mean()) for t in tests) for level in LEVELS]


def false_alarms(world: World, way: Way, problems: int, times: int) -> float:
    """Return how often BH finds anything at all where there is nothing: its false discovery rate."""
    alarms = 0
    for seed in range(times):
        data = simulated(world)(np.random.default_rng(seed), problems, 5)
        alarms += bool(found(data, kept(data.blocks, 5, way)))
    return alarms / times


def null() -> Table:
    """Calibration where no message matters, by the rules of the table above."""
    rows = []
    for name, world in NULL_WORLDS.items():
        for way in WAYS:
            alarms = false_alarms(world, way, 200, 100)
            for null_ in NULLS:
                levels = worst_levels(world, way, null_, 10_000, 1)
                how = f"{way[0]} of 5" + (f", at most {way[1]:.0%} of calls" if way[1] else "")
                shown = f"{alarms:.0%}" if null_ == "seven" else "-"
                rows.append((name, how, null_, *(f"{level:.4f}" for level in levels), shown))
    columns = ("world", "screen", "test", *(f"P(p <= {level})" for level in LEVELS), "BH finds any")
    note = (
        "The largest of the four families, over 10,000 problems. BH at 0.05: 200 problems, 100 times, family "
        "wrong_helpful."
    )
    return Table("Screened allocation where no message matters", columns, tuple(rows), note)


@dataclass(frozen=True, slots=True)
class Bias:
    """Mean error of an estimate over messages, its standard error clustered by problem, and the pools behind it."""

    mean: float
    error: float
    pools: int


def biases(data: Drawn, blocks: Blocks, screen_blocks: int) -> dict[str, Bias]:
    """Return the bias of the largest true effect of each problem that goes on, by the blocks that are used."""
    later = later_effects(blocks, screen_blocks)
    goes_on = np.isin(np.arange(blocks.n_pools), later.pool)
    on = blocks.where(goes_on[blocks.pool])
    estimates = {
        "further blocks (published)": later,
        "all blocks, problems that go on": all_effects(on),
        "screen alone, problems that go on": screen_effects(on, screen_blocks),
        "screen alone, all problems": screen_effects(blocks, screen_blocks),
    }
    slot = data.truth.argmax(axis=1)
    result = {}
    for name, effects in estimates.items():
        at = slot[effects.pool]
        off = effects.values[np.arange(len(at)), at] - data.truth[effects.pool, at]
        result[name] = Bias(float(off.mean()), float(off.std() / np.sqrt(len(off))), len(off))
    return result


def effects() -> Table:
    """Estimates against the truth in a simulated world with effects of every size."""
    errors: dict[tuple[int, str], list[Bias]] = {}
    for seed in range(8):
        data = simulated(strong("unequal"))(np.random.default_rng(seed), 50_000, 4)
        for screen_blocks in (1, 2):
            some = screen(data.blocks, 4, None, screen_blocks)
            for name, bias in biases(data, some, screen_blocks).items():
                errors.setdefault((screen_blocks, name), []).append(bias)
    rows = []
    for (screen_blocks, name), found_ in errors.items():
        mean = np.mean([bias.mean for bias in found_])
        error = np.sqrt(np.sum([bias.error**2 for bias in found_])) / len(found_)
        pools = sum(bias.pools for bias in found_)
        rows.append((str(screen_blocks), name, f"{100 * mean:+.2f}", f"{100 * error:.2f}", f"{pools:,}"))
    columns = ("screen", "estimate from", "bias, points", "SE", "pools")
    note = "Of the message with the largest true value; simulated, unequal difficulty, 4 blocks at most, 8 seeds."
    return Table("Bias of trajectory values under screened allocation", columns, tuple(rows), note)


if __name__ == "__main__":
    for measure in (screened, null, effects):
        Console(width=150).print(measure().to_rich())
