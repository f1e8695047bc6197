"""`--out`, `--push` and `training.evaluate`: what is saved, what the card says, what is refused before it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dhd_labels.dataset.load import load_frame
from dhd_labels.errors import DhdError
from dhd_labels.simulate import Plan, scenario, simulate_dataset
from dhd_selectors import Selector, load_selector
from dhd_selectors.policy import load_policy
from dhd_selectors.saving import card
from tests.dataset.releases import write_release
from tests.hub import TOKEN, running
from training import evaluate, fit, share
from training.crossfit import decide, fit_fold
from training.data import load_data
from training.estimands import Fold
from training.evidence import all_evidence

OWN = """from sklearn.base import BaseEstimator


class Shorter(BaseEstimator):
    def __init__(self, per_word=0.01):
        self.per_word = per_word

    def fit(self, X, y, *, labels=None, sample_weight=None):
        self.mean_ = X["content_words"].mean()
        return self

    def predict_value(self, X):
        return self.per_word * (self.mean_ - X["content_words"].to_numpy())
"""


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "reasoning"
    simulate_dataset(Plan(scenario("reasoning", benchmarks=2), 60, 3, 1), folder)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "shorter.py").write_text(OWN)
    return f"{tmp_path / 'shorter.py'}:Shorter"


def kept(rule: Any, labels: Path, split: str = "test") -> list[list[int]]:
    messages, problems = (load_frame(labels, config, (split,)) for config in ("messages", "problems"))
    by_id = {row["problem_id"]: row for row in problems.to_dict("records")}
    return [rule.keep(by_id[rows["problem_id"].iloc[0]], rows) for _, rows in messages.groupby("pool_id", sort=False)]


def restricted(config: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows of the second benchmark may not be trained on, and of the first nobody knows whether commercially."""
    if config != "messages":
        return frame
    second = (frame["benchmark"] == "simulated-2").to_numpy()
    return frame.assign(
        train_allowed=pd.array(~second, dtype="boolean"),
        commercial_use=pd.array([False if s else None for s in second], dtype="boolean"),
        license=np.where(second, "CC-BY-NC-4.0", "unclear"),
    )


def measured(labels: Path, selector: str, **options: Any) -> share.Measured:
    def load(place: str, config: str, splits: tuple[str, ...]) -> pd.DataFrame:
        return restricted(config, load_frame(place, config, splits))

    return fit.measure_selector(fit.FitOptions(selector, str(labels), **options), load)


def test_out_saves_the_rule_that_all_labels_give(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rule"
    arguments = ["--selector", "lgbm", "--labels", str(labels), "--policy", "or-alone", "--out", str(out)]
    assert fit.main([*arguments, "--json", str(tmp_path / "gains.json")]) == 0
    assert f"Saved in {out}." in capsys.readouterr().out
    rule = Selector.from_pretrained(out)
    data = load_data(str(labels), ("train", "validation", "test"))
    train = np.flatnonzero(data.pools["split"] != "test")
    test = np.flatnonzero(data.pools["split"] == "test")
    evidence = all_evidence(data)
    fold = Fold(train, test, evidence, evidence)
    selector = load_selector("lgbm", random_state=0, n_jobs=1).fit(
        data.X[np.isin(data.pool, train)], data.y[np.isin(data.pool, train)],
        sample_weight=np.ones(5 * len(train)),
    )  # fmt: skip
    rows = data.rows[test].ravel()
    assert np.array_equal(rule.selector.predict_value(data.X.iloc[rows]), selector.predict_value(data.X.iloc[rows]))
    seen = load_data(str(labels), fit.FIT_SPLITS)
    everything = Fold(np.arange(seen.n_pools), np.arange(0), all_evidence(seen), all_evidence(seen))
    tuned = fit_fold(load_selector("lgbm"), load_policy("or-alone"), seen, everything, seed=(0, 1_000_000))
    assert tuned is not None and rule.thresholds == tuned.thresholds
    actions = decide(tuned, load_policy("or-alone"), data, fold)
    messages = load_frame(labels, "messages", ("test",))
    by_pool = {pool: int(action) for pool, action in zip(data.pools["pool_id"].iloc[test], actions, strict=True)}
    expected = [[s for s in range(5) if by_pool[pool] >> s & 1] for pool in messages["pool_id"].unique()]
    assert kept(rule, labels) == expected
    facts = rule.training
    assert facts is not None
    assert (facts.labels, facts.revision, facts.splits) == ("reasoning", None, ("train", "validation"))
    assert (facts.n_problems, facts.n_messages) == (len(train), 5 * len(train))
    assert facts.report == json.loads((tmp_path / "gains.json").read_text())
    assert facts.report == json.loads((out / "report.json").read_text())
    assert {path.name for path in out.iterdir()} >= {"report.md", "report.svg", "dhd_selector.json", "README.md"}


def test_a_class_of_a_file_is_measured_saved_and_used(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "shorter.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    arguments = ["--selector", "deep/shorter.py:Shorter", "--labels", str(labels), "--json", "a.json"]
    assert evaluate.main(arguments) == 0
    assert not (tmp_path / "rule").exists()
    assert fit.main([*arguments[:-1], "b.json", "--out", "rule"]) == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes(), "evaluate measures as fit does"
    assert capsys.readouterr().err == ""
    with pytest.raises(DhdError, match=r"made with 'shorter\.py:Shorter'"):
        Selector.from_pretrained("rule")
    rule = Selector.from_pretrained("rule", selector="deep/shorter.py:Shorter")
    assert {len(slots) for slots in kept(rule, labels)} <= {4, 5}
    written = b"".join(file.read_bytes() for file in (tmp_path / "rule").rglob("*") if file.is_file())
    assert str(tmp_path).encode() not in written and b"deep/" not in written, "no folder of this machine is told"


def test_evaluate_has_the_options_of_fit_that_measure(capsys: pytest.CaptureFixture[str]) -> None:
    def options(main: Any) -> set[str]:
        assert main(["--help"]) == 0
        return {word for word in capsys.readouterr().out.replace("│", " ").split() if word.startswith("--")}

    assert options(fit.main) - options(evaluate.main) == {"--out", "--push", "--public"}
    assert options(evaluate.main) - options(fit.main) == set()
    assert evaluate.main(["--selector", "lgbm", "--labels", "x", "--out", "y"]) == 2


def test_the_licences_are_those_of_the_files(labels: Path) -> None:
    rule = share.fit_rule(fit.measure_selector(fit.FitOptions("consensus", str(labels))), share.pin(str(labels)))
    rows = load_frame(labels, "messages", fit.FIT_SPLITS)
    rows = rows[rows["order"] == "original"]
    assert rule.training is not None and rows["license"].notna().all() and rows["commercial_use"].all()
    found = [(use.benchmark, use.license, use.train_allowed, use.commercial_use) for use in rule.training.benchmarks]
    columns = ["benchmark", "license", "train_allowed", "commercial_use"]
    assert found == [tuple(row) for row in rows[columns].drop_duplicates().sort_values("benchmark").to_numpy()]
    assert "Every message that it learned from may be used commercially." in card.render(rule)


def test_a_rule_is_fitted_and_saved_on_a_release_of_the_authors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, out = write_release(tmp_path / "release", problems=12), tmp_path / "rule"
    arguments = ["--selector", "confidence", "--labels", str(release), "--no-placebos", "--out", str(out)]
    assert fit.main(arguments) == 0, capsys.readouterr().err
    facts = Selector.from_pretrained(out).training
    assert facts is not None and facts.labels == "release" and facts.digest == share.pin(str(release)).digest


def test_restricted_rows_are_dropped_and_counted(labels: Path, own: str) -> None:
    made = measured(labels, own)
    rule = share.fit_rule(made, share.pin(str(labels)))
    facts = rule.training
    assert facts is not None
    first, second = facts.benchmarks
    assert (first.benchmark, first.license, first.train_allowed, first.commercial_use) == (
        "simulated-1", "unclear", True, None,
    )  # fmt: skip
    assert (second.license, second.train_allowed, second.commercial_use) == ("CC-BY-NC-4.0", False, False)
    assert first.learned_from == facts.n_messages and first.dropped == second.learned_from == 0
    barred = int((~made.data.trainable).sum())
    assert second.dropped == barred == facts.report["excluded"]["train_not_allowed"] > 0
    told = f"{facts.n_messages} of the {facts.n_messages} messages that it learned from may not be used commercially"
    assert told in card.render(rule)
    assert f"{barred} messages were dropped because their licence does not allow training." in card.render(rule)


def test_the_card_of_a_data_set_on_disk_knows_its_licences(labels: Path) -> None:
    made = fit.measure_selector(fit.FitOptions("confidence", str(labels), placebos=False))
    facts = share.fit_rule(made, share.pin(str(labels))).training
    assert facts is not None
    written = load_frame(str(labels), "messages", ("train", "validation"))
    for use in facts.benchmarks:
        rows = written[(written["benchmark"] == use.benchmark).to_numpy()]
        assert [use.license] == rows["license"].unique().tolist()
        assert [use.commercial_use] == rows["commercial_use"].unique().tolist()


def test_the_card_tells_what_was_noted_of_decisions_that_a_saved_rule_makes_otherwise(labels: Path) -> None:
    options = fit.FitOptions("random", str(labels), policy="remove-up-to-2", placebos=False)
    rule = share.fit_rule(fit.measure_selector(options), share.pin(str(labels)))
    assert rule.training is not None
    (note,) = rule.training.report["notes"]
    assert "a saved rule would show another subset there" in note
    assert f"* {note}" in card.render(rule).replace("\\", "")


def test_a_rule_that_cannot_be_saved_leaves_its_report(labels: Path, tmp_path: Path) -> None:
    text = OWN.replace("        return self\n", "        self.what_ = lambda: None\n        return self\n", 1)
    (tmp_path / "odd.py").write_text(text)
    out = tmp_path / "out"
    arguments = ["--selector", f"{tmp_path / 'odd.py'}:Shorter", "--labels", str(labels), "--no-placebos"]
    assert fit.main([*arguments, "--out", str(out)]) == 2
    assert json.loads((out / "report.json").read_text())["n_problems"] > 0


def test_a_permission_in_words_is_used_and_repeated_in_the_card(labels: Path, own: str) -> None:
    why = "the authors | agreed in <b>writing</b>"
    made = measured(labels, own, allow_training_on=(f"simulated-2={why}",))
    rule = share.fit_rule(made, share.pin(str(labels)), {"simulated-2": why})
    facts = rule.training
    assert facts is not None
    second = facts.benchmarks[1]
    assert (second.train_allowed, second.dropped) == (False, 0) and second.learned_from > 0
    text = card.render(rule)
    told = f"{second.learned_from} messages of simulated-2 were learned from against their licence, by permission: the"
    assert told in text and r"the authors \| agreed in &lt;b&gt;writing&lt;/b&gt;" in text and "<b>" not in text


def test_rules_that_learn_nothing_say_so(labels: Path) -> None:
    rule = share.fit_rule(measured(labels, "keep-all"), share.pin(str(labels)))
    assert rule.training is not None
    assert (rule.training.n_messages, sum(use.learned_from for use in rule.training.benchmarks)) == (0, 0)


def test_a_comparator_leaves_its_report_alone(labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rule"
    assert fit.main(["--selector", "drop-wrong", "--labels", str(labels), "--out", str(out)]) == 0
    assert "the report alone, as this comparator needs verdicts when it decides" in capsys.readouterr().out
    assert {path.stem for path in out.iterdir()} == {"report"}
    assert fit.main(["--selector", "keep-all", "--labels", str(labels), "--out", str(out)]) == 0
    assert Selector.from_pretrained(out).name == "keep-all"


def test_state_that_does_not_come_back_is_named(labels: Path, tmp_path: Path) -> None:
    (tmp_path / "forgets.py").write_text(OWN.replace("self.mean_", "self._mean"))
    name = f"{tmp_path / 'forgets.py'}:Shorter"
    made = measured(labels, name)
    rule = share.fit_rule(made, share.pin(str(labels)))
    with pytest.raises(DhdError, match="The 'predict_value' of Shorter must not fail once it is saved and loaded, but"):
        share.share(rule, made.data, made.report, share.Sharing(tmp_path / "rule"))
    (tmp_path / "forgets.py").write_text(
        OWN.replace("self.mean_ =", "self.mean_ = 0.0\n        self._mean =").replace(
            "(self.mean_ -", "(getattr(self, '_mean', 1.0) -"
        )
    )
    made = measured(labels, name)
    rule = share.fit_rule(made, share.pin(str(labels)))
    with pytest.raises(DhdError, match="The saved Shorter must predict as it did before, but message 0 got"):
        share.share(rule, made.data, made.report, share.Sharing(tmp_path / "rule"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "MINE"], "also holds thesis.txt, which is not overwritten"),
        (["--push", "no-slash"], "must be 'org/name'"),
        (["--push", "org/rule"], "Pushing needs a Hub token"),
        (["--public"], "needs --push org/name"),
        (["--selector", "drop-wrong", "--push", "org/rule"], "it cannot be saved"),
        (["--allow-training-on", "simulated-2=yes", "--out", "new"], "must be given in words"),
        (["--selector", "missing.py:Mine"], "must be readable"),
        (["--out", "new", "--labels", "nowhere"], "There is no folder 'nowhere'"),
    ],
)
def test_refused_before_anything_is_measured(
    arguments: list[str],
    message: str,
    labels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr(fit, "measure", lambda *_, **__: pytest.fail("measured"))
    given = (
        ["--selector", "lgbm", "--labels", str(labels)] if "--selector" not in arguments else ["--labels", str(labels)]
    )
    assert fit.main([*given, *(str(tmp_path / "mine") if a == "MINE" else a for a in arguments)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err.replace("\n", " ") and "Traceback" not in shown.err
    assert not (tmp_path / "new").exists()


def test_labels_and_rule_on_the_hub(labels: Path, tmp_path: Path) -> None:
    """The card of a pushed rule names the commit of the labels; the rule loads back at its own commit."""
    code = """
import sys
from pathlib import Path
from dhd_labels.dataset.publish import push
from dhd_selectors import Selector
from training.fit import main
commit = push(Path(sys.argv[1]), "org/labels").commit
assert main(["--selector", "confidence", "--labels", "org/labels", "--push", "org/rule", "--public"]) == 0
training = Selector.from_pretrained("org/rule").training
assert (training.labels, training.revision) == ("org/labels", commit)
assert main(["--selector", "confidence", "--labels", "org/labels", "--push", "org/rule"]) == 2
"""
    with running() as hub:
        keep = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING"))}
        environment = keep | hub.environment(tmp_path / "home") | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(labels)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        assert TOKEN not in done.stdout + done.stderr and hub.unknown == []
        assert done.stderr.count("Error: ") == 1 and "'org/rule' is public already" in done.stderr
        rule, data = hub.models["org/rule"], hub.repos["org/labels"]
        assert (rule.private, data.private) == (False, True) and hub.commits("org/rule", "models") == 1
        pushed = rule.commits[rule.refs["main"]]
    assert f"Pushed to {hub.endpoint}/org/rule at commit {rule.refs['main']}." in done.stdout
    assert {"report.json", "report.md", "report.svg", "report.png"} < pushed.keys()
    text = pushed["README.md"].decode()
    assert f"org/labels, commit {data.refs['main']}." in text
    assert text.startswith("---\ndatasets:\n- org/labels\n")
