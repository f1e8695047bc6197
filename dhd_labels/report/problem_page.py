"""One problem of a run for a person: roles, messages, prompts, answers, verdicts, labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from dhd_labels.engines.base import Turn
from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.grading.grader import grade_by_rules
from dhd_labels.labels import Proposal, grade_proposal
from dhd_labels.protocol.roles import hypothesizer_calls, recruiter_call, replay_call
from dhd_labels.records import Problem, Replay, as_json
from dhd_labels.replay.collect import ProblemResult, collect_problem
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.plan import study_of
from dhd_labels.report.table import Table
from dhd_labels.text import clean, one_line


def find_result(directory: RunDirectory, problem_id: str) -> ProblemResult:
    """Return the result of one problem; the benchmark prefix of its id may be left out.

    Raises:
        DhdError: the run has no such problem.
    """
    store = directory.open_store()
    try:
        problems = {p.problem_id: p for p in store.problems()}
        problem = problems.get(problem_id) or _by_suffix(problems, problem_id)
        if problem is None:
            raise DhdError(f"The run has no problem {problem_id!r}. {did_you_mean(problem_id, problems)}")
        return collect_problem(store, directory.config, directory.models, problem)
    finally:
        store.close()


def page_json(directory: RunDirectory, result: ProblemResult) -> dict[str, Any]:
    """Return everything known of a problem as plain data."""
    labels = _labels(directory, result)
    return {
        "problem": as_json(result.problem),
        "status": result.status,
        "reason": result.reason,
        "roles": [as_json(role) for role in result.roles],
        "messages": [as_json(message) for message in result.messages],
        "prompts": {name: [as_json(turn) for turn in turns] for name, turns in _prompts(directory, result)},
        "outcomes": [as_json(outcome) for outcome in (*result.outcomes, *result.masked)],
        "labels": [as_json(label) for label in labels],
    }


def print_page(directory: RunDirectory, result: ProblemResult, console: Console, prompts: bool) -> None:
    """Print a problem. Text of models is shown, never obeyed as markup."""
    problem = result.problem
    _say(console, f"{problem.problem_id} ({problem.benchmark}, {problem.answer_type})")
    _say(console, problem.question)
    for letter, choice in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", problem.choices, strict=False):
        _say(console, f"  {letter}. {choice}")
    _say(console, f"Reference: {problem.reference}")
    if result.status != "ok":
        _say(console, f"No labelled pool. {result.status}: {result.reason}")
    console.print(_message_table(result).to_rich())
    if result.outcomes:
        console.print(_label_table(directory, result).to_rich())
        console.print(_outcome_table(result).to_rich())
    if prompts:
        for name, turns in _prompts(directory, result):
            _say(console, f"\n--- prompt: {name}")
            for turn in turns:
                _say(console, f"[{turn.role}]\n{turn.content}")


def _by_suffix(problems: dict[str, Problem], wanted: str) -> Problem | None:
    found = [p for key, p in problems.items() if key.partition(":")[2] == wanted]
    return found[0] if len(found) == 1 else None


def _labels(directory: RunDirectory, result: ProblemResult) -> list[Any]:
    return result.labels(result.main_outcomes(), directory.config.outcomes.no_answer)


def _prompts(directory: RunDirectory, result: ProblemResult) -> Iterator[tuple[str, tuple[Turn, ...]]]:
    """Yield the prompts as they went out: recruiter, five hypothesizers, alone and full pool."""
    config, problem = directory.config, result.problem.visible()
    yield "recruiter", recruiter_call(config, problem).turns
    for call in hypothesizer_calls(config, problem, result.roles):
        yield call.ticket.partition("/")[2], call.turns
    if result.pool:
        shown: set[str] = set()
        for replay in (o.replay for o in (*result.outcomes, *result.masked)):
            name = _prompt_name(replay)
            if replay.arm.name in ("alone", "full") and name not in shown:
                shown.add(name)
                yield name, replay_call(config, problem, result.pool, replay).turns


def _prompt_name(replay: Replay) -> str:
    """Return the name of a prompt: who reads it, which messages in which order, and what of them is masked."""
    name = f"{replay.role}, {replay.arm.name}"
    if replay.order != "original":
        name += f", {replay.order}"
    if replay.mask and replay.mask.condition not in ("full", "repeat"):
        name += f", message {replay.mask.target} {replay.mask.condition}"
    return name


def _proposals(result: ProblemResult) -> list[Proposal]:
    """Return the verdicts on the messages; without a pool nothing is labelled, so only the rules look at them."""
    if result.pool:
        return list(result.proposals)
    return [grade_proposal(result.problem, message, grade_by_rules) for message in result.messages]


def _message_table(result: ProblemResult) -> Table:
    rows = []
    for m, proposal in zip(result.messages, _proposals(result), strict=True):
        status, correct = proposal.status, proposal.correct
        verdict = status if correct is None else "correct" if correct else "wrong"
        text = one_line(" / ".join(t for t in (m.reasoning_direction, m.key_idea) if t), 90)
        rows.append((str(m.slot), one_line(m.role_name, 30), m.status, one_line(m.proposed_answer, 20), verdict, text))
    return Table("Messages", ("slot", "role", "status", "answer", "proposal", "reasoning"), tuple(rows))


def _label_table(directory: RunDirectory, result: ProblemResult) -> Table:
    rows = tuple(
        (
            str(label.slot),
            _signed(label.single_effect),
            _signed(label.in_pool_effect),
            _signed(label.trajectory_value),
            f"[{_signed(label.ci_low)}, {_signed(label.ci_high)}]",
            str(label.n_blocks),
            label.stability,
            label.cell or "-",
        )
        for label in _labels(directory, result)
    )
    columns = ("slot", "single", "in pool", "trajectory value", "95 % interval", "blocks", "stability", "cell")
    return Table("Labels (success with minus success without)", columns, rows)


def _outcome_table(result: ProblemResult) -> Table:
    rows = []
    for o in (*result.outcomes, *result.masked):
        block = "-" if o.replay.block is None else str(o.replay.block)
        study = study_of(o.replay)
        if o.replay.mask:
            study += f" {o.replay.mask.target}: {o.replay.mask.condition}"  # type: ignore[assignment]
        verdict = o.reason or o.status if o.correct is None else "correct" if o.correct else "wrong"
        answer = one_line(o.answer or "-", 30)
        rows.append((study, o.replay.arm.name, block, str(o.replay.draw), answer, verdict, str(o.cached_tokens)))
    return Table("Replays", ("study", "arm", "block", "draw", "answer", "verdict", "cached tokens"), tuple(rows))


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _say(console: Console, text: str) -> None:
    """Print untrusted text: shown, never obeyed by the terminal."""
    console.print(clean(text), markup=False, highlight=False)
