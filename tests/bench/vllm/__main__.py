"""Benchmarks on a real vLLM server: `make bench` runs them, `python -m tests.bench.vllm WEIGHTS` does it alone."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from tests.bench.vllm.measure import measure

if __name__ == "__main__":
    for table in measure(str(Path(sys.argv[1]).resolve())):
        Console(width=120).print(table.to_rich())
