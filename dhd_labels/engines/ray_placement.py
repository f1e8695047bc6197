"""Which worker of a cluster a problem's requests go to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Worker = TypeVar("Worker")


class Placement(Generic[Worker]):
    """Remembers the home of every problem.

    Within a stream a home changes only when it is lost. The next stream keeps it too, unless that worker has much more
    to do than another one by then: a stage whose calls are quick must not decide who does the work of a slow one.
    """

    def __init__(self, load: Callable[[Worker], int], slack: int) -> None:
        """Start without homes.

        Args:
            load: returns how many requests of a worker are not answered.
            slack: so many more than those of the least loaded worker are no reason to move a problem.
        """
        self._load, self._slack = load, slack
        self._homes: dict[str, Worker] = {}
        self._fixed: set[str] = set()

    def begin(self) -> None:
        """Begin a stream."""
        self._fixed.clear()

    def choose(self, problem: str, living: Sequence[Worker]) -> Worker:
        """Return the home of a problem among the living workers, of which there is at least one."""
        home = self._homes.get(problem)
        if home is not None and problem in self._fixed:
            return home
        least = min(living, key=self._load)
        if home is None or self._load(home) > self._load(least) + self._slack:
            home = least
        self._homes[problem] = home
        self._fixed.add(problem)
        return home

    def leave(self, worker: Worker) -> None:
        """Forget a worker that is lost: its problems get other homes."""
        self._homes = {problem: home for problem, home in self._homes.items() if home is not worker}
