"""Saving a decision rule, loading it, sharing it on the Hub, and using it.

A saved rule is a folder: `dhd_selector.json` (what it is, where it comes from, and a digest of every other file),
`selector/` (the fitted selector, as data) and `README.md` (the card). Nothing in it is code or is unpickled.
"""

from dhd_selectors.saving.facts import BenchmarkUse, TrainingFacts
from dhd_selectors.saving.rule import Decision, DecisionRule, check_savable
from dhd_selectors.saving.state import Savable

__all__ = ["BenchmarkUse", "Decision", "DecisionRule", "Savable", "TrainingFacts", "check_savable"]
