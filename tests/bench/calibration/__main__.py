"""Calibration on simulations with known truth: `make calibration`. Exit status 1 when a number is OUTSIDE its bound.

`--simulations N` makes the tables of selectors alone, from N data sets.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from tests.bench.calibration.checks import report
from tests.bench.calibration.intervals import message_coverage
from tests.bench.calibration.report import REPORT, cross_fitted_gains, sections


def main() -> int:
    """Print every table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, help="tables of selectors alone, from so many data sets")
    simulations = parser.parse_args().simulations
    screen, outside, total = Console(width=170), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for section in sections(REPORT, Path(folder)) if simulations is None else [cross_fitted_gains(simulations)]:
            screen.print(report(section.title, section.checks, section.note).to_rich())
            outside += sum(not check.within for check in section.checks)
            total += len(section.checks)
    for blocks in (5, 8) if simulations is None else ():
        screen.print(message_coverage(blocks).to_rich())
    screen.print(f"{total - outside} of {total} numbers within their bounds, {outside} OUTSIDE.")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
