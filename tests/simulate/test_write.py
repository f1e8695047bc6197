"""The data set on disk: the real schema, the same bytes, the truth beside it, and a selector fitted on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support import MAIN_PASS, cli, oracle

from dhd_labels.__main__ import main
from dhd_labels.dataset.header import data_files
from dhd_labels.dataset.load import load, load_frame
from dhd_labels.dataset.schema import CONFIGS, SPLITS
from dhd_labels.dataset.stream import stream_dataset
from dhd_labels.errors import DhdError
from dhd_labels.replay.plan import Studies, plan_shape
from dhd_labels.simulate import SCENARIOS, scenario, write
from dhd_labels.simulate.write import Plan, simulate_dataset
from training.fit import FitOptions, fit_and_measure


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two benchmarks, actors and integrators, a fifth of the outcomes missing, several chunks."""
    out = tmp_path_factory.mktemp("rich") / "data"
    world = scenario("mixed", missing=0.2, benchmarks=2, actors=2, integrators=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "CHUNK_PROBLEMS", 13)
        simulate_dataset(Plan(world, 40, 3, seed=4), out)
    return out


def rows(folder: Path, config: str) -> pd.DataFrame:
    return load_frame(folder, config, SPLITS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_selector_is_fitted_on_every_scenario(name: str, tmp_path: Path) -> None:
    truth = simulate_dataset(Plan(SCENARIOS[name], 60, 3, seed=1), tmp_path / "data")
    report = fit_and_measure(FitOptions("lgbm", str(tmp_path / "data")))
    assert report.gains[0].gain is not None and np.isfinite(report.gains[0].gain)
    messages = rows(tmp_path / "data", "messages")
    best = np.maximum(0, -messages.groupby("pool_id")["true_value"].min()).mean() * 100
    assert truth["attainable_gain"] == pytest.approx(best)
    assert json.loads((tmp_path / "data/simulation.json").read_text()) == truth
    assert truth["parameters"]["name"] == name == truth["scenario"]


def test_it_has_every_row_of_a_real_run(rich: Path) -> None:
    planned = plan_shape(oracle(*MAIN_PASS, "protocol.blocks=3"), Studies())
    wanted = sorted((r.arm.name, -1 if r.block is None else r.block, r.draw) for r in planned)
    replays = rows(rich, "replays")
    for _, found in replays.groupby(["pool_id", "integrator"]):
        assert sorted(zip(found["arm"], found["block"].fillna(-1), found["draw"], strict=True)) == wanted
        blocks = found[found["block"].notna()].groupby("block")["position"]
        assert all(sorted(places) == list(range(7)) for _, places in blocks)
    kept = {row.arm: (row.kept, row.k, row.removed) for row in replays.astype(object).itertuples()}
    for r in planned:
        assert kept[r.arm.name][:2] == (r.arm.kept, r.arm.k)
        assert pd.isna(kept[r.arm.name][2]) if r.arm.removed is None else kept[r.arm.name][2] == r.arm.removed
    orders = replays[replays["block"] == 0].groupby(["pool_id", "integrator"])["arm"].agg(tuple)
    assert orders.nunique() > 50


def test_ids_and_counts(rich: Path) -> None:
    messages, replays, problems = (rows(rich, config) for config in ("messages", "replays", "problems"))
    assert len(problems) == 40 == problems["problem_id"].nunique() == problems["question"].nunique()
    assert len(messages) == 40 * 2 * 2 * 5 and messages["pool_id"].nunique() == 80
    assert len(replays) == 40 * 2 * 2 * (25 + 21) == replays["call_key"].nunique()
    assert messages["benchmark"].nunique() == messages["actor"].nunique() == messages["integrator"].nunique() == 2
    for frame in (messages, replays):
        assert set(frame["problem_id"]) == set(problems["problem_id"])
        assert frame.groupby("problem_id")["split"].nunique().max() == 1
    assert len(rows(rich, "masking")) == 0
    keys = ["pool_id", "integrator", "slot"]
    assert not messages.duplicated(keys).any()
    text = messages.groupby(["pool_id", "slot"])["reasoning_direction"].nunique()
    assert (text == 1).all()


def test_missing_is_missing_with_a_reason(rich: Path) -> None:
    messages, replays = rows(rich, "messages"), rows(rich, "replays")
    graded = replays["status"] == "graded"
    assert set(replays["status"]) == {"graded", "no_answer", "truncated", "operational", "undetermined"}
    assert graded.mean() == pytest.approx(0.8, abs=0.02)
    assert (replays["correct"].notna() == graded).all() and (replays["score"].notna() == graded).all()
    assert (replays["reason"].isna() == graded).all()
    assert (replays["answer"].notna() == replays["status"].isin(["graded", "undetermined"])).all()
    truth = json.loads((rich / "simulation.json").read_text())
    assert truth["outcomes"] == {name: int((replays["status"] == name).sum()) for name in truth["outcomes"]}
    for name in ("single_effect", "in_pool_effect", "trajectory_value"):
        assert (messages[name].isna() == messages[f"{name}_reason"].notna()).all()
        assert messages[name].isna().any()
    assert (messages["true_value"].notna()).all()


def test_verdicts_are_those_of_the_answers(rich: Path) -> None:
    replays = rows(rich, "replays").merge(rows(rich, "problems")[["problem_id", "reference"]], on="problem_id")
    graded = replays[replays["status"] == "graded"]
    assert ((graded["answer"] == graded["reference"]) == graded["correct"].astype(bool)).all()


def test_the_truth_counts_every_message(rich: Path) -> None:
    truth = json.loads((rich / "simulation.json").read_text())
    messages = rows(rich, "messages")
    sign = np.sign(messages["true_value"]).map({1.0: "helpful", -1.0: "harmful", 0.0: "neutral"})
    proposal = messages["proposal_correct"].astype(object).map({True: "correct", False: "wrong"}).fillna("unknown")
    counted = pd.Series(list(zip(messages["integrator"], proposal, sign, strict=True))).value_counts().to_dict()
    cells = {(c["integrator"], c["proposal"], c["effect"]): c["n"] for c in truth["true_cells"]}
    assert {key: n for key, n in cells.items() if n} == counted
    assert len(cells) == 18


def test_a_near_deterministic_data_set_counts_its_mixed_problems(tmp_path: Path) -> None:
    truth = simulate_dataset(Plan(scenario("mixed", difficulty="near-deterministic"), 200, 5, seed=1), tmp_path / "d")
    blocks = rows(tmp_path / "d", "replays").dropna(subset=["block"])
    block = blocks.groupby(["problem_id", "block"])["correct"].agg(["min", "max"])
    mixed = (block["min"] != block["max"]).groupby("problem_id").any().sum()
    assert truth["problems_with_a_mixed_block"] == mixed <= 0.35 * 200


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    world = scenario("reasoning", missing=0.1)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate_dataset(Plan(world, 30, 2, seed), tmp_path / name)
    names = data_files(tmp_path / "a")
    assert names == data_files(tmp_path / "b") and len(names) == 14
    content = {d: {n: (tmp_path / d / n).read_bytes() for n in names if (tmp_path / d / n).exists()} for d in "abc"}
    assert content["a"] == content["b"]
    assert all(content["a"][n] != content["c"].get(n) for n in names if n.startswith(("messages", "replays")))


def test_datasets_loads_it_with_the_declared_types_and_one_column_more(rich: Path) -> None:
    import datasets

    for config in ("messages", "replays", "problems"):
        loaded = datasets.load_dataset(str(rich), config)
        extra = ["true_value"] if config == "messages" else []
        assert loaded["train"].column_names == [c.name for c in CONFIGS[config]] + extra
    assert load(rich, "messages")["train"].num_rows > 0


def test_replacing_an_older_simulation_leaves_nothing_of_it(tmp_path: Path) -> None:
    simulate_dataset(Plan(SCENARIOS["null"], 60, 1, seed=1), tmp_path / "d")
    simulate_dataset(Plan(SCENARIOS["reasoning"], 2, 1, seed=1), tmp_path / "d")
    assert len(rows(tmp_path / "d", "problems")) == 2
    assert json.loads((tmp_path / "d/simulation.json").read_text())["scenario"] == "reasoning"


def test_a_table_with_other_columns_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    chunk = {"messages": {"train": pa.table({"x": [1]})}}
    with pytest.raises(ValueError):
        stream_dataset([chunk], tmp_path / "d", lambda counts, digests: ("", None), extra_columns={})  # type: ignore[list-item]
    assert not (tmp_path / "d").exists()


def test_one_problem_without_blocks(tmp_path: Path) -> None:
    truth = simulate_dataset(Plan(SCENARIOS["correctness"], 1, 0, seed=1), tmp_path / "d")
    messages = rows(tmp_path / "d", "messages")
    assert len(messages) == 5 and messages["trajectory_value"].isna().all()
    assert truth["attainable_from_text_se"] is None


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data"
    command = ["simulate", "--problems", "20", "--blocks", "2", "--seed", "3", "--scenario", "mixed", "--out", str(out)]
    done = cli(*command)
    assert done.returncode == 0, done.stderr
    for words in ("Attainable gain over keep-all", "True cells", f"--labels {out}", "simulation.json"):
        assert words in done.stdout
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "simulation.json").read_text())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--scenario", "reasonning"], "Did you mean 'reasoning'?"),
        (["--problems", "0"], "problems must be between 1"),
        (["--blocks", "-1"], "blocks must be between 0"),
        (["--missing", "1"], "below 1, got 1.0"),
        (["--missing", "nan"], "got nan"),
        (["--difficulty", "hard"], "difficulty must be a known one"),
        (["--integrators", "0"], "integrators must be between 1"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_bad_options_exit_2_and_write_nothing(
    change: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "data"
    command = ["simulate", "--problems", "5", "--blocks", "1", "--scenario", "null", "--out", str(out), *change]
    assert main(command) == 2
    assert words in capsys.readouterr().err and not out.exists()


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DhdError, match="holds other files"):
        simulate_dataset(Plan(SCENARIOS["null"], 2, 1, seed=1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
