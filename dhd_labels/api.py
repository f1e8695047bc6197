"""The Python API: what the command lines do, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dhd_labels.config import RunConfig, load_config

if TYPE_CHECKING:
    from dhd_labels.dataset.build import BuildReport
    from dhd_labels.replay.run import RunReport


def run(
    config: str | RunConfig,
    run_dir: str | Path | None = None,
    *,
    limit: int | None = None,
    max_cost: float | None = None,
    overrides: Sequence[str] = (),
) -> RunReport:
    """Collect pools and replays into a run directory, or go on with the run that is there.

    Args:
        config: a preset name, a YAML file or a config.
        run_dir: default `runs/<name of the config>`.
        limit: only so many problems, from every benchmark and study in turn.
        max_cost: end before the run costs more, by `plan.prices`.
        overrides: `key=value` strings for a preset or file.

    Raises:
        DhdError: bad config, another config in the directory, a live run, a damaged store, a full disk.
    """
    from dhd_labels.replay.run import run as run_config

    resolved = config if isinstance(config, RunConfig) else load_config(config, overrides)
    return run_config(resolved, Path(run_dir or Path("runs") / resolved.name), limit=limit, max_cost=max_cost)


def build(
    run_dirs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    texts: bool = True,
    noncommercial: bool = True,
    redistribute_text: Sequence[str] = (),
) -> BuildReport:
    """Write the data set of one or several runs; return how many problems it holds, and the tables of its card.

    Args:
        run_dirs: one run directory, or several in any order.
        out: the folder of the data set.
        texts: whether free texts go into it; numbers, slots, verdicts and labels always do.
        noncommercial: whether rows stay whose commercial use is not allowed, or not settled.
        redistribute_text: benchmarks whose problem texts go into it although they are withheld by default.

    Raises:
        NothingMadeError: no problem of a run has a replayed pool yet, or all are left out.
        DhdError: no run there, the same run twice, a damaged store, or a folder that cannot be written.
    """
    from dhd_labels.dataset.build import build as build_dataset
    from dhd_labels.dataset.terms import Terms
    from dhd_labels.replay.directory import open_run

    terms = Terms(texts, noncommercial, tuple(redistribute_text))
    chosen = [run_dirs] if isinstance(run_dirs, str | Path) else run_dirs
    return build_dataset([open_run(Path(directory)) for directory in chosen], Path(out), terms)
