"""The parameters of simulated worlds, and the frozen scenarios.

An arm that shows the messages S succeeds with probability

    sigmoid(difficulty + scale * sum of u_i over S + pool_size_logit * |S|),
    u_i = correctness_logit * c_i + carrier_logit * s_i,

with c_i = +1, -1 or 0 (answer right, wrong, none), s_i = +1, -1 or 0 (the message carries a helpful effect, a harmful
one, none) and one `scale` for each integrator. A message carries an effect with probability `carrier_share`, whatever
its text says; the sign of the effect is the message's hidden tone, which the text shows through `Cue`s or its wording.

The worlds were frozen before any selector was tuned on them; a change of a number here is a new world.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dhd_labels.errors import DhdError, did_you_mean

FloatArray = npt.NDArray[np.float64]

CONFIDENCE = {1: (0.15, 0.30, 0.55), 0: (0.25, 0.35, 0.40), -1: (0.45, 0.35, 0.20)}
"""Probabilities of low, medium and high confidence for a right, a wrong and a missing answer (1, 0, -1)."""
WORDING_SLOTS = 4
"""Places in a message where one of two words of equal length stands."""


@dataclass(frozen=True, slots=True)
class Difficulty:
    """One class of problems: the logit of success alone, its probability, and how often a proposed answer is right."""

    logit: float
    probability: float
    right: float


@dataclass(frozen=True, slots=True)
class Cue:
    """A countable trait of a message's text. `helpful[k]` is P(k | helpful tone) before the tilt, as `harmful`."""

    name: str
    helpful: tuple[float, ...]
    harmful: tuple[float, ...]


CUES = (
    Cue("hedges", (0.40, 0.30, 0.20, 0.10), (0.15, 0.25, 0.30, 0.30)),
    Cue("check", (0.40, 0.60), (0.60, 0.40)),
    Cue("numbers", (0.25, 0.35, 0.40), (0.40, 0.35, 0.25)),
    Cue("long", (0.40, 0.60), (0.55, 0.45)),
)
"""Hedging words (0-3), whether a concrete check is named, numbers cited (0-2), whether the reasoning is long."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Probabilities that an outcome has no verdict, by status; independent of all else."""

    no_answer: float = 0.0
    truncated: float = 0.0
    operational: float = 0.0
    undetermined: float = 0.0

    @property
    def total(self) -> float:
        """Return the probability that an outcome is not graded."""
        return self.no_answer + self.truncated + self.operational + self.undetermined


MISSING_REASONS: Mapping[str, str] = {
    "no_answer": "no box and no answer cue",
    "truncated": "token limit",
    "operational": "server_error",
    "undetermined": "simulated: no rule could decide",
}

DIFFICULTIES: Mapping[str, tuple[Difficulty, ...]] = {
    "equal": (Difficulty(0.0, 1.0, 0.55),),
    "spread": (Difficulty(-1.0, 1 / 3, 0.35), Difficulty(0.0, 1 / 3, 0.55), Difficulty(1.0, 1 / 3, 0.75)),
    "unequal": (
        Difficulty(-4.0, 0.15, 0.15),
        Difficulty(-2.0, 0.20, 0.35),
        Difficulty(0.0, 0.30, 0.55),
        Difficulty(2.0, 0.20, 0.75),
        Difficulty(4.0, 0.15, 0.90),
    ),
    "near-deterministic": (
        Difficulty(-9.0, 0.30, 0.10),
        Difficulty(0.0, 0.25, 0.55),
        Difficulty(9.0, 0.45, 0.90),
    ),
}
"""How hard problems are. `near-deterministic` is the paper's regime: most problems always or never succeed."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything that a simulation depends on, besides its size and its seed.

    Attributes:
        name: the scenario it came from.
        difficulties: classes of problems.
        correctness_logit: what a right answer adds and a wrong one takes.
        carrier_share: probability that a message carries an effect of its own.
        carrier_logit: size of that effect.
        cue_tilt: how strongly the cues follow the tone: 0 not at all, 1 as `CUES` says.
        wording: probability that a word is of the list of the message's tone; 0.5 says nothing.
        pool_size_logit: what every shown message adds, whatever it says (5 messages against 4).
        no_proposal: probability that a message proposes no answer.
        same_error: probability that a wrong answer is the problem's popular one; others are unique.
        missing: outcomes without a verdict.
        benchmarks: number of benchmarks, dealt in turn.
        actors: number of actors; each writes one pool for every problem.
        integrator_scales: one integrator for each number, which multiplies all effects.
    """

    name: str
    difficulties: tuple[Difficulty, ...] = DIFFICULTIES["spread"]
    correctness_logit: float = 0.0
    carrier_share: float = 0.0
    carrier_logit: float = 0.0
    cue_tilt: float = 1.0
    wording: float = 0.5
    pool_size_logit: float = 0.0
    no_proposal: float = 0.04
    same_error: float = 0.5
    missing: Missing = Missing()
    benchmarks: int = 1
    actors: int = 1
    integrator_scales: tuple[float, ...] = (1.0,)

    def cue_probabilities(self, cue: Cue) -> FloatArray:
        """Return (2, n_values): the distribution of a cue for a harmful (row 0) and a helpful (row 1) tone."""
        harmful, helpful = np.array(cue.harmful), np.array(cue.helpful)
        middle = np.sqrt(harmful * helpful)
        tilted = np.stack([middle * (side / middle) ** self.cue_tilt for side in (harmful, helpful)])
        found: FloatArray = tilted / tilted.sum(axis=1, keepdims=True)
        return found

    def sign_auc(self) -> float:
        """Return the exact AUC with which the best reader of the text tells helpful from harmful effects."""
        tables = [self.cue_probabilities(cue) for cue in CUES]
        words = np.array([[1 - self.wording, self.wording], [self.wording, 1 - self.wording]])
        tables += [words[:, ::-1]] * WORDING_SLOTS
        harmful, helpful = (
            np.array([math.prod(cell) for cell in itertools.product(*(table[tone] for table in tables))])
            for tone in (0, 1)
        )
        order = np.argsort(np.round(np.log(helpful / harmful), 9), kind="stable")
        score = np.round(np.log(helpful / harmful), 9)[order]
        _, group = np.unique(score, return_inverse=True)
        low, high = np.bincount(group, harmful[order]), np.bincount(group, helpful[order])
        return float(high @ (np.cumsum(low) - low / 2))


SCENARIOS: Mapping[str, World] = {
    "null": World("null"),
    "correctness": World("correctness", correctness_logit=0.4),
    "reasoning": World("reasoning", carrier_share=0.15, carrier_logit=2.5),
    "mixed": World("mixed", correctness_logit=0.4, carrier_share=0.15, carrier_logit=2.5),
    "wording": World("wording", carrier_share=0.4, carrier_logit=1.5, cue_tilt=0.0, wording=0.75),
}
"""No message matters; only being right does; 15 % carry an effect that the text hints at; both of these; the hint is
in the choice of words alone."""


def scenario(
    name: str,
    *,
    difficulty: str = "spread",
    pool_size_logit: float = 0.0,
    missing: float = 0.0,
    benchmarks: int = 1,
    actors: int = 1,
    integrators: int = 1,
) -> World:
    """Return a frozen scenario, with options.

    Args:
        name: one of `SCENARIOS`.
        difficulty: one of `DIFFICULTIES`.
        pool_size_logit: what every shown message adds to the logit of success.
        missing: probability that an outcome is not graded, in equal parts of every status.
        benchmarks: number of benchmarks.
        actors: number of actors.
        integrators: number of integrators; the n-th has effects 1/n as large on the logit.

    Raises:
        DhdError: an unknown name or a number out of range.
    """
    if name not in SCENARIOS:
        raise DhdError(f"The scenario must be a known one, got {name!r}. {did_you_mean(name, SCENARIOS)}")
    if difficulty not in DIFFICULTIES:
        raise DhdError(
            f"The difficulty must be a known one, got {difficulty!r}. {did_you_mean(difficulty, DIFFICULTIES)}"
        )
    if not 0 <= missing < 1:
        raise DhdError(f"The share of missing outcomes must be at least 0 and below 1, got {missing}.")
    if not abs(pool_size_logit) <= MAX_LOGIT:
        raise DhdError(f"The pool-size effect must be between -{MAX_LOGIT} and {MAX_LOGIT}, got {pool_size_logit}.")
    for what, number in (("benchmarks", benchmarks), ("actors", actors), ("integrators", integrators)):
        if not 1 <= number <= MAX_GROUPS:
            raise DhdError(f"The number of {what} must be between 1 and {MAX_GROUPS}, got {number}.")
    quarter = missing / 4
    return dataclasses.replace(
        SCENARIOS[name],
        difficulties=DIFFICULTIES[difficulty],
        pool_size_logit=pool_size_logit,
        missing=Missing(quarter, quarter, quarter, quarter),
        benchmarks=benchmarks,
        actors=actors,
        integrator_scales=tuple(1 / (n + 1) for n in range(integrators)),
    )


MAX_LOGIT = 5.0
MAX_GROUPS = 50
