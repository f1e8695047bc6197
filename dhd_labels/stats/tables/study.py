"""What every table starts from: the units, their checked labels, and a count of what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dhd_labels.simulate.label_arrays import nan_mean
from dhd_labels.stats.checks import Checked
from dhd_labels.stats.frames import (
    ABSENT,
    BoolArray,
    FloatArray,
    IntArray,
    SmallIntArray,
    Units,
    accuracy,
    effect_success,
)
from dhd_labels.stats.intervals import Estimate, cluster_bootstrap, cluster_sums, contrast
from dhd_labels.stats.rows import Group, Row, groups

SEED = 0
"""Seed of every resampling: equal data gives equal intervals."""
PROPOSALS: Mapping[str, int] = {"correct": 1, "wrong": 0}
"""Codes of proposals with a verdict."""


@dataclass
class Study:
    """A data set that was read and checked."""

    units: Units
    checked: Checked
    exclusions: list[Row] = field(default_factory=list)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups that tables have rows for."""
        return tuple(groups(self.units))

    @cached_property
    def problem(self) -> IntArray:
        """(n,) number of each unit's problem."""
        codes: IntArray = self.units.keys["problem_id"].cat.codes.to_numpy().astype(np.int64)
        return codes

    @cached_property
    def main(self) -> FloatArray:
        """(n, n_arms, n_draws) success outside blocks by the rule for accuracy."""
        return accuracy(self.units.main)

    @cached_property
    def mean(self) -> FloatArray:
        """(n, n_arms) mean success of each arm outside blocks, by the rule for accuracy; NaN without a draw."""
        return nan_mean(self.main)

    @cached_property
    def recorded_blocks(self) -> IntArray:
        """(n,) blocks of each unit with any recorded draw."""
        full, without = (np.any(codes != ABSENT, axis=2) for codes in (self.units.full, self.units.without))
        counts: IntArray = (full | without).sum(axis=1).astype(np.int64)
        return counts

    @cached_property
    def stopped(self) -> BoolArray:
        """(n,) units that were screened and got no further block."""
        later = np.arange(self.units.full.shape[1]) >= self.units.screen[:, None]
        recorded = [np.any(codes != ABSENT, axis=2) for codes in (self.units.full, self.units.without)]
        found: BoolArray = (self.units.screen > 0) & ~((recorded[0] | recorded[1]) & later).any(axis=1)
        return found

    def common_blocks(self, group: Group) -> int | None:
        """Return how many first blocks every problem has, where a rule gave further ones to mixed problems only.

        Under `replay.allocation: screened` the first blocks of all problems are a fair sample of them, and all blocks
        of all problems are not. None under fixed allocation, where all blocks are.
        """
        screen = self.units.screen[group.units]
        return int(screen[screen > 0].min()) if screen.any() else None

    def effect(self, codes: SmallIntArray) -> FloatArray:
        """Return success by the rule for effects that the labels of this data set follow."""
        return effect_success(codes, no_answer_is_wrong=self.checked.no_answer == "incorrect")

    def estimate(self, group: Group, numerator: FloatArray, denominator: FloatArray) -> Estimate:
        """Return sum of numerators over sum of denominators, (n_group,) each, with its problem-clustered interval."""
        top, bottom, strata = self._by_problem(group, numerator, denominator)
        return cluster_bootstrap(top, bottom, np.random.default_rng(SEED), strata)[0]

    def difference(self, group: Group, numerator: FloatArray, denominator: FloatArray) -> Estimate:
        """Return the first column's ratio minus the second's, from (n_group, 2) arrays; its interval is paired."""
        top, bottom, strata = self._by_problem(group, numerator, denominator)
        return contrast(top, bottom, np.random.default_rng(SEED), strata)

    def _by_problem(self, group: Group, *sums: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return both arrays summed within each problem that adds to either, and the benchmark of each."""
        _, first, place = np.unique(self.problem[group.units], return_index=True, return_inverse=True)
        top, bottom = (cluster_sums(np.nan_to_num(values), place, len(first)) for values in sums)
        counted = (bottom.reshape(len(first), -1) != 0).any(axis=1)
        return top[counted], bottom[counted], group.stratum[first][counted]

    def mean_of(self, group: Group, values: FloatArray) -> Estimate:
        """Return the mean of (n_group,) values that are not NaN, with its interval."""
        known = np.isfinite(values)
        return self.estimate(group, np.where(known, values, 0.0), known.astype(np.float64))

    def exclude(self, table: str, group: Group, reason: str, count: int) -> None:
        """Count what a table leaves out. Rows of pooled benchmarks repeat what their parts say, so they add nothing."""
        if count and group.keys["benchmark"] != "all":
            self.exclusions.append({"table": table, **group.keys, "reason": reason, "n": int(count)})


def interval(found: Estimate, prefix: str = "ci_") -> Row:
    """Return the ends of an interval as columns, and why there is none."""
    return {f"{prefix}low": found.low, f"{prefix}high": found.high, f"{prefix}reason": found.reason}


def by_proposal(proposal: SmallIntArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield each proposal verdict with a (n, 5) mask of 1.0 and 0.0."""
    for name, code in PROPOSALS.items():
        yield name, (proposal == code).astype(np.float64)
