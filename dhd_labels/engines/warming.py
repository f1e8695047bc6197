"""Lets one request of a problem warm the prefix cache before the others follow.

A server that gets a problem's thirty prompts at once may compute their common part thirty times, since none is in the
cache yet. So a problem's first request goes alone, and its others wait until that one is answered. Meanwhile the next
problems are begun, only so many that the requests in flight are kept up: each begun problem takes room in the cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic

from dhd_labels.engines.base import ChatRequest, Token

_FOLLOWERS = 8
"""Requests in flight for which one more problem is begun: a problem has about thirty, a small run fewer."""


class ByProblem(Generic[Token]):
    """Cuts a stream of requests where the problem changes. A stream that has ended may go on later.

    What comes then may belong to the problem that came last: `itertools.groupby` would drop it.
    """

    def __init__(self, requests: Iterable[tuple[Token, ChatRequest]]) -> None:
        self._stream = iter(requests)
        self._ahead: list[tuple[Token, ChatRequest]] = []

    def take(self) -> list[tuple[Token, ChatRequest]]:
        """Return the next requests of one problem; none when the stream has ended, for now or for good."""
        found, self._ahead = self._ahead, []
        for item in self._stream:
            if found and item[1].affinity != found[0][1].affinity:
                self._ahead = [item]
                break
            found.append(item)
        return found


class Warming(Generic[Token]):
    """Hands out requests, each when its problem is warm. A problem's requests should follow each other."""

    def __init__(self, requests: Iterable[tuple[Token, ChatRequest]], in_flight: int, *, warm_up: bool = True) -> None:
        """Take a stream of requests, of which up to `in_flight` will be in flight.

        Without `warm_up`, requests are handed out as they come, and none is read ahead.
        """
        self._stream = None if warm_up else iter(requests)
        self._problems: ByProblem[Token] = ByProblem(requests if warm_up else ())
        self._begun = 1 + in_flight // _FOLLOWERS
        self._ready: deque[tuple[Token, ChatRequest]] = deque()
        self._cold: dict[str, list[tuple[Token, ChatRequest]]] = {}
        self._warm: set[str] = set()

    def take(self) -> tuple[Token, ChatRequest] | None:
        """Return the next request, or None when all are taken or wait for one that is in flight."""
        if self._stream:
            return next(self._stream, None)
        if not self._ready and len(self._cold) < self._begun:
            self._begin_next()
        return self._ready.popleft() if self._ready else None

    def settled(self, request: ChatRequest) -> None:
        """Note that a request was answered, or failed: the others of its problem wait no longer."""
        if followers := self._cold.pop(request.affinity, None):
            self._warm.add(request.affinity)
            self._ready.extend(followers)

    def _begin_next(self) -> None:
        requests = self._problems.take()
        if len(requests) < 2 or requests[0][1].affinity in self._warm:
            self._ready.extend(requests)
            return
        first, *followers = requests
        self._ready.append(first)
        self._cold.setdefault(first[1].affinity, []).extend(followers)
