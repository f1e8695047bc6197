"""What `python -m dhd_labels simulate` does and says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from dhd_labels.simulate.write import Plan, simulate_dataset, summary_tables


def simulate_and_describe(plan: Plan, out: Path, screen: Console | None) -> dict[str, Any]:
    """Write a simulated data set; print what is true of it when there is a screen; return its `simulation.json`."""
    truth = simulate_dataset(plan, out)
    if screen is None:
        return truth
    for table in summary_tables(truth):
        screen.print(table.to_rich())
    for line in (
        f"Data set: {out} (card: {out / 'README.md'}, truth: {out / 'simulation.json'})",
        f'Load it:    datasets.load_dataset("{out}", "messages")',
        f"Train next: python -m training.fit --selector lgbm --labels {out}",
    ):
        screen.print(line, markup=False)
    return truth
