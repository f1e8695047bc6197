"""The start-up probe: how much of an answer depends on the batch and the cache, and not on the prompt.

Real prompts of the run (the integrator alone) are asked three times with equal settings and seed. Half of them first by
themselves (cold, then warm) and then in a batch with the others; the other half first in a batch (cold, then warm) and
then by themselves. Two replies to a prompt differ if one character does. The replies are calls of the store (role
`probe`), so a probe is paid for once, and its result is a function of the store.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from scipy import stats

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatEngine
from dhd_labels.errors import DhdError
from dhd_labels.protocol.roles import replay_call
from dhd_labels.records import Arm, Pool, Problem, Replay
from dhd_labels.replay.calls import Call, Tally, execute
from dhd_labels.replay.plan import derive_seed
from dhd_labels.replay.store import Store

ROLE = "probe"
CALLS = 3
"""Calls of each prompt."""
ENOUGH = 5
"""Prompts without any difference from which repeats are refused."""
Condition = Literal["alone, cold", "alone, warm", "batch, cold", "batch, warm"]
_FIRST_ALONE: tuple[Condition, ...] = ("alone, cold", "alone, warm", "batch, warm")
_FIRST_BATCHED: tuple[Condition, ...] = ("batch, cold", "batch, warm", "alone, warm")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the probe found. `by_condition`: condition to (replies unlike their prompt's most common one, replies)."""

    prompts: int
    differ: int
    failed: int
    by_condition: dict[str, tuple[int, int]]

    @property
    def identical(self) -> bool:
        """Whether every prompt got one and the same answer."""
        return self.differ == 0

    def interval(self) -> tuple[float, float]:
        """Return the Wilson 95 % interval of the share of prompts whose replies differ."""
        ends = stats.binomtest(self.differ, self.prompts).proportion_ci(method="wilson")
        return float(ends.low), float(ends.high)

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data; rates are fractions."""
        low, high = self.interval()
        return {
            "prompts": self.prompts,
            "differ": self.differ,
            "rate": self.differ / self.prompts,
            "wilson_low": low,
            "wilson_high": high,
            "failed": self.failed,
            "by_condition": {name: {"differ": d, "n": n} for name, (d, n) in self.by_condition.items()},
        }

    def sentence(self) -> str:
        """Return the result in words."""
        low, high = self.interval()
        parts = "; ".join(f"{name}: {d} of {n}" for name, (d, n) in self.by_condition.items())
        failed = f" {self.failed} calls of the probe failed." if self.failed else ""
        return (
            f"At the start, {self.prompts} prompts were asked {CALLS} times each with equal settings, alone and in a "
            f"batch, with a cold and a warm cache. The replies differed for {self.differ} of {self.prompts} prompts "
            f"(Wilson 95 % [{100 * low:.1f}, {100 * high:.1f}] %). Replies unlike the most common one of their prompt: "
            f"{parts}.{failed}"
        )


def run_probe(
    config: RunConfig,
    problems: Sequence[Problem],
    engine: ChatEngine,
    store: Store,
    tally: Tally,
    tick: Callable[[], None],
) -> None:
    """Ask what of the probe is not in the store yet.

    Raises:
        DhdError: repeats at temperature 0 are planned, but the probe finds that they would be copies.
    """
    asked = problems[: config.probe_prompts]
    half = (len(asked) + 1) // 2
    first_alone = list(enumerate(asked))[:half]
    first_batched = list(enumerate(asked))[half:]
    ask = partial(execute, engine=engine, store=store, max_attempts=1, tally=tally, tick=tick)
    for place, condition in enumerate(_FIRST_ALONE[:2]):
        for number, problem in first_alone:
            ask([_call(config, problem, number, place, condition)])
    for place, condition in enumerate(_FIRST_BATCHED[:2]):
        ask([_call(config, problem, number, place, condition) for number, problem in first_batched])
    ask([_call(config, problem, number, 2, _FIRST_ALONE[2]) for number, problem in first_alone])
    for number, problem in first_batched:
        ask([_call(config, problem, number, 2, _FIRST_BATCHED[2])])
    _refuse_copies(config, read_probe(store))


def read_probe(store: Store) -> ProbeResult | None:
    """Return the result of the probe, or None when nothing was probed."""
    return summarise_probe(
        (
            row.ticket.split("/")[-2],
            row.ticket.split("/")[-1].partition("-")[2],
            row.reply.text if row.reply.text else None,
        )
        for row in store.role_calls(ROLE)
    )


def summarise_probe(replies: Iterable[tuple[str, str, str | None]]) -> ProbeResult | None:
    """Return the result from (prompt, condition, text or None for a failed call), in the order of the calls."""
    by_prompt: dict[str, list[tuple[str, str]]] = {}
    failed = 0
    for prompt, condition, text in replies:
        if text is None:
            failed += 1
        else:
            by_prompt.setdefault(prompt, []).append((condition, text))
    if not by_prompt:
        return None
    unlike: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    differ = 0
    for found in by_prompt.values():
        usual = Counter(text for _, text in found).most_common(1)[0][0]
        differ += any(text != usual for _, text in found)
        asked.update(condition for condition, _ in found)
        unlike.update(condition for condition, text in found if text != usual)
    return ProbeResult(len(by_prompt), differ, failed, {name: (unlike[name], n) for name, n in sorted(asked.items())})


def noise_sentence(config: RunConfig, probe: ProbeResult | None) -> str:
    """Return in words where the differences between repeats come from, as declared and as measured."""
    declared = {
        "sampled": "Each draw samples at a temperature above 0 with its own seed, derived from (problem, arm, block, "
        "draw): repeats are independent draws of one model.",
        "greedy": "Temperature 0 on an ordinary server: repeats differ only by the state of batch and cache, so the "
        "arms of a block are sent in a shuffled, stored order.",
        "batch_invariant": "Temperature 0, and the server is declared to answer a prompt the same in any batch: a "
        "repeat would be a copy, so no arm was drawn twice and no interval over blocks is given.",
    }[config.noise]
    measured = probe.sentence() if probe else "The server was not probed."
    against = ""
    if config.noise == "batch_invariant" and probe and not probe.identical:
        against = (
            " So this server was NOT batch invariant, in spite of the declaration: the labels are single noisy draws."
        )
    return f"{declared} {measured}{against}"


def _call(config: RunConfig, problem: Problem, number: int, place: int, condition: Condition) -> Call:
    """Return the same request under another ticket for each condition: equal prompt, settings and seed."""
    alone = Replay(problem.problem_id, "", Arm.alone(), "", "original", None, 0, None, Arm.alone().name)
    nothing = Pool("", problem.problem_id, config.actor, ())
    call = replay_call(config, problem.visible(), nothing, alone)
    return dataclasses.replace(
        call,
        ticket=f"{problem.problem_id}/probe/{number}/{place}-{condition}",
        role=ROLE,
        seed=partial(derive_seed, config.seed, problem.problem_id, ROLE),
        accepts=lambda reply: True,
    )


def _refuse_copies(config: RunConfig, probe: ProbeResult | None) -> None:
    p = config.protocol
    repeats = p.blocks or config.masking or max(p.alone_draws, p.only_draws, p.prefix_draws, p.without_draws) > 1
    if config.noise == "greedy" and repeats and probe and probe.identical and probe.prompts >= ENOUGH:
        raise DhdError(
            f"The 'noise' must not be 'greedy' on this server: the probe asked {probe.prompts} prompts {CALLS} times "
            "each, alone and in a batch, and every prompt got one and the same answer. Repeats would be paid copies, "
            "their intervals empty. Set 'noise: batch_invariant' (one draw an arm), or 'noise: sampled' with a "
            "temperature above 0. If you know better, 'probe.prompts: 0' leaves the probe out."
        )
