"""Small releases in the layout of the paper's authors, in both of its spellings, with known outcomes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

POOL = 5


def write_part(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON lines, compressed when the name ends in `.zst`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if path.suffix == ".zst":
        with pa.CompressedOutputStream(str(path), "zstd") as out:
            out.write(text)
    else:
        path.write_bytes(text)
    return path


def hypothesis(slot: int, correct: Any, single: Any, **changes: Any) -> dict[str, Any]:
    return {
        "role_name": f"Role {slot}",
        "proposed_answer": f"the answer is {slot}",
        "proposed_answer_extracted": str(slot),
        "reasoning_direction": f"Use law number {slot}.",
        "key_idea": "Balance both sides.",
        "critical_assumption": "Nothing leaks.",
        "what_to_check": "Units of 3 terms.",
        "confidence": "high" if slot % 2 else "about 60 %",
        "parse_complete": True,
        "proposal_correctness": correct,
        "single_hyp_integrator_boxed": "7",
        "single_hyp_integrator_correct": single,
    } | changes


def problem(key: str, rng: np.random.Generator, *, flat: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the rows of `layer_a` and `loo` of one problem; truth values in every spelling."""
    words = [0, 1] if flat else [False, True]
    draw = lambda: words[int(rng.integers(2))]  # noqa: E731
    prefix = [draw() for _ in range(POOL)]
    trace = {
        "no_hypothesis_baseline": {"correct": draw()},
        "committee_outcomes": [
            {"committee_size": k + 1, "correct": value, "integrator_boxed": "7"} for k, value in enumerate(prefix)
        ],
        "hypotheses": [hypothesis(slot, draw(), draw()) for slot in range(POOL)],
    }
    removals = []
    for k in range(2, POOL + 1):
        for slot in range(k):
            without = draw()
            full = prefix[k - 1]
            removals.append(
                {"K": k, "removed_h_index": slot, "proposal_correctness": None, "fullK_correct": full}
                | {"minus_i_correct": without, "minus_i_boxed": "8", "delta_loo": int(full) - int(without)}
            )
    name = "problem_id" if flat else "source_problem_id"
    layer = {name: key, **trace} if flat else {name: key, "problem_uid": f"u-{key}", "trace": trace}
    return layer | {"outcome": {"final_correct": prefix[-1]}}, {name: key, "loo": removals}


def write_release(root: Path, *, problems: int = 6, seed: int = 0, suffix: str = ".jsonl.zst") -> Path:
    """Write two campaigns: one spelled with `trace` in two parts, one flat; return the folder."""
    rng = np.random.default_rng(seed)
    for benchmark, model, flat in (("jeebench", "gpt_oss_120b", False), ("labbench", "gemma_4_31b", True)):
        rows = [problem(f"{benchmark}-{n}", rng, flat=flat) for n in range(problems)]
        folder = root / "raw" / benchmark / "dhd" / model
        half = problems // 2
        for number, part in enumerate((rows[:half], rows[half:])):
            write_part(folder / "layer_a" / f"part-{number:05d}{suffix}", [layer for layer, _ in part])
        write_part(folder / "loo" / f"part-00000{suffix}", [loo for _, loo in reversed(rows)])
    return root
