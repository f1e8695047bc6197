"""Saved rules on the Hub: the real client against a Hub on localhost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dhd_labels.records import content_id
from dhd_selectors import load_selector
from dhd_selectors.features import build_features
from dhd_selectors.saving import DecisionRule
from tests.hub import TOKEN, HubStub, Repo, running

PRELUDE = """
import pickle, sys
from pathlib import Path
from dhd_selectors import Selector
from dhd_selectors.saving.hub import push_folder
from dhd_labels.errors import DhdError
folder = Path(sys.argv[1])
rows = pickle.loads((folder.parent / "rows.pickle").read_bytes())
def attempt(call):
    try:
        print(call())
    except DhdError as error:
        print("DhdError:", error)
def decisions(rule):
    return [rule.decide(pool.iloc[0], pool) for _, pool in rows.groupby("pool_id", sort=False)]
"""


@pytest.fixture
def hub() -> Iterator[HubStub]:
    with running() as stub:
        yield stub


@pytest.fixture
def folder(messages: pd.DataFrame, tmp_path: Path) -> Path:
    X = build_features(messages)
    y = 0.2 - 0.2 * X["hedges"].to_numpy() + np.random.default_rng(0).normal(0, 0.05, len(X))
    selector = load_selector("lgbm", n_jobs=1).fit(X, y)
    messages.to_pickle(tmp_path / "rows.pickle")
    DecisionRule("lgbm", selector, "remove-worst", (0.1,)).save_pretrained(tmp_path / "rule")
    return tmp_path / "rule"


def child(hub: HubStub, folder: Path, code: str, token: str | None = TOKEN) -> list[str]:
    """Run code with the real client against the stub; return the lines it printed: no token, no traceback."""
    keep = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING"))}
    env = keep | hub.environment(folder.parent / "home", token) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    # huggingface_hub's own LFS upload uses a deprecated argument of its HTTP client
    strict = [sys.executable, "-W", "error", "-W", "ignore:Use 'content=<...>':DeprecationWarning", "-c"]
    done = subprocess.run([*strict, PRELUDE + code, str(folder)], env=env, capture_output=True, text=True, timeout=100)
    assert (token or TOKEN) not in done.stdout + done.stderr
    assert (done.returncode, done.stderr) == (0, "")
    assert hub.unknown == []
    return done.stdout.splitlines()


@pytest.mark.parametrize("lfs_above", [1 << 30, 1000], ids=["regular", "lfs"])
def test_a_pushed_rule_comes_back_with_equal_decisions(hub: HubStub, folder: Path, lfs_above: int) -> None:
    hub.lfs_above, hub.lfs_suffixes = lfs_above, ()
    (folder / "secret.txt").write_text("not part of the rule")
    (folder / "report.json").write_text("{}")
    out = child(
        hub,
        folder,
        """
rule = Selector.from_pretrained(folder)
pushed = push_folder(folder, "org/rule")
print(pushed.repo, pushed.commit, pushed.url)
for place in ("org/rule", f"org/rule@{pushed.commit}", "org/rule@main"):
    back = Selector.from_pretrained(place)
    assert decisions(back) == decisions(rule), place
    assert (back.name, back.policy, back.thresholds) == ("lgbm", "remove-worst", (0.1,))
again = rule.push_to_hub("org/again", revision="v1")
assert decisions(Selector.from_pretrained("org/again@v1")) == decisions(rule)
""",
    )
    repo = hub.models["org/rule"]
    assert out == [f"org/rule {repo.refs['main']} {hub.endpoint}/org/rule"]
    assert repo.private and hub.repos == {}
    assert hub.commits("org/rule", "models") == 1
    assert bool(repo.lfs) == (lfs_above == 1000)
    pushed = repo.commits[repo.refs["main"]]
    data = {"selector/arrays.safetensors", "selector/booster_.txt", "selector/state.json"}
    expected = {"README.md", "dhd_selector.json", "report.json", *data}
    assert pushed.keys() - {".gitattributes"} == expected
    assert all(pushed[path] == (folder / path).read_bytes() for path in expected)
    assert "selector/booster_.txt" in hub.models["org/again"].commits[hub.models["org/again"].refs["v1"]]
    assert "selector/booster_.txt" not in hub.models["org/again"].commits[hub.models["org/again"].refs["main"]]


def test_a_second_push_leaves_nothing_of_the_first(hub: HubStub, folder: Path) -> None:
    out = child(
        hub,
        folder,
        """
from dhd_selectors import load_selector
from dhd_selectors.saving import DecisionRule
push_folder(folder, "org/rule", private=False)
DecisionRule("keep-all", load_selector("keep-all"), "remove-worst", (0.0,)).push_to_hub("org/rule", private=False)
print(Selector.from_pretrained("org/rule").name)
attempt(lambda: push_folder(folder, "org/rule"))
""",
    )
    repo = hub.models["org/rule"]
    assert out[0] == "keep-all"
    assert [path for path in repo.commits[repo.refs["main"]] if path.startswith("selector/")] == ["selector/state.json"]
    assert out[1].startswith("DhdError: The model 'org/rule' is public already, and pushes are private by default")
    assert not repo.private and hub.commits("org/rule", "models") == 2


def test_tokens_and_refusals(hub: HubStub, folder: Path) -> None:
    push = 'attempt(lambda: push_folder(folder, "org/rule"))'
    assert child(hub, folder, push, token=None)[0].startswith("DhdError: Pushing needs a Hub token, and there is none.")
    assert hub.requests == []
    assert "the token is not valid (401)" in child(hub, folder, push, token="hf_wrongwrongwrong")[0]
    hub.read_only = True
    refused = child(hub, folder, push)[0]
    assert refused.startswith(
        "DhdError: Pushing to the model 'org/rule' failed: the token may not do this (403; it says: "
    )
    assert child(hub, folder, 'attempt(lambda: push_folder(folder, "rule"))')[0].startswith(
        "DhdError: The repository must"
    )
    assert "org/rule" not in hub.models


def manifest(folder: Path, **changes: object) -> bytes:
    content = json.loads((folder / "dhd_selector.json").read_text()) | changes
    del content["digest"]
    return json.dumps(content | {"digest": content_id(content)}).encode()


def test_what_cannot_be_loaded(hub: HubStub, folder: Path) -> None:
    hub.models["org/other"] = Repo(private=False)
    hub.models["org/other"].commit("main", {"README.md": b"A model of somebody else."})
    hub.models["org/old"] = Repo(private=False)
    hub.models["org/old"].commit("main", {"dhd_selector.json": manifest(folder, feature_version="0")})
    hub.models["org/hostile"] = Repo(private=False)
    outside = manifest(folder, files={"../../../outside.txt": "0"})
    hub.models["org/hostile"].commit("main", {"dhd_selector.json": outside})
    out = child(
        hub,
        folder,
        """
for place in ("org/none", "org/other", "org/old", "org/hostile", "nowhere", "a/b/c"):
    attempt(lambda: Selector.from_pretrained(place))
push_folder(folder, "org/rule")
attempt(lambda: Selector.from_pretrained("org/rule@v9"))
""",
    )
    assert "failed: no such saved rule, or it is private and this token may not see it" in out[0]
    assert "the saved rule has no dhd_selector.json, so dhd-labels did not make it. Make one with" in out[1]
    assert "'feature_version' of" in out[2] and "must be" in out[2] and "got '0'" in out[2]
    assert "must have plain names, got '../../../outside.txt'" in out[3]
    assert out[4].startswith("DhdError: There is no saved rule 'nowhere'. Make one with")
    assert out[5].startswith("DhdError: There is no saved rule 'a/b/c'.")
    assert "there is no such revision" in out[6]


def test_what_comes_back_different_is_an_error(hub: HubStub, folder: Path) -> None:
    trees = (folder / "selector" / "booster_.txt").read_bytes()
    hub.corrupt["selector/booster_.txt"] = trees[: len(trees) // 2]
    out = child(hub, folder, 'attempt(lambda: push_folder(folder, "org/rule"))')
    assert "selector/booster_.txt was edited or cut short after it was saved" in out[0]


def test_without_a_network(hub: HubStub, folder: Path) -> None:
    hub.endpoint = "http://127.0.0.1:9"
    assert "cannot be reached" in child(hub, folder, 'attempt(lambda: Selector.from_pretrained("org/rule"))')[0]
