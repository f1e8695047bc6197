"""The command lines as a user types them: output, exit codes, errors without tracebacks."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, cli

from tests.hub import TOKEN, running

SMALL = ["--set", "benchmark.size=6", "--set", "protocol.blocks=2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One finished oracle run with its data set."""
    folder = tmp_path_factory.mktemp("made")
    ran = cli("run", "oracle", "--run-dir", str(folder / "run"), *SMALL)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    built = cli("build", str(folder / "run"), "--out", str(folder / "data"))
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_plan_counts_what_run_calls(made: Path) -> None:
    planned = json.loads(cli("plan", "oracle", *SMALL, "--json").stdout)
    state = json.loads(cli("status", str(made / "run"), "--json").stdout)
    assert planned["estimated"] is False and planned["problems"] == 6
    called: dict[str, int] = {}
    for row in state["calls"]:
        called[row["role"]] = called.get(row["role"], 0) + row["calls"]
    assert {role["role"]: role["calls"] for role in planned["roles"]} == called
    assert planned["arms"] == {"alone": 24, "only i": 120, "blocks: full": 24, "blocks: without i of 5": 60}


def test_plan_makes_no_file_and_needs_no_model(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'selectors'}"}
    block = "import sys; sys.modules['xllamacpp'] = None; from dhd_labels.__main__ import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", block, "plan", "quickstart"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "quickstart" in done.stdout and not list(tmp_path.iterdir())


def test_build_prints_the_tables_and_the_next_command(made: Path) -> None:
    out = cli("build", str(made / "run"), "--out", str(made / "data")).stdout
    for words in (
        "Messages by proposal and single-draw effect",
        "Accuracy by arm",
        "Identical-input disagreement",
        "Left out, by reason",
        f"python -m training.fit --selector lgbm --labels {made / 'data'}",
    ):
        assert words in out


def test_the_data_set_loads_with_one_line(made: Path) -> None:
    import datasets

    messages = datasets.load_dataset(str(made / "data"), "messages")
    replays = datasets.load_dataset(str(made / "data"), "replays")
    assert sum(split.num_rows for split in messages.values()) == 30
    assert sum(split.num_rows for split in replays.values()) == 6 * (4 + 20 + 14)
    assert {split: set(data["problem_id"]) for split, data in messages.items()} == {
        split: set(data["problem_id"]) for split, data in replays.items()
    }
    row = messages["train"][0]
    assert row["trajectory_value_reason"] is None and row["confidence_level"] in ("high", "low")


def test_show_one_problem(made: Path) -> None:
    page = cli("show", str(made / "run"), "002", "--prompts").stdout
    for words in ("oracle:002", "Reader 3", "Labels (success with minus success without)", "# Integrator"):
        assert words in page
    data = json.loads(cli("show", str(made / "run"), "oracle:002", "--json").stdout)
    assert len(data["messages"]) == 5 and len(data["outcomes"]) == 38 and len(data["labels"]) == 5


def test_a_selector_is_fitted_on_what_was_built(made: Path) -> None:
    out = made / "gain.json"
    command = ["--selector", "lgbm", "--labels", str(made / "data"), "--json", str(out)]
    done = cli(*command, module="training.fit")
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert {
        "selector",
        "estimand",
        "policy",
        "n_problems",
        "n_messages",
        "gains",
        "placebos",
        "excluded",
    } <= report.keys()
    assert {row["reference"] for row in report["gains"]} >= {"keep-all", "drop-wrong", "alone"}
    assert "too few problems" in done.stdout.replace("\n", " ").lower()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "oracel"], "Did you mean 'oracle'?"),
        (["plan", "oracle", "--set", "protocol.bloks=3"], "Did you mean 'blocks'?"),
        (["status", "nowhere"], "There is no run in 'nowhere'"),
        (["show", "nowhere", "x"], "There is no run in 'nowhere'"),
        (["build", "nowhere", "--out", "d"], "There is no run in 'nowhere'"),
        (["push", "nowhere", "--repo", "a/b", "--dry-run"], "nowhere"),
        (["problems", "quikstart"], "Did you mean 'quickstart'?"),
        (["run", "oracle", "--limit", "0"], "--limit"),
        (
            ["run", "oracle", "--set", "benchmark.name=quickstart"],
            "must be 'oracle' when a role is played by a scripted",
        ),
        (["rnu"], "rnu"),
    ],
)
def test_bad_usage_exits_2_with_one_sentence(arguments: list[str], words: str) -> None:
    done = cli(*arguments)
    assert done.returncode == 2
    assert words in done.stderr and "Traceback" not in done.stderr


def test_unknown_problem_gets_a_suggestion(made: Path) -> None:
    done = cli("show", str(made / "run"), "oracle:0002")
    assert done.returncode == 2 and "Did you mean 'oracle:002'?" in done.stderr


def test_unknown_selector_gets_a_suggestion(made: Path) -> None:
    done = cli("--selector", "lgmb", "--labels", str(made / "data"), module="training.fit")
    assert done.returncode == 2 and "Did you mean 'lgbm'?" in done.stderr


def test_a_folder_without_the_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    done = cli("--selector", "lgbm", "--labels", str(tmp_path), module="training.fit")
    assert done.returncode == 2 and "Traceback" not in done.stderr and "python -m dhd_labels build" in done.stderr


def test_failed_records_exit_3_and_are_counted(tmp_path: Path) -> None:
    faults = ["--set", "engines.world.fault_rate=0.1"]
    done = cli("run", "oracle", "--run-dir", str(tmp_path), *SMALL, *faults)
    assert done.returncode == 3
    assert "Failed records, by reason: " in done.stdout and "server_error" in done.stdout


def test_a_model_that_returns_nothing_makes_nothing(tmp_path: Path) -> None:
    done = cli("run", "oracle", "--run-dir", str(tmp_path / "r"), *SMALL, "--set", "engines.world.fault_rate=1")
    assert done.returncode == 1
    assert "no_roles (recruiter: " in done.stdout
    built = cli("build", str(tmp_path / "r"), "--out", str(tmp_path / "d"))
    assert built.returncode == 1 and "no graded replay" in built.stderr and not (tmp_path / "d").exists()


def test_another_config_in_the_run_directory_is_refused(made: Path) -> None:
    done = cli("run", "oracle", "--run-dir", str(made / "run"), "--set", "protocol.blocks=3")
    assert done.returncode == 2 and "config.protocol.blocks: there 2, now 3" in done.stderr


def test_a_damaged_store_is_refused_then_salvaged(tmp_path: Path) -> None:
    run = ["run", "oracle", "--run-dir", str(tmp_path), *SMALL]
    assert cli(*run).returncode == 0
    store = tmp_path / "store.sqlite"
    with sqlite3.connect(store) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    data = store.read_bytes()
    store.write_bytes(data[: len(data) * 3 // 4])
    refused = cli(*run)
    assert refused.returncode == 2 and "--salvage" in refused.stderr
    assert cli("status", str(tmp_path)).returncode == 2
    again = cli(*run, "--salvage")
    assert again.returncode == 0, again.stderr
    assert "Salvaged" in again.stdout and (tmp_path / "store.sqlite.damaged-1").exists()
    assert ": 0 answers were in the store" not in again.stdout


def test_a_push_without_a_token_fails_before_any_model_call(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if "TOKEN" not in k}
    environment |= {"HF_HOME": str(tmp_path), "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-m", "dhd_labels", "check-token", "org/name"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "HF_TOKEN" in done.stderr and "Traceback" not in done.stderr
    makefile = (ROOT / "Makefile").read_text()
    assert makefile.index("check-token '$(REPO)'") < makefile.index("-m dhd_labels run '$(CONFIG)'")


def test_push_goes_up_as_one_private_commit_and_names_no_token(made: Path, tmp_path: Path) -> None:
    with running() as hub:
        environment = {**os.environ, **hub.environment(tmp_path)}
        command = [sys.executable, "-m", "dhd_labels", "push", str(made / "data"), "--repo", "org/name"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert hub.commits("org/name") == 1 and hub.repos["org/name"].private
    assert "Pushed as one commit, loaded back and compared" in done.stdout
    assert TOKEN not in done.stdout + done.stderr
