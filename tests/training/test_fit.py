"""The entry point: reports, refusals, and a run over a written data set."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dhd_labels.dataset import card, schema
from dhd_labels.dataset.write import count_rows, write_dataset
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.report.table import Table
from training.fit import FitOptions, fit_and_measure, main
from training.gain import Gain
from training.report import MIN_PROBLEMS, verdict

KEYS = {"selector", "estimand", "policy", "n_problems", "n_messages", "gains", "placebos", "excluded"}
ROW_KEYS = {"reference", "gain", "ci_low", "ci_high", "p_value"}


def hedges_hurt(_: np.random.Generator, hedges: np.ndarray) -> np.ndarray:
    return 0.15 - 0.35 * hedges


def reader(world: Any, test_problems: int = 0) -> Any:
    """Read a world as `load_frame` would, its last problems in the test split."""
    test = {f"p{n:04d}" for n in range(len(world.problems) - test_problems, len(world.problems))}

    def load(_: str, config: str, splits: tuple[str, ...]) -> pd.DataFrame:
        frame = getattr(world, config)
        split = frame["problem_id"].map(lambda p: "test" if p in test else "train")
        return frame.assign(split=split)[split.isin(splits)].reset_index(drop=True)

    return load


def fit(world: Any, selector: str = "lgbm", test_problems: int = 0, **options: Any) -> Any:
    return fit_and_measure(FitOptions(selector, "labels", **options), reader(world, test_problems))


@pytest.mark.parametrize("selector", ["keep-all", "drop-wrong", "lgbm"])
def test_reports(kit: Any, selector: str) -> None:
    report = fit(kit.simulate(12, 0), selector)
    made = report.as_json()
    json.dumps(made, allow_nan=False)
    assert set(made) == KEYS | {"seed", "folds", "privileged", "verdict"}
    assert [row["reference"] for row in made["gains"]] == ["keep-all", "drop-wrong", "alone"]
    assert all(set(row) == ROW_KEYS for row in made["gains"])
    assert all(set(row) == ROW_KEYS | {"name"} for row in made["placebos"])
    assert (made["n_problems"], made["n_messages"], made["folds"]) == (12, 60, 5)
    assert made["privileged"] == (selector == "drop-wrong")
    assert bool(made["placebos"]) == (selector == "lgbm")
    assert "Too few problems" in made["verdict"]
    if selector != "lgbm":
        assert next(row for row in made["gains"] if row["reference"] == selector)["gain"] == 0.0


def test_same_seed_same_report_and_row_order_does_not_matter(kit: Any) -> None:
    world = kit.simulate(12, 0, value=hedges_hurt)
    first = fit(world).as_json()
    assert fit(world).as_json() == first
    shuffled = dataclasses.replace(world, messages=world.messages.sample(frac=1, random_state=0))
    for ours, theirs in zip(fit(shuffled, "drop-wrong").gains, fit(world, "drop-wrong").gains, strict=True):
        assert ours.gain == pytest.approx(theirs.gain)


def test_the_test_split_is_judged_once_and_never_fitted_on(kit: Any) -> None:
    world = kit.simulate(14, 0)
    report = fit(world, test=True, test_problems=4)
    assert (report.n_problems, report.n_messages, report.folds) == (4, 20, 1)
    assert fit(world, test_problems=4).n_problems == 10
    with pytest.raises(NothingMadeError, match="test split of 'labels' holds no messages"):
        fit(world, test=True)


def test_exclusions_are_counted(kit: Any) -> None:
    world = kit.simulate(10, 0)
    messages = world.messages.copy()
    messages.loc[messages["problem_id"] == "p0001", "train_allowed"] = False
    messages.loc[messages["problem_id"] == "p0002", "trajectory_value"] = np.nan
    replays = world.replays[~((world.replays["arm"] == "alone") & (world.replays["problem_id"] == "p0003"))]
    report = fit(dataclasses.replace(world, messages=messages, replays=replays))
    assert report.excluded == {
        "train_not_allowed": 5,
        "no_trajectory_value": 5,
        "no_outcome_of_reference_arm:alone": 1,
    }
    assert report.n_problems == 10


def test_without_alone_draws_the_row_is_null(kit: Any) -> None:
    world = kit.simulate(6, 0)
    replays = world.replays[world.replays["arm"] != "alone"]
    made = fit(dataclasses.replace(world, replays=replays), "drop-wrong").as_json()
    assert made["gains"][2] == {"reference": "alone"} | dict.fromkeys(ROW_KEYS - {"reference"})


def test_labels_that_support_nothing_are_refused(kit: Any) -> None:
    world = kit.simulate(6, 0)
    nulls = dataclasses.replace(world, messages=world.messages.assign(trajectory_value=np.nan))
    with pytest.raises(NothingMadeError, match="None of the 30 messages of 'labels' has a trajectory value"):
        fit(nulls)
    assert fit(nulls, "drop-wrong").n_problems == 6
    banned = dataclasses.replace(world, messages=world.messages.assign(train_allowed=False))
    with pytest.raises(NothingMadeError, match="may be trained on"):
        fit(banned)
    assert fit(banned, "drop-wrong").n_problems == 6
    with pytest.raises(NothingMadeError, match="hold no messages"):
        fit(dataclasses.replace(world, messages=world.messages.iloc[:0]))
    with pytest.raises(NothingMadeError, match="2 problems or more, got 1"):
        fit(kit.simulate(1, 0))
    with pytest.raises(NothingMadeError, match="No gain can be computed"):
        fit(dataclasses.replace(world, replays=world.replays.iloc[:0]), "keep-all")


def test_one_class_and_equal_effects(kit: Any) -> None:
    world = kit.simulate(6, 0)
    flat = world.messages.assign(trajectory_value=0.0, proposal_correct=pd.array([True] * 30, dtype="boolean"))
    solved = world.replays.assign(correct=pd.array([True] * len(world.replays), dtype="boolean"))
    report = fit(dataclasses.replace(world, messages=flat, replays=solved))
    assert [(gain.gain, gain.p_value) for gain in report.gains] == [(0.0, 1.0)] * 3


def test_verdicts() -> None:
    def row(gain: float, low: float, high: float, n: int = MIN_PROBLEMS) -> Gain:
        return Gain("keep-all", gain, low, high, 0.01, n)

    assert verdict(row(5, 1, 9, MIN_PROBLEMS - 1)).startswith("Too few problems to conclude anything: 49")
    assert verdict(row(1, -1, 3)).startswith("No evidence of a gain over keep-all (+1.00 points")
    assert verdict(row(5, 1, 9)).startswith("A gain over keep-all (+5.00 points")
    assert "the placebo gains too" in verdict(row(5, 1, 9), row(4, 1, 8))
    assert verdict(row(5, 1, 9), row(0, -1, 1), cross_fitted=True).endswith("with --test.")
    assert verdict(row(-5, -9, -1)).startswith("A loss against keep-all")
    assert verdict(Gain("keep-all", None, None, None, None, 0)) == "No comparison with keep-all was possible."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--selector", "lgbn"], "Did you mean 'lgbm'?"),
        (["--estimand", "unseen-benchmark"], "The estimand 'unseen-benchmark' is not known"),
        (["--policy", "keep-best"], "The policy 'keep-best' is not known"),
        (["--seed", "-1"], "seed"),
        (["--seed", str(2**31)], "seed"),
        (["--jobs", "0"], "jobs"),
        (["--labels", "no/such/folder"], "no/such/folder"),
        (["--nonsense"], "nonsense"),
    ],
)
def test_bad_usage_exits_with_2(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = [] if "--labels" in arguments else ["--labels", str(tmp_path)]
    selector = [] if "--selector" in arguments else ["--selector", "keep-all"]
    assert main([*selector, *labels, *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_help_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "--selector" in capsys.readouterr().out


def test_names_are_checked_before_any_data_are_read() -> None:
    def load(*_: Any) -> Any:
        raise AssertionError("read")

    for options in (FitOptions("x", "l"), FitOptions("lgbm", "l", "x"), FitOptions("lgbm", "l", policy="x")):
        with pytest.raises(DhdError, match="'x' is not known"):
            fit_and_measure(options, load)


def write_labels(world: Any, out: Path) -> None:
    """Write a world through the data set's own writer; the last four problems are the test split."""
    split_of = {
        p: "test" if n >= len(world.problems) - 4 else "train" for n, p in enumerate(world.problems["problem_id"])
    }
    tables = {
        config: [
            {c.name: plain(row[c.name]) for c in schema.CONFIGS[config]}
            for row in (getattr(world, config).to_dict("records") if hasattr(world, config) else ())
        ]
        for config in schema.CONFIGS
    }
    required = [
        f
        for f in dataclasses.fields(card.CardFacts)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    facts: dict[str, Any] = {f.name: "" for f in required} | {
        "title": "Simulated",
        "runs": (card.RunFacts("simulated", (), "", "", card.ProtocolFacts(5, 5, 2, ()), "", 0),),
        "benchmarks": (),
        "tables": (),
        "exclusions": Table("", ("reason", "n"), ()),
        "limits": (),
        "rows": count_rows(tables, split_of),
        "versions": {},
    }
    write_dataset(tables, out, split_of=split_of, card=card.render(card.CardFacts(**facts)))


def plain(value: Any) -> Any:
    """Return a cell as the writer wants it: Python's own types, None for missing."""
    if value is None or (not isinstance(value, list | tuple) and pd.isna(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value


def test_from_a_written_data_set_to_json(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("COLUMNS", "100")
    world = kit.simulate(14, 0, value=hedges_hurt)
    write_labels(world, tmp_path / "labels")
    out = tmp_path / "new" / "gains.json"
    assert main(["--selector", "lgbm", "--labels", str(tmp_path / "labels"), "--json", str(out)]) == 0
    shown = capsys.readouterr()
    assert "Too few problems to conclude anything: 10" in shown.out.replace("\n", " ")
    assert shown.err == ""
    made = json.loads(out.read_text(encoding="utf-8"))
    assert set(made) >= KEYS
    assert made == fit(world, test_problems=4).as_json()
    assert main(["--selector", "drop-wrong", "--labels", str(tmp_path / "labels"), "--test"]) == 0
    shown = capsys.readouterr()
    assert "Gain of drop-wrong*" in shown.out
    assert "* privileged" in shown.out
    assert main(["--selector", "keep-all", "--labels", str(tmp_path / "labels"), "--json", str(tmp_path)]) == 2
    assert "must be writable" in capsys.readouterr().err


def test_sensitivity_rows_do_not_count_a_problem_twice() -> None:
    """Rows of the reversed order, and of an integrator that never solved alone, are left out."""
    from training.data import main_groups

    messages = pd.DataFrame(
        {
            "pool_id": ["p"] * 4,
            "order": ["original", "reversed", "original", "original"],
            "integrator": ["a", "a", "b", "c"],
            "single_effect": [0.5, None, None, 0.0],
        }
    )
    assert main_groups(messages)["integrator"].tolist() == ["a", "c"]
    no_alone = messages.assign(single_effect=None)
    assert main_groups(no_alone)["integrator"].tolist() == ["a", "b", "c"], "a run without `alone` keeps its rows"


def test_loading_labels_leaves_the_sensitivity_rows_out(kit: Any) -> None:
    from training.data import load_data

    world = kit.simulate(12, 0)

    def load_frame(labels: str, config: str, splits: tuple[str, ...]) -> pd.DataFrame:
        frame: pd.DataFrame = getattr(world, config).assign(split="train")
        if config == "messages":
            reversed_rows = frame.assign(order="reversed", single_effect=None)
            return pd.concat([frame, reversed_rows], ignore_index=True)
        return frame

    loaded = load_data("labels", ("train",), load_frame)
    assert loaded.n_pools == 12 and len(loaded.y) == 60
