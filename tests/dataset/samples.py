"""Small rows, cards and data sets for the tests of `dhd_labels.dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dhd_labels.dataset import card, schema
from dhd_labels.dataset.write import count_rows, write_dataset
from dhd_labels.report.table import Table
from tests.hub import TOKEN
from tests.hub.client import Clients

PRELUDE = """
import sys
from pathlib import Path
from dhd_labels.dataset.load import load_frame
from dhd_labels.dataset.publish import check_repository, check_token, push
from dhd_labels.errors import DhdError
folder = Path(sys.argv[1])
def attempt(call):
    try:
        print(call(), flush=True)
    except DhdError as error:
        print("DhdError:", error, flush=True)
"""
SPLIT_OF = {"p0": "train", "p1": "validation", "p2": "test"}


def row(config: str, **values: Any) -> dict[str, Any]:
    return {column.name: None for column in schema.CONFIGS[config]} | {"problem_id": "p0", "benchmark": "b"} | values


def rows() -> dict[str, list[dict[str, Any]]]:
    """Three problems, one a split; nulls in every kind of column."""
    messages = [
        row(
            "messages",
            problem_id=p,
            pool_id=f"pool-{p}",
            slot=slot,
            train_allowed=True,
            proposal_correct=correct,
        )
        | {"key_idea": f"idea {slot} ∑ | <b>", "trajectory_value": value, "n_blocks": 5}
        for p in SPLIT_OF
        for slot, correct, value in ((0, True, 0.5), (1, False, -0.25), (2, None, None))
    ]
    replays = [
        row(
            "replays",
            problem_id=p,
            pool_id=f"pool-{p}",
            arm=arm,
            kept=kept,
            k=len(kept),
            removed=removed,
            draw=0,
        )
        | {"status": "graded" if correct is not None else "truncated", "correct": correct, "seed": 2**40}
        for p in ("p0", "p1")
        for arm, kept, removed, correct in (("alone", [], None, False), ("without-1-of-3", [0, 2], 1, None))
    ]
    problems = [row("problems", problem_id=p, question=f"What is {p}?", choices=["x", "y"]) for p in SPLIT_OF]
    return {"messages": messages, "replays": replays, "problems": problems, "masking": []}


RUN: dict[str, Any] = {
    "run": "quickstart-0a1b2c3d",
    "roles": (card.RoleFacts("actor", "scripted", "oracle", "oracle", None, 0.7, 1.0, 4096),),
    "actor": "oracle",
    "integrator": "oracle",
    "protocol": card.ProtocolFacts(5, 5, 2, ("Matched blocks, each problem: 5.",)),
    "noise": "temperature 0.7 with a seed per draw; identical inputs disagree in 7.3 % of blocks.",
    "seed": 7,
}


def run_facts(**changes: Any) -> card.RunFacts:
    return card.RunFacts(**RUN | changes)


def facts(counts: dict[str, dict[str, int]], **changes: Any) -> card.CardFacts:
    given: dict[str, Any] = {
        "title": "Quickstart labels",
        "runs": (run_facts(),),
        "benchmarks": (card.BenchmarkFacts("quickstart", "apache-2.0", True, True, True),),
        "tables": (Table("Taxonomy", ("cell", "n"), (("wrong_helpful", "3"),)),),
        "exclusions": Table("", ("reason", "n"), (("not_renderable", "0"),)),
        "limits": ("Five blocks say little about one message.",),
        "rows": counts,
        "versions": {"datasets": "5.2.0"},
    }
    return card.CardFacts(**given | changes)


def write(out: Path, tables: dict[str, list[dict[str, Any]]] | None = None, **changes: Any) -> Path:
    """Write a data set whose card fits the rows."""
    tables = rows() if tables is None else tables
    text = card.render(facts(count_rows(tables, SPLIT_OF), **changes))
    write_dataset(tables, out, split_of=SPLIT_OF, card=text, extra_columns=changes.get("extra_columns", {}))
    return out


def child(client: Clients, labels: Path, code: str, token: str | None = TOKEN) -> str:
    """Run code with the real clients, on a data set folder `folder`; return what it printed."""
    return client.run(PRELUDE + code, labels, token=token)
