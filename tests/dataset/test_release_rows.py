from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dhd_labels.dataset.paper.files import Line, campaigns, is_release, lines
from dhd_labels.dataset.paper.rows import CONTRADICTION, NO_VERDICT, Counts, Source, to_result
from dhd_labels.errors import DhdError
from dhd_labels.replay.collect import ProblemResult
from tests.dataset.releases import problem, write_part, write_release

SOURCE = Source("jeebench", "gpt_oss_120b", "mit", True, False)


def result(layer: dict[str, Any], loo: dict[str, Any] | None, counts: Counts | None = None) -> ProblemResult:
    return to_result(Line("layer_a 1", layer), loo and Line("loo 1", loo), SOURCE, counts or Counts())


def outcomes(found: ProblemResult) -> dict[str, bool | None]:
    return {o.replay.arm.name: o.correct for o in found.outcomes}


@pytest.mark.parametrize("flat", [False, True])
def test_every_outcome_arrives_at_its_arm(flat: bool) -> None:
    layer, loo = problem("p", np.random.default_rng(3), flat=flat)
    found = result(layer, loo)
    trace = layer if flat else layer["trace"]
    expected = {"alone": trace["no_hypothesis_baseline"]["correct"]}
    expected |= {
        "full" if c["committee_size"] == 5 else f"prefix-{c['committee_size']}": c["correct"]
        for c in trace["committee_outcomes"]
    }
    expected |= {f"only-{s}": h["single_hyp_integrator_correct"] for s, h in enumerate(trace["hypotheses"])}
    expected |= {f"without-{r['removed_h_index']}-of-{r['K']}": r["minus_i_correct"] for r in loo["loo"]}
    assert outcomes(found) == {arm: bool(value) for arm, value in expected.items()}
    assert [p.correct for p in found.proposals] == [bool(h["proposal_correctness"]) for h in trace["hypotheses"]]
    labels = found.labels(found.outcomes, "missing")
    for label, row in zip(labels, loo["loo"][-5:], strict=True):
        assert label.in_pool_effect == row["delta_loo"]
        assert label.trajectory_value is None
        assert label.trajectory_value_reason == "no complete block"


def test_the_order_of_the_removals_does_not_matter() -> None:
    layer, loo = problem("p", np.random.default_rng(4))
    shuffled = copy.deepcopy(loo)
    shuffled["loo"].reverse()
    assert outcomes(result(layer, loo)) == outcomes(result(layer, shuffled))


def test_null_is_missing_and_never_wrong() -> None:
    layer, loo = problem("p", np.random.default_rng(5))
    layer["trace"]["no_hypothesis_baseline"]["correct"] = None
    layer["trace"]["hypotheses"][1]["proposal_correctness"] = None
    loo["loo"][-1]["minus_i_correct"] = None
    counts = Counts()
    found = result(layer, loo, counts)
    assert outcomes(found)["alone"] is None
    assert outcomes(found)["without-4-of-5"] is None
    assert (found.proposals[1].status, found.proposals[1].correct) == ("undetermined", None)
    labels = found.labels(found.outcomes, "missing")
    assert labels[4].in_pool_effect is None
    assert all(label.single_effect is None and label.single_effect_reason for label in labels)
    assert counts.by_reason == {f"replay: {NO_VERDICT}": 2}


def test_a_prefix_that_both_files_tell_differently_has_no_removal() -> None:
    layer, loo = problem("p", np.random.default_rng(6))
    row = loo["loo"][-2]
    row["fullK_correct"] = not row["fullK_correct"]
    counts = Counts()
    found = result(layer, loo, counts)
    assert outcomes(found)["without-3-of-5"] is None
    assert outcomes(found)["full"] == layer["trace"]["committee_outcomes"][-1]["correct"]
    assert counts.by_reason[CONTRADICTION] == 1


def test_a_prefix_that_only_loo_knows_is_taken_from_there() -> None:
    layer, loo = problem("p", np.random.default_rng(7))
    full = layer["trace"]["committee_outcomes"].pop()
    del layer["outcome"]
    assert outcomes(result(layer, loo))["full"] == full["correct"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda h: h.pop(), "4 messages instead of 5"),
        (
            lambda h: h[2].update({k: " " for k in h[2] if isinstance(h[2][k], str)}),
            "nothing to show in the messages 2",
        ),
    ],
)
def test_a_pool_that_is_none_is_left_out_and_counted(spoil: Any, why: str) -> None:
    layer, loo = problem("p", np.random.default_rng(8))
    spoil(layer["trace"]["hypotheses"])
    counts = Counts()
    found = result(layer, loo, counts)
    assert (found.status, found.reason, found.pool) == ("no_pool", why, None)
    assert counts.by_reason == {f"problem without a pool: {why}": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: b["loo"][0].update(minus_i_correct="yes"), "'minus_i_correct' must be 0, 1, true, false or null"),
        (lambda a, b: b["loo"][0].update(removed_h_index=5), "'removed_h_index' must be a number from 0 to 1"),
        (lambda a, b: b["loo"][0].update(K=6), "'K' must be a number from 2 to 5"),
        (lambda a, b: b["loo"].append(b["loo"][0]), "must be there once, got without-0-of-2 again"),
        (lambda a, b: a["trace"].update(hypotheses=None), "'hypotheses' must be a list"),
        (lambda a, b: a["trace"]["hypotheses"].__setitem__(0, 3), "'hypotheses' must be a JSON object"),
        (lambda a, b: a["trace"]["hypotheses"][0].update(key_idea={"a": 1}), "'key_idea' must be a text"),
        (lambda a, b: a.pop("source_problem_id") and a.pop("problem_uid"), "must have a 'source_problem_id'"),
        (lambda a, b: a["trace"]["committee_outcomes"][0].update(correct=2), "'correct' must be 0, 1, true"),
    ],
)
def test_a_value_of_another_kind_is_named_with_its_line(change: Any, message: str) -> None:
    layer, loo = problem("p", np.random.default_rng(9))
    change(layer, loo)
    with pytest.raises(DhdError, match=rf"^(layer_a|loo) 1: .*{message}"):
        result(layer, loo)


def test_files_are_found_and_read_compressed_or_not(tmp_path: Path) -> None:
    assert not is_release(tmp_path)
    for folder, suffix in ((tmp_path / "a", ".jsonl.zst"), (tmp_path / "b", ".jsonl")):
        write_release(folder, suffix=suffix)
        assert is_release(folder)
        first, second = campaigns(folder)
        assert (first.benchmark, first.model, len(first.layer_a), len(first.loo)) == ("jeebench", "gpt_oss_120b", 2, 1)
        assert (second.benchmark, second.model) == ("labbench", "gemma_4_31b")
        rows = [line for path in first.layer_a for line in lines(path)]
        assert [line.row["source_problem_id"] for line in rows] == [f"jeebench-{n}" for n in range(6)]
        assert rows[1].where.startswith("raw/jeebench/dhd/gpt_oss_120b/layer_a/part-00000.jsonl")
        assert rows[1].where.endswith(", line 2")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write_part(tmp_path / "part-00000.jsonl.zst", [{"a": n, "b": "x" * 200} for n in range(2000)])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DhdError, match="part-00000.jsonl.zst"):
        list(lines(path))
    for row, message in (("[1]", "must be a JSON object, got list"), ("{1", "line 2: the line must be JSON")):
        path = tmp_path / "part-00001.jsonl"
        path.write_text('{"a": 1}\n' + row + "\n")
        with pytest.raises(DhdError, match=message):
            list(lines(path))
