"""Fit a selector and print its cross-fitted gain.

    python -m training.fit --selector lgbm --labels data/quickstart
    python -m training.fit --selector drop-wrong --labels ORG/NAME@REVISION --json gains.json
    python -m training.fit --selector hindsight --labels data/quickstart --estimand same-problem
    python -m training.fit --selector lgbm --labels data/quickstart --out models/lgbm --push ORG/NAME

Cross-fits over the train and validation splits; `--test` fits on both once and judges on the test split. `--out` and
`--push` then fit on train and validation once more and save that rule. `training.evaluate` only measures.
Exit codes: 0 done, 1 nothing useful to report, 2 bad usage or input.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dhd_labels.cli import console, run_app
from dhd_labels.errors import DhdError, NothingMadeError, did_you_mean
from dhd_labels.replay.subsets import find_run
from dhd_selectors.base import needs_labels, uses_text
from dhd_selectors.policy import POLICY_NAMES, load_policy
from dhd_selectors.registry import load_selector, public_name, selector_names
from training.data import LabelData, LoadFrame, load_data
from training.estimands import ESTIMANDS, make_folds
from training.permission import parse_permissions, with_permissions
from training.replay import with_replays
from training.report import Report, measure, write_json
from training.share import Measured, Sharing, fit_rule, one_blas_thread, pin, share
from training.tables import render

FIT_SPLITS = ("train", "validation")
MAX_SEED = 2**31 - 1
"""The largest seed that LightGBM takes."""
MOST_REPEATS = 1_000

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class FitOptions:
    """What to fit, on which labels, and how to judge it."""

    selector: str
    labels: str
    estimand: str = "unseen-problem"
    policy: str = "remove-worst"
    seed: int = 0
    jobs: int = 1
    test: bool = False
    repeats: int = 1
    allow_training_on: tuple[str, ...] = ()
    replay: str | None = None
    placebos: bool = True


def fit_and_measure(options: FitOptions, load_frame: LoadFrame | None = None) -> Report:
    """Return the report of one fit; see `measure_selector`."""
    return measure_selector(options, load_frame).report


@one_blas_thread()
def measure_selector(options: FitOptions, load_frame: LoadFrame | None = None) -> Measured:
    """Cross-fit a selector and measure its gain.

    Args:
        options: names are checked before any data are read.
        load_frame: reader of one config of the data set; the data set's own unless given.

    Raises:
        DhdError: an unknown name, a bad option or an unreadable data set.
        NothingMadeError: the labels support no fit or no comparison.
    """
    _check(options)
    selector = load_selector(options.selector, random_state=options.seed, n_jobs=options.jobs)
    policy = load_policy(options.policy)
    run = None if options.replay is None else find_run(options.replay)
    data = prepare(options, load_frame, texts=uses_text(selector))
    if needs_labels(selector):
        _require_labels(data, options.labels)
    splits = [make_folds(data, options.estimand, (options.seed, r), test=options.test) for r in range(options.repeats)]
    if run is not None:
        data, splits = with_replays(run, selector, policy, data, splits, options.seed)
    names = (public_name(options.selector), options.estimand, options.policy)
    report = measure(
        selector,
        policy,
        data,
        splits,
        names=names,
        seed=options.seed,
        jobs=options.jobs,
        with_placebos=options.placebos,
    )
    return Measured(report, selector, policy, data)


def prepare(options: FitOptions, load_frame: LoadFrame | None = None, *, texts: bool) -> LabelData:
    """Return the labels that the options name, with the rows that may be trained on.

    Args:
        options: which labels.
        load_frame: reader of one config of the data set; the data set's own unless given.
        texts: whether the selector reads texts.

    Raises:
        DhdError: an unreadable data set or a bad permission.
        NothingMadeError: there are no messages.
    """
    permissions = parse_permissions(options.allow_training_on)
    splits = (*FIT_SPLITS, "test") if options.test else FIT_SPLITS
    every = options.estimand == "unseen-integrator"
    return with_permissions(
        load_data(options.labels, splits, load_frame, texts=texts, every_integrator=every), permissions
    )


@app.command()
def command(
    selector: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS|FILE.py:CLASS",
            help=f"One of {', '.join(selector_names())}, or a class of yours, importable or in a file.",
        ),
    ],
    labels: Annotated[str, typer.Option(metavar="DIR_OR_HUB_ID[@REV]", help="Data set of labels.")],
    estimand: Annotated[str, typer.Option(help=f"What is estimated: {', '.join(ESTIMANDS)}.")] = "unseen-problem",
    policy: Annotated[str, typer.Option(help=f"What is shown: {', '.join(POLICY_NAMES)}.")] = "remove-worst",
    repeats: Annotated[int, typer.Option(min=1, max=MOST_REPEATS, help="Repeated splits, each with new folds.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of folds, fits, intervals and placebos.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Threads; the result does not depend on them.")] = 1,
    json: Annotated[Path | None, typer.Option(metavar="F", help="Also write the result as JSON.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Fit once more on all; save the rule, report and figure here.")
    ] = None,
    placebos: Annotated[bool, typer.Option(help="Fit the placebos too: four times the time of the selector.")] = True,
    test: Annotated[bool, typer.Option("--test", help="Fit on train and validation, judge on test.")] = False,
    allow_training_on: Annotated[
        list[str] | None,
        typer.Option(metavar="BENCHMARK=REASON", help="Train on it although its licence says no; the reason is shown."),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option(metavar="RUN_DIR_OR_CONFIG", help="Ask this run's integrator for chosen subsets not recorded."),
    ] = None,
    push: Annotated[str | None, typer.Option(metavar="ORG/NAME", help="Push that rule to the Hub, as a model.")] = None,
    public: Annotated[bool, typer.Option("--public", help="Let everyone see the pushed rule.")] = False,
) -> None:
    """Fit a selector on trajectory values and print its gain on problems that it has not seen."""
    options = FitOptions(
        selector=selector,
        labels=labels,
        estimand=estimand,
        policy=policy,
        seed=seed,
        jobs=min(jobs, os.cpu_count() or 1),  # more threads than cores only wait for each other
        test=test,
        repeats=repeats,
        placebos=placebos,
        allow_training_on=tuple(allow_training_on or ()),
        replay=replay,
    )
    _check(options)
    if json is not None:
        check_writable(json)
    sharing = Sharing(out, push, public)
    sharing.check(load_selector(selector))
    source = pin(labels) if sharing else None
    if out is not None:
        check_writable(out / "report.json", "folder of --out")
    if source is not None:
        options = dataclasses.replace(options, labels=source.labels)
    made = measure_selector(options)
    render(made.report, console())
    if json is not None:
        write_json(made.report, json)
    if source is not None:
        rule = None if made.report.privileged else fit_rule(made, source, parse_permissions(options.allow_training_on))
        for line in share(rule, made.data, made.report, sharing):
            console().print(line, markup=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_app(app, argv, "python -m training.fit")


def check_writable(path: Path, what: str = "file of --json") -> None:
    """Refuse a file that cannot be written, before anything is paid for. Folders are made, the file is not.

    Raises:
        DhdError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        there = path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if not there:
            path.unlink()
    except OSError as error:
        raise DhdError(f"The {what} must be writable, got {str(path)!r}: {error.strerror}.") from error


def _check(options: FitOptions) -> None:
    if options.estimand not in ESTIMANDS:
        raise DhdError(f"The estimand {options.estimand!r} is not known. {did_you_mean(options.estimand, ESTIMANDS)}")
    if not 0 <= options.seed <= MAX_SEED:
        raise DhdError(f"The seed must be between 0 and {MAX_SEED}, got {options.seed}.")
    if options.jobs < 1:
        raise DhdError(f"The number of jobs must be at least 1, got {options.jobs}.")
    if not 1 <= options.repeats <= MOST_REPEATS:
        raise DhdError(f"The number of repeats must be between 1 and {MOST_REPEATS}, got {options.repeats}.")
    parse_permissions(options.allow_training_on)


def _require_labels(data: LabelData, labels: str) -> None:
    fit_part = (data.pools["split"] != "test").to_numpy(dtype=np.bool_)[data.pool]
    known = fit_part & np.isfinite(data.y)
    if not known.any():
        raise NothingMadeError(
            f"None of the {int(fit_part.sum())} messages of {labels!r} has a trajectory value, so there is "
            "nothing to learn from. Their `trajectory_value_reason` column says why."
        )
    if not (known & data.trainable).any():
        raise NothingMadeError(
            f"No message of {labels!r} may be trained on (`train_allowed` is false everywhere). Rules such as "
            "drop-wrong can still be scored on it; --allow-training-on takes a permission in words."
        )


if __name__ == "__main__":
    sys.exit(main())
