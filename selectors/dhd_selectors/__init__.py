"""Selectors: decide which of a pool's messages the integrator should see.

The estimand of every selector is the trajectory value of a message: the integrator's expected success
**with** the message in the pool minus its expected success **without** it (positive = helpful), given only
what the integrator could see. `predict_value` returns one prediction a message; `dhd_selectors.policy` turns
predictions into an arm.

A selector is any object with `get_params`, `fit` and `predict_value` (see `dhd_selectors.base.Selector`);
find one by name with `load_selector`. `Selector.from_pretrained` loads a saved one with its policy and thresholds, a
`dhd_selectors.saving.DecisionRule`; `docs/selectors.md` shows the way.
"""

from dhd_selectors.base import Selector
from dhd_selectors.registry import load_selector, selector_names

__all__ = ["Selector", "load_selector", "selector_names"]
