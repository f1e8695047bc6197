"""Data sets simulated with the published rates give them back, through the tables of `stats`.

What the rates leave open is filled in the plainest way: accuracy between K = 0 and K = 5 lies on a line, flips have the
same rate at every K, messages of a pool are independent. Stable messages, majorities and routing depend on more than
rates, so they are not recovered here. Source: arXiv 2608.14375 and its public aggregates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dhd_labels.dataset.card import render
from dhd_labels.dataset.stream import stream_dataset
from dhd_labels.records import POOL_SIZE, Arm
from dhd_labels.simulate.outcomes import ALONE, ARMS, BLOCK_ARMS, ONLY, WITHOUT, Outcomes
from dhd_labels.simulate.pools import Pools, draw_pools
from dhd_labels.simulate.tables import EXTRA_COLUMNS, benchmark_name, chunk_tables
from dhd_labels.simulate.worlds import Difficulty, World
from dhd_labels.stats.rows import ALL
from dhd_labels.stats.tables.accuracy import accuracy_tables
from dhd_labels.stats.tables.repeats import repeat_tables
from dhd_labels.stats.tables.selection import selection_table
from dhd_labels.stats.tables.study import Study
from dhd_labels.stats.tables.taxonomy import Flips, taxonomy_tables
from tests.bench.calibration.checks import Check
from tests.dataset.samples import facts
from tests.stats.dataset_rows import Row, only, study_of

BENCHMARKS = ("Omni-MATH-2", "JEEBench", "SciBench", "LAB-Bench", "MaScQA")
BLOCKS = 5


@dataclass(frozen=True, slots=True)
class Published:
    """What was published of one model; tuples by benchmark go by `BENCHMARKS`.

    Attributes:
        alone: accuracy without messages.
        full: accuracy with the full pool.
        loo: leave-one-out flips of each benchmark, by proposal, all K together.
        single: single-message flips of all benchmarks, by proposal.
        disagreement: share of blocks whose identical inputs end differently.
        value: mean trajectory value by proposal; empty where it was not published.
        kept: accuracy of keep all in the selection of one removal, all benchmarks.
        gain: cross-fitted gain of it.
    """

    alone: tuple[float, ...]
    full: tuple[float, ...]
    loo: dict[str, tuple[Flips, ...]]
    single: dict[str, Flips]
    disagreement: float
    value: dict[str, float]
    kept: float
    gain: tuple[float, ...]

    def right(self, benchmark: int) -> float:
        """Return the share of proposals that are right."""
        correct, wrong = (self.loo[name][benchmark].eligible for name in ("correct", "wrong"))
        return correct / (correct + wrong)


PUBLISHED = {
    "OSS": Published(
        alone=(0.742, 0.841, 0.757, 0.416, 0.908),
        full=(0.783, 0.860, 0.793, 0.398, 0.912),
        loo={
            "wrong": (Flips(1267, 14911, 1605), Flips(62, 818, 96), Flips(71, 1750, 121), Flips(198, 3592, 361),
                      Flips(25, 892, 68)),
            "correct": (Flips(1410, 38531, 693), Flips(158, 5786, 100), Flips(156, 5897, 79), Flips(630, 3947, 415),
                        Flips(107, 7970, 24)),
        },
        single={"wrong": Flips(756, 7108, 1430), "correct": Flips(1455, 21424, 622)},
        disagreement=0.073,
        value={"correct": 0.013398, "wrong": -0.016640, "correct_minus_wrong": 0.030038},
        kept=0.7185,
        gain=(0.0215, 0.0275, 0.0100, 0.0195, 0.0055),
    ),
    "Gemma": Published(
        alone=(0.768, 0.889, 0.731, 0.565, 0.951),
        full=(0.750, 0.885, 0.736, 0.617, 0.934),
        loo={
            "wrong": (Flips(1221, 32056, 1291), Flips(114, 3907, 116), Flips(180, 5579, 288), Flips(53, 1688, 128),
                      Flips(33, 2664, 107)),
            "correct": (Flips(260, 17223, 85), Flips(23, 2835, 5), Flips(30, 1979, 22), Flips(107, 4753, 19),
                        Flips(35, 6218, 1)),
        },
        single={"wrong": Flips(780, 15455, 1415), "correct": Flips(297, 11629, 74)},
        disagreement=103 / 5000,
        value={},
        kept=0.8311,
        gain=(0.0505, 0.0200, 0.0266, 0.0140, 0.0195),
    ),
}  # fmt: skip
WORLD = World("published", benchmarks=len(BENCHMARKS), no_proposal=0.0)


def pools_of(rates: Published, each: int, rng: np.random.Generator) -> Pools:
    """Return so many pools of each benchmark, benchmarks in turn, with its share of right proposals."""
    parts = [
        draw_pools(World("part", (Difficulty(0.0, 1.0, rates.right(b)),), no_proposal=0.0), each, rng)
        for b in range(len(BENCHMARKS))
    ]
    fields = (np.stack([getattr(part, name) for part in parts], axis=1) for name in Pools.__slots__)
    return Pools(*(values.reshape(-1, *values.shape[2:]) for values in fields))


def by_message(flips: dict[str, tuple[Flips, ...]], correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, 5) chances that a message's effect is helpful, harmful, from the counts of its kind."""
    benchmark = np.arange(len(correct)) % len(BENCHMARKS)
    chances = []
    for sign in ("helpful", "harmful"):
        shares = np.array([[getattr(f, sign) / f.eligible for f in flips[name]] for name in ("wrong", "correct")])
        chances.append(shares[correct, benchmark[:, None]])
    return chances[0], chances[1]


def beside(
    given: np.ndarray, rate: np.ndarray, gained: np.ndarray, lost: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return draws that differ from given ones (n, 1) as often as they should.

    Args:
        given: 0 and 1, 1 with chance `rate`.
        rate: (n, 1).
        gained: chance that the given draw succeeds and the new one does not.
        lost: chance of the reverse.
        rng: source of randomness.
    """
    changes = np.where(given == 1, gained / rate, lost / (1 - rate))
    assert changes.max() <= 1, "the published rates contradict each other"
    return np.where(rng.random(changes.shape) < changes, 1 - given, given)


def main_pass(rates: Published, each: int, rng: np.random.Generator) -> Outcomes:
    """Return every arm once, and matched blocks."""
    pools = pools_of(rates, each, rng)
    n, correct = len(pools), pools.correct.astype(int)
    alone, full = (np.tile(part, each)[:, None] for part in (rates.alone, rates.full))
    expected = np.zeros((n, len(ARMS)))
    main = np.zeros((n, len(ARMS), 1), dtype=np.int8)

    def draw(places: list[int], rate: np.ndarray, codes: np.ndarray) -> None:
        expected[:, places], main[:, places, 0] = rate, codes

    by_chance = rng.random((n, 1)) < alone
    draw([ALONE], alone, by_chance)
    helpful, harmful = by_message({k: (v,) * len(BENCHMARKS) for k, v in rates.single.items()}, correct)
    draw(ONLY, alone + helpful - harmful, beside(by_chance, alone, harmful, helpful, rng))
    helpful, harmful = by_message(rates.loo, correct)
    for k in range(1, POOL_SIZE + 1):
        rate = alone + (full - alone) * k / POOL_SIZE
        prefix = rng.random((n, 1)) < rate
        draw([ARMS.index(Arm.prefix(k))], rate, prefix)
        if k > 1:
            places = [ARMS.index(Arm.without(slot, k)) for slot in range(k)]
            gained, lost = helpful[:, :k], harmful[:, :k]
            draw(places, rate - gained + lost, beside(prefix, rate, gained, lost, rng))
    return Outcomes(pools, expected, main, repeats(rates, full, correct, rng))


def repeats(rates: Published, full: np.ndarray, correct: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return (n, `BLOCKS`, 7) blocks with the published disagreement and mean trajectory values."""
    value = np.where(correct == 1, rates.value.get("correct", 0.0), rates.value.get("wrong", 0.0))
    half = np.full((len(full), 1), rates.disagreement / 2)
    made = []
    for _ in range(BLOCKS):
        first = rng.random((len(full), 1)) < full
        again = beside(first, full, half, half, rng)
        made.append(np.concatenate([first, again, rng.random(value.shape) < full - value], axis=1))
    return np.stack(made, axis=1).astype(np.int8)


def selection(rates: Published, each: int, rng: np.random.Generator) -> Outcomes:
    """Return blocks in which as many problems as published are solved once the right message is removed."""
    pools = pools_of(rates, each, rng)
    n, chance = len(pools), rng.random(len(pools))
    expected = np.zeros((n, len(ARMS)))
    expected[chance < rates.kept] = 1.0
    harmed = np.flatnonzero((chance >= rates.kept) & (chance < rates.kept + np.tile(rates.gain, each)))
    expected[harmed, np.array(WITHOUT)[rng.integers(0, POOL_SIZE, len(harmed))]] = 1.0
    blocks = np.repeat(expected[:, None, BLOCK_ARMS], BLOCKS, axis=1).astype(np.int8)
    return Outcomes(pools, expected, np.zeros((n, len(ARMS), 0), dtype=np.int8), blocks)


def read_back(outcomes: Outcomes, out: Path, rng: np.random.Generator) -> Study:
    """Write a data set and read it as `stats` does."""
    stream_dataset(
        iter([chunk_tables(WORLD, outcomes, 0, rng)]), out, lambda _, counts, __: (render(facts(counts)), None),
        extra_columns=EXTRA_COLUMNS,
    )  # fmt: skip
    return study_of(out)


def recovery(folder: Path, each: int) -> Iterator[Check]:
    """Check what the tables of `stats` say of so many problems a benchmark and model."""
    for number, (model, rates) in enumerate(PUBLISHED.items()):
        rng = np.random.default_rng(70_000 + number)
        study = read_back(main_pass(rates, each, rng), folder / model, rng)
        yield from _flips(model, rates, taxonomy_tables(study)[1].rows)
        yield from _accuracies(model, rates, accuracy_tables(study)[0].rows)
        same, value, _ = repeat_tables(study)
        row = only(same.rows, benchmark=ALL)
        yield _check("identical-input disagreement", model, row, "rate", "clustered_", "n", rates.disagreement)
        for name, true in rates.value.items():
            row = only(value.rows, benchmark=ALL, proposal=name)
            yield _check(f"mean trajectory value, {name.replace('_', ' ')}", model, row, "mean", "ci_", None, true)
        study = read_back(selection(rates, each, rng), folder / f"{model}-selection", rng)
        yield from _gains(model, rates, selection_table(study).rows)


def _groups() -> Iterator[tuple[int, str, str]]:
    for b, benchmark in enumerate(BENCHMARKS):
        yield b, benchmark, benchmark_name(b)


def _flips(model: str, rates: Published, rows: Sequence[Row]) -> Iterator[Check]:
    wanted = [(f"{model}, all", ALL, "single", name, flips) for name, flips in rates.single.items()]
    wanted += [(f"{model}, {benchmark}", group, "loo", name, flips[b])
               for b, benchmark, group in _groups() for name, flips in rates.loo.items()]  # fmt: skip
    for where, group, replay, name, flips in wanted:
        row = only(rows, benchmark=group, replay=replay, proposal=name)
        assert flips.rate is not None and flips.helpful_share is not None
        yield _check(f"flip rate, {replay}, {name}", where, row, "rate", "rate_ci_", "n", flips.rate)
        share = f"helpful share of flips, {replay}, {name}"
        yield _check(share, where, row, "helpful_share", "ci_", "flips", flips.helpful_share)


def _accuracies(model: str, rates: Published, rows: Sequence[Row]) -> Iterator[Check]:
    for b, benchmark, group in _groups():
        for k, true in ((0, rates.alone[b]), (POOL_SIZE, rates.full[b])):
            row = only(rows, benchmark=group, k=k)
            yield _check(f"accuracy, K = {k}", f"{model}, {benchmark}", row, "accuracy", "ci_", "n", true)


def _gains(model: str, rates: Published, rows: Sequence[Row]) -> Iterator[Check]:
    for b, benchmark, group in _groups():
        row = only(rows, benchmark=group, policy="cross_fit")
        yield _check("cross-fitted gain", f"{model}, {benchmark}", row, "gain", "ci_", "n_problems", rates.gain[b])
    row, mean = only(rows, benchmark=ALL, policy="cross_fit"), float(np.mean(rates.gain))
    yield _check("cross-fitted gain", f"{model}, all", row, "gain", "ci_", "n_problems", mean)
    yield _check("cross-fitted accuracy", f"{model}, all", row, "accuracy", "", "n_problems", rates.kept + mean)


def _check(what: str, where: str, row: Row, column: str, ends: str, n: str | None, true: float) -> Check:
    """Compare a number of a table with the rate that was simulated.

    The standard error is that of the table's own 95 % interval, its width over 3.92, and for a rate no less than
    that of n independent trials: an interval of very few flips is too short.
    """
    low, high = (row.get(f"{ends}{end}") if ends else None for end in ("low", "high"))
    found = 0.0 if low is None or high is None else (high - low) / (2 * 1.96)
    trials = 0.0 if n is None else float(np.sqrt(true * (1 - true) / row[n]))
    count = row["n_problems"] if "n_problems" in row else row["n"]
    value = np.nan if row[column] is None else float(row[column])
    return Check(what, where, int(count), value, max(found, trials), "equal to", true)
