"""Which messages are masked: by list, or by rule from the stable effects of the matched blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dhd_labels.config import RunConfig
from dhd_labels.config.run import MIN_BLOCKS
from dhd_labels.errors import DhdError, did_you_mean
from dhd_labels.records import MessageLabel
from dhd_labels.replay.collect import ProblemResult
from dhd_labels.replay.judge import NOT_ASKED
from dhd_labels.replay.plan import Target, derive_seed


def check_targets(config: RunConfig, problem_ids: Iterable[str]) -> None:
    """Refuse a listed target that is no problem of the run, before anything is paid.

    Raises:
        DhdError: the first such target.
    """
    known = set(problem_ids)
    for target in config.masking.targets if config.masking else ():
        if target.problem_id not in known:
            raise DhdError(
                f"The 'masking.targets' must name problems of this run, got {target.problem_id!r}. "
                + did_you_mean(target.problem_id, known, list_all=False)
            )


def why_not_yet(results: Iterable[ProblemResult], problems: int, max_attempts: int) -> str:
    """Return when a choice among all problems can be made, if not yet, or nothing.

    A rule that takes the strongest effects, or the most mixed problems, must have seen them all, or the choice would
    depend on where runs stopped.
    What a server failed to answer `max_attempts` times is given up here, though a run asks for it again.
    """
    run = waiting = missing = 0
    for result in results:
        run += 1
        waiting += result.pool is None and "server_error" in (result.reason or "") and result.asked < max_attempts
        missing += result.planned - result.planned_masked - len(result.outcomes)
        missing += sum(may_still_come(o.reason, o.attempts, max_attempts) for o in result.outcomes)
        missing += sum(p.graded is not None and may_still_come(p.graded.reason, 1, 2) for p in result.proposals)
    if run < problems:
        return f"once all {problems} problems are run, this time {run} were"
    if waiting or missing:
        return (
            f"once every replay is answered, {missing} replays and the pools of {waiting} problems are missing: run "
            "again"
        )
    return ""


def may_still_come(reason: str | None, attempts: int, max_attempts: int) -> bool:
    """Whether an answer or a verdict is missing that the next run may well get."""
    if reason == NOT_ASKED or (reason or "").startswith("evaluator: server_error"):
        return True
    return reason == "server_error" and attempts < max_attempts


def choose_targets(
    config: RunConfig, results: Iterable[ProblemResult], recorded: Sequence[Target], *, by_rule: bool = True
) -> list[Target]:
    """Return the targets that are to be recorded besides those that are; without `by_rule` only the listed ones.

    By rule: of each stable cell the messages with the strongest trajectory values, equal ones in an order given by a
    hash of the run seed; of the indeterminate ones any, in that order. A recorded target stays one when its label
    changes later, since its calls are paid for. A problem can have several targets. The masked draws are new draws, so
    the effect that chose a message is not measured with the outcomes that chose it.
    """
    masking = config.masking
    if masking is None:
        return []
    taken = {(target.problem_id, target.slot) for target in recorded}
    wanted = Counter[str](masking.cases if by_rule else {}) - Counter(target.cell for target in recorded if target.cell)
    listed = {(target.problem_id, target.slot) for target in masking.targets} - taken
    found: list[Target] = []
    candidates: dict[str, list[tuple[float, int, str, int]]] = {}
    for result in results:
        problem_id = result.problem.problem_id
        for label in result.labels(result.main_outcomes(), config.outcomes.no_answer):
            place = (problem_id, label.slot)
            if place in listed:
                found.append(Target(*place, None))
            elif (cell := _cell(label)) and place not in taken:
                strength = 0.0 if cell == "indeterminate" else -abs(label.trajectory_value or 0.0)
                order = derive_seed(config.seed, "mask", *place)
                candidates.setdefault(cell, []).append((strength, order, *place))
    for cell, count in wanted.items():
        found += [Target(problem_id, slot, cell) for *_, problem_id, slot in sorted(candidates.get(cell, []))[:count]]
    return sorted(found)


def _cell(label: MessageLabel) -> str | None:
    if label.n_blocks < MIN_BLOCKS:
        return None
    return "indeterminate" if label.stability == "indeterminate" else label.stable_cell
