"""Every table against a slow count over plain rows, which shares no code with it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from support import EVERYTHING, oracle

from dhd_labels.dataset.build import build
from dhd_labels.dataset.columns import open_source
from dhd_labels.replay.run import run
from dhd_labels.simulate.worlds import scenario
from dhd_labels.stats.tables.accuracy import accuracy_tables, plurality
from dhd_labels.stats.tables.problem_tests import test_tables as exact_tables
from dhd_labels.stats.tables.repeats import coverage_note, repeat_tables
from dhd_labels.stats.tables.routing import routing_table
from dhd_labels.stats.tables.selection import selection_table
from dhd_labels.stats.tables.studies import masking_tables, sensitivity_table
from dhd_labels.stats.tables.study import Study
from dhd_labels.stats.tables.taxonomy import taxonomy_tables
from tests.stats.dataset_rows import Row, Rows, edited, only, read_rows, simulated, study_of

GROUP = ("benchmark", "actor", "integrator", "order")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks, two integrators, missing outcomes, two draws an arm."""
    world = scenario("mixed", benchmarks=2, integrators=2, missing=0.2)
    return simulated(tmp_path_factory.mktemp("sim") / "data", problems=40, world=world, draws=2)


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    return read_rows(folder)


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    return study_of(folder)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of every study: masking, reversed order, another integrator."""
    place = tmp_path_factory.mktemp("campaign")
    build(run(oracle(*EVERYTHING), place / "run").directory, place / "data")
    return place / "data"


def group_of(row: Row) -> dict[str, str]:
    return {name: row[name] for name in GROUP}


def group_list(rows: Rows) -> list[dict[str, str]]:
    return [
        dict(zip(GROUP, key, strict=True)) for key in sorted({tuple(r[n] for n in GROUP) for r in rows["messages"]})
    ]


def within(found: list[Row], group: dict[str, str]) -> list[Row]:
    return [row for row in found if group_of(row) == group]


def draws(rows: Rows, group: dict[str, str], *, blocks: bool) -> dict[tuple[str, str, int | None, int], Row]:
    return {
        (r["pool_id"], r["arm"], r["block"], r["draw"]): r
        for r in within(rows["replays"], group)
        if (r["block"] is not None) == blocks
    }


def score(row: Row | None) -> float | None:
    """Success by the rule for accuracy."""
    if row is None or row["status"] not in ("graded", "no_answer"):
        return None
    return float(row["correct"] or 0)


def verdict(row: Row | None) -> float | None:
    """Success by the rule for effects."""
    return None if row is None or row["correct"] is None else float(row["correct"])


def test_taxonomy_is_the_count_of_first_graded_pairs(rows: Rows, study: Study) -> None:
    table = taxonomy_tables(study)[0].rows
    for group in group_list(rows):
        outcomes = draws(rows, group, blocks=False)
        counted: Counter[tuple[str, int, str, str]] = Counter()
        for m, k in itertools.product(within(rows["messages"], group), range(1, 6)):
            slot, pool = m["slot"], m["pool_id"]
            if m["proposal_correct"] is None or slot >= k > 1:
                continue
            name = "full" if k == 5 else f"prefix-{k}"
            with_it, without = (f"only-{slot}", "alone") if k == 1 else (name, f"without-{slot}-of-{k}")
            pairs = [[verdict(outcomes.get((pool, a, None, d))) for a in (with_it, without)] for d in range(2)]
            effects = [a - b for a, b in pairs if a is not None and b is not None]
            if effects:
                sign = {1.0: "helpful", 0.0: "neutral", -1.0: "harmful"}[effects[0]]
                proposal = "correct" if m["proposal_correct"] else "wrong"
                counted["single" if k == 1 else "loo", k, proposal, sign] += 1
        for replay, k in [("single", 1), *(("loo", k) for k in range(2, 6))]:
            for proposal in ("correct", "wrong"):
                row = only(table, **group, replay=replay, k=k, proposal=proposal)
                signs = {sign: counted[replay, k, proposal, sign] for sign in ("helpful", "neutral", "harmful")}
                if k == 5 and replay == "loo":  # a pair may come from a block where no unmatched one is graded
                    assert row["eligible"] >= sum(signs.values())
                else:
                    assert {sign: row[sign] for sign in signs} == signs
                assert row["eligible"] == row["helpful"] + row["neutral"] + row["harmful"]


def test_taxonomy_at_five_counts_the_cells_of_the_labels(rows: Rows, study: Study) -> None:
    table = taxonomy_tables(study)[0].rows
    for group in group_list(rows):
        cells = Counter(m["cell"] for m in within(rows["messages"], group))
        for proposal, sign in itertools.product(("correct", "wrong"), ("helpful", "neutral", "harmful")):
            row = only(table, **group, replay="loo", k=5, proposal=proposal)
            assert row[sign] == cells[f"{proposal}_{sign}"]


def test_flips_follow_from_the_taxonomy_and_pool_all_benchmarks(study: Study) -> None:
    taxonomy, flips, by_k, _ = (table.rows for table in taxonomy_tables(study))
    assert {row["benchmark"] for row in flips} == {"all", *study.units.keys["benchmark"].unique()}
    for row in (*flips, *by_k):
        parts = [
            t for t in taxonomy
            if all(t[n] == row[n] for n in (*GROUP, "replay", "proposal")) and row["k"] in (None, t["k"])
        ]  # fmt: skip
        helpful, harmful, eligible = (sum(t[n] for t in parts) for n in ("helpful", "harmful", "eligible"))
        assert (row["flips"], row["n"]) == (helpful + harmful, eligible)
        assert row["rate"] == pytest.approx((helpful + harmful) / eligible)
        assert row["helpful_share"] == pytest.approx(helpful / (helpful + harmful))
        assert row["rate_ci_low"] < row["rate"] < row["rate_ci_high"]


def test_accuracy_by_k_is_the_mean_over_problems_of_unmatched_draws(rows: Rows, study: Study) -> None:
    table = accuracy_tables(study)[0].rows
    for group, k in itertools.product(group_list(rows), range(6)):
        arm = {0: "alone", 5: "full"}.get(k, f"prefix-{k}")
        by_problem: dict[str, list[float]] = {}
        for r in within(rows["replays"], group):
            if r["arm"] == arm and r["block"] is None and (value := score(r)) is not None:
                by_problem.setdefault(r["problem_id"], []).append(value)
        row = only(table, **group, k=k)
        assert row["n"] == len(by_problem)
        assert row["accuracy"] == pytest.approx(mean(map(mean, by_problem.values())))


def test_a_pooled_row_is_the_mean_over_all_problems_not_over_benchmarks(study: Study) -> None:
    table = accuracy_tables(study)[0].rows
    for row in (r for r in table if r["benchmark"] == "all"):
        parts = [r for r in table if r["benchmark"] != "all" and all(r[n] == row[n] for n in (*GROUP[1:], "k"))]
        assert row["n"] == sum(r["n"] for r in parts)
        assert row["accuracy"] == pytest.approx(sum(r["n"] * r["accuracy"] for r in parts) / row["n"])


def test_outcomes_count_every_draw_once(rows: Rows, study: Study) -> None:
    table = [row for row in accuracy_tables(study)[1].rows if row["benchmark"] != "all"]
    whole = [row for row in table if row["arm"] != "prefix-5"]
    assert sum(row["draws"] for row in whole) == len(rows["replays"])
    for row in table:
        shares = [row[name] for name in ("graded", "no_answer", "truncated", "operational", "undetermined")]
        assert sum(shares) == pytest.approx(1.0)


def test_identical_input_and_mean_values(rows: Rows, study: Study) -> None:
    identical, values, stability = (table.rows for table in repeat_tables(study))
    for group in group_list(rows):
        outcomes = draws(rows, group, blocks=True)
        places = {(pool, block) for pool, _, block, _ in outcomes}
        full = [[verdict(outcomes[pool, "full", block, d]) for d in range(2)] for pool, block in places]
        compared = [pair for pair in full if None not in pair]
        row = only(identical, **group)
        assert (row["disagree"], row["n"]) == (sum(a != b for a, b in compared), len(compared))
        for name, correct in (("correct", True), ("wrong", False)):
            own = [m for m in within(rows["messages"], group) if m["proposal_correct"] is correct]
            known = [m["trajectory_value"] for m in own if m["trajectory_value"] is not None]
            found = only(values, **group, proposal=name)
            assert (found["mean"], found["n"]) == (pytest.approx(mean(known)), len(known))
            labels = Counter(m["stability"] for m in own if m["n_blocks"])
            assert labels == Counter(
                {r["label"]: r["n"] for r in within(list(stability), group) if r["proposal"] == name and r["n"]}
            )
        difference = only(values, **group, proposal="correct_minus_wrong")
        means = [only(values, **group, proposal=name)["mean"] for name in ("correct", "wrong")]
        assert difference["mean"] == pytest.approx(means[0] - means[1])


def test_routing_takes_complete_problems_and_its_oracles_are_bounds(rows: Rows, study: Study) -> None:
    table = routing_table(study).rows
    for group in group_list(rows):
        outcomes = draws(rows, group, blocks=False)
        pools = sorted({pool for pool, *_ in outcomes})
        success: dict[str, dict[str, float]] = {}
        for pool, arm in itertools.product(pools, ("alone", "full", *(f"only-{s}" for s in range(5)))):
            known = [v for d in range(2) if (v := score(outcomes.get((pool, arm, None, d)))) is not None]
            if known:
                success.setdefault(pool, {})[arm] = mean(known)
        whole = [s for s in success.values() if len(s) == 7]
        single = [[s[f"only-{i}"] for i in range(5)] for s in whole]
        expected = {
            "random_message": mean(map(mean, single)),
            "best_single_outcome_oracle": mean(map(max, single)),
            "independent_k0": mean(s["alone"] for s in whole),
            "full_k5": mean(s["full"] for s in whole),
        }
        for policy, value in expected.items():
            row = only(table, **group, policy=policy)
            assert (row["accuracy"], row["n"]) == (pytest.approx(value), len(whole))
            assert row["diff"] == pytest.approx(value - expected["random_message"])
            assert row["regret"] == pytest.approx(expected["best_single_outcome_oracle"] - value)
        right = only(table, **group, policy="proposal_correctness_oracle")
        assert right["accuracy"] <= expected["best_single_outcome_oracle"]


def test_plurality_breaks_ties_at_random_and_says_when_it_cannot_know() -> None:
    classes = np.array([[0, 0, 1, 2, 3], [0, 0, 1, 1, 2], [-1, -1, 5, -1, -1], [-1] * 5, [0, 0, 1, 2, 3]])
    verdicts = np.array([[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0] * 5, [np.nan, np.nan, 0, 0, 1]])
    found = plurality(classes, verdicts.astype(float))
    assert found[:4].tolist() == [1.0, 0.5, 1.0, 0.0]
    assert np.isnan(found[4])


def test_a_vote_of_one_solve_is_the_accuracy_of_a_solve(study: Study) -> None:
    budget = accuracy_tables(study)[3].rows
    one = [row for row in budget if row["policy"] == "independent_1"]
    assert one
    for row in one:
        two = only(budget, **group_of(row), policy="independent_2")
        # A tie of two is a coin between them, but one that gives no answer leaves the vote to the other.
        assert two["accuracy"] >= row["accuracy"] - 1e-12
        assert (two["calls"], two["tokens"]) == (2, pytest.approx(2 * row["tokens"]))
        assert only(budget, **group_of(row), policy="full_pool")["calls"] == 7


def test_exact_tests_adjust_one_family_over_all_benchmarks(study: Study) -> None:
    from scipy.stats import false_discovery_control

    tests, found, pooled = exact_tables(study)
    listed = list(tests.rows)
    system = [row for row in listed if row["integrator"] == listed[0]["integrator"]]
    one = [row for row in system if row["family"] == "any" and row["null"] == "seven"]
    assert {row["benchmark"] for row in one} == set(study.units.keys["benchmark"].unique())
    assert [row["p_bh"] for row in one] == pytest.approx(false_discovery_control([row["p"] for row in one]).tolist())
    assert all(row["floor"] <= row["p"] <= 1 for row in listed)
    assert {row["benchmark"] for row in found.rows} == {"all", *study.units.keys["benchmark"].unique()}
    assert all(0 < row["p"] <= 1 for row in pooled.rows)


def test_ineligible_pools_are_counted_and_add_up(study: Study) -> None:
    tests = exact_tables(study)[0].rows
    groups = [group for group in study.groups if group.keys["benchmark"] != "all"]
    for group in groups:
        own = [row for row in tests if group_of(row) == group.keys and row["family"] == "wrong_helpful"]
        tested = sum(row["null"] == "seven" for row in own)
        left_out = {
            e["reason"]: e["n"] for e in study.exclusions
            if group_of(e) == group.keys and e["reason"].startswith("wrong_helpful, seven")
        }  # fmt: skip
        assert tested + sum(left_out.values()) == len(group.units)


def test_selection_has_every_comparator_and_the_optimistic_ones_lead(study: Study) -> None:
    rows = [row for row in selection_table(study).rows if row["benchmark"] == "all"]
    by_policy = {row["policy"]: row["gain"] for row in rows if row["integrator"] == rows[0]["integrator"]}
    assert len(by_policy) == 9
    assert by_policy["keep_all"] == 0
    assert by_policy["hindsight_block"] >= by_policy["hindsight_problem"] >= by_policy["cross_fit"]


def test_sensitivity_against_the_labels_of_both_orders(campaign: Path) -> None:
    rows, study = read_rows(campaign), study_of(campaign)
    table = sensitivity_table(study).rows
    blocks = {r["block"] for r in rows["replays"] if r["order"] == "reversed"}

    def value(m: Row, order: str, integrator: str) -> float | None:
        outcomes = {
            (r["arm"], r["block"], r["draw"]): verdict(r)
            for r in rows["replays"]
            if (r["pool_id"], r["order"], r["integrator"]) == (m["pool_id"], order, integrator) and r["block"] in blocks
        }
        effects = []
        for b in blocks:
            parts = [outcomes.get(k) for k in (("full", b, 0), ("full", b, 1), (f"without-{m['slot']}-of-5", b, 0))]
            if None not in parts:
                effects.append((parts[0] + parts[1]) / 2 - parts[2])  # type: ignore[operator]
        return mean(effects) if effects else None

    pairs = [
        (value(m, "original", m["integrator"]), value(m, "reversed", m["integrator"]))
        for m in rows["messages"]
        if m["order"] == "reversed"
    ]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    row = only(table, change="order")
    assert row["n"] == len(known) > 30
    assert row["mean_shift"] == pytest.approx(mean(b - a for a, b in known))
    assert row["exact_sign"] == pytest.approx(mean(float(np.sign(a) == np.sign(b)) for a, b in known))
    both = [(a, b) for a, b in known if a and b]
    assert row["direction"] == pytest.approx(mean(float((a > 0) == (b > 0)) for a, b in both))
    assert only(table, change="integrator")["integrator"] != row["integrator"]


def test_masking_is_the_mean_over_targets(campaign: Path) -> None:
    rows, study = read_rows(campaign), study_of(campaign)
    success, tests = (table.rows for table in masking_tables(study, open_source(campaign)))
    for row in success:
        by_target: dict[tuple[str, int], list[float]] = {}
        for r in rows["masking"]:
            if r["cell"] == row["cell"] and r["condition"] == row["condition"] and r["correct"] is not None:
                by_target.setdefault((r["pool_id"], r["slot"]), []).append(float(r["correct"]))
        assert (row["success"], row["n"]) == (pytest.approx(mean(map(mean, by_target.values()))), len(by_target))
    assert all(row["method"] and row["zeros"] and 0 < row["p"] <= 1 for row in tests)


def test_the_coverage_note_states_the_worst_case_of_five_blocks() -> None:
    assert "up to 13.9 %" in coverage_note(5)
    assert "no message can be stable" in coverage_note(1)


def test_rows_are_strict_json(study: Study) -> None:
    for table in (*taxonomy_tables(study), *accuracy_tables(study), routing_table(study), *repeat_tables(study)):
        assert len({tuple(row) for row in table.rows}) == 1
        json.dumps(list(table.rows), allow_nan=False)


def test_the_order_of_rows_changes_nothing(folder: Path, tmp_path: Path, study: Study) -> None:
    def shuffle(rows: Rows) -> None:
        rng = np.random.default_rng(8)
        for found in rows.values():
            rng.shuffle(found)

    again = study_of(edited(folder, tmp_path / "data", shuffle))
    for make in (taxonomy_tables, accuracy_tables, repeat_tables, exact_tables):
        for one, other in zip(make(study), make(again), strict=True):
            assert list(one.rows) == list(other.rows), one.key


def test_known_trajectory_values_are_recovered(tmp_path: Path) -> None:
    """The intervals of a world whose true values are known hold the truth (seeded: five misses in a hundred)."""
    import pyarrow.parquet as pq

    folder = simulated(tmp_path / "data", problems=300, world=scenario("correctness"))
    parts = [pq.read_table(path).to_pylist() for path in sorted((folder / "messages").glob("*.parquet"))]
    rows = repeat_tables(study_of(folder))[1].rows
    for name, correct in (("correct", True), ("wrong", False)):
        truth = mean(m["true_value"] for part in parts for m in part if m["proposal_correct"] is correct)
        row = only(rows, proposal=name)
        assert row["ci_low"] < truth < row["ci_high"]
        assert abs(truth) > 0.02


def test_what_is_left_out_and_what_is_counted_add_up(folder: Path, rows: Rows) -> None:
    study = study_of(folder)
    crossed, stability = taxonomy_tables(study)[3].rows, repeat_tables(study)[2].rows
    budget = accuracy_tables(study)[3].rows
    for group in group_list(rows):
        own = [e for e in study.exclusions if all(e[name] == group[name] for name in GROUP)]
        messages = len(within(rows["messages"], group))

        def left(table: str, part: str = "", own: list[Row] = own) -> int:
            return sum(e["n"] for e in own if e["table"] == table and part in e["reason"])

        for name, table in (("single_by_full", crossed), ("stability", stability)):
            counted = sum(row["n"] for row in table if all(row[n] == group[n] for n in GROUP))
            assert counted + left(name) == messages and counted
        unsolved = left("budget", "an independent solve")
        for policy in ("independent_1", "one_random_message", "vote_of_proposals", "full_pool"):
            row = only(budget, **group, policy=policy)
            assert row["n"] + left("budget", f"{policy}:") + unsolved == messages // 5
    assert any("an independent solve" in e["reason"] for e in study.exclusions)


def test_the_tokens_of_a_policy_are_those_of_all_its_calls(rows: Rows, study: Study) -> None:
    budget = accuracy_tables(study)[3].rows
    for group in group_list(rows):
        outcomes = [r for r in within(rows["replays"], group) if r["arm"] in ("alone", "full")]
        solves: dict[str, list[float | None]] = {}
        full: dict[str, list[float]] = {}
        spent: dict[str, list[int]] = {}
        for r in outcomes:
            if r["arm"] == "full":
                spent.setdefault(r["pool_id"], []).append(r["prompt_tokens"] + r["completion_tokens"])
                if (value := score(r)) is not None:
                    full.setdefault(r["pool_id"], []).append(value)
            else:
                solves.setdefault(r["pool_id"], []).append(score(r))
        used = [pool for pool, values in solves.items() if None not in values and pool in full]
        of_pool: dict[str, list[Row]] = {}
        for m in within(rows["messages"], group):
            of_pool.setdefault(m["pool_id"], []).append(m)
        written = [of_pool[p][0]["recruiter_tokens"] + sum(m["writer_tokens"] for m in of_pool[p]) for p in used]
        assert only(budget, **group, policy="vote_of_proposals")["tokens"] == pytest.approx(mean(written))
        expected = mean(written) + mean(mean(spent[pool]) for pool in used)
        assert only(budget, **group, policy="full_pool")["tokens"] == pytest.approx(expected)


def test_discoveries_count_the_exact_tests_of_one_family_over_all_benchmarks(study: Study) -> None:
    tests, found, _ = exact_tables(study)
    for row in found.rows:
        family = [
            t for t in tests.rows if all(t[n] == row[n] for n in ("actor", "integrator", "order", "family", "null"))
        ]
        own = [t for t in family if row["benchmark"] in ("all", t["benchmark"])]
        assert row["n_tests"] == len(own) and row["smallest_p"] == min(t["p"] for t in own)
        assert row["found_bh"] == sum(t["p_bh"] <= 0.05 for t in own)
        assert row["found_by"] == sum(t["p_by"] <= 0.05 for t in own)
        assert row["floor_below"] == sum(t["floor"] * len(family) <= 0.05 for t in own)
    assert any(0 < row["floor_below"] < row["n_tests"] for row in found.rows)
