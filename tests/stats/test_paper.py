"""The published aggregates, computed again by our functions and printed to as many digits."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from dhd_labels.stats.intervals import wilson
from dhd_labels.stats.tables.taxonomy import Flips
from tests.bench.calibration.published import BENCHMARKS, PUBLISHED
from tests.fact_files import Facts, find_facts


@pytest.fixture(scope="module")
def facts() -> Facts:
    return find_facts()


def table(facts: Facts, name: str) -> list[dict[str, str]]:
    with facts.path(f"paper/{name}").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def headline(facts: Facts) -> Any:
    return json.loads(facts.path("paper/headline.json").read_text(encoding="utf-8"))


def counts(row: dict[str, str]) -> Flips:
    return Flips(*(int(row[name]) for name in ("helpful", "neutral", "harmful")))


def printed(value: float | None, digits: int) -> str:
    assert value is not None
    return f"{100 * value:.{digits}f}"


def test_shares_and_flip_rates(facts: Facts) -> None:
    rows = table(facts, "flip_direction.csv")
    assert len(rows) == 8
    for row in rows:
        found = counts(row)
        assert found.eligible == int(row["eligible"])
        assert printed(found.helpful_share, 4) == row["helpful_share_among_flips_pct"]
        assert printed(found.rate, 4) == row["flip_rate_pct"]


def test_the_benchmarks_add_up_to_the_pooled_leave_one_out_rows(facts: Facts) -> None:
    by_benchmark = table(facts, "taxonomy_by_benchmark.csv")
    assert len(by_benchmark) == 20
    for row in table(facts, "flip_direction.csv"):
        if row["replay"] == "loo":
            parts = [
                counts(r)
                for r in by_benchmark
                if (r["model"], r["proposal_correctness"]) == (row["model"], row["proposal_correctness"])
            ]
            total = Flips(*(sum(getattr(p, name) for p in parts) for name in ("helpful", "neutral", "harmful")))
            assert total == counts(row)
    assert all(counts(row).eligible == int(row["eligible"]) for row in by_benchmark)


def test_the_wilson_interval_of_identical_inputs(facts: Facts) -> None:
    published = headline(facts)["repeated_replay"]["same_input_disagreement"]["Gemma"]
    low, high = wilson(published["count"], published["of"])
    assert printed(published["count"] / published["of"], 2) == f"{published['pct']:.2f}"
    assert [printed(float(end), 2) for end in (low, high)] == [f"{end:.2f}" for end in published["wilson95"]]


def test_the_rates_that_calibration_simulates_are_the_published_ones(facts: Facts) -> None:
    taxonomy, flips, found = (
        table(facts, "taxonomy_by_benchmark.csv"),
        table(facts, "flip_direction.csv"),
        headline(facts),
    )
    for model, rates in PUBLISHED.items():
        for name in ("wrong", "correct"):
            rows = {r["benchmark"]: r for r in taxonomy if (r["model"], r["proposal_correctness"]) == (model, name)}
            assert rates.loo[name] == tuple(counts(rows[benchmark]) for benchmark in BENCHMARKS)
            (row,) = (
                r for r in flips if (r["model"], r["replay"], r["proposal_correctness"]) == (model, "single", name)
            )
            assert rates.single[name] == counts(row)
        accuracy = [found["accuracy_pct"][model][benchmark] for benchmark in BENCHMARKS]
        assert [100 * rate for rate in rates.alone] == pytest.approx([a["k0"] for a in accuracy])
        assert [100 * rate for rate in rates.full] == pytest.approx([a["k5"] for a in accuracy])
        removal = found["cross_fitted_one_removal"][model]
        assert 100 * rates.kept == pytest.approx(removal["full_pct"])
        by_benchmark = [removal["by_benchmark_gain"][benchmark] for benchmark in BENCHMARKS]
        assert [100 * gain for gain in rates.gain] == pytest.approx(by_benchmark)
        assert 100 * sum(rates.gain) / len(BENCHMARKS) == pytest.approx(removal["gain_points"], abs=0.005)
    repeats = found["repeated_replay"]
    assert 100 * PUBLISHED["OSS"].disagreement == pytest.approx(repeats["same_input_disagreement"]["OSS_pct"])
    gemma = repeats["same_input_disagreement"]["Gemma"]
    assert PUBLISHED["Gemma"].disagreement == gemma["count"] / gemma["of"]
    assert PUBLISHED["OSS"].value == {name: v["mean"] for name, v in repeats["oss_mean_trajectory_value"].items()}


def test_the_shares_behind_the_published_clustered_intervals(facts: Facts) -> None:
    """The intervals need the raw rows; the shares they are about do not."""
    rows = {
        (r["model"], r["proposal_correctness"]): r for r in table(facts, "flip_direction.csv") if r["replay"] == "loo"
    }
    for name, published in headline(facts)["pooled_flip_share_ci95_problem_clustered"].items():
        model, proposal = name.split("_")
        assert printed(counts(rows[model, proposal]).helpful_share, 2) == f"{published['share_pct']:.2f}"
