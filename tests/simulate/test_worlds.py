"""The frozen scenarios, and options that make no world."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dhd_labels.errors import DhdError
from dhd_labels.records import content_id
from dhd_labels.simulate import SCENARIOS, scenario
from dhd_labels.simulate.pools import draw_pools
from dhd_labels.simulate.truth import tone_log_odds
from dhd_labels.simulate.worlds import CUES, DIFFICULTIES

FROZEN = {
    "null": "21620eb99adfedd3",
    "correctness": "601d5084fc351efd",
    "reasoning": "e7af28cd39a7a6ff",
    "mixed": "900cd38eca91c26c",
    "wording": "3f084ebc13a9cb14",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_worlds_are_frozen(name: str) -> None:
    """Selectors are judged on these numbers. Whoever changes them makes a new world: pin it here, say so in docs."""
    assert (
        content_id([dataclasses.asdict(SCENARIOS[name]), [dataclasses.asdict(cue) for cue in CUES]])[:16]
        == FROZEN[name]
    )


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_probabilities_are_probabilities(difficulty: str) -> None:
    world = scenario("mixed", difficulty=difficulty)
    assert sum(d.probability for d in world.difficulties) == pytest.approx(1)
    for cue in CUES:
        assert world.cue_probabilities(cue).sum(axis=1) == pytest.approx([1, 1])


def test_the_text_tells_the_sign_with_the_auc_that_was_asked_for() -> None:
    assert SCENARIOS["reasoning"].sign_auc() == pytest.approx(0.75, abs=0.005)
    assert dataclasses.replace(SCENARIOS["reasoning"], cue_tilt=0.0).sign_auc() == pytest.approx(0.5)
    assert SCENARIOS["wording"].sign_auc() > 0.9
    assert dataclasses.replace(SCENARIOS["wording"], wording=0.5).sign_auc() == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["reasoning", "wording"])
def test_the_exact_auc_is_that_of_the_draws(name: str) -> None:
    world = SCENARIOS[name]
    pools = draw_pools(world, 1000, np.random.default_rng(0))
    score = tone_log_odds(world, pools)
    helpful, harmful = score[pools.tone], score[~pools.tone]
    above = (helpful[:, None] > harmful).mean() + (helpful[:, None] == harmful).mean() / 2
    assert above == pytest.approx(world.sign_auc(), abs=0.025)


def test_a_message_carries_an_effect_whatever_its_text_says() -> None:
    pools = draw_pools(SCENARIOS["reasoning"], 20_000, np.random.default_rng(1))
    carries = pools.effect != 0
    assert carries.mean() == pytest.approx(0.15, abs=0.005)
    for cue in range(len(CUES)):
        for value in np.unique(pools.cues[:, :, cue]):
            here = pools.cues[:, :, cue] == value
            assert carries[here].mean() == pytest.approx(0.15, abs=4 * np.sqrt(0.15 * 0.85 / here.sum()))
    assert (np.sign(pools.effect[carries]) == np.where(pools.tone[carries], 1, -1)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "reasonning"}, "Did you mean 'reasoning'?"),
        ({"name": "null", "difficulty": "equals"}, "Did you mean 'equal'?"),
        ({"name": "null", "missing": 1.0}, "below 1, got 1.0"),
        ({"name": "null", "missing": -0.1}, "at least 0"),
        ({"name": "null", "missing": float("nan")}, "got nan"),
        ({"name": "null", "pool_size_logit": float("inf")}, "got inf"),
        ({"name": "null", "pool_size_logit": float("nan")}, "got nan"),
        ({"name": "null", "benchmarks": 0}, "benchmarks must be between 1"),
        ({"name": "null", "actors": 51}, "actors must be between 1"),
        ({"name": "null", "integrators": -1}, "integrators must be between 1"),
    ],
)
def test_options_that_make_no_world(options: dict[str, object], words: str) -> None:
    with pytest.raises(DhdError, match=words.replace("?", r"\?")):
        scenario(**options)  # type: ignore[arg-type]
