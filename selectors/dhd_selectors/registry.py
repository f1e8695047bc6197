"""Selectors by name: the built-in ones, and those that installed packages offer.

A package adds a selector with an entry point in the group `dhd_selectors`; nothing registers
itself on import.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dhd_labels.errors import DhdError, did_you_mean
from dhd_selectors.base import Selector

ENTRY_POINT_GROUP = "dhd_selectors"
BUILT_IN = {
    "keep-all": "dhd_selectors.baselines:KeepAll",
    "random": "dhd_selectors.baselines:RandomRemoval",
    "consensus": "dhd_selectors.baselines:Consensus",
    "confidence": "dhd_selectors.baselines:Confidence",
    "drop-wrong": "dhd_selectors.baselines:DropWrong",
    "oracle-correct": "dhd_selectors.correctness:OracleCorrect",
    "learned-correct": "dhd_selectors.correctness:LearnedCorrect",
    "logistic": "dhd_selectors.logistic:LogisticSelector",
    "lgbm": "dhd_selectors.lgbm:LightGBMSelector",
    "transformer": "dhd_selectors.transformer:TransformerSelector",
    "hindsight": "dhd_selectors.baselines:Hindsight",
}


def selector_names() -> tuple[str, ...]:
    """Return the names that `load_selector` knows, sorted."""
    return tuple(sorted({*BUILT_IN, *_installed()}))


def load_selector(name: str, **parameters: Any) -> Selector:
    """Make a new, unfitted selector.

    Args:
        name: a built-in name, or the name of an entry point of the group `dhd_selectors` (built-in names
            win).
        parameters: constructor parameters; `random_state` and `n_jobs` are left out where the constructor has
            none.

    Raises:
        DhdError: the name is unknown, or what it names cannot be imported or is not a selector.
    """
    made = _factory(name)()
    if not isinstance(made, Selector):
        raise DhdError(
            f"The selector {name!r} must have get_params, fit and predict_value, got {type(made).__name__}. "
            "See dhd_selectors.base.Selector."
        )
    optional = {"random_state", "n_jobs"} - set(made.get_params())
    return type(made)(**{key: value for key, value in parameters.items() if key not in optional})


def _factory(name: str) -> Callable[[], object]:
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        return getattr(importlib.import_module(module), attribute)  # type: ignore[no-any-return]
    point = _installed().get(name)
    if point is None:
        raise DhdError(f"The selector {name!r} is not known. {did_you_mean(name, selector_names())}")
    try:
        return point.load()  # type: ignore[no-any-return]
    except (ImportError, AttributeError) as error:
        raise DhdError(f"The selector {name!r} ({point.value}) cannot be imported: {error}.") from error


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
