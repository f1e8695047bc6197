"""Simulate a data set folder: the real schema and card, `messages.true_value` and `simulation.json`."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dhd_labels.dataset.card import BenchmarkFacts, CardFacts, ProtocolFacts, RoleFacts, RunFacts, render
from dhd_labels.dataset.header import single_files
from dhd_labels.dataset.results import Results, results_of
from dhd_labels.dataset.stream import Chunk, stream_dataset
from dhd_labels.dataset.write import content_digest
from dhd_labels.records import POOL_SIZE, content_id
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.report.table import Table
from dhd_labels.simulate import tables
from dhd_labels.simulate.outcomes import ARMS, FULL, STATUS, Outcomes, check_sizes, simulate_outcomes, unit_pools
from dhd_labels.simulate.truth import Ceilings, ceilings, expected_ceilings, text_values, tone_log_odds
from dhd_labels.simulate.worlds import FloatArray, World

Counts = dict[str, dict[str, int]]
CHUNK_PROBLEMS = 4000
_PACKAGES = ("dhd-labels", "datasets", "huggingface-hub", "numpy", "pyarrow")
_SIGNS = ("neutral", "helpful", "harmful")
_PROPOSALS = ("wrong", "correct", "unknown")
_NOTHING = 1e-12
_LIMITS = (
    "No model was asked: texts are phrases picked at random, outcomes are draws with known probabilities. Nothing here "
    "says anything about any model.",
    "The problems cannot be solved: each asks for a number in a record that nobody is shown.",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate: a world, its size and its seed (`draws` of each unmatched arm)."""

    world: World
    problems: int
    blocks: int
    seed: int
    draws: int = 1


def simulate_dataset(plan: Plan, out: Path) -> dict[str, Any]:
    """Write the data set of a plan and return the content of its `simulation.json`.

    The same plan gives the same bytes with the same library versions.

    Raises:
        DhdError: a size is out of range, or the folder cannot be written or is not ours.
    """
    check_sizes(plan.problems, plan.blocks, plan.draws)
    truth = _Truth(plan)
    found: dict[str, Any] = {}

    def finish(folder: Path, counts: dict[str, dict[str, int]], sha256: dict[str, str]) -> tuple[str, str]:
        text = json.dumps(truth.as_json(), indent=2, allow_nan=False)
        found.update(json.loads(text))
        results = results_of(folder, counts, single_files(counts))
        return render(_card(plan, found, counts, sha256, results)), text + "\n"

    stream_dataset(_chunks(plan, truth), out, finish, extra_columns=tables.EXTRA_COLUMNS)
    return found


def run_name(plan: Plan) -> str:
    """Return the name of the run that a plan stands for."""
    return f"simulated-{plan.world.name}-{content_id(dataclasses.asdict(plan))[:8]}"


def _chunks(plan: Plan, truth: _Truth) -> Iterator[Chunk]:
    rng = np.random.default_rng(plan.seed)
    for first in range(0, plan.problems, CHUNK_PROBLEMS):
        size = min(CHUNK_PROBLEMS, plan.problems - first)
        outcomes = simulate_outcomes(plan.world, size, plan.blocks, rng, draws=plan.draws)
        truth.add(outcomes)
        yield tables.chunk_tables(plan.world, outcomes, first, rng, run_name(plan))


@dataclass(slots=True)
class _Truth:
    """What is known of the chunks so far; small per message, so that millions fit."""

    plan: Plan
    true_value: list[FloatArray] = field(default_factory=list)
    text_value: list[FloatArray] = field(default_factory=list)
    score: list[FloatArray] = field(default_factory=list)
    helpful: list[np.ndarray[Any, np.dtype[np.bool_]]] = field(default_factory=list)
    cells: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    status: Counter[int] = field(default_factory=Counter)
    success: FloatArray = field(default_factory=lambda: np.zeros(len(ARMS)))
    mixed: int = 0

    def add(self, outcomes: Outcomes) -> None:
        """Count a chunk."""
        world, value = self.plan.world, outcomes.true_value
        self.true_value.append(value)
        self.text_value.append(text_values(world, outcomes.pools))
        carries = outcomes.pools.effect != 0
        self.score.append(tone_log_odds(world, outcomes.pools)[carries])
        self.helpful.append(outcomes.pools.effect[carries] > 0)
        correct = outcomes.pools.correct[unit_pools(world, outcomes.pools)]
        sign = np.where(np.abs(value) > _NOTHING, np.sign(value), 0).astype(int)
        integrator = np.broadcast_to(np.arange(len(value))[:, None] % len(world.integrator_scales), value.shape)
        keys, counts = np.unique(np.stack([integrator, correct, sign]).reshape(3, -1), axis=1, return_counts=True)
        self.cells.update({(int(a), int(b), int(c)): int(n) for (a, b, c), n in zip(keys.T, counts, strict=True)})
        for codes in (outcomes.main, outcomes.blocks):
            kinds, counts = np.unique(np.maximum(-codes.astype(int), 0), return_counts=True)
            self.status.update({int(kind): int(n) for kind, n in zip(kinds, counts, strict=True)})
        self.success += outcomes.probability.sum(axis=0)
        self.mixed += _mixed(outcomes, self.plan)

    def as_json(self) -> dict[str, Any]:
        """Return the content of `simulation.json`."""
        plan, value = self.plan, np.concatenate(self.true_value)
        here = ceilings(plan.world, value, np.concatenate(self.text_value))
        score, helpful = np.concatenate(self.score), np.concatenate(self.helpful)
        world = dataclasses.asdict(plan.world)
        return {
            "scenario": plan.world.name,
            "problems": plan.problems,
            "blocks": plan.blocks,
            "draws": plan.draws,
            "seed": plan.seed,
            "attainable_gain": here.attainable_gain,
            "attainable_from_text": here.attainable_from_text,
            "attainable_from_text_se": here.attainable_from_text_se,
            "expected": _ceilings_json(expected_ceilings(plan.world)),
            "text": {
                "sign_auc": plan.world.sign_auc(),
                "sign_auc_measured": _auc(score, helpful),
                "messages_with_effect": len(helpful),
            },
            "true_success": {arm.name: float(p) for arm, p in zip(ARMS, self.success / len(value), strict=True)},
            "true_cells": self._cells(),
            "problems_with_a_mixed_block": self.mixed,
            "outcomes": {name: self.status[code] for code, name in enumerate(STATUS)},
            "parameters": world,
        }

    def _cells(self) -> list[dict[str, Any]]:
        """Return one row an integrator and cell: proposal x sign of the true trajectory value."""
        return [
            {"integrator": tables.integrator_name(g), "proposal": _PROPOSALS[c], "effect": _SIGNS[s],
             "n": self.cells[g, c, s]}
            for g in range(len(self.plan.world.integrator_scales)) for c in (1, 0, -1) for s in (1, 0, -1)
        ]  # fmt: skip


def _mixed(outcomes: Outcomes, plan: Plan) -> int:
    """Count the problems with a block whose graded draws neither all succeed nor all fail, in any of their units."""
    mixed = ((outcomes.blocks == 1).any(axis=2) & (outcomes.blocks == 0).any(axis=2)).any(axis=1)
    units = plan.world.actors * len(plan.world.integrator_scales)
    return int(mixed.reshape(-1, units).any(axis=1).sum())


def _auc(score: FloatArray, positive: np.ndarray[Any, np.dtype[np.bool_]]) -> float | None:
    """Return the chance that a positive outranks a negative, ties half; None without one of each."""
    from scipy.stats import rankdata

    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return None
    above = rankdata(score)[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / (n_positive * n_negative))


def _ceilings_json(found: Ceilings) -> dict[str, Any]:
    return dataclasses.asdict(found)


def _card(plan: Plan, truth: dict[str, Any], counts: Counts, sha256: dict[str, str], results: Results) -> CardFacts:
    world = plan.world
    integrators = ", ".join(tables.integrator_name(n) for n in range(len(world.integrator_scales)))
    actors = ", ".join(tables.actor_name(n) for n in range(world.actors))
    names = [tables.benchmark_name(n) for n in range(world.benchmarks)]
    run = RunFacts(
        run=run_name(plan),
        roles=[_role("hypothesizer", actors), _role("integrator", integrators)],
        actor=actors,
        integrator=integrators,
        protocol=ProtocolFacts(POOL_SIZE, plan.blocks, FULL_DRAWS, _studies(plan)),
        noise="every outcome is an independent draw with the arm's known success probability.",
        seed=plan.seed,
    )
    return CardFacts(
        title=f"Simulated DHD labels: {world.name}",
        runs=(run,),
        benchmarks=[BenchmarkFacts(name, tables.LICENSE, True, True, True) for name in names],
        tables=summary_tables(truth),
        results=results,
        exclusions=_exclusions(truth),
        limits=_LIMITS,
        rows=counts,
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
        extra_columns=tables.EXTRA_COLUMNS,
        digests={config: content_digest(files, sha256) for config, files in single_files(counts).items()},
        sha256=sha256,
    )


def summary_tables(truth: dict[str, Any]) -> tuple[Table, ...]:
    """Return what is true of a simulated data set as tables, from its `simulation.json`."""
    expected = truth["expected"]
    rows = tuple(
        (what, f"{truth[key]:.2f}", f"{expected[key]:.2f} ± {expected[f'{key}_se']:.2f}")
        for key, what in (
            ("attainable_gain", "true success probabilities known"),
            ("attainable_from_text", "all that the text says known"),
        )
    )
    auc, success = truth["text"], truth["true_success"][ARMS[FULL].name]
    measured = "-" if auc["sign_auc_measured"] is None else f"{auc['sign_auc_measured']:.3f}"
    note = (
        f"Keep all or remove one message a pool. Keep-all succeeds in {100 * success:.2f} %. "
        f"AUC of the text for the sign of an effect: {measured} over {auc['messages_with_effect']} messages that carry "
        f"one, {auc['sign_auc']:.3f} in the world."
    )
    best = Table("Attainable gain over keep-all, in points", ("with", "these problems", "world ± SE"), rows, note)
    cells = tuple((row["integrator"], row["proposal"], row["effect"], str(row["n"])) for row in truth["true_cells"])
    columns = ("integrator", "proposal", "true effect", "messages")
    return best, Table("True cells: proposal x sign of the true trajectory value", columns, cells)


def _exclusions(truth: dict[str, Any]) -> Table:
    rows = tuple(("replay", name, str(n)) for name, n in truth["outcomes"].items() if n and name != "graded")
    return Table("Left out, by reason", ("what", "reason", "count"), rows or (("nothing", "-", "0"),))


def _role(role: str, model: str) -> RoleFacts:
    return RoleFacts(role, "simulated", model, model, None, 0.0, 1.0, 0)


def _studies(plan: Plan) -> list[str]:
    return [
        f"Unmatched arms, each problem: {plan.draws} draws of each of the {len(ARMS)} arms (none, single messages, "
        "growing prefixes, one left out of each prefix).",
        f"Matched blocks, each problem: {plan.blocks}, each of {FULL_DRAWS} draws with the full pool and one without "
        "each message, in a shuffled, stored order.",
    ]
