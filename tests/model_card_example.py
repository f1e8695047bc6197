"""The rendered example of the model card: `python -m tests.model_card_example` writes it, a test keeps it current.

The numbers are made up and say so; everything else is what `training.fit --out` writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhd_selectors.lgbm import LightGBMSelector
from dhd_selectors.saving import BenchmarkUse, DecisionRule, TrainingFacts, card
from training.placebos import MAY_GAIN

EXAMPLE = Path(__file__).parents[1] / "cards" / "example_model_card.md"
VERSIONS = {"dhd-labels": "0.4.0", "lightgbm": "4.6.0", "numpy": "2.0.0", "scikit-learn": "1.6.0"}


def gain(reference: str, value: float | None, low: float = 0.0, high: float = 0.0, p: float = 1.0) -> dict[str, Any]:
    known = value is not None
    return {
        "reference": reference,
        "gain": value,
        "ci_low": low if known else None,
        "ci_high": high if known else None,
        "p_value": p if known else None,
    }


REPORT = {
    "selector": "lgbm",
    "estimand": "unseen-problem",
    "policy": "remove-worst",
    "seed": 0,
    "n_problems": 1000,
    "n_messages": 5000,
    "gains": [
        gain("keep-all", 1.23, 0.45, 2.01, 0.0021),
        gain("drop-wrong", 0.87, -0.31, 2.05, 0.1480),
        gain("learned-correct", 1.05, 0.22, 1.88, 0.0133),
        gain("oracle-correct", -0.41, -1.62, 0.80, 0.5051),
        gain("alone", None),
        gain("best-fixed", 1.23, 0.45, 2.01, 0.0021),
        gain("random", 2.60, 1.71, 3.49, 0.0001),
    ],
    "placebos": [
        {
            "name": "shuffled-across-problems",
            **gain("keep-all", 0.04, -0.30, 0.38, 0.8201),
            "may_gain": MAY_GAIN["shuffled-across-problems"],
        },
        {"name": "pool-only", **gain("keep-all", 0.11, -0.22, 0.44, 0.5120), "may_gain": MAY_GAIN["pool-only"]},
    ],
    "excluded": {"train_not_allowed": 250, "no_trajectory_value": 0, "no_outcome_of_chosen_arm:keep-all": 3},
    "verdict": "A gain over keep-all (+1.23 points, 95 % interval +0.45 to +2.01). (Made-up numbers of an example.)",
}


def example() -> str:
    """Return the example card."""
    facts = TrainingFacts(
        labels="your-team/labels",
        revision="0123456789abcdef0123456789abcdef01234567",
        digest=None,
        splits=("train", "validation"),
        seed=0,
        n_problems=950,
        n_messages=4750,
        benchmarks=(
            BenchmarkUse("jeebench", "MIT", True, True, 2500, 0),
            BenchmarkUse("lab-bench", "CC-BY-SA-4.0", False, True, 0, 250),
            BenchmarkUse("mascqa", "none stated", None, None, 2250, 0),
        ),
        permissions={"mascqa": "written permission of the authors"},
        report=REPORT,
    )
    rule = DecisionRule("lgbm", LightGBMSelector(), "remove-worst", (-0.0123,), facts)
    return card.render(rule, VERSIONS)


if __name__ == "__main__":
    EXAMPLE.write_text(example(), encoding="utf-8")
