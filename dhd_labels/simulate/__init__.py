"""Simulated data sets with known truth: pools, texts and outcomes whose success probabilities are known per arm.

They feed tests, calibration and benchmarks. `docs/simulator.md` states the model; `worlds.SCENARIOS` holds the frozen
worlds. In order: `worlds` (parameters), `pools` (what is true and what a selector sees), `texts` (its words),
`outcomes` (draws), `label_arrays` (labels), `truth` (ceilings), `tables` and `write` (the data set).
"""

from dhd_labels.simulate.outcomes import Outcomes, simulate_outcomes
from dhd_labels.simulate.worlds import SCENARIOS, World, scenario
from dhd_labels.simulate.write import Plan, simulate_dataset

__all__ = ["SCENARIOS", "Outcomes", "Plan", "World", "scenario", "simulate_dataset", "simulate_outcomes"]
