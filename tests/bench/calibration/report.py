"""All checks of the calibration, at the size of the report and at that of the test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.calibration import exact_tests, intervals, published, selectors
from tests.bench.calibration.checks import Check, jointly


@dataclass(frozen=True, slots=True)
class Size:
    """Simulations of each kind: problems, data sets, messages, and problems a benchmark."""

    null_problems: int
    effect_problems: int
    pooled_sets: int
    bh_sets: int
    interval_sets: int
    population: int
    messages: int
    published_problems: int
    selector_sets: int


REPORT = Size(50_000, 5_000, 400, 300, 1_000, 400_000, 100_000, 1_000, 60)
TEST = Size(5_000, 1_000, 60, 20, 120, 100_000, 20_000, 100, 3)


@dataclass(frozen=True, slots=True)
class Section:
    """Checks under one title."""

    title: str
    checks: list[Check]
    note: str = ""


def sections(size: Size, folder: Path) -> Iterator[Section]:
    """Yield all of the report; data sets are written to a folder."""
    yield Section(
        "Exact problem tests where no message matters",
        list(exact_tests.sizes(size.null_problems)),
        "n: eligible problems, each independent.",
    )
    yield Section(
        "Exact problem tests where no message matters: not just below the level, but as far as it can be reached",
        jointly(exact_tests.attainable_sizes(size.null_problems // 2)),
        "Given the success counts, p has few values; the bound is the mean of the largest tail that is at most 0.1.",
    )
    yield Section("Exact problem tests where one message matters", list(exact_tests.powers(size.effect_problems)))
    yield Section(
        "Pooled tests where no message matters",
        list(exact_tests.pooled_sizes(size.pooled_sets, 25)),
        "n: data sets of 25 problems.",
    )
    yield Section(
        "Benjamini-Hochberg where some messages matter",
        [*exact_tests.false_discovery_rates(size.bh_sets, 150), *exact_tests.found_by_bh(size.bh_sets, 200)],
        "FDR: mean share of discoveries that are false, where no message of the problem matters. "
        "n: data sets of 150 problems (200 in the last two rows), 7 blocks.",
    )
    yield Section(
        "Problem-clustered 95 % intervals, and the gain of removing one message",
        list(intervals.coverage_and_bias(size.interval_sets, size.population)),
        f"n: data sets of {intervals.PROBLEMS} problems x {intervals.BLOCKS} blocks. "
        "Misses: the share of data sets whose interval does not hold the value of the population. Gains: cross_fit is "
        "scored on blocks that had no say, hindsight_problem (naive) on the blocks it was chosen by; the true gain is "
        "that of the action so chosen, by the success rates.",
    )
    yield Section(
        "Per-message intervals of messages that do nothing, simulated",
        jointly(intervals.messages_called_stable(size.messages)),
        "Nominal: 5 % and 95 %. The bound is the exact chance by `stats.message_interval`, and not a good one.",
    )
    yield cross_fitted_gains(size.selector_sets)
    yield Section(
        "Published rates, simulated, written as a data set and read back by the tables of `stats`",
        jointly(published.recovery(folder, size.published_problems)),
        "n: problems; SE: by the table's own clustered interval.",
    )


def cross_fitted_gains(data_sets: int) -> Section:
    """Return the checks of selectors: so many data sets in which no message matters, a quarter in which some do."""
    found = list(selectors.misses(data_sets))
    rates = [check for check in found if check.kind == "at most"]
    return Section(
        "Cross-fitted gains of selectors",
        [*rates, *jointly(check for check in found if check not in rates)],
        f"null: no message matters, {selectors.NULL_PROBLEMS} problems x {selectors.BLOCKS} blocks, five folds; the "
        f"truth is 0. reasoning: {selectors.EFFECT_PROBLEMS} problems; the truth is what the fitted selectors gain on "
        f"{selectors.POPULATION:,} other problems, by success rates. Points. `make calibration SIMULATIONS=1000` makes "
        "so many of these alone.",
    )
