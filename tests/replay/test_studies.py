"""Whole runs of every study on the oracle world: known labels, known masked success, shared calls, resume."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support import EVERYTHING, SOLVER, oracle

from dhd_labels import oracle as world_module
from dhd_labels.dataset import rows
from dhd_labels.dataset.build import build
from dhd_labels.dataset.load import load
from dhd_labels.oracle import Seen, World
from dhd_labels.records import Outcome
from dhd_labels.replay.collect import ProblemResult, collect
from dhd_labels.replay.plan import study_of
from dhd_labels.replay.run import RunReport, run
from tests.replay.test_run import Spy

EXACT = ("engines.world.world=exact", f"engines.other={SOLVER % 'exact'}")


def results(report: RunReport) -> list[ProblemResult]:
    store = report.directory.open_store()
    found = list(collect(store, report.directory.config, report.directory.models))
    store.close()
    return found


def number_of(result: ProblemResult) -> int:
    return int(result.problem.problem_id.partition(":")[2])


def masked_truth(world: World, number: int, outcome: Outcome) -> float:
    """Success when the target is masked, from the world and the meaning of each condition alone."""
    mask = outcome.replay.mask
    assert mask
    seen = []
    for slot in range(5):
        answer, reasoning = bool(world.clues(number)[slot].answer), True
        if slot == mask.target:
            if mask.condition in ("removal", "neutral"):
                continue
            answer = answer and mask.condition != "answer_masked"
            reasoning = mask.condition != "reasoning_masked"
        seen.append(Seen(slot, answer, reasoning))
    return world.success_seeing(number, tuple(seen))


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    return run(oracle(*EVERYTHING, *EXACT), tmp_path_factory.mktemp("exact"))


def test_every_label_of_the_exact_world_is_the_known_one(exact: RunReport) -> None:
    own, other = World("exact"), World("exact", solver=5)
    counted = Counter[str]()
    for result in results(exact):
        number = number_of(result)
        for (integrator, order), outcomes in result.groups().items():
            world = own if integrator == "scripted-exact" else other
            for label in result.labels(outcomes, "missing"):
                truth = world.trajectory_value(number, label.slot, reverse=order == "reversed")
                assert label.trajectory_value == truth, (number, label.slot, integrator, order)
                counted[f"{integrator} {order}"] += 1
        for outcome in result.main_outcomes():
            assert outcome.graded_by == "evaluator"
            assert outcome.correct is bool(own.success_probability(number, outcome.replay.shown)), outcome.replay.arm
    assert counted == {"scripted-exact original": 250, "scripted-exact reversed": 40, "scripted-exact-5 original": 40}
    places = [(number, slot) for number in range(50) for slot in range(5)]
    assert any(own.trajectory_value(*at, reverse=True) != own.trajectory_value(*at) for at in places)


def test_masked_outcomes_of_the_exact_world_are_the_known_ones(exact: RunReport) -> None:
    world = World("exact")
    seen: dict[str, set[float]] = {}
    n = 0
    for result in results(exact):
        for outcome in result.masked:
            truth = masked_truth(world, number_of(result), outcome)
            assert outcome.correct is bool(truth), outcome.replay
            mask = outcome.replay.mask
            assert mask
            seen.setdefault(mask.condition, set()).add(truth)
            n += 1
    store = exact.directory.open_store()
    targets = store.targets()
    store.close()
    assert n == len(targets) * 2 * 8
    assert Counter(t.cell for t in targets) == {"wrong_helpful": 4, "correct_harmful": 2, "indeterminate": 2}
    assert all(values == {0.0, 1.0} for values in seen.values()), "every condition must occur with both ends"


def test_the_plan_counted_the_calls_that_were_made(exact: RunReport) -> None:
    from dhd_labels.replay.estimate import plan_run

    planned = {role.role: role for role in plan_run(exact.directory.config).roles}
    store = exact.directory.open_store()
    made: Counter[str] = Counter()
    for row in store.totals():
        made[row["role"]] += row["calls"]
    store.close()
    assert set(made) == set(planned)
    for name, role in planned.items():
        assert made[name] <= role.calls if role.at_most else made[name] == role.calls, name


def test_a_shared_call_is_paid_once_and_marked(exact: RunReport) -> None:
    for result in results(exact):
        main = [o for o in result.main_outcomes() if study_of(o.replay) == "main"]
        assert len(main) == 25
        keys: dict[str, set[tuple[int, ...]]] = {}
        for outcome in main:
            keys.setdefault(outcome.call_key, set()).add(outcome.replay.arm.kept)
        assert len(keys) == 19 and all(len(kept) == 1 for kept in keys.values())
        matched = [o.call_key for o in result.outcomes if o.replay.block is not None]
        assert len(set(matched)) == len(matched), "a draw of a block is never another's answer"


def test_a_second_run_of_everything_makes_no_call_and_builds_the_same_rows(
    exact: RunReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [list(rows.replay_rows(result)) for result in results(exact)]
    spy = Spy(monkeypatch)
    again = run(exact.directory.config, exact.directory.path)
    assert spy.seen == [] and again.tally.made == 0
    assert [list(rows.replay_rows(result)) for result in results(again)] == before
    build(again.directory, tmp_path / "data")
    masking = load(tmp_path / "data", "masking")
    assert sum(split.num_rows for split in masking.values()) == 8 * 2 * 8
    frame = masking["train"].to_pandas()
    assert set(frame["condition"]) == {"full", "repeat", "removal", "neutral", "answer_masked", "reasoning_masked"}
    assert not frame.loc[frame["condition"].isin(["full", "repeat"]), "changed"].any()
    card = (tmp_path / "data" / "README.md").read_text()
    for words in ("Sensitivity of trajectory values", "Component masking", "in reversed order", "scripted-exact-5"):
        assert words in card


def test_the_stochastic_world_matches_in_expectation(tmp_path: Path) -> None:
    """Errors of all labels average to 0 and spread as binomial sampling says, for every study."""
    report = run(oracle(*EVERYTHING, "sensitivity.order.problems=50", "sensitivity.integrator.problems=50"), tmp_path)
    own, other = World("stochastic"), World("stochastic", solver=5)
    errors: dict[str, list[float]] = {}
    variances: dict[str, list[float]] = {}
    masked: list[float] = []
    for result in results(report):
        number = number_of(result)
        for outcome in result.outcomes:
            study = study_of(outcome.replay)
            truth = (other if study == "integrator" else own).success_probability(number, outcome.replay.shown)
            errors.setdefault(study, []).append(float(bool(outcome.correct)) - truth)
            variances.setdefault(study, []).append(truth * (1 - truth))
        masked += [float(bool(o.correct)) - masked_truth(own, number, o) for o in result.masked]
    for study, found in errors.items():
        # Outcomes are independent but for shared calls of the main pass, which make at most 37/25 of the variance.
        standard_error = np.sqrt(1.5 * np.sum(variances[study])) / len(found)
        assert abs(np.mean(found)) < 4 * standard_error, (study, np.mean(found), standard_error)
    assert set(errors) == {"main", "blocks", "order", "integrator"}
    assert len(masked) >= 5 * 2 * 8 and abs(np.mean(masked)) < 4 * 0.5 / np.sqrt(len(masked))


def test_no_prompt_holds_a_reference_or_another_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over every prompt of a run with every role: only the evaluator sees the reference."""
    spy = Spy(monkeypatch)
    # Without right proposals no message carries the reference either, so no other prompt may hold it.
    nothing = world_module.Clue("no idea", None, 0.3)
    monkeypatch.setattr(World, "clues", lambda self, n: tuple(nothing for _ in range(5)))
    listed = "masking={repeats: 1, targets: [{problem_id: 'oracle:001', slot: 2}]}"
    run(oracle(*EVERYTHING, listed, "benchmark.size=6"), tmp_path)
    references = {n: World("stochastic").reference(n) for n in range(50)}
    kinds = Counter[str]()
    for request in spy.seen:
        text = "\n".join(turn.content for turn in request.turns)
        kind = text.splitlines()[0]
        kinds[kind] += 1
        if kind == "# Evaluator":
            assert not any(words in text for words in ("card number", "Reader", "clue", "Message"))
            continue
        assert references[world_module.card_number(text)] not in text
        if kind != "# Integrator":
            assert world_module.visible_clues(text) == (), "recruiter and hypothesizers see no message"
            assert text.count("Reader ") <= 1, "a hypothesizer sees its own role only"
    assert set(kinds) == {"# Recruiter", "# Hypothesizer", "# Integrator", "# Evaluator"}
    assert kinds["# Evaluator"] == len({r.turns for r in spy.seen if r.turns[0].content.startswith("# Evaluator")})


def test_masked_messages_do_not_depend_on_where_runs_stopped(tmp_path: Path) -> None:
    config = oracle(*EVERYTHING, *EXACT)
    first = run(config, tmp_path, limit=12)
    assert "once all 50 problems are run" in first.note
    whole = run(config, tmp_path)
    fresh = run(config, tmp_path / "fresh")
    chosen = [[target for result in results(report) for target in result.targets] for report in (first, whole, fresh)]
    assert chosen[1] == chosen[2] and whole.note == ""
    assert Counter(t.cell for t in chosen[1]) == {"wrong_helpful": 4, "correct_harmful": 2, "indeterminate": 2}
    assert [r.outcomes for r in results(whole)] == [r.outcomes for r in results(fresh)]


def test_a_limited_run_tries_every_study_of_every_benchmark(tmp_path: Path) -> None:
    config = oracle(*EVERYTHING, "masking=null", "protocol.repeat_problems=10")
    report = run(config, tmp_path, limit=2)
    assert {study_of(o.replay) for r in results(report) for o in r.outcomes} == {
        "main",
        "blocks",
        "order",
        "integrator",
    }
    whole = run(config, tmp_path)
    assert sum(any(study_of(o.replay) == "blocks" for o in r.outcomes) for r in results(whole)) == 10


def test_renumbering_counts_the_shown_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for renumber in ("true", "false"):
        spy = Spy(monkeypatch)
        run(oracle(f"protocol.renumber={renumber}", "benchmark.size=1", "protocol.blocks=1"), tmp_path / renumber)
        for request in spy.seen:
            text = request.turns[-1].content
            numbers = [int(line.split()[1].rstrip(",")) for line in text.splitlines() if line.startswith("Message ")]
            shown = [seen.slot for seen in world_module.seen_clues(text)]
            assert numbers == ([n + 1 for n in range(len(shown))] if renumber == "true" else [s + 1 for s in shown])


def test_a_masked_message_keeps_its_words_lines_and_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    listed = "masking={repeats: 1, targets: [{problem_id: 'oracle:000', slot: 2}]}"
    run(oracle("benchmark.size=1", "protocol.blocks=1", listed), tmp_path)
    masked = [r.turns[-1].content for r in spy.seen[-8:]]
    shapes = {tuple(len(line.split()) for line in text.splitlines()) for text in masked if text.count("Message ") == 5}
    assert len(shapes) == 1 and len(set(masked)) == 5, "full and repeat are one text, four others differ"
    assert sum(text.count("Message ") == 4 for text in masked) == 1


def test_a_run_without_blocks_has_single_draw_effects_only(tmp_path: Path) -> None:
    report = run(oracle("protocol.blocks=0", "protocol.prefix_draws=1", "protocol.without_draws=1"), tmp_path, limit=3)
    for result in results(report):
        for label in result.labels(result.main_outcomes(), "missing"):
            assert label.in_pool_effect is not None and label.trajectory_value is None
            assert label.trajectory_value_reason == "no complete block" and label.stability == "indeterminate"
