"""Make DHD labels: `python -m dhd_labels plan | run | status | show | build | push | problems | grade |
extract | simulate | stats | report`.

    python -m dhd_labels plan quickstart
    python -m dhd_labels run quickstart --limit 1
    python -m dhd_labels build runs/quickstart --out data/quickstart

Exit codes: 0 done, 1 nothing useful made, 2 bad usage or config, 3 finished with failed records (counted).
"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from dhd_labels.cli import console, progress_bar, run_app, say_error
from dhd_labels.errors import NothingMadeError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, help=__doc__)

FAILED_RECORDS = 3
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A preset name or a YAML file.")]
RunDir = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Directory that `run` wrote.")]
Limit = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Only N problems, from every benchmark and study in turn.")
]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config key (dotted).")]
Labels = Annotated[
    str, typer.Argument(metavar="DATASET_DIR", help="Folder of a data set, or a Hub id org/name[@revision].")
]
Lines = Annotated[Path, typer.Argument(metavar="IN.jsonl", help="One JSON object a line.")]
Out = Annotated[Path | None, typer.Option(metavar="F", help="Write here instead of to the screen.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command()
def problems(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="omni-math-2, jeebench, scibench, lab-bench, mascqa, quickstart, jsonl or oracle."
        ),
    ],
    path: Annotated[str | None, typer.Option(help="The upstream file or folder, unchanged; or your own JSONL.")] = None,
    json: Json = False,
) -> None:
    """Read and check a benchmark: what is usable, what is left out and why, and what its licence allows."""
    from dhd_labels.benchmarks import facts, read_problems
    from dhd_labels.config import BenchmarkConfig
    from dhd_labels.report.benchmark import describe, to_table

    found = read_problems(BenchmarkConfig(name=name, path=path))
    described = describe(facts(name), found)
    if json:
        _print_json(described)
    else:
        console().print(to_table(facts(name), found).to_rich())


@app.command()
def plan(config: Config, limit: Limit = None, set_: Set = None, json: Json = False) -> None:
    """Count the calls of a run and estimate its tokens. Needs no model and no network."""
    from dhd_labels.config import load_config
    from dhd_labels.replay.estimate import plan_run

    planned = plan_run(load_config(config, set_ or ()), limit)
    if json:
        _print_json(planned.as_json())
        return
    for table in planned.tables():
        console().print(table.to_rich())


@app.command()
def run(
    config: Config,
    run_dir: Annotated[Path | None, typer.Option(help="Default: runs/<name of the config>.")] = None,
    limit: Limit = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, metavar="X", help="Stop before the run costs more, by `plan.prices`.")
    ] = None,
    set_: Set = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Set a damaged store aside; keep what can be read.")
    ] = False,
    json: Json = False,
) -> None:
    """Collect pools and replays. Run it again to go on: nothing in the store is paid for twice."""
    from dhd_labels.config import load_config
    from dhd_labels.replay.run import run as run_config

    resolved = load_config(config, set_ or ())
    folder = run_dir or Path("runs") / resolved.name
    out = console()

    def say(text: str) -> None:
        if not json:
            out.print(text, markup=False)

    say(f"Run {resolved.name!r} in {folder}. Stop it at any time; the same command goes on where it stopped.")
    try:
        with progress_bar(Console(stderr=True)) as bar:
            report = run_config(resolved, folder, limit=limit, max_cost=max_cost, salvage_store=salvage, progress=bar)
    except KeyboardInterrupt:
        say("Stopped. Every finished call is in the store; run the same command to go on.")
        raise
    if report.salvaged is not None:
        say(f"Salvaged {report.salvaged} calls from the damaged store; it is kept beside the new one.")
    if report.note:
        say(f"Not yet: {report.note}.")
    say(f"This time: {report.tally.found} answers were in the store, {report.tally.made} calls made.")
    code = _print_summary(folder, json)
    if report.stopped:
        say_error(report.stopped) if json else say(f"{report.stopped}.")
    raise typer.Exit(FAILED_RECORDS if report.stopped and code == 0 else code)


@app.command()
def status(run_dir: RunDir, json: Json = False) -> None:
    """Show how far a run is, from its store."""
    raise typer.Exit(_print_summary(run_dir, json))


@app.command()
def show(
    run_dir: RunDir,
    problem_id: Annotated[str, typer.Argument(metavar="PROBLEM_ID", help="E.g. quickstart:unit-03, or unit-03.")],
    prompts: Annotated[bool, typer.Option("--prompts", help="Print the prompts too.")] = False,
    json: Json = False,
) -> None:
    """Show one problem: roles, messages, prompts, answers, verdicts, labels."""
    from dhd_labels.replay.directory import open_run
    from dhd_labels.report.problem_page import find_result, page_json, print_page

    directory = open_run(run_dir)
    result = find_result(directory, problem_id)
    if json:
        _print_json(page_json(directory, result))
    else:
        print_page(directory, result, console(), prompts)


@app.command()
def build(
    run_dirs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR...", help="Directories that `run` wrote.")],
    out: Annotated[Path, typer.Option(metavar="DATASET_DIR", help="Folder of the data set.")],
    no_text: Annotated[
        bool, typer.Option("--no-text", help="Leave out all free text; numbers, verdicts and labels stay.")
    ] = False,
    exclude_noncommercial: Annotated[
        bool,
        typer.Option(
            "--exclude-noncommercial", help="Leave out rows whose commercial use is not allowed, or not settled."
        ),
    ] = False,
    redistribute_text: Annotated[
        list[str] | None,
        typer.Option(metavar="BENCHMARK", help="Include its problem texts, where its licence allows that on request."),
    ] = None,
) -> None:
    """Build the data set of one or several runs: Parquet, a card, tables. Asks no model."""
    from dhd_labels.dataset.build import build as build_dataset
    from dhd_labels.dataset.terms import Terms
    from dhd_labels.replay.directory import open_run

    terms = Terms(not no_text, not exclude_noncommercial, tuple(redistribute_text or ()))
    report = build_dataset([open_run(run_dir) for run_dir in run_dirs], out, terms)
    screen = console()
    for table in (*report.tables, report.exclusions):
        screen.print(table.to_rich())
    lines = (
        f"Data set: {out} (card: {out / 'README.md'})",
        f'Load it:    datasets.load_dataset("{out}", "messages")',
        f"Look:       python -m dhd_labels show {run_dirs[0]} {report.first}",
        f"Train next: python -m training.fit --selector lgbm --labels {out}",
        f"Publish:    python -m dhd_labels push {out} --repo ORG/NAME",
    )
    for line in lines:
        screen.print(line, markup=False)


@app.command(name="import-release")
def import_release(
    release: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds raw/<benchmark>/dhd/<model>/...")],
    out: Annotated[Path, typer.Option(metavar="DATASET_DIR", help="Folder of the data set.")],
) -> None:
    """Turn a release in the layout of the paper's authors into a data set. `--labels FOLDER` does it by itself."""
    from dhd_labels.dataset.paper import import_release as convert

    report = convert(release, out)
    screen = console()
    screen.print(f"Data set: {out} ({report.problems} problems, {report.messages} messages)", markup=False)
    screen.print(report.table().to_rich())


@app.command()
def push(
    dataset_dir: Annotated[Path, typer.Argument(metavar="DATASET_DIR")],
    repo: Annotated[str, typer.Option(metavar="ORG/NAME")],
    public: Annotated[bool, typer.Option("--public", help="Private unless given.")] = False,
    revision: Annotated[str | None, typer.Option(help="Branch to commit to.")] = None,
    create_pr: Annotated[bool, typer.Option("--create-pr", help="Open a pull request.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; show what would go up.")] = False,
    replace_card: Annotated[
        bool, typer.Option("--replace-card", help="Drop what people wrote into the card on the Hub.")
    ] = False,
) -> None:
    """Publish a data set to the Hugging Face Hub in one commit, then load it back and compare."""
    from dhd_labels.dataset.publish import push as push_dataset
    from dhd_labels.report.table import Table, visible_as_set

    result = push_dataset(
        dataset_dir,
        repo,
        private=not public,
        revision=revision,
        create_pr=create_pr,
        dry_run=dry_run,
        replace_card=replace_card,
    )
    rows = tuple((f.path, f.state, str(f.size), f.sha256[:16]) for f in result.files)
    screen = console()
    screen.print(Table(f"Files for {repo}", ("path", "state", "bytes", "sha256"), rows).to_rich())
    for line in (*(result.card_diff if dry_run else ()), *result.notes):
        screen.print(visible_as_set(line), markup=False, highlight=False)
    if dry_run:
        screen.print("Dry run: nothing was sent.")
    else:
        screen.print(f"Pushed as one commit, loaded back and compared: {result.url}", markup=False)
        screen.print(f"Commit: {result.commit}", markup=False)


@app.command()
def grade(
    path: Lines,
    out: Out = None,
    mode: Annotated[str, typer.Option(help="strict, or official: the benchmark's own scorer.")] = "strict",
) -> None:
    """Grade lines of {benchmark, answer_type, gold, candidate[, choices, question]}."""
    from dhd_labels.grading.command import grade_line, grading_mode, write_results

    chosen = grading_mode(mode)
    failed = write_results(path, out, lambda row: grade_line(row, chosen), keep=True, say=typer.echo)
    raise typer.Exit(FAILED_RECORDS if failed else 0)


@app.command()
def extract(path: Lines, out: Out = None) -> None:
    """Extract the final answers of lines of {text, answer_type}."""
    from dhd_labels.grading.command import extract_line, write_results

    failed = write_results(path, out, extract_line, keep=False, say=typer.echo)
    raise typer.Exit(FAILED_RECORDS if failed else 0)


@app.command()
def simulate(
    problems: Annotated[int, typer.Option(metavar="N", help="Problems, each with one pool of five messages.")],
    blocks: Annotated[int, typer.Option(metavar="B", help="Matched blocks of each pool.")],
    name: Annotated[
        str, typer.Option("--scenario", metavar="NAME", help="null, correctness, reasoning, mixed or wording.")
    ],
    out: Annotated[Path, typer.Option(metavar="DATASET_DIR", help="Folder of the data set.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    draws: Annotated[int, typer.Option(help="Draws of each arm outside of blocks.")] = 1,
    difficulty: Annotated[str, typer.Option(help="equal, spread, unequal or near-deterministic.")] = "spread",
    pool_size_effect: Annotated[float, typer.Option(help="What each shown message adds to the logit of success.")] = 0,
    missing: Annotated[float, typer.Option(help="Share of outcomes without a verdict, of four kinds alike.")] = 0,
    benchmarks: Annotated[int, typer.Option(help="Number of benchmarks.")] = 1,
    actors: Annotated[int, typer.Option(help="Actors; each writes a pool for every problem.")] = 1,
    integrators: Annotated[int, typer.Option(help="Integrators; the n-th has effects 1/n as large.")] = 1,
    json: Json = False,
) -> None:
    """Write a data set with known true effects and the gain that is attainable at best. Asks no model."""
    from dhd_labels.simulate import scenario
    from dhd_labels.simulate.command import simulate_and_describe
    from dhd_labels.simulate.write import Plan

    world = scenario(
        name,
        difficulty=difficulty,
        pool_size_logit=pool_size_effect,
        missing=missing,
        benchmarks=benchmarks,
        actors=actors,
        integrators=integrators,
    )
    truth = simulate_and_describe(Plan(world, problems, blocks, seed, draws), out, None if json else console())
    if json:
        _print_json(truth)


@app.command()
def stats(
    labels: Labels,
    json: Annotated[
        str | None, typer.Option("--json", metavar="F", help="Write every table as JSON to F; `-` prints it instead.")
    ] = None,
) -> None:
    """Print every table of a data set: counts, rates with intervals, exact tests, and what was left out and why."""
    from dhd_labels.stats.command import compute, show, write_file, write_json

    found = compute(labels)
    if json == "-":
        write_json(found, sys.stdout)
        return
    if json is not None:
        write_file(found, Path(json))
    show(found, console())


@app.command()
def report(
    labels: Labels,
    out: Annotated[Path, typer.Option(metavar="D", help="Folder for the figures (PNG, SVG) and the page.")],
) -> None:
    """Write the tables of `stats` and their figures as one HTML page, which needs no other file."""
    from dhd_labels.report.page import write_report
    from dhd_labels.stats.command import compute

    written = write_report(compute(labels), out)
    screen = console()
    screen.print(f"Report: {written.page} ({len(written.figures)} figures beside it, PNG and SVG)", markup=False)


@app.command(name="check-token", hidden=True)
def check_token_command(repo: str) -> None:
    """Fail early, before a model is asked, when a push to REPO could not work. Used by `make labels REPO=...`."""
    from dhd_labels.dataset.hub import parse_repo
    from dhd_labels.dataset.publish import check_repository, check_token

    parse_repo(repo)
    name = check_token()
    check_repository(repo)
    console().print(f"Hugging Face token: ok, signed in as {name}.", markup=False)


def _print_summary(folder: Path, json: bool) -> int:
    """Print the totals of a run and return the exit code they call for."""
    from dhd_labels.dataset.build import read_results
    from dhd_labels.replay.directory import open_run
    from dhd_labels.report.disagreements import disagreement_rows
    from dhd_labels.report.summary import summarise

    directory = open_run(folder)
    totals = summarise(directory, read_results(directory))
    if json:
        _print_json(totals.as_json())
    else:
        screen = console()
        screen.print(totals.table().to_rich())
        screen.print(totals.model_table().to_rich())
        if totals.disagreements:
            screen.print(disagreement_rows(totals.disagreements).to_rich())
        for line in totals.lines():
            screen.print(line, markup=False)
    if totals.replays_done == 0:
        return NothingMadeError.exit_code
    return FAILED_RECORDS if totals.failed else 0


def _print_json(value: Any) -> None:
    typer.echo(jsonlib.dumps(value, indent=2, ensure_ascii=True, allow_nan=False))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    return run_app(app, argv, "python -m dhd_labels")


def entry() -> None:
    """Entry point of the `dhd-labels` script."""
    sys.exit(main())


if __name__ == "__main__":
    entry()
