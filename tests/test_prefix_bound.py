"""The lower bound that `make bench` compares prompt tokens with, against trying every order on small cases."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.vllm.bound import fewest_computed_tokens

PROMPTS = st.lists(st.lists(st.integers(0, 1), max_size=7).map(tuple), max_size=5)


def computed(prompts: Sequence[tuple[int, ...]], block: int, capacity: int | None = None) -> int:
    """Return the tokens that a cache computes in this order; it forgets the block that was used longest ago."""
    cache: dict[tuple[int, ...], None] = {}
    total = 0
    for prompt in prompts:
        found = 0
        while (found + 1) * block < len(prompt) and prompt[: (found + 1) * block] in cache:
            found += 1
        total += len(prompt) - found * block
        for end in reversed(range(1, len(prompt) // block + 1)):
            cache.pop(prompt[: end * block], None)
            cache[prompt[: end * block]] = None
        while capacity is not None and len(cache) > capacity:
            del cache[next(iter(cache))]
    return total


@given(PROMPTS, st.integers(1, 3))
def test_the_best_order_of_a_cache_that_never_forgets_meets_the_bound(
    prompts: list[tuple[int, ...]], block: int
) -> None:
    best = min(computed(order, block) for order in itertools.permutations(prompts))
    assert fewest_computed_tokens(prompts, block) == best


@given(PROMPTS, st.integers(1, 3), st.integers(0, 4))
def test_no_order_of_a_small_cache_is_below_the_bound(
    prompts: list[tuple[int, ...]], block: int, capacity: int
) -> None:
    bound = fewest_computed_tokens(prompts, block)
    assert all(computed(order, block, capacity) >= bound for order in itertools.permutations(prompts))


@pytest.mark.parametrize(
    ("prompts", "tokens"),
    [
        ([], 0),
        ([()], 0),
        ([(1, 2, 3)], 3),
        ([(1, 2, 3)] * 3, 5),  # the block once, the last token three times
        ([(1, 2)] * 3, 6),  # a prompt of one block: its last token needs the whole block each time
        ([(1, 2), (1, 2, 3)], 3),  # the block of the longer one is the end of the shorter one
        ([(1, 2, 3), (9, 2, 3)], 6),  # nothing is shared after a difference
    ],
)
def test_small_cases_by_hand(prompts: list[tuple[int, ...]], tokens: int) -> None:
    assert fewest_computed_tokens(prompts, 2) == tokens
