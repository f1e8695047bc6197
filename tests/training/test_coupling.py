"""The variance of coupled folds: by the closed form, and by drawing the policy that it is exact for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from training.coupling import coupling
from training.estimands import Fold
from training.evidence import Evidence

NOTHING = Evidence(np.zeros(0), np.zeros(0), np.zeros((0, 32)))


def by_problem(sizes: list[int]) -> list[Fold]:
    edges = np.cumsum([0, *sizes])
    units = np.arange(edges[-1])
    folds = []
    for low, high in itertools.pairwise(edges):
        inside = (units >= low) & (units < high)
        folds.append(Fold(units[~inside], units[inside], NOTHING, NOTHING))
    return folds


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_equal_folds_have_the_closed_form(k: int) -> None:
    expected = 1 + (k - 1) / (np.pi * np.sqrt(2 * k - 3))
    assert coupling(by_problem([20] * k), 20 * k) == pytest.approx(expected)


def test_a_single_fit_is_not_coupled() -> None:
    fold = Fold(np.arange(40), np.arange(40, 50), NOTHING, NOTHING)
    assert coupling([fold], 50) == 1.0


def drawn(train: np.ndarray, test: np.ndarray, n: int = 400_000) -> float:
    """The variance of an all-or-nothing policy over the naive one, units of variance 1 in each column."""
    noise = np.random.default_rng(0).standard_normal((n, train.shape[1]))
    acting = noise @ train.T > 0
    gain = (acting * (noise @ test.T)).sum(axis=1)
    naive = (acting * test.sum(axis=1)).sum(axis=1).mean()
    return float((gain**2).mean() / naive)


@pytest.mark.parametrize("sizes", [[1] * 5, [4, 1, 1], [3, 2, 2, 1, 1]])
def test_unequal_folds_as_drawn(sizes: list[int]) -> None:
    folds = by_problem(sizes)
    parts = np.zeros((2, len(sizes), sum(sizes)))
    for number, fold in enumerate(folds):
        parts[0, number, fold.train], parts[1, number, fold.test] = 1.0, 1.0
    assert coupling(folds, sum(sizes)) == pytest.approx(drawn(*parts), abs=0.02)


def test_integrators_and_problems_held_out_together_as_drawn() -> None:
    """Two integrators, three folds of problems: a fold learns from the other integrator on other problems."""
    units = np.arange(6)  # unit 3 i + f: integrator i, fold f
    folds = []
    for unit in units:
        train = units[(units // 3 != unit // 3) & (units % 3 != unit % 3)]
        folds.append(Fold(train, np.array([unit]), NOTHING, NOTHING))
    train, test = np.zeros((6, 6)), np.eye(6)
    for number, fold in enumerate(folds):
        train[number, fold.train] = 1.0
    assert coupling(folds, 6) == pytest.approx(drawn(train, test), abs=0.02)


def test_blocks_are_the_units_where_they_are_split() -> None:
    """Four blocks of each of three problems: the same as four folds."""
    blocks, folds = np.tile(np.arange(4), 3), []
    for held_out in range(4):
        learn, judge = (
            Evidence(NOTHING.y, NOTHING.weight, NOTHING.success, side)
            for side in (blocks != held_out, blocks == held_out)
        )
        folds.append(Fold(np.arange(3), np.arange(3), learn, judge))
    assert coupling(folds, 3) == pytest.approx(1 + 3 / (np.pi * np.sqrt(5)))


@pytest.mark.parametrize(("options", "least", "most"), [(1, 1.45, 1.51), (20, 1.9, 2.05)])
def test_the_best_of_many_options_comes_near_two(options: int, least: float, most: float) -> None:
    """The documented limit of the factor: acting by the option that gained most in the other four folds."""
    n, k = 40_000, 5
    noise = np.random.default_rng(1).standard_normal((n, k, options))
    total = np.zeros(n)
    acted = 0.0
    for fold in range(k):
        others = noise.sum(axis=1) - noise[:, fold]
        best = others.argmax(axis=1)
        acting = others[np.arange(n), best] > 0
        total += acting * noise[np.arange(n), fold, best]
        acted += acting.mean()
    assert least < (total**2).mean() / acted < most
