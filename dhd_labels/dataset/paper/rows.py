"""From a row of `layer_a` and its row of `loo` to records. Both spellings: nested under `trace`, or flat.

Truth values are 0, 1, true, false or null; null is a missing outcome, never a wrong one. Outcomes are joined by arm,
never by position. Where the two files give different outcomes for one prefix, that removal has no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dhd_labels.dataset.paper.files import Line
from dhd_labels.errors import DhdError
from dhd_labels.labels import Proposal
from dhd_labels.records import POOL_SIZE, Arm, Message, Outcome, Pool, Problem, Replay, content_id
from dhd_labels.replay.collect import ProblemResult

NO_VERDICT = "null in the release"
CONTRADICTION = "layer_a and loo give different outcomes for this prefix"
_IDS = ("source_problem_id", "problem_id", "problem_uid")
_TEXTS = ("role_name", "reasoning_direction", "key_idea", "critical_assumption", "what_to_check", "confidence")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a release says of one arm: success (None: unknown), the answer as it was boxed, why it is unknown."""

    correct: bool | None
    answer: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of a campaign beside its rows: benchmark, model, licence terms of the problems."""

    benchmark: str
    model: str
    license: str
    train_allowed: bool
    commercial_use: bool | None


@dataclass(slots=True)
class Counts:
    """What was left out or doubtful, by reason."""

    by_reason: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, number: int = 1) -> None:
        """Count records with this reason."""
        self.by_reason[reason] = self.by_reason.get(reason, 0) + number


def problem_ids(line: Line) -> tuple[str, ...]:
    """Return the ids of a row, by one of which rows of the two files belong together; the first names the problem.

    Raises:
        DhdError: the row has none.
    """
    found = [line.row.get(name) for name in _IDS]
    ids = [str(i) for i in found if isinstance(i, str | int) and not isinstance(i, bool) and i != ""]
    if not ids:
        raise DhdError(
            f"{line.where}: the row must have a 'source_problem_id', 'problem_uid' or 'problem_id', got "
            f"{next((i for i in found if i is not None), None)!r}."
        )
    return tuple(dict.fromkeys(ids))


def to_result(layer: Line, loo: Line | None, source: Source, counts: Counts) -> ProblemResult:
    """Return what a release knows of one problem, as if it had been collected from a run of ours.

    Raises:
        DhdError: a value of another kind than the layout has; names the line.
    """
    key = problem_ids(layer)[0]
    problem = Problem(
        f"{source.benchmark}:{key}", source.benchmark, "", "", "text", (),
        source.license, source.train_allowed, source.commercial_use, redistribute_text=False,
    )  # fmt: skip
    trace = _mapping(layer, layer.row.get("trace", layer.row), "trace")
    hypotheses = [_mapping(layer, item, "hypotheses") for item in _list(layer, trace.get("hypotheses"), "hypotheses")]
    messages = tuple(_message(layer, slot, item) for slot, item in enumerate(hypotheses))
    if why := _why_no_pool(messages):
        counts.add(f"problem without a pool: {why}")
        return ProblemResult(problem, "no_pool", why, (), messages, None, (), (), (), 0)
    pool = Pool.of(problem.problem_id, source.model, messages)
    verdicts = _verdicts(layer, trace, hypotheses)
    if loo is None and "loo" in layer.row:  # the flat spelling may have both in one row
        loo = layer
    if loo is None:
        counts.add("problem without a row of loo")
    else:
        _add_removals(loo, verdicts, counts)
    proposals = tuple(_proposal(layer, item) for item in hypotheses)
    outcomes = tuple(_outcomes(pool, source.model, verdicts))
    for outcome in outcomes:
        if outcome.correct is None:
            counts.add(f"replay: {outcome.reason}")
    return ProblemResult(problem, "ok", None, (), messages, pool, proposals, outcomes, (), len(outcomes))


def truth(line: Line, value: Any, name: str) -> bool | None:
    """Return a truth value of the release.

    Raises:
        DhdError: it is none of 0, 1, true, false and null.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    raise DhdError(f"{line.where}: the {name!r} must be 0, 1, true, false or null, got {str(value)[:40]!r}.")


def _message(line: Line, slot: int, item: Mapping[str, Any]) -> Message:
    texts = {name: _text(line, item.get(name), name) for name in _TEXTS}
    answer = item.get("proposed_answer_extracted") or item.get("proposed_answer")
    whole = item.get("parse_complete")
    return Message(
        slot=slot, lens="", raw="", status="parse_failed" if whole is not None and not whole else "ok",
        proposed_answer=_text(line, answer, "proposed_answer"), **texts,
    )  # fmt: skip


def _why_no_pool(messages: Sequence[Message]) -> str | None:
    if len(messages) != POOL_SIZE:
        return f"{len(messages)} messages instead of {POOL_SIZE}"
    empty = [str(message.slot) for message in messages if not message.renderable]
    return f"nothing to show in the messages {', '.join(empty)}" if empty else None


def _proposal(line: Line, item: Mapping[str, Any]) -> Proposal:
    correct = truth(line, item.get("proposal_correctness"), "proposal_correctness")
    return Proposal("undetermined" if correct is None else "graded", correct)


def _verdicts(line: Line, trace: Mapping[str, Any], hypotheses: Sequence[Mapping[str, Any]]) -> dict[str, Verdict]:
    """Return the outcomes of `layer_a` by the name of the arm."""
    found: dict[str, Verdict] = {}
    if "no_hypothesis_baseline" in trace:
        base = _mapping(line, trace["no_hypothesis_baseline"] or {}, "no_hypothesis_baseline")
        found[Arm.alone().name] = _verdict(line, base, "correct", "integrator_boxed")
    for item in _list(line, trace.get("committee_outcomes") or [], "committee_outcomes"):
        outcome = _mapping(line, item, "committee_outcomes")
        k = _number(line, outcome.get("committee_size"), "committee_size", 0, POOL_SIZE)
        arm = Arm.prefix(k) if k else Arm.alone()
        found[arm.name] = _verdict(line, outcome, "correct", "integrator_boxed")
    for slot, item in enumerate(hypotheses):
        if "single_hyp_integrator_correct" in item:
            found[Arm.only(slot).name] = _verdict(
                line, item, "single_hyp_integrator_correct", "single_hyp_integrator_boxed"
            )
    full = Arm.full().name
    final = line.row.get("outcome")
    if full not in found and isinstance(final, Mapping) and "final_correct" in final:
        found[full] = _verdict(line, final, "final_correct", "final_answer")
    return found


def _add_removals(line: Line, verdicts: dict[str, Verdict], counts: Counts) -> None:
    """Add the outcomes of `loo`; one that contradicts `layer_a` about the prefix is left without a verdict."""
    seen = set()
    for item in _list(line, line.row.get("loo") or [], "loo"):
        row = _mapping(line, item, "loo")
        k = _number(line, row.get("K"), "K", 2, POOL_SIZE)
        arm = Arm.without(_number(line, row.get("removed_h_index"), "removed_h_index", 0, k - 1), k)
        if arm.name in seen:
            raise DhdError(f"{line.where}: a removal must be there once, got {arm.name} again.")
        seen.add(arm.name)
        full, without = truth(line, row.get("fullK_correct"), "fullK_correct"), _verdict(
            line, row, "minus_i_correct", "minus_i_boxed"
        )  # fmt: skip
        prefix = Arm.prefix(k).name
        known = verdicts.get(prefix)
        if known is None or known.correct is None:
            verdicts[prefix] = Verdict(full, known.answer if known else None, None if full is not None else NO_VERDICT)
        elif full is not None and full != known.correct:
            counts.add(CONTRADICTION)
            without = Verdict(None, without.answer, CONTRADICTION)
        verdicts[arm.name] = without


def _verdict(line: Line, item: Mapping[str, Any], correct: str, answer: str) -> Verdict:
    found = truth(line, item.get(correct), correct)
    text = item.get(answer)
    return Verdict(found, None if text is None else str(text), NO_VERDICT if found is None else None)


def _outcomes(pool: Pool, model: str, verdicts: Mapping[str, Verdict]) -> Iterator[Outcome]:
    """Yield outcomes in the order of the plan; the release says neither seeds nor tokens."""
    for arm in _arms():
        if (verdict := verdicts.get(arm.name)) is not None:
            replay = Replay(pool.problem_id, pool.pool_id, arm, model, "original", None, 0, None, arm.name)
            yield Outcome(
                replay, "operational" if verdict.correct is None else "graded", verdict.reason, verdict.answer,
                verdict.correct, None, None, None, None, 0, model, "evaluator",
                call_key=content_id([pool.pool_id, model, arm.name]),
                score=None if verdict.correct is None else float(verdict.correct),
            )  # fmt: skip


def _arms() -> Iterator[Arm]:
    yield Arm.alone()
    yield from (Arm.prefix(k) for k in range(1, POOL_SIZE + 1))
    yield from (Arm.only(slot) for slot in range(POOL_SIZE))
    yield from (Arm.without(slot, k) for k in range(2, POOL_SIZE + 1) for slot in range(k))


def _mapping(line: Line, value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise DhdError(f"{line.where}: the {name!r} must be a JSON object, got {str(value)[:40]!r}.")
    return value


def _list(line: Line, value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise DhdError(f"{line.where}: the {name!r} must be a list, got {str(value)[:40]!r}.")
    return value


def _number(line: Line, value: Any, name: str, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise DhdError(f"{line.where}: the {name!r} must be a number from {low} to {high}, got {str(value)[:40]!r}.")
    return value


def _text(line: Line, value: Any, name: str) -> str:
    """Return a text field; numbers and lists of texts, which models also give, are written out."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n".join(value)
    raise DhdError(f"{line.where}: the {name!r} must be a text, got {type(value).__name__}.")
