"""A messages frame as selectors' features see it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

WORDS = ("add", "then", "maybe", "5 kg", "3.5", "x = 7", "carry", "roughly", "10 minutes", "sum", "B", "area")


def make_messages(n_pools: int = 12, seed: int = 0) -> pd.DataFrame:
    """Five messages a pool, with every column of the `messages` config that a selector may or may not see."""
    rng = np.random.default_rng(seed)

    def text(k: int) -> str:
        return " ".join(rng.choice(WORDS, k))

    rows = []
    for pool in range(n_pools):
        for slot in range(5):
            level = rng.choice(["high", "medium", "low", ""])
            rows.append(
                {
                    "pool_id": f"pool-{pool}",
                    "problem_id": f"p{pool}",
                    "benchmark": rng.choice(["quickstart", "scibench", "something-else"]),
                    "actor": "a",
                    "integrator": "i",
                    "order": "original",
                    "slot": slot,
                    "answer_type": rng.choice(["integer", "number", "choice"]),
                    "role_name": text(2),
                    "lens": text(3),
                    "proposed_answer": rng.choice(["", "1,200", "\\boxed{1200}", "(B)", "b", "x+1"]),
                    "reasoning_direction": text(6),
                    "key_idea": text(4),
                    "critical_assumption": text(3),
                    "what_to_check": text(int(rng.integers(0, 4))),
                    "confidence_text": level,
                    "confidence_level": level or None,
                    "confidence_value": None if level else float(rng.random()),
                    "proposal_correct": bool(rng.random() < 0.5),
                    "proposal_status": "graded",
                    "single_effect": float(rng.random()),
                    "in_pool_effect": float(rng.random()),
                    "trajectory_value": float(rng.random()),
                    "n_blocks": 5,
                    "cell": "wrong_helpful",
                    "reference": "1200",
                    "question": text(5),
                    "train_allowed": True,
                }
            )
    return pd.DataFrame(rows).astype({"slot": "Int8", "confidence_value": "float64"})


@pytest.fixture
def messages() -> pd.DataFrame:
    return make_messages()
