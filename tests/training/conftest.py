"""Small worlds with known true values, as frames of the data set and as aligned arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dhd_labels.dataset import schema
from training.data import LabelData, assemble

FloatArray = np.ndarray[Any, np.dtype[np.float64]]
DTYPES = {"int8": "Int8", "int32": "Int32", "int64": "Int64", "bool": "boolean", "float64": "float64"}


@dataclass(frozen=True)
class World:
    """`value` is (n_problems, 5): the true success with each message minus success without it."""

    messages: pd.DataFrame
    replays: pd.DataFrame
    problems: pd.DataFrame
    value: FloatArray

    @property
    def data(self) -> LabelData:
        return assemble(self.messages, self.replays, self.problems)


def frame(config: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows with missing columns null, typed as `load_frame` does."""
    columns = schema.CONFIGS[config]
    made = pd.DataFrame(rows, columns=[*(c.name for c in columns), "split"], dtype=object)
    made = made.where(made.notna(), None)
    for column in columns:
        if column.type in DTYPES:
            made[column.name] = pd.array(made[column.name].tolist(), dtype=DTYPES[column.type])
    made["split"] = made["split"].fillna("train")
    return made


def identity(problem: str) -> dict[str, Any]:
    return {
        "pool_id": f"pool-{problem}",
        "problem_id": problem,
        "benchmark": "quickstart",
        "actor": "a",
        "integrator": "i",
        "order": "original",
    }


def message(problem: str, slot: int, **values: Any) -> dict[str, Any]:
    given = {
        "slot": slot,
        "role_name": f"Role {slot}",
        "proposed_answer": str(slot % 3),
        "reasoning_direction": f"add {slot} and 2",
        "key_idea": "sums commute",
        "critical_assumption": "base ten",
        "what_to_check": "carry",
        "train_allowed": True,
        "n_blocks": 5,
    }
    return identity(problem) | given | values


def replay(problem: str, arm: str, correct: bool | None, **values: Any) -> dict[str, Any]:
    status = "graded" if correct is not None else "truncated"
    return identity(problem) | {"arm": arm, "correct": correct, "status": status, "block": 0, "draw": 0} | values


def simulate(
    n_problems: int,
    seed: int,
    *,
    value: Callable[[np.random.Generator, FloatArray], FloatArray] | None = None,
    n_blocks: int = 5,
    alone: float = 0.4,
) -> World:
    """Draw a world. `value` may make a hedging message ("maybe") harmful; by default nothing matters.

    Args:
        value: (generator, hedges (n, 5) of 0 and 1) -> true values (n, 5).
    """
    rng = np.random.default_rng(seed)
    hedges = (rng.random((n_problems, 5)) < 0.3).astype(float)
    true = np.zeros((n_problems, 5)) if value is None else value(rng, hedges)
    base = rng.uniform(0.4, 0.6, n_problems)
    full = rng.random((n_problems, n_blocks, 2)) < base[:, None, None]
    without = rng.random((n_problems, n_blocks, 5)) < (base[:, None] - true)[:, None, :]
    solo = rng.random((n_problems, 2)) < alone
    label = full.mean(axis=(1, 2))[:, None] - without.mean(axis=1)
    answers = rng.integers(0, 3, (n_problems, 5))
    messages, replays, problems = [], [], []
    for n in range(n_problems):
        name = f"p{n:04d}"
        problems.append({"problem_id": name, "answer_type": "integer", "question": None})
        for slot in range(5):
            hedge = "maybe perhaps" if hedges[n, slot] else "surely"
            values = {"key_idea": hedge, "trajectory_value": label[n, slot], "n_blocks": n_blocks}
            answer = int(answers[n, slot])
            verdict = {"proposal_correct": answer == 0, "proposal_status": "graded"}
            messages.append(message(name, slot, proposed_answer=str(answer), **values, **verdict))
        for block in range(n_blocks):
            replays += [replay(name, "full", bool(full[n, block, d]), block=block, draw=d) for d in (0, 1)]
            for slot in range(5):
                correct = bool(without[n, block, slot])
                replays.append(replay(name, f"without-{slot}-of-5", correct, block=block))
        replays += [replay(name, "alone", bool(solo[n, d]), block=None, draw=d) for d in (0, 1)]
    frames = frame("messages", messages), frame("replays", replays), frame("problems", problems)
    return World(*frames, true)


@dataclass(frozen=True)
class Kit:
    """What tests of this folder build their data from (importlib mode cannot import helpers by name)."""

    frame = staticmethod(frame)
    message = staticmethod(message)
    replay = staticmethod(replay)
    simulate = staticmethod(simulate)


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
