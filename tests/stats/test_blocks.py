"""Draws to complete blocks: what is kept, what is counted, what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support import outcome

from dhd_labels.errors import DhdError
from dhd_labels.labels import NoAnswer, block_effects, success
from dhd_labels.records import Arm, Outcome
from dhd_labels.stats.blocks import COLUMNS, DRAWS, Blocks, matched_blocks

VALUES = [1, 0, 1, 0, 1, 1, 0]


def block(number: int, values: list[int | None] = VALUES) -> list[Outcome]:  # type: ignore[assignment]
    arms = [(Arm.full(), 0), (Arm.full(), 1), *((Arm.without(slot), 0) for slot in range(5))]
    return [
        outcome(arm, number, draw, None if value is None else bool(value), "truncated" if value is None else "graded")
        for (arm, draw), value in zip(arms, values, strict=True)
    ]


def gathered(outcomes: list[Outcome], no_answer: NoAnswer) -> Blocks:
    rows = [(o.replay, np.nan if (value := success(o, no_answer)) is None else value) for o in outcomes]
    places = [(0, r.block or 0, COLUMNS[r.arm.name, r.draw], value) for r, value in rows]
    return matched_blocks(*zip(*places, strict=True), ["p (i, original)"])


def test_columns_are_the_full_draws_then_the_removals_whatever_the_order_of_rows() -> None:
    outcomes = [*block(3), *block(1, [0] * 7)][::-1]
    found = gathered(outcomes, "missing")
    assert found.outcomes.tolist() == [[0] * 7, VALUES]
    assert (found.number.tolist(), found.counts.tolist(), found.excluded) == ([1, 3], [0, 4], {})


def test_effects_are_twice_those_of_the_labels() -> None:
    rng = np.random.default_rng(2)
    outcomes = list(itertools.chain(*(block(n, rng.integers(0, 2, 7).tolist()) for n in range(6))))
    draws = {(o.replay.arm.name, o.replay.block, o.replay.draw): success(o, "missing") for o in outcomes}
    found = gathered(outcomes, "missing").effects
    for slot in range(5):
        assert found[:, slot].tolist() == [2 * effect for effect in block_effects(draws, slot)]


def test_incomplete_blocks_are_left_out_and_counted_by_reason() -> None:
    one_full, no_full, short = block(0)[1:], block(1)[2:], block(2)[:-1]
    ungraded = block(3, [1, None, 1, 0, 1, 1, 0])
    found = gathered([*one_full, *no_full, *block(5)[2:], *short, *ungraded, *block(4)], "missing")
    assert found.number.tolist() == [4]
    assert found.excluded == {"one_full_draw": 1, "missing_draw": 3, "ungraded_outcome": 1}


def test_no_answer_follows_the_setting() -> None:
    outcomes = block(0)
    outcomes[2] = outcome(Arm.without(0), 0, 0, None, "no_answer")
    assert gathered(outcomes, "missing").excluded == {"ungraded_outcome": 1}
    assert gathered(outcomes, "incorrect").outcomes[0, 2] == 0


@pytest.mark.parametrize("place", range(DRAWS))
def test_a_draw_that_is_there_twice_is_an_error_that_names_pool_and_block(place: int) -> None:
    outcomes = block(7)
    with pytest.raises(DhdError, match=r"must be there once, got 2 of draw .* in block 7 of pool p \("):
        gathered([*outcomes, outcomes[place]], "missing")


def test_pools_keep_their_numbers_when_some_have_no_block() -> None:
    columns = list(COLUMNS.values())
    found = matched_blocks([2] * 7, [0] * 7, columns, VALUES, ["a", "b", "c", "d"])
    assert (found.n_pools, found.pool.tolist(), found.per_pool.tolist()) == (4, [2], [0, 0, 1, 0])
    assert found.pool_sums(found.effects).tolist()[2] == found.effects[0].tolist()
    assert matched_blocks([], [], [], [], ["a"]).per_pool.tolist() == [0]


def test_half_a_success_is_refused() -> None:
    with pytest.raises(DhdError, match=r"must be 0, 1 or missing, got 0\.5"):
        matched_blocks([0] * 7, [0] * 7, range(7), [0.5] * 7, ["a"])
    with pytest.raises(ValueError, match="must be 0 or 1"):
        Blocks.of(np.full((1, 1, 7), 2))
