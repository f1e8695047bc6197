"""The whole report: its keys, marks, verdicts and files."""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.base import BaseEstimator

from dhd_labels.cli import say_error
from dhd_labels.errors import DhdError
from dhd_labels.simulate.worlds import scenario
from dhd_selectors.base import Selector
from dhd_selectors.policy import load_policy
from dhd_selectors.registry import load_selector
from tests.bench.calibration.cheap import cheap_world
from training.data import LabelData
from training.estimands import make_folds
from training.figure import make_figure
from training.gain import Gain
from training.placebos import NAMES
from training.references import REFERENCES
from training.report import Report, measure
from training.tables import render, to_markdown, write_report
from training.verdict import MIN_PROBLEMS, verdict

KEYS = {"selector", "estimand", "policy", "n_problems", "n_messages", "gains", "placebos", "excluded"}
ROW_KEYS = {"reference", "gain", "ci_low", "ci_high", "p_value"}


@pytest.fixture(scope="module")
def data() -> LabelData:
    return cheap_world(scenario("reasoning"), 60, 3, 5).data


def report_of(
    data: LabelData, selector: Selector, name: str, estimand: str = "unseen-problem", repeats: int = 1, **given: Any
) -> Report:
    splits = [make_folds(data, estimand, (0, repeat)) for repeat in range(repeats)]
    return measure(
        selector, load_policy("remove-worst"), data, splits, names=(name, estimand, "remove-worst"), seed=0, **given
    )


class Hedges(BaseEstimator):  # type: ignore[misc]
    """Messages that hedge are worth less; tuned, so it has placebos."""

    def fit(self, X: pd.DataFrame, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Hedges:
        self.n_features_in_ = X.shape[1]
        return self

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        return -X["hedges"].to_numpy()


@pytest.fixture(scope="module")
def report(data: LabelData) -> Report:
    return report_of(data, Hedges(), "hedges", repeats=2)


def test_keys_and_rows(report: Report) -> None:
    made = report.as_json()
    json.dumps(made, allow_nan=False)
    assert set(made) >= KEYS
    assert tuple(row["reference"] for row in made["gains"]) == REFERENCES
    assert all(set(row) >= ROW_KEYS for row in (*made["gains"], *made["placebos"], *made["over_keep_all"]))
    assert tuple(row["name"] for row in made["placebos"]) == NAMES
    assert [row["reference"] for row in made["over_keep_all"]] == list(REFERENCES[1:])
    assert {row["reference"] for row in made["gains"] if row["privileged"]} == {"drop-wrong", "oracle-correct"}
    assert all("zeros kept" in row["p_method"] or "no problem" in row["p_method"] for row in made["gains"])
    assert (made["n_problems"], made["n_messages"], made["folds"], made["repeats"]) == (60, 300, 5, 2)


def test_gains_over_a_reference_and_over_keep_all_fit_together(report: Report) -> None:
    gains = {row.reference: row.gain for row in report.gains}
    for other in report.over_keep_all:
        assert other.gain is not None and gains[other.reference] is not None
        assert gains["keep-all"] == pytest.approx(gains[other.reference] + other.gain)


def test_only_what_learns_from_other_folds_is_coupled(data: LabelData, report: Report) -> None:
    assert all(row.coupling == pytest.approx(1.4812, abs=1e-3) for row in report.gains)
    rule = report_of(data, load_selector("drop-wrong"), "drop-wrong")
    coupled = {row.reference for row in rule.gains if row.coupling > 1.0}
    assert coupled == {"learned-correct", "oracle-correct", "best-fixed"}
    assert rule.placebos == ()


def test_repeats_and_their_spread(data: LabelData, report: Report) -> None:
    spread = {row.reference: row for row in report.spread}
    assert set(spread) == set(REFERENCES)
    for gain in report.gains:
        found = spread[gain.reference]
        assert len(found.gains) == 2
        assert gain.gain == pytest.approx(np.mean(found.gains))
        assert found.sd == pytest.approx(np.std(found.gains, ddof=1))
    assert report_of(data, Hedges(), "hedges", with_placebos=False).spread == ()


class Knows(BaseEstimator):  # type: ignore[misc]
    """Knows the outcomes."""

    requires: ClassVar[tuple[str, ...]] = ("trajectory_value",)
    threshold: ClassVar[float] = 0.0
    learns: ClassVar[bool] = False
    upper_bound: ClassVar[bool] = True

    def fit(self, X: pd.DataFrame, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Knows:
        return self

    def predict_value(self, X: pd.DataFrame, labels: pd.DataFrame) -> np.ndarray:
        return labels["trajectory_value"].to_numpy(dtype=float)


def test_an_upper_bound_says_so_everywhere(data: LabelData, tmp_path: Path) -> None:
    report = report_of(data, Knows(), "hindsight")
    made = report.as_json()
    assert made["upper_bound"] and made["privileged"]
    assert made["verdict"].startswith("Upper bound, not a selector")
    assert report.gains[0].gain is not None and report.gains[0].gain > 0
    page = to_markdown(report, make_figure(report))
    assert "(upper bound)" in page.splitlines()[0]
    assert "(upper bound)" in printed(report)


def test_hindsight_on_the_same_problem_is_the_papers_estimator_with_its_folds(data: LabelData) -> None:
    """Problems have different numbers of blocks, so the mean over folds is not the mean over problems."""
    from dhd_labels.stats.cross_fit import same_problem_selection

    rng = np.random.default_rng(0)
    some = dataclasses.replace(data, blocks=data.blocks.where(rng.random(len(data.blocks.pool)) < 0.8))
    report = report_of(some, load_selector("hindsight"), "hindsight", "same-problem", with_placebos=False)
    correct = data.labels["proposal_correct"].to_numpy(dtype=float, na_value=-1.0)[data.rows].astype(int)
    paper = same_problem_selection(some.blocks, correct, rng)
    folds = paper.folds.sum()
    rows = {row.reference: row.gain for row in report.gains}
    over = {row.reference: row.gain for row in report.over_keep_all}
    assert rows["keep-all"] == pytest.approx(100 * paper.gain["cross_fit"].sum() / folds)
    assert over["drop-wrong"] == pytest.approx(100 * paper.gain["remove_first_wrong"].sum() / folds)
    assert over["random"] == pytest.approx(100 * paper.gain["random_of_six"].sum() / folds)
    assert report.gains[0].coupling == 1.0, "a problem is decided by its own blocks alone"


def printed(report: Report) -> str:
    shown = io.StringIO()
    render(report, Console(width=200, file=shown))
    return shown.getvalue()


def test_what_is_printed(report: Report) -> None:
    shown = printed(report)
    assert "Gain of hedges, unseen-problem, remove-worst" in shown
    assert "drop-wrong*" in shown and "oracle-correct*" in shown and "learned-correct*" not in shown
    assert all(name in shown for name in NAMES)
    assert report.verdict in shown
    assert "zeros kept" in shown and "x1.48" in shown


def test_files(report: Report, tmp_path: Path) -> None:
    paths = write_report(report, tmp_path / "new" / "out")
    assert {path.name for path in paths} == {"report.json", "report.md", "report.svg", "report.png"}
    assert json.loads(paths[0].read_text(encoding="utf-8")) == report.as_json()
    root = ElementTree.fromstring((tmp_path / "new" / "out" / "report.svg").read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")
    png = (tmp_path / "new" / "out" / "report.png").read_bytes()
    assert png.startswith(b"\x89PNG") and min(struct.unpack(">II", png[16:24])) > 300
    page = (tmp_path / "new" / "out" / "report.md").read_text(encoding="utf-8")
    assert "report.svg" in page and report.gains[0].reference in page
    again = make_figure(report)
    assert (again.svg, again.png) == (make_figure(report).svg, make_figure(report).png)
    with pytest.raises(DhdError, match="folder of --out must be writable"):
        write_report(report, paths[0])


def test_a_name_cannot_act_as_markup(report: Report) -> None:
    evil = dataclasses.replace(report, selector="<script>[x](http://e) $x$ \x1b[31m")
    page = to_markdown(evil, make_figure(evil))
    assert "<script>" not in page and "](http:" not in page and "\x1b" not in page


def test_a_note_or_an_error_cannot_act_on_the_terminal(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(dataclasses.replace(report, notes=("2 of 3 benchmarks are empty: x\x1b[2J\x9b1m\x07",)))
    assert "benchmarks are empty: x\ufffd[2J\ufffd1m" in shown and not {"\x1b", "\x9b", "\x07"} & set(shown)
    say_error("pool \x1b]0;mine\x07\x08 [bold]\nsecond line")
    said = capsys.readouterr().err
    assert said == "Error: pool \ufffd]0;mine\ufffd\ufffd [bold]\nsecond line\n"


class Bad(Hedges):
    """Every message is worth removing."""

    threshold: ClassVar[float] = 0.0
    learns: ClassVar[bool] = False

    def predict_value(self, X: pd.DataFrame) -> np.ndarray:
        return np.full(len(X), -1.0)


def test_decisions_that_were_confined_to_recorded_subsets_are_told(data: LabelData) -> None:
    def notes(policy: str, world: LabelData) -> tuple[str, ...]:
        splits = [make_folds(world, "unseen-problem", 0)]
        names = ("bad", "unseen-problem", policy)
        return measure(Bad(), load_policy(policy), world, splits, names=names, seed=0).notes

    assert not any("confined" in note for note in notes("remove-worst", data))
    assert any(
        note.startswith("60 of 60 decisions were confined") for note in notes("remove-up-to-5", without_alone(data))
    )


def without_alone(data: LabelData) -> LabelData:
    recorded = data.recorded.copy()
    recorded[:, 0] = False
    return dataclasses.replace(data, recorded=recorded)


def test_only_what_can_be_confirmed_is_told_to_be(report: Report) -> None:
    gained = dataclasses.replace(report, gains=tuple(row(5, 1, 9, name=gain.reference) for gain in report.gains))
    assert gained.verdict.endswith("with --test.")
    assert "--test" not in dataclasses.replace(gained, estimand="unseen-benchmark", test=True).verdict
    same = dataclasses.replace(gained, estimand="same-problem").verdict
    assert "--test" not in same and "nothing of unseen problems" in same


def test_a_report_knows_that_the_test_split_was_judged(data: LabelData) -> None:
    half = np.where(np.arange(data.n_pools) % 2 == 0, "test", "train")
    split = dataclasses.replace(data, pools=data.pools.assign(split=half))
    folds = make_folds(split, "unseen-problem", 0, test=True)
    names = ("keep-all", "unseen-problem", "remove-worst")
    judged = measure(load_selector("keep-all"), load_policy("remove-worst"), split, [folds], names=names, seed=0)
    assert judged.test and not report_of(data, load_selector("keep-all"), "keep-all").test


def row(gain: float, low: float | None, high: float | None, n: int = MIN_PROBLEMS, name: str = "keep-all") -> Gain:
    return Gain(name, gain, low, high, 0.01, n)


def test_verdicts() -> None:
    assert verdict(row(5, 1, 9, MIN_PROBLEMS - 1)).startswith("Too few problems to conclude anything: 49")
    assert verdict(row(1, -1, 3)).startswith("No evidence of a gain over keep-all (+1.00 points")
    assert verdict(row(1, 0, 3)).startswith("No evidence")
    assert verdict(row(0, 0, 0)).startswith("No evidence of a gain over keep-all: no outcome differs")
    assert verdict(row(5, 1, 9)).startswith("A gain over keep-all (+5.00 points")
    assert verdict(row(-5, -9, -1)).startswith("A loss against keep-all")
    assert verdict(row(5, None, None)).startswith("No evidence")
    assert verdict(Gain("keep-all", None, None, None, None, 0)) == "No comparison with keep-all was possible."


def test_verdicts_name_what_weakens_them() -> None:
    assert "But slot-only and pool-only gain too" in verdict(row(5, 1, 9), placebos=["slot-only", "pool-only"])
    assert "But slot-only gains too" in verdict(row(5, 1, 9), placebos=["slot-only"])
    assert verdict(row(5, 1, 9), cross_fitted=True).endswith("with --test.")
    beaten = verdict(row(5, 1, 9), learned=row(1, -1, 3, name="learned-correct"))
    assert "No evidence that it beats" in beaten
    assert "No evidence" not in verdict(row(5, 1, 9), learned=row(2, 1, 3, name="learned-correct"))
    assert verdict(row(5, 1, 9), privileged=True).startswith("Privileged, not deployable")
    assert verdict(row(1, 1, 1, 3), upper_bound=True, privileged=True).startswith("Upper bound, not a selector")
