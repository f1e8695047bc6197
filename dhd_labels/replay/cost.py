"""What a run has cost, and a limit that it never passes (`run --max-cost`). Prices are those of `plan.prices`.

A call is sent only if the limit holds even in the worst case: everything stored, every call in flight at its most, and
this one. At its most, a call is tried `max_tries` times, and each try reads as many tokens as its prompt has bytes (no
token is shorter) plus what a chat template may add, and writes `max_tokens` for each draw. What is not spent is free
again as soon as the call is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dhd_labels.config import PriceConfig, RunConfig
from dhd_labels.engines.base import ChatReply, ChatRequest
from dhd_labels.errors import DhdError
from dhd_labels.replay.store import Store

TEMPLATE_TOKENS = 512
"""Assumed to be the most that a chat template adds to a prompt."""
_ASKS_AS = {"probe": "integrator", "other_probe": "other_integrator"}
_TOKENS = 1_000_000
_ANSWERED = ("ok", "truncated", "empty")


class CostLimitError(DhdError):
    """The next call could pass the limit."""


def cost_of(price: PriceConfig, prompt: int, cached: int, completion: int) -> float:
    """Return the price of tokens: cached input as such only when it has a price of its own."""
    cached = cached if price.cached is not None else 0
    return ((prompt - cached) * price.input + cached * (price.cached or 0.0) + completion * price.output) / _TOKENS


def spent_so_far(config: RunConfig, store: Store) -> float | None:
    """Return what the stored calls cost, of the roles that have a price; None when none has."""
    prices = _prices(config)
    if not prices:
        return None
    names = ("prompt_tokens", "cached_tokens", "completion_tokens")
    return sum(
        cost_of(prices[role], *(row[name] or 0 for name in names))
        for row in store.totals()
        if (role := row["role"]) in prices and row["status"] != "prompt_too_long"  # counted here, never sent
    )


def _prices(config: RunConfig) -> dict[str, PriceConfig]:
    """Return the price of every role of the store that has one."""
    found = {role: config.plan.prices.get(config.role(role).engine) for role in config.bound_roles}
    found |= {probe: found[role] for probe, role in _ASKS_AS.items() if role in found}
    return {role: price for role, price in found.items() if price}


def check_prices(config: RunConfig) -> None:
    """Refuse a limit that cannot be kept.

    Raises:
        DhdError: an engine has no price.
    """
    unpriced = {config.role(role).engine for role in config.bound_roles} - set(config.plan.prices)
    if unpriced:
        example = f"--set 'plan.prices={{{min(unpriced)}: {{input: 0.10, output: 0.50}}}}'"
        raise DhdError(
            f"The '--max-cost' needs the price of every engine, got none for {', '.join(sorted(unpriced))}. Set it for "
            f"a million tokens, e.g. {example}; 0 for an engine that costs nothing"
        )


@dataclass(slots=True)
class Budget:
    """A limit of cost, what is spent of it, and what the calls in flight may still cost."""

    limit: float
    prices: Mapping[str, PriceConfig]
    tries: Mapping[str, int]
    spent: float
    reserved: float = field(default=0.0)

    @classmethod
    def of(cls, config: RunConfig, store: Store, limit: float) -> Budget:
        """Return the budget of a run that goes on from a store and whose prices were checked."""
        engines = {role: config.engine_of(_ASKS_AS.get(role, role)) for role in _prices(config)}
        tries = {role: getattr(engine, "max_tries", 1) for role, engine in engines.items()}
        return cls(limit, _prices(config), tries, spent_so_far(config, store) or 0.0)

    def admit(self, role: str, request: ChatRequest) -> bool:
        """Reserve the most that a request can cost, if the limit allows it."""
        most = self._most(role, request)
        if self.spent + self.reserved + most > self.limit:
            return False
        self.reserved += most
        return True

    def settle(self, role: str, request: ChatRequest, reply: ChatReply) -> None:
        """Replace what was reserved for a request by what it cost. A try without a whole answer counts at its most.

        Raises:
            DhdError: a finished answer came without token counts, so nobody knows.
        """
        self.reserved -= self._most(role, request)
        self.spent += reply.unseen * self._most_of_a_try(role, request) + self._cost(role, reply)

    def _cost(self, role: str, reply: ChatReply) -> float:
        price, draws = self.prices[role], (reply, *reply.more)
        written = [draw.completion_tokens for draw in draws if draw.completion_tokens is not None]
        if reply.prompt_tokens is not None and written:  # also of a failed call: a filtered answer is charged for
            return cost_of(price, reply.prompt_tokens, reply.cached_tokens or 0, sum(written))
        if any(draw.status in _ANSWERED for draw in draws) and (price.input or price.output or price.cached):
            raise DhdError(
                f"The '--max-cost' cannot be kept: {reply.model!r} answered a call of the {role} without token "
                "counts. The answer is in the store. Run again without --max-cost, or with a server that reports "
                "'usage'"
            )
        return 0.0

    def refusal(self, role: str, request: ChatRequest) -> CostLimitError:
        """Return the error of a call that the limit forbids."""
        return CostLimitError(
            f"Stopped before --max-cost {self.limit:g} was passed: {self.spent:.4g} is spent, and the next call of the "
            f"{role} could cost {self._most(role, request):.2g}. Run again with a higher --max-cost to go on"
        )

    def _most(self, role: str, request: ChatRequest) -> float:
        return self.tries[role] * self._most_of_a_try(role, request)

    def _most_of_a_try(self, role: str, request: ChatRequest) -> float:
        price = self.prices[role]
        read = TEMPLATE_TOKENS + sum(len(turn.content.encode("utf-8", "surrogatepass")) for turn in request.turns)
        return (read * max(price.input, price.cached or 0.0) + request.n * request.max_tokens * price.output) / _TOKENS
