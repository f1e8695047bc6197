"""The presets of the paper, run whole over HTTP: two servers, one for each model, at temperature 0."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import ROOT

from dhd_labels.config import load_config
from dhd_labels.dataset.build import build
from dhd_labels.dataset.load import load
from dhd_labels.replay.estimate import plan_run
from dhd_labels.replay.run import run
from dhd_labels.report.summary import summarise
from tests.engines.fault_server import FaultServer, ScriptedFront, failure, serving
from tests.replay.test_studies import results

GEMMA, OSS = "google/gemma-4-31B-it", "openai/gpt-oss-120b"
SMALL = ("benchmarks=[]", "benchmark={name: oracle, size: 3}", "probe.prompts=3", "protocol.blocks=2",
    "masking.cases={indeterminate: 1}", "masking.repeats=1", "sensitivity.order={problems: 1, blocks: 2}",
    "sensitivity.integrator={problems: 2, blocks: 2}")  # fmt: skip


def server(model: str, solver_seed: int) -> FaultServer:
    made = FaultServer(ScriptedFront(model, batch_noise=0.7, solver_seed=solver_seed))
    made.models = failure(404)
    return made


def test_paper_gemma_runs_whole_with_two_models_on_two_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config("paper-gemma", SMALL)
    with serving(server(GEMMA, 0)) as gemma, serving(server(OSS, 5)) as oss:
        monkeypatch.setenv("DHD_GEMMA_URL", gemma.url)
        monkeypatch.setenv("DHD_OSS_URL", oss.url)
        planned = {role.role: role for role in plan_run(config).roles}
        assert planned["integrator"].host == f"127.0.0.1:{gemma.port}"
        report = run(config, tmp_path / "run")
        assert {seen.body["model"] for seen in gemma.seen} == {GEMMA}
        assert {seen.body["model"] for seen in oss.seen} == {OSS}
        first = Counter(seen.body["messages"][0]["content"].splitlines()[0] for seen in oss.seen)
        assert set(first) == {"# Evaluator", "# Integrator"} and first["# Integrator"] == 2 * 2 * 7 + 3 * 3
        sent = len(gemma.seen) + len(oss.seen)
        assert run(config, tmp_path / "run").tally.made == 0 and len(gemma.seen) + len(oss.seen) == sent
    found = results(report)
    models = {m["role"]: (m["asked_for"], m["came_back"]) for m in summarise(report.directory, found).models}
    assert {models.pop(role) for role in ("evaluator", "other_integrator", "other_probe")} == {(OSS, OSS)}
    assert set(models.values()) == {(GEMMA, GEMMA)}
    assert all(len(r.outcomes) + len(r.masked) == r.planned for r in found)
    build(report.directory, tmp_path / "data")
    frame = load(tmp_path / "data", "messages")
    rows = [row for split in frame.values() for row in split]
    assert Counter((row["integrator"], row["order"]) for row in rows) == {
        (GEMMA, "original"): 15, (GEMMA, "reversed"): 5, (OSS, "original"): 10
    }  # fmt: skip
    card = (tmp_path / "data" / "README.md").read_text()
    assert "Temperature 0 on an ordinary server" in card and GEMMA in card and OSS in card
    store = (tmp_path / "run" / "store.sqlite").read_bytes()
    assert str(gemma.port).encode() not in store, "where a model was served is no part of the record"


def test_paper_oss_plays_actor_and_evaluator_with_one_declared_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config("paper-oss", [*SMALL[:4], SMALL[6], "benchmark.size=2"])
    with serving(server(OSS, 0)) as oss:
        monkeypatch.setenv("DHD_OSS_URL", oss.url)
        report = run(config, tmp_path)
    kinds = Counter(seen.body["messages"][0]["content"].splitlines()[0] for seen in oss.seen)
    # Two problems of 19 message sets and 2 blocks, one of them again in reversed order; 2 prompts probed 3 times.
    assert kinds["# Integrator"] == 2 * (19 + 14) + 14 + 2 * 3 and kinds["# Evaluator"] >= 2
    temperatures = {seen.body["messages"][0]["content"].splitlines()[0]: seen.body["temperature"] for seen in oss.seen}
    assert temperatures == {"# Recruiter": 0, "# Hypothesizer": 0.7, "# Integrator": 0, "# Evaluator": 0}
    assert {seen.body["max_tokens"] for seen in oss.seen} == {2048, 4096}
    assert all(r.pool for r in results(report))


def test_a_missing_address_is_an_error_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DHD_OSS_URL", raising=False)
    from dhd_labels.errors import DhdError

    with pytest.raises(DhdError, match="'DHD_OSS_URL' must hold the base URL"):
        run(load_config("paper-oss", SMALL[:2]), tmp_path / "run")
    assert "DHD_OSS_URL" in (ROOT / "dhd_labels/presets/paper-oss.yaml").read_text()
