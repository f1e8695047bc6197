"""A saved rule decides as before it was saved, holds no code, and says what is wrong with a folder."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dhd_labels.errors import DhdError
from dhd_labels.records import POOL_SIZE, content_id
from dhd_selectors import Selector, load_selector
from dhd_selectors.base import TEXT_COLUMNS, fit_selector, is_privileged
from dhd_selectors.features import build_features, pool_codes
from dhd_selectors.policy import NEVER
from dhd_selectors.registry import BUILT_IN
from dhd_selectors.saving import BenchmarkUse, DecisionRule, Savable, TrainingFacts
from dhd_selectors.saving import state as states

FACTS = TrainingFacts(
    labels="org/labels",
    revision="0123abc",
    digest=None,
    splits=("train", "validation"),
    seed=3,
    n_problems=12,
    n_messages=60,
    benchmarks=(BenchmarkUse("mascqa", "MIT", True, None, 60, 0),),
    permissions={"mascqa": "the authors agreed"},
    report={"estimand": "unseen-problem", "gains": [], "excluded": {}},
)
SAVED = [name for name in BUILT_IN if not is_privileged(load_selector(name)) and name != "transformer"]


def fitted(selector: Selector, messages: pd.DataFrame) -> Selector:
    X = build_features(messages)
    y = 0.2 - 0.2 * X["hedges"].to_numpy() + np.random.default_rng(0).normal(0, 0.05, len(X))
    privileged = ["proposal_correct", "proposal_status", "trajectory_value"]
    return fit_selector(selector, X, y, messages[privileged], np.ones(len(X)))


def rule_of(name: str, messages: pd.DataFrame, /, **changes: Any) -> DecisionRule:
    selector = fitted(load_selector(name, random_state=0, n_jobs=1), messages)
    return DecisionRule(
        **{"name": name, "selector": selector, "policy": "remove-worst", "thresholds": (0.1,)} | changes
    )


def pools(messages: pd.DataFrame) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    return [(rows.iloc[0].to_dict(), rows.to_dict("records")) for _, rows in messages.groupby("pool_id", sort=False)]


def decisions(rule: DecisionRule, messages: pd.DataFrame) -> list[Any]:
    return [rule.decide(problem, rows) for problem, rows in pools(messages)]


@pytest.mark.parametrize("name", SAVED)
def test_every_selector_comes_back_with_equal_decisions(
    name: str, messages: pd.DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rule = rule_of(name, messages, training=FACTS)
    rule.save_pretrained(tmp_path / "new" / "rule")
    back = Selector.from_pretrained(str(tmp_path / "new" / "rule"))
    assert type(back.selector) is type(rule.selector)
    assert back.selector.get_params() == rule.selector.get_params()
    assert (back.name, back.policy, back.thresholds, back.training) == (name, "remove-worst", (0.1,), FACTS)
    found = decisions(back, messages)
    assert found == decisions(rule, messages)
    assert all(len(decision.values) == POOL_SIZE and decision.reason is None for decision in found)
    back.save_pretrained(tmp_path / "again")
    for file in (tmp_path / "new" / "rule").rglob("*"):
        if file.is_file() and file.suffix != ".skops" and file.name != "dhd_selector.json":  # skops writes the time
            copy = tmp_path / "again" / file.relative_to(tmp_path / "new" / "rule")
            assert copy.read_bytes() == file.read_bytes(), file.name
    assert capfd.readouterr() == ("", "")


def test_words_and_their_vocabulary_come_back(messages: pd.DataFrame, tmp_path: Path) -> None:
    X, texts = build_features(messages), messages[list(TEXT_COLUMNS)].fillna("").assign(pool=pool_codes(messages))
    y = 0.2 - 0.2 * X["hedges"].to_numpy()
    selector = load_selector("logistic", text=True, inverse_penalty=1.0)
    fit_selector(selector, X, y, messages[["trajectory_value"]], np.ones(len(X)), texts)
    rule = DecisionRule("logistic", selector, "keep-best", (0.0,))
    rule.save_pretrained(tmp_path / "rule")
    back = Selector.from_pretrained(tmp_path / "rule")
    assert "roughly" in back.selector.words_.vocabulary_  # type: ignore[attr-defined]
    found = decisions(back, messages)
    assert found == decisions(rule, messages) and len({decision.kept for decision in found}) > 1
    _, rows = pools(messages)[0]
    (problem, _), reworded = pools(messages)[0], [row | {"key_idea": "roughly roughly"} for row in rows]
    assert back.decide(problem, reworded) != back.decide(problem, rows), "the words are read"


def test_lgbm_removes_what_it_predicts_to_be_worst(messages: pd.DataFrame, tmp_path: Path) -> None:
    rule_of("lgbm", messages).save_pretrained(tmp_path / "rule")
    rule = Selector.from_pretrained(tmp_path / "rule")
    removed = 0
    for decision in decisions(rule, messages):
        worst = min(decision.values, key=lambda slot: (decision.values[slot], slot))
        expected = [slot for slot in range(POOL_SIZE) if slot != worst or decision.values[worst] >= 0.1]
        assert list(decision.kept) == expected
        removed += len(expected) < POOL_SIZE
    assert removed > 0
    never = dataclasses.replace(rule, thresholds=(NEVER,))
    never.save_pretrained(tmp_path / "never")
    back = Selector.from_pretrained(tmp_path / "never")
    assert back.thresholds == (NEVER,)
    assert {decision.kept for decision in decisions(back, messages)} == {tuple(range(POOL_SIZE))}


def test_nothing_is_unpickled(messages: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    rule = rule_of("keep-all", messages, selector=fitted(Everything(), messages), name="mine.py:Everything")
    rule.save_pretrained(tmp_path / "rule")
    expected = decisions(rule, messages)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    assert decisions(Selector.from_pretrained(tmp_path / "rule", selector=Everything), messages) == expected


class Everything(BaseEstimator):
    """A selector of a user, with every kind of fitted state that is saved by itself."""

    def __init__(self, share: float = 0.5, names: tuple[str, ...] = ("a", "b"), seed: int | None = None) -> None:
        self.share, self.names, self.seed = share, names, seed

    def fit(self, X: pd.DataFrame, y: Any, *, labels: Any = None, sample_weight: Any = None) -> Everything:
        self.model_ = make_pipeline(StandardScaler(), Ridge()).fit(X.to_numpy(), y)
        self.inner_ = load_selector("lgbm", n_estimators=3).fit(X, y)
        self.mean_ = np.float64(np.mean(y))
        self.counts_ = np.arange(6, dtype=np.int32).reshape(2, 3).T
        self.table_ = {"a": [1, 2.5, None, "text", (True, float("nan"), float("inf"))], "b": {}}
        self._cache = object()
        return self

    def predict_value(self, X: pd.DataFrame) -> Any:
        return self.share * (self.model_.predict(X.to_numpy()) + self.inner_.predict_value(X)) - self.mean_


def test_every_kind_of_state_comes_back(messages: pd.DataFrame, tmp_path: Path) -> None:
    selector = fitted(Everything(share=0.25, names=("c",)), messages)
    states.save_selector(selector, tmp_path)
    back: Any = states.load_selector_of(Everything, tmp_path)
    assert back.get_params() == {"share": 0.25, "names": ("c",), "seed": None}
    X = build_features(messages)
    assert np.array_equal(back.predict_value(X), selector.predict_value(X))
    assert back.counts_.dtype == np.int32 and np.array_equal(back.counts_, np.arange(6).reshape(2, 3).T)
    assert repr(back.table_) == repr(selector.table_)  # type: ignore[attr-defined]
    assert not hasattr(back, "_cache")


class OwnFiles(Everything):
    """Writes itself."""

    def save(self, folder: Path) -> None:
        (folder / "mean.txt").write_text(repr(float(self.mean_)))

    @classmethod
    def load(cls, folder: Path) -> OwnFiles:
        made = cls()
        made.mean_ = float((folder / "mean.txt").read_text())
        return made

    def predict_value(self, X: pd.DataFrame) -> Any:
        return np.full(len(X), self.mean_)


def test_a_selector_that_writes_itself(messages: pd.DataFrame, tmp_path: Path) -> None:
    assert issubclass(OwnFiles, Savable)
    rule = DecisionRule("mine.py:OwnFiles", fitted(OwnFiles(), messages), "remove-worst", (0.0,))
    rule.save_pretrained(tmp_path / "rule")
    assert sorted(path.name for path in (tmp_path / "rule" / "selector").iterdir()) == ["mean.txt"]
    back = Selector.from_pretrained(tmp_path / "rule", selector=OwnFiles)
    assert decisions(back, messages) == decisions(rule, messages)


def test_code_is_never_taken_from_a_saved_rule(messages: pd.DataFrame, tmp_path: Path) -> None:
    rule = DecisionRule("json:JSONDecoder", fitted(OwnFiles(), messages), "remove-worst", (0.0,))
    rule.save_pretrained(tmp_path / "rule")
    with pytest.raises(
        DhdError, match=r"made with 'json:JSONDecoder', which is no selector of an installed package.*code"
    ):
        Selector.from_pretrained(tmp_path / "rule")
    with pytest.raises(DhdError, match="must be 'OwnFiles', got 'Everything'"):
        Selector.from_pretrained(tmp_path / "rule", selector=Everything)
    with pytest.raises(DhdError, match="'nowhere.py:OwnFiles' must be readable"):
        Selector.from_pretrained(tmp_path / "rule", selector="nowhere.py:OwnFiles")


def unsavable(kind: str) -> Selector:
    selector = Everything()
    if kind == "object":
        selector.thing_ = object()
    if kind == "nested":
        selector.thing_ = [1, {"deep": {1, 2}}]
    if kind == "lambda":
        selector.thing_ = lambda x: x
    if kind == "objects":
        selector.thing_ = np.array(["a", None], dtype=object)
    if kind == "stranger":
        selector.model = 3
    if kind == "half":
        return type("Half", (Everything,), {"save": lambda self, folder: None})()
    return selector


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("object", r"'thing_' of Everything must be numbers.*got builtins\.object\. Give the class save\(folder\)"),
        ("nested", r"'thing_\.1\.deep' of Everything must be .*got builtins\.set"),
        ("lambda", "got builtins.function"),
        ("objects", "got numpy.ndarray"),
        ("stranger", "must be parameters of its constructor or end in an underscore to be saved, got model"),
        ("half", "must have both"),
    ],
)
def test_what_is_no_data_is_refused(kind: str, message: str, tmp_path: Path) -> None:
    rule = DecisionRule("x.py:Everything", unsavable(kind), "remove-worst", (0.0,))
    with pytest.raises(DhdError, match=message):
        rule.save_pretrained(tmp_path / "rule")
    assert list(tmp_path.iterdir()) == [], "nothing half-written stays"


@pytest.mark.parametrize("name", [name for name in BUILT_IN if is_privileged(load_selector(name))])
def test_privileged_selectors_cannot_be_saved(name: str, tmp_path: Path) -> None:
    rule = DecisionRule(name, load_selector(name), "remove-worst", (0.0,))
    with pytest.raises(DhdError, match="when it decides, which nobody has for a new pool, so it cannot be saved"):
        rule.save_pretrained(tmp_path / "rule")
    assert not (tmp_path / "rule").exists()


def edit(folder: Path, **changes: Any) -> None:
    """Change the manifest and sign it, as another version of dhd-labels would have written it."""
    file = folder / "dhd_selector.json"
    content = json.loads(file.read_text()) | changes
    content = {key: value for key, value in content.items() if key != "digest" and value is not None}
    file.write_text(json.dumps(content | {"digest": content_id(content)}))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def unsigned(folder: Path) -> None:
    file = folder / "dhd_selector.json"
    file.write_text(file.read_text().replace('"remove-worst"', '"keep-best"'))


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "format": (
        lambda f: edit(f, format=2),
        r"'format' of .*dhd_selector\.json must be 1, got 2\. Fit and save it again",
    ),
    "features": (
        lambda f: edit(f, feature_version="0"),
        r"'feature_version' of .* must be '\d+', got '0'\. Fit and save",
    ),
    "schema": (lambda f: edit(f, schema_version="1"), r"'schema_version' of .* must be '\d+', got '1'\. Fit and save"),
    "columns": (lambda f: edit(f, features=["slot"]), "'features' of .* differ in answer_"),
    "edited": (unsigned, r"dhd_selector\.json was edited after it was saved"),
    "cut manifest": (lambda f: cut(f / "dhd_selector.json"), r"dhd_selector\.json cannot be read .*cut short"),
    "no manifest": (lambda f: (f / "dhd_selector.json").unlink(), "holds no saved rule"),
    "other json": (lambda f: (f / "dhd_selector.json").write_text("[1]"), "must be a saved rule of dhd-labels"),
    "cut trees": (lambda f: cut(f / "selector/booster_.txt"), r"selector/booster_\.txt was edited or cut short"),
    "edited state": (lambda f: (f / "selector/state.json").write_text("{}"), r"selector/state\.json was edited"),
    "missing": (lambda f: (f / "selector/booster_.txt").unlink(), r"lacks the file selector/booster_\.txt"),
    "path": (lambda f: edit(f, files={"../outside": "0"}), "must have plain names, got '../outside'"),
    "thresholds": (lambda f: edit(f, thresholds=[1.0, 2.0]), "must be 1 for remove-worst, got 2"),
    "threshold": (lambda f: edit(f, thresholds=["low"]), "is not what this version writes"),
    "policy": (lambda f: edit(f, policy="remove-best"), "policy 'remove-best' is not known"),
    "facts": (lambda f: edit(f, training={"labels": "x"}), "is not what this version writes"),
    "code": (lambda f: edit(f, selector="os:system"), "code is never taken from a saved rule"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_folder_is_named(fault: str, messages: pd.DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "rule"
    rule_of("lgbm", messages, training=FACTS).save_pretrained(folder)
    Selector.from_pretrained(folder)
    damage, message = FAULTS[fault]
    damage(folder)
    with pytest.raises(DhdError, match=message):
        Selector.from_pretrained(folder)


HOSTILE = {
    "another class": (
        {"__kind__": "selector", "class": "os:system", "value": {}},
        "must be of dhd_selectors, got 'os:sys",
    ),
    "a function": (
        {"__kind__": "selector", "class": "dhd_selectors.registry:Path", "value": {}},
        "'dhd_selectors.registry:Path' in a saved selector must be a selector",
    ),
    "a class that is no record": (
        {"__kind__": "record", "class": "dhd_selectors.lgbm:LightGBMSelector", "value": {}},
        "'dhd_selectors.lgbm:LightGBMSelector' in a saved selector must be a record",
    ),
    "another folder": ({"__kind__": "booster", "value": "../../secret.txt"}, "must have a plain name"),
    "another kind": ({"__kind__": "pickle", "value": "x"}, "kinds of values that this version knows, got 'pickle'"),
    "no kind": ({"value": 1}, r"state of LightGBMSelector in .* cannot be read \(KeyError"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_state_cannot_ask_for_code_or_other_files(case: str, tmp_path: Path) -> None:
    value, message = HOSTILE[case]
    state = {"parameters": {}, "fitted": {"booster_": value}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(DhdError, match=message):
        states.load_selector_of(type(load_selector("lgbm")), tmp_path)


def test_an_untrusted_type_in_a_skops_file_is_refused(tmp_path: Path) -> None:
    import skops.io

    pipeline = make_pipeline(StandardScaler()).set_params(standardscaler=Everything())
    skops.io.dump(pipeline, tmp_path / "model_.skops")
    state = {"parameters": {}, "fitted": {"model_": {"__kind__": "sklearn", "value": "model_.skops"}}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(DhdError, match="cannot be read .*Untrusted"):
        states.load_selector_of(Everything, tmp_path)


def test_an_estimator_of_another_scikit_learn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn.base
    import skops.io

    with monkeypatch.context() as other:
        other.setattr(sklearn.base, "__version__", "0.1.0")
        skops.io.dump(Ridge().fit([[0.0], [1.0]], [0.0, 1.0]), tmp_path / "model_.skops")
    state = {"parameters": {}, "fitted": {"model_": {"__kind__": "sklearn", "value": "model_.skops"}}}
    (tmp_path / "state.json").write_text(json.dumps(state))
    with pytest.raises(DhdError, match=r"written by scikit-learn 0\.1\.0, and this is .*fit and save again"):
        states.load_selector_of(Everything, tmp_path)


def test_other_files_are_not_overwritten_and_a_rule_is_replaced_whole(messages: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    rule = rule_of("lgbm", messages)
    with pytest.raises(DhdError, match="also holds thesis.txt, which is not overwritten"):
        rule.save_pretrained(tmp_path / "mine")
    with pytest.raises(DhdError, match="is a file"):
        rule.save_pretrained(tmp_path / "mine" / "thesis.txt")
    rule.save_pretrained(tmp_path / "rule")
    rule_of("keep-all", messages).save_pretrained(tmp_path / "rule")
    assert sorted(path.name for path in (tmp_path / "rule" / "selector").iterdir()) == ["state.json"]
    assert Selector.from_pretrained(tmp_path / "rule").name == "keep-all"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "rule"]
    shutil.rmtree(tmp_path / "rule")
    with pytest.raises(DhdError, match=r"There is no saved rule '.*rule'\. Make one with"):
        Selector.from_pretrained(tmp_path / "rule")
    with pytest.raises(DhdError, match="holds no saved rule"):
        Selector.from_pretrained(tmp_path / "mine")


def test_the_loader_is_no_part_of_what_a_selector_has_to_have() -> None:
    assert isinstance(Everything(), Selector)
    assert not isinstance(object(), Selector)
    assert not hasattr(Everything, "from_pretrained")


def test_loading_needs_no_heavy_library(messages: pd.DataFrame, tmp_path: Path) -> None:
    import subprocess

    rule_of("lgbm", messages).save_pretrained(tmp_path / "rule")
    code = (
        f"import sys; sys.path[:] = {sys.path!r}\nfrom dhd_selectors import Selector\n"
        f"Selector.from_pretrained({str(tmp_path / 'rule')!r})\n"
        "print(sorted({'torch', 'datasets', 'transformers', 'skops', 'jinja2', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Selector.from_pretrained(tmp_path / "rule")
