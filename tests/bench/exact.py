"""Statistics: the exact null against a million Monte Carlo draws, and the bootstrap with its memory."""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console

from dhd_labels.report.table import Table
from dhd_labels.stats import exact_null, families, repeatable
from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.exact_null import problem_tests, signed_maximum
from dhd_labels.stats.families import FAMILIES, Family, target_slots
from dhd_labels.stats.intervals import block_bootstrap, cluster_bootstrap
from dhd_labels.stats.pooled import pooled_test

DRAWS = 1_000_000
SAME_PROBLEMS = 20
_CHUNK = 100_000  # draws at once, so that they stay in the cache


def mixed_world(n: int, n_blocks: int) -> tuple[Blocks, np.ndarray]:
    """Return problems with few blocks of 0 or 7 successes, the costly case, and who is wrong."""
    rng = np.random.default_rng(n_blocks)
    blocks = Blocks.of(rng.random((n, n_blocks, 7)) < rng.uniform(0.3, 0.9, (n, 1, 1)))
    return blocks, rng.integers(0, 2, (n, 5))


def monte_carlo(blocks: Blocks, codes: np.ndarray, draws: int) -> np.ndarray:
    """The alternative: (families, n) upper tails over random arrangements, each drawn as one table look-up."""
    rng, tables = np.random.default_rng(0), {}
    for count in range(8):
        rows = np.array([np.isin(range(7), subset) for subset in itertools.combinations(range(7), count)], dtype=int)
        tables[count] = (rows[:, :2].sum(axis=1, keepdims=True) - 2 * rows[:, 2:]).astype(np.int8)
    sides = [target_slots(codes, family) for family in FAMILIES]
    reached = [signed_maximum(blocks.pool_sums(blocks.effects), *side) for side in sides]
    hits = np.zeros((len(FAMILIES), blocks.n_pools))
    for pool in range(blocks.n_pools):
        for _ in range(0, draws, _CHUNK):
            total = np.zeros((_CHUNK, 5), dtype=np.int8)
            for count in blocks.counts[blocks.pool == pool].tolist():
                total += tables[count].take(rng.integers(0, len(tables[count]), _CHUNK), axis=0)
            for family, (helpful, harmful) in enumerate(sides):
                signed = [*total.T[helpful[pool]], *(-total.T[harmful[pool]])]
                if signed:
                    hits[family, pool] += (np.maximum.reduce(signed) >= reached[family][pool]).sum()
    return hits / draws


OF_THE_DATA = (exact_null.seven_null, exact_null._seven_maxima, exact_null._joint_seven)
"""What is kept of problems; all else that is kept holds for any problem with as many blocks."""


def forget() -> None:
    """Empty every cache, so that each line starts cold."""
    for module in (exact_null, families, repeatable):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def forget_problems() -> None:
    """Empty what is kept of problems, as if these had not been seen."""
    for cached in OF_THE_DATA:
        cached.cache_clear()


def seconds(work: Callable[[], object], before: Callable[[], None] = forget) -> float:
    before()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _all_families(blocks: Blocks, codes: np.ndarray) -> dict[Family, np.ndarray]:
    return {family: problem_tests(blocks, codes, family, "seven").p for family in FAMILIES}


def exact() -> Table:
    """Exact p-values and floors of all four families against a million draws for the same problems; best of five."""
    blocks, codes = mixed_world(SAME_PROBLEMS, 5)
    cold, counted = (
        min(seconds(lambda: _all_families(blocks, codes), before) for _ in range(5))
        for before in (forget, forget_problems)
    )
    sampled = seconds(lambda: monte_carlo(blocks, codes, DRAWS))
    rows = [
        (f"exact, {SAME_PROBLEMS} problems x 5 blocks", f"{counted:.4f}", "1"),
        ("the same as the first thing of a process", f"{cold:.4f}", f"{cold / counted:.1f}"),
        (f"{DRAWS:,} Monte Carlo draws, the same problems", f"{sampled:.1f}", f"{sampled / counted:,.0f}"),
    ]
    for n_blocks in (5, 8):
        many = mixed_world(1000, n_blocks)
        took = seconds(lambda many=many: _all_families(*many))  # type: ignore[misc]
        rows.append((f"exact, 1,000 problems x {n_blocks} blocks", f"{took:.2f}", "-"))
        rng = np.random.default_rng(0)
        took = seconds(lambda many=many, rng=rng: pooled_test(*many, "off_diagonal", "seven", rng))  # type: ignore[misc]
        rows.append((f"pooled test, exact, 1,000 problems x {n_blocks} blocks", f"{took:.2f}", "-"))
    return Table("Exact tests (four families)", ("what", "seconds", "time, ratio to exact"), tuple(rows))


def _bootstrap(kind: str) -> tuple[float, float]:
    """Return seconds and peak memory in GB of a process of its own."""
    rng, n = np.random.default_rng(0), 6_666
    strata = rng.integers(0, 5, n)
    start = time.perf_counter()
    if kind == "counts":
        cluster_bootstrap(rng.binomial(5, 0.1, n), rng.integers(1, 6, n), rng, strata)
    elif kind == "real numbers":
        cluster_bootstrap(rng.random(n), 1 + rng.random(n), rng, strata)
    else:
        block_bootstrap(rng.random(5 * n), np.ones(5 * n), np.repeat(np.arange(n), 5), rng, np.repeat(strata, 5))
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def bootstrap() -> Table:
    """10,000 resamples over 6,666 problems in five strata."""
    rows = []
    for kind in ("counts", "real numbers", "problems, then 5 blocks"):
        with multiprocessing.get_context("spawn").Pool(1) as one:
            took, memory = one.apply(_bootstrap, (kind,))
        rows.append((kind, f"{took:.1f}", f"{memory:.2f}"))
    return Table("Bootstrap, 10,000 resamples x 6,666 problems", ("values", "seconds", "peak GB"), tuple(rows))


if __name__ == "__main__":
    for measure in (exact, bootstrap):
        Console(width=140).print(measure().to_rich())
