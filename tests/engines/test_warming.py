"""A problem's first request goes alone; its others follow when it is answered."""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.engines.base import ChatRequest, Turn
from dhd_labels.engines.warming import Warming

Item = tuple[int, ChatRequest]


def stream(sizes: list[int], names: list[int] | None = None) -> list[Item]:
    numbers = itertools.count()
    return [
        (next(numbers), ChatRequest((Turn("user", "x"),), 0.7, 1.0, 8, 0, None, affinity=f"p{name}"))
        for name, size in zip(names or range(len(sizes)), sizes, strict=True)
        for _ in range(size)
    ]


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 40), st.randoms(use_true_random=False))
def test_all_are_handed_out_once_and_no_follower_before_its_problem_is_warm(
    sizes: list[int], in_flight: int, rng: random.Random
) -> None:
    items = stream(sizes)
    source: Warming[int] = Warming(items, in_flight)
    running: list[Item] = []
    handed: list[int] = []
    settled: Counter[str] = Counter()
    while True:
        while len(running) < in_flight and (item := source.take()):
            if any(other.affinity == item[1].affinity for _, other in running):
                assert settled[item[1].affinity], "a second one in flight, but the problem is cold"
            running.append(item)
            handed.append(item[0])
        if not running:
            break
        done = running.pop(rng.randrange(len(running)))
        settled[done[1].affinity] += 1
        source.settled(done[1])
    assert sorted(handed) == [number for number, _ in items]


def test_a_problem_that_comes_back_is_warm_already() -> None:
    items = stream([2, 3], [1, 1])
    source: Warming[int] = Warming(items[:2], 8)
    first = source.take()
    assert first and source.take() is None
    source.settled(first[1])
    assert source.take() == items[1]
    again: Warming[int] = Warming(stream([2, 1, 3], [1, 2, 1]), 8)
    taken = [again.take(), again.take()]
    for item in taken:
        assert item
        again.settled(item[1])
    assert [again.take() is not None for _ in range(5)] == [True, True, True, True, False]


@pytest.mark.parametrize(("in_flight", "begun"), [(1, 1), (8, 2), (32, 5)])
def test_only_so_many_problems_are_begun(in_flight: int, begun: int) -> None:
    read: list[str] = []

    def watched() -> Iterator[Item]:
        for item in stream([20] * 40):
            read.append(item[1].affinity)
            yield item

    source: Warming[int] = Warming(watched(), in_flight)
    taken = []
    while item := source.take():
        taken.append(item)
    assert len(taken) == begun and len(set(read)) <= begun + 1, "a plan is not read ahead further than that"


def test_without_warming_the_stream_goes_through_as_it_is_and_nothing_is_read_ahead() -> None:
    items = iter(stream([3, 2]))
    source: Warming[int] = Warming(items, 2, warm_up=False)
    assert [source.take() for _ in range(3)] == stream([3, 2])[:3]
    assert next(items) == stream([3, 2])[3]


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=6), st.integers(1, 12), st.booleans())
def test_a_stream_that_ended_may_go_on_with_any_problem(
    deliveries: list[list[int]], in_flight: int, warm_up: bool
) -> None:
    """As in a worker of a cluster, which gets a problem's requests in several deliveries."""
    items = stream([1] * sum(map(len, deliveries)), [name for names in deliveries for name in names])
    waiting: deque[Item] = deque()
    source: Warming[int] = Warming(_Waiting(waiting), in_flight, warm_up=warm_up)
    handed: list[int] = []
    for names in deliveries:
        waiting.extend(items[len(handed) : len(handed) + len(names)])
        while item := source.take():
            handed.append(item[0])
            source.settled(item[1])
    assert sorted(handed) == list(range(len(items)))


class _Waiting(Iterator[Item]):
    def __init__(self, waiting: deque[Item]) -> None:
        self._waiting = waiting

    def __next__(self) -> Item:
        if not self._waiting:
            raise StopIteration
        return self._waiting.popleft()
