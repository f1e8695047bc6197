"""Same-problem selection against a plain loop and against worlds with a known gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.stats.blocks import Blocks
from dhd_labels.stats.cross_fit import POLICIES, Selection, same_problem_selection
from dhd_labels.stats.intervals import cluster_bootstrap

RNG = np.random.default_rng


def run(outcomes: np.ndarray, codes: np.ndarray | None = None, seed: int = 0) -> Selection:
    known = np.zeros((len(outcomes), 5), dtype=int) if codes is None else codes
    return same_problem_selection(Blocks.of(outcomes), known, RNG(seed))


def by_loop(outcomes: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """Return success summed over the folds of one problem, written as the protocol says it."""
    actions = [[(block[0] + block[1]) / 2, *map(float, block[2:])] for block in outcomes]
    single = [[float(block[0]), *map(float, block[2:])] for block in outcomes]
    wrong = [slot for slot in range(5) if codes[slot] == 0]
    total = dict.fromkeys(POLICIES, 0.0)

    def best(rows: list[list[float]]) -> int:
        means = [sum(row[action] for row in rows) / len(rows) for action in range(6)]
        return means.index(max(means))

    for held, row in enumerate(actions):
        others = [r for b, r in enumerate(actions) if b != held]
        total["keep_all"] += row[0]
        total["cross_fit"] += row[best(others)]
        total["remove_first_wrong"] += row[wrong[0] + 1 if wrong else 0]
        total["random_of_six"] += sum(row) / 6
        total["random_removal"] += sum(row[1:]) / 5
        total["hindsight_problem"] += row[best(actions)]
        total["hindsight_block"] += max(row)
        total["one_full_draw"] += single[held][best([r for b, r in enumerate(single) if b != held])]
    return total


@given(st.integers(0, 10_000), st.integers(2, 5))
def test_every_policy_is_what_a_plain_loop_says(seed: int, n_blocks: int) -> None:
    rng = RNG(seed)
    outcomes, codes = rng.integers(0, 2, (3, n_blocks, 7)), rng.integers(-1, 2, (3, 5))
    found = run(outcomes, codes)
    for problem in range(3):
        expected = by_loop(outcomes[problem], codes[problem])
        first_draw = float(outcomes[problem, :, 0].sum())
        for policy in set(POLICIES) - {"shuffled_evidence"}:
            reference = first_draw if policy == "one_full_draw" else expected["keep_all"]
            assert found.success[policy][problem] == pytest.approx(expected[policy]), policy
            assert found.gain[policy][problem] == pytest.approx(expected[policy] - reference), policy


def test_ties_keep_all_and_then_remove_the_lowest_slot() -> None:
    tied = np.ones((1, 2, 7), dtype=int)
    tied[0, 1] = 0  # every action is alike in block 0; only its evidence decides for block 1
    assert run(tied).gain["cross_fit"].tolist() == [0.0]
    block = [0, 0, 0, 1, 1, 0, 0]
    held_out = [0, 0, 0, 1, 0, 0, 0]  # slot 1 wins, slot 2 does not: the lowest of equals is removed
    assert run(np.array([[block, held_out]])).success["cross_fit"].tolist() == [2.0]


def test_pools_with_other_numbers_of_blocks_do_not_disturb_each_other() -> None:
    rng = RNG(5)
    outcomes, codes = rng.integers(0, 2, (7, 5, 7)), rng.integers(0, 2, (7, 5))
    whole = Blocks.of(outcomes)
    found = same_problem_selection(whole.where(whole.number < whole.pool), codes, RNG(0))
    assert (found.pool.tolist(), found.folds.tolist()) == ([2, 3, 4, 5, 6], [2, 3, 4, 5, 5])
    assert found.excluded == {"no_complete_block": 1, "one_block": 1}
    for row, pool in enumerate(found.pool):
        alone = run(outcomes[[pool], :pool], codes[[pool]])
        for policy in set(POLICIES) - {"shuffled_evidence"}:
            assert found.success[policy][row] == alone.success[policy][0]


def test_nothing_to_select_from_is_no_number() -> None:
    found = run(np.ones((4, 1, 7), dtype=int))
    assert (len(found.pool), found.accuracy("cross_fit"), found.excluded) == (0, None, {"one_block": 4})


def means(found: Selection) -> dict[str, float]:
    return {policy: float(found.gain[policy].sum() / found.folds.sum()) for policy in POLICIES}


def chosen_gain(rates: np.ndarray, n_blocks: int, rng: np.random.Generator, repeats: int) -> float:
    """Return the true mean gain of choosing on n_blocks - 1 blocks, by choosing on fresh ones and scoring by rates."""
    total = 0.0
    for _ in range(repeats):
        draws = rng.random((len(rates), n_blocks - 1, 7)) < rates[:, None, :]
        evidence = np.concatenate([draws[..., :2].sum(axis=(1, 2))[:, None], 2 * draws[..., 2:].sum(axis=1)], axis=1)
        action = evidence.argmax(axis=1)
        truth = np.concatenate([rates[:, :1], rates[:, 2:]], axis=1)
        total += float((truth[np.arange(len(rates)), action] - truth[:, 0]).mean())
    return total / repeats


def world(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, 7) success rates of arms: some problems are better off without one message, most do not care."""
    rates = np.repeat(rng.uniform(0.3, 0.95, (n, 1)), 7, axis=1)
    harmed = rng.random(n) < 0.2
    rates[harmed, 3] = np.minimum(0.98, rates[harmed, 3] + 0.4)
    return rates


def test_the_cross_fitted_gain_is_unbiased_and_the_hindsight_one_optimistic() -> None:
    rng, n = RNG(21), 3000
    rates = world(rng, n)
    truth = chosen_gain(rates, 5, rng, 40)
    found = run(rng.random((n, 5, 7)) < rates[:, None, :])
    (estimate,) = cluster_bootstrap(found.gain["cross_fit"], found.folds, rng, n_resamples=2000)
    assert estimate.value is not None and estimate.low is not None and estimate.high is not None
    standard_error = (estimate.high - estimate.low) / (2 * 1.96)
    assert abs(estimate.value - truth) < 3 * standard_error
    assert means(found)["hindsight_problem"] > truth + 10 * standard_error
    assert means(found)["hindsight_block"] > means(found)["hindsight_problem"]
    assert abs(means(found)["one_full_draw"] - truth) < 0.05


def test_where_no_message_matters_only_hindsight_gains() -> None:
    rng, n = RNG(22), 4000
    found = run(rng.random((n, 5, 7)) < rng.uniform(0.3, 0.95, (n, 1, 1)), rng.integers(0, 2, (n, 5)))
    for policy, gain in means(found).items():
        spread = found.gain[policy].std() / np.sqrt(n) / 5  # type: ignore[index]
        if policy.startswith("hindsight"):
            assert gain > 0.05
        else:
            assert abs(gain) <= 4 * spread, policy


def test_shuffled_evidence_knows_what_is_true_of_all_and_not_of_one() -> None:
    n, rng = 600, RNG(23)
    alike = np.zeros((n, 5, 7), dtype=int)
    alike[:, :, 4] = 1
    assert means(run(alike))["shuffled_evidence"] == 1.0
    own = np.zeros((n, 5, 7), dtype=int)
    own[np.arange(n), :, 2 + rng.integers(0, 5, n)] = 1
    found = means(run(own))
    assert found["cross_fit"] == 1.0
    assert found["shuffled_evidence"] == pytest.approx(0.2, abs=0.06)


def test_a_rule_by_verdicts_removes_the_first_wrong_message() -> None:
    outcomes = np.zeros((2, 2, 7), dtype=int)
    outcomes[:, :, 4] = 1
    found = run(outcomes, np.array([[1, -1, 0, 0, 1], [1, 1, 1, -1, 1]]))
    assert found.gain["remove_first_wrong"].tolist() == [2.0, 0.0]
