"""dhd-labels: which agents' messages are worth hearing.

`dhd_labels.run`, `dhd_labels.build` and `dhd_labels.load` do what the command lines do. They are looked up on first
use, so that importing the package stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dhd_labels.api import build, run
    from dhd_labels.dataset.load import load

__version__ = "0.4.0"
__all__ = ["__version__", "build", "load", "run"]


def __getattr__(name: str) -> Any:
    if name in ("build", "run"):
        from dhd_labels import api

        return getattr(api, name)
    if name == "load":
        from dhd_labels.dataset.load import load

        return load
    raise AttributeError(f"module 'dhd_labels' has no attribute {name!r}")
