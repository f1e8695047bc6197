"""The start-up probe: how much of an answer depends on the batch and the cache, and not on the prompt.

Real prompts of the run (an integrator alone) are asked three times with equal settings and seed. Every other one first
by itself (cold, then warm) and then in a batch with the others; the rest first in a batch (cold, then warm) and then by
themselves. Two replies to a prompt differ if one character does. The replies are calls of the store (role `probe`), so
a probe is paid for once, and its result is a function of the store.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from scipy import stats

from dhd_labels.config import RunConfig
from dhd_labels.engines.base import ChatEngine, ChatReply
from dhd_labels.errors import DhdError
from dhd_labels.protocol.roles import replay_call
from dhd_labels.records import Arm, Pool, Problem, Replay
from dhd_labels.replay.calls import Call, Tally, execute
from dhd_labels.replay.cost import Budget
from dhd_labels.replay.plan import derive_seed
from dhd_labels.replay.store import Store

PROBES = {"integrator": "probe", "other_integrator": "other_probe"}
"""The role of the probe's calls, for each role that is probed."""
CALLS = 3
"""Calls of each prompt."""
ENOUGH = 10
"""Prompts without any difference from which repeats are refused."""
Condition = Literal["alone, cold", "alone, warm", "batch, cold", "batch, warm"]
_FIRST_ALONE: tuple[Condition, ...] = ("alone, cold", "alone, warm", "batch, warm")
_FIRST_BATCHED: tuple[Condition, ...] = ("batch, cold", "batch, warm", "alone, warm")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the probe found.

    `compared` counts the prompts with at least two replies, `differ` those of them whose replies are not all the same.
    `by_condition` maps a condition to (replies unlike their prompt's most common one, replies), over compared prompts.
    """

    asked: int
    compared: int
    differ: int
    failed: int
    by_condition: dict[str, tuple[int, int]]

    @property
    def identical(self) -> bool:
        """Whether every compared prompt got one and the same answer."""
        return self.differ == 0

    def interval(self) -> tuple[float, float] | None:
        """Return the Wilson 95 % interval of the share of prompts whose replies differ, if any were compared."""
        if not self.compared:
            return None
        ends = stats.binomtest(self.differ, self.compared).proportion_ci(method="wilson")
        return float(ends.low), float(ends.high)

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data; rates are fractions."""
        low, high = self.interval() or (None, None)
        return {
            "asked": self.asked,
            "prompts": self.compared,
            "differ": self.differ,
            "rate": self.differ / self.compared if self.compared else None,
            "wilson_low": low,
            "wilson_high": high,
            "failed": self.failed,
            "by_condition": {name: {"differ": d, "n": n} for name, (d, n) in self.by_condition.items()},
        }

    def sentence(self) -> str:
        """Return the result in words."""
        failed = f" {self.failed} of the probe's calls failed." if self.failed else ""
        how = f"At the start, {self.asked} prompts were asked {CALLS} times each, settings equal, alone and in a batch"
        ends = self.interval()
        if ends is None:
            return f"{how}, but no two replies came back to compare.{failed}"
        parts = "; ".join(f"{name}: {d} of {n}" for name, (d, n) in self.by_condition.items())
        return (
            f"{how}, with a cold and a warm cache. The replies differed for {self.differ} of {self.compared} prompts "
            f"(Wilson 95 % [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}] %). Replies unlike the most common one of their "
            f"prompt: {parts}.{failed}"
        )


def run_probe(
    config: RunConfig,
    problems: Sequence[Problem],
    role: str,
    engine: ChatEngine,
    store: Store,
    tally: Tally,
    tick: Callable[[], None],
    budget: Budget | None = None,
) -> None:
    """Ask what of the probe of an integrating role is not in the store yet.

    Raises:
        DhdError: repeats at temperature 0 are planned, but the probe finds that they would be copies.
    """
    asked = problems[: config.probe_prompts]
    first_alone = [problem for problem in asked if _is_first_alone(problem)]
    first_batched = [problem for problem in asked if not _is_first_alone(problem)]
    ask = partial(
        execute,
        engine=engine,
        store=store,
        max_attempts=config.protocol.max_attempts,
        tally=tally,
        tick=tick,
        budget=budget,
    )
    call = partial(_call, config, role)
    for place, condition in enumerate(_FIRST_ALONE[:2]):
        for problem in first_alone:
            ask([call(problem, place, condition)])
    for place, condition in enumerate(_FIRST_BATCHED[:2]):
        ask([call(problem, place, condition) for problem in first_batched])
    ask([call(problem, 2, _FIRST_ALONE[2]) for problem in first_alone])
    for problem in first_batched:
        ask([call(problem, 2, _FIRST_BATCHED[2])])
    _refuse_copies(config, read_probe(store, role))


def read_probe(store: Store, role: str = "integrator") -> ProbeResult | None:
    """Return the result of the probe of a role, or None when it was not probed."""
    last = {row.ticket: row.reply for row in store.role_calls(PROBES[role])}
    return summarise_probe((*_place_of(ticket), _text_of(reply)) for ticket, reply in last.items())


def _is_first_alone(problem: Problem) -> bool:
    """Whether a prompt is asked by itself first: by its problem alone, so that a benchmark may grow."""
    return derive_seed(problem.problem_id, "probe order") % 2 == 0


def _place_of(ticket: str) -> tuple[str, str]:
    """Return prompt (the problem) and condition of a ticket of the probe."""
    prompt, _, condition = ticket.rpartition("/")
    return prompt, condition.partition("-")[2]


def _text_of(reply: ChatReply) -> str | None:
    return None if reply.status == "server_error" else reply.text


def read_probes(store: Store, config: RunConfig) -> dict[str, ProbeResult | None]:
    """Return the result of the probe of each integrating role that is bound."""
    return {role: read_probe(store, role) for role in PROBES if role in config.bound_roles}


def summarise_probe(replies: Iterable[tuple[str, str, str | None]]) -> ProbeResult | None:
    """Return the result from (prompt, condition, text or None for a failed call), in the order of the calls."""
    by_prompt: dict[str, list[tuple[str, str]]] = {}
    failed = 0
    for prompt, condition, text in replies:
        found = by_prompt.setdefault(prompt, [])
        if text is None:
            failed += 1
        else:
            found.append((condition, text))
    if not by_prompt:
        return None
    unlike: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    compared = [found for found in by_prompt.values() if len(found) > 1]
    differ = 0
    for found in compared:
        usual = Counter(text for _, text in found).most_common(1)[0][0]
        differ += any(text != usual for _, text in found)
        asked.update(condition for condition, _ in found)
        unlike.update(condition for condition, text in found if text != usual)
    by_condition = {name: (unlike[name], n) for name, n in sorted(asked.items())}
    return ProbeResult(len(by_prompt), len(compared), differ, failed, by_condition)


def noise_sentence(config: RunConfig, probes: Mapping[str, ProbeResult | None]) -> str:
    """Return in words where the differences between repeats come from, as declared and as measured.

    Args:
        config: the run.
        probes: result by integrating role.
    """
    declared = {
        "sampled": "Each draw samples at a temperature above 0 with its own seed, derived from (problem, arm, block, "
        "draw): repeats are independent draws of one model, if the server obeys the seed.",
        "greedy": "Temperature 0 on an ordinary server: repeats differ only by the state of batch and cache, so the "
        "arms of a block are sent in a shuffled, stored order.",
        "batch_invariant": "Temperature 0, and the server is declared to answer a prompt the same in any batch: a "
        "repeat would be a copy, so no arm was drawn twice and no interval over blocks is given.",
    }[config.noise]
    parts = [declared]
    for role, probe in probes.items():
        whose = "" if role == "integrator" else "The server of the other integrator: "
        parts.append(f"{whose}{probe.sentence()}" if probe else f"{whose}The server was not probed.")
        if config.noise == "batch_invariant" and probe and not probe.identical:
            parts.append(
                "So this server was NOT batch invariant, in spite of the declaration; read labels as single draws."
            )
        if config.noise == "greedy" and probe and probe.compared and probe.identical:
            parts.append("No difference was seen, so the repeats may be copies; few prompts cannot tell.")
    return " ".join(parts)


def _call(config: RunConfig, role: str, problem: Problem, place: int, condition: Condition) -> Call:
    """Return the same request under another ticket for each condition: equal prompt, settings and seed."""
    alone = Replay(problem.problem_id, "", Arm.alone(), "", "original", None, 0, None, Arm.alone().name, role)
    nothing = Pool("", problem.problem_id, config.actor, ())
    call = replay_call(config, problem.visible(), nothing, alone)
    return dataclasses.replace(
        call,
        ticket=f"{problem.problem_id}/{PROBES[role]}/{place}-{condition}",
        role=PROBES[role],
        seed=lambda attempt: derive_seed(config.seed, problem.problem_id, PROBES[role]),  # also when asked again
        accepts=lambda reply: reply.status != "server_error",
    )


def _refuse_copies(config: RunConfig, probe: ProbeResult | None) -> None:
    p = config.protocol
    repeats = p.blocks or config.masking or max(p.alone_draws, p.only_draws, p.prefix_draws, p.without_draws) > 1
    if config.noise == "greedy" and repeats and probe and probe.identical and probe.compared >= ENOUGH:
        raise DhdError(
            f"The 'noise' must not be 'greedy' on this server: the probe compared {probe.compared} prompts, alone and "
            "in a batch, and every prompt got one and the same answer. Repeats would be paid copies, their intervals "
            "empty. Set 'noise: batch_invariant' (one draw an arm), or 'noise: sampled' and a temperature above 0, in "
            "a new --run-dir. If you know better: 'probe.prompts: 0' leaves the probe out."
        )
