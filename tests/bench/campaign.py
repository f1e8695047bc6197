"""The paper's campaign on upstream files of the published sizes, with text of our own of the median lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dhd_labels.benchmarks import PAPER_BENCHMARKS, facts
from dhd_labels.config import RunConfig, load_config
from tests.benchmarks.upstream_rows import row

_OPTIONS = "\n\n(A) one\n\n(B) two\n\n(C) three\n\n(D) four"
_CHANGES: Mapping[str, Callable[[int, str], dict[str, Any]]] = {
    "omni-math-2": lambda n, text: {"id": n, "problem": text},
    "jeebench": lambda n, text: {"index": n, "question": text + _OPTIONS},
    "scibench": lambda n, text: {"problemid": str(n), "problem_text": text},
    "lab-bench": lambda n, text: {"id": str(n), "question": text},
    "mascqa": lambda n, text: {"Question_Info": f"G-{n}", "QUESTION": repr([text, "(A) a (B) b (C) c (D) d"])},
}


def campaign(folder: Path, size: int | None = None) -> RunConfig:
    """Return the `paper-gemma` preset on five files, each with one bad row; `size` problems of each if given."""
    sources = []
    for name in PAPER_BENCHMARKS:
        known = facts(name)
        count = size or known.rows_usable or 0
        texts = [f"{n}? " + "x" * (known.median_prompt_characters or 0) for n in range(count)]
        lines = [json.dumps(row(name, **_CHANGES[name](n, text))) for n, text in enumerate(texts)]
        file = folder / f"{name}.jsonl"
        file.write_text("\n".join([*lines, "not json"]), encoding="utf-8")
        sources.append({"name": name, "path": str(file)})
    config = load_config("paper-gemma").model_dump(mode="json")
    return RunConfig.model_validate({**config, "benchmarks": sources})
