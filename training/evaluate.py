"""Measure a selector, built in or of your own, and save nothing.

    python -m training.evaluate --selector shorter.py:Shorter --labels data/reasoning
    python -m training.evaluate --selector my_package:Mine --labels ORG/NAME@REVISION --estimand unseen-benchmark

The options, the numbers and the exit codes are those of `training.fit`, without `--out` and `--push`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from typing import Any

import typer

from dhd_labels.cli import run_app
from training import fit

SHARING = ("out", "push", "public")
"""Options of `training.fit` that save or share."""


def command(**options: Any) -> None:
    """Print the gain of a selector on problems that it has not seen."""
    fit.command(**options)


def _signature() -> inspect.Signature:
    """Return the options of `training.fit` that measure."""
    found = inspect.signature(fit.command, eval_str=True)
    return found.replace(parameters=[p for name, p in found.parameters.items() if name not in SHARING])


# typer reads its options from the signature and the annotations of a command.
command.__signature__ = _signature()  # type: ignore[attr-defined]
command.__annotations__ = {name: p.annotation for name, p in _signature().parameters.items()}
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_app(app, argv, "python -m training.evaluate")


if __name__ == "__main__":
    sys.exit(main())
