from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import ROOT, cli

from dhd_labels.benchmarks import NotOnDiskError, ProblemSet, facts, files, read_problems
from dhd_labels.config import BenchmarkConfig
from dhd_labels.errors import DhdError
from tests.benchmarks.upstream_rows import ROWS, row
from tests.hub import Repo, running


def read(name: str, path: Path, **more: Any) -> ProblemSet:
    return read_problems(BenchmarkConfig(name=name, path=str(path), **more))


def lines(*rows: object) -> str:
    return "".join(json.dumps(r) + "\n" for r in rows)


def sheet(path: Path, *rows: dict[str, Any]) -> Path:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.append([*rows[0], None])
    for values in rows:
        page.append([*values.values(), None])
    page.append([None, None])
    book.save(path)
    return path


def test_one_array_and_its_lines_are_the_same_problems(tmp_path: Path) -> None:
    rows = [row("jeebench", index=i, question=f"Q{i}? (A) w (B) x (C) y (D) z") for i in range(3)]
    (tmp_path / "dataset.json").write_text(json.dumps(rows, indent=4))
    (tmp_path / "rows.jsonl").write_text(lines(*rows))
    (tmp_path / "rows.json").write_text(lines(*rows))
    found = [read("jeebench", tmp_path / name) for name in ("dataset.json", "rows.jsonl", "rows.json", ".")]
    assert len(found[0].problems) == 3 and all(other == found[0] for other in found)


@pytest.mark.parametrize("folder", [".", "original", "dataset/original"])
def test_scibench_takes_its_folder_of_books_without_the_worked_examples(tmp_path: Path, folder: str) -> None:
    books = tmp_path / folder
    books.mkdir(parents=True, exist_ok=True)
    for book in ("stat", "atkins"):
        (books / f"{book}.json").write_text(json.dumps([row("scibench", source=book)]))
        (books / f"{book}_sol.json").write_text(json.dumps([row("scibench", source=book, problemid="x")]))
    found = read("scibench", tmp_path)
    assert [p.problem_id for p in found.problems] == ["scibench:atkins:1.2", "scibench:stat:1.2"]
    assert (found.rows, found.expected) == (2, 580)


def test_lab_bench_takes_the_authors_folder_and_the_hubs(tmp_path: Path) -> None:
    github, hub = tmp_path / "github", tmp_path / "hub"
    for subset in ("ProtocolQA", "SeqQA", "CloningScenarios", "FigQA"):
        good = row("lab-bench", tag=subset.lower(), id=subset, protocol="Mix.")
        (github / subset).mkdir(parents=True)
        (github / subset / "part-v1-public.jsonl").write_text(lines(good))
        (github / subset / "part-v1-openanswer.jsonl").write_text(lines(good))
        (hub / subset).mkdir(parents=True)
        del good["tag"], good["version"]
        table = pa.Table.from_pylist([{**good, "subtask": "one"}])
        pq.write_table(table, hub / subset / "train-all-00000.parquet")
    ours, theirs = read("lab-bench", github), read("lab-bench", hub)
    assert ours.rows == theirs.rows == 3 and not ours.excluded and not theirs.excluded
    assert [(p.problem_id, p.choices, p.reference) for p in ours.problems] == [
        (p.problem_id, p.choices, p.reference) for p in theirs.problems
    ]
    merged = tmp_path / "all.jsonl"
    merged.write_text("".join(file.read_text() for file in sorted(github.glob("*/*-public.jsonl"))))
    assert read("lab-bench", merged).problems == ours.problems


def test_mascqa_takes_the_excel_sheet_with_numbers_as_text(tmp_path: Path) -> None:
    keys: list[object] = ["A", 350, 0.5, "6.00 : 7.30", None]
    kinds = ["MCQS", "NUM", "NUM", "NUM", "NUM"]
    rows = [
        row("mascqa", Question_Info=f"G-{i}", Question_Type=kind, Correct_Answer=key)
        for i, (kind, key) in enumerate(zip(kinds, keys, strict=True))
    ]
    found = read("mascqa", sheet(tmp_path / "all_QA.xlsx", *rows))
    assert [p.reference for p in found.problems] == ["A", "350", "0.5", "6.00 to 7.30"]
    assert found.excluded == {"no_reference": 1} and (found.rows, found.expected) == (5, 650)
    assert read("mascqa", tmp_path) == found


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("jeebench", "dataset.json", b'[{"description": "a"}, {"descr'),
        ("jeebench", "dataset.json", b"[" * 100_000),
        ("scibench", "stat.json", b'[\xff"'),
        ("mascqa", "all_QA.xlsx", b"PK\x03\x04 cut off"),
        ("mascqa", "all_QA.xlsx", b""),
        ("lab-bench", "train.parquet", b"PAR1 cut off"),
    ],
)
def test_a_damaged_download_is_named_and_not_half_read(tmp_path: Path, name: str, file: str, content: bytes) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DhdError, match=rf"{file}' must be a whole .* Download it again") as caught:
        read(name, tmp_path / file)
    assert caught.value.exit_code == 2


def test_a_cut_off_excel_file_or_table_at_any_length_is_an_error(tmp_path: Path) -> None:
    whole = sheet(tmp_path / "all_QA.xlsx", *[row("mascqa", Question_Info=f"G-{i}") for i in range(50)]).read_bytes()
    for share in (1, 5, 9):
        (tmp_path / "all_QA.xlsx").write_bytes(whole[: len(whole) * share // 10])
        with pytest.raises(DhdError, match="damaged or cut off"):
            read("mascqa", tmp_path)


def test_lines_that_end_too_early_show_in_the_counts(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(row("scibench"))[:-1] + "\n" + lines(row("scibench"))[:40])
    found = read("scibench", file)
    assert found.excluded == {"not_json": 1} and found.rows == 2 < (found.expected or 0)


@pytest.mark.parametrize("name", ROWS)
def test_a_path_that_is_not_there_or_holds_nothing_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DhdError, match="must be a file or folder that exists"):
        read(name, tmp_path / "nowhere")
    with pytest.raises(DhdError, match=f"must hold the files of benchmark '{name}'") as caught:
        read(name, tmp_path)
    upstream = facts(name).upstream
    assert upstream is not None and upstream.revision in str(caught.value)


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path


@pytest.mark.parametrize("name", ROWS)
def test_without_the_network_the_error_says_what_to_get_from_where(empty_home: Path, name: str) -> None:
    with pytest.raises(NotOnDiskError, match="Set its 'path'") as caught:
        read_problems(BenchmarkConfig(name=name), fetch=False)
    upstream = facts(name).upstream
    assert upstream is not None and upstream.revision in str(caught.value)


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Serve files as GitHub does; a body of None is cut off."""
    served: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = served.get(self.path.lstrip("/"))
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Length", str(len(body or b"") + 10 * (b"CUT" in (body or b""))))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setattr(files, "GITHUB", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_download_is_pinned_kept_and_whole(empty_home: Path, github: dict[str, bytes]) -> None:
    upstream = facts("scibench").upstream
    assert upstream is not None
    for name in upstream.files:
        github[f"{upstream.repo}/{upstream.revision}/{name}"] = json.dumps(
            [row("scibench", source=Path(name).stem)]
        ).encode()
    last = f"{upstream.repo}/{upstream.revision}/{upstream.files[-1]}"
    whole, github[last] = github[last], b"[CUT"
    with pytest.raises(NotOnDiskError):
        read_problems(BenchmarkConfig(name="scibench"))
    github[last] = whole
    found = read_problems(BenchmarkConfig(name="scibench"))
    assert len(found.problems) == 10
    github.clear()
    assert read_problems(BenchmarkConfig(name="scibench"), fetch=False) == found


def test_problems_prints_the_facts_and_what_is_missing(tmp_path: Path) -> None:
    rows = [row("mascqa"), row("mascqa"), row("mascqa", Question_Info="G-2", Correct_Answer="MARKS TO ALL")]
    (tmp_path / "rows.jsonl").write_text(lines(*rows))
    done = cli("problems", "MaScQA", "--path", str(tmp_path / "rows.jsonl"), "--json")
    printed = json.loads(done.stdout)
    assert done.returncode == 0 and printed["first_excluded"].keys() == printed["excluded"].keys()
    contract = {
        "rows": 3, "expected": 650, "usable": 1, "by_answer_type": {"choice": 1}, "duplicates": 1,
        "excluded": {"duplicate": 1, "void_key": 1}, "license": ["cc-by-nc-sa-4.0"], "train_allowed": True,
        "commercial_use": False, "redistribute_text": False,
    }  # fmt: skip
    assert {key: printed[key] for key in contract} == contract
    shown = cli("problems", "mascqa", "--path", str(tmp_path / "rows.jsonl")).stdout
    assert "3 rows read" in shown and "650" in shown
    unsettled = tmp_path / "omni.jsonl"
    unsettled.write_text(lines(row("omni-math-2")))
    assert (
        json.loads(cli("problems", "omni_math_2", "--path", str(unsettled), "--json").stdout)["commercial_use"] is None
    )


def test_problems_of_a_wrong_file_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(lines(row("scibench")))
    done = cli("problems", "jeebench", "--path", str(tmp_path / "rows.jsonl"))
    assert done.returncode == 2 and "'type'" in done.stderr and not done.stdout


@pytest.mark.parametrize("name", ["jeebench", "lab-bench", "omni-math-2"])
def test_the_hub_is_asked_for_the_pinned_revision_once(tmp_path: Path, name: str) -> None:
    upstream = facts(name).upstream
    assert upstream is not None
    content = {
        "jeebench": {"test.json": json.dumps([row(name)]).encode(), "other.json": b"[]"},
        "lab-bench": {
            f"{subset}/train.jsonl": lines(row(name, tag=subset, id=subset, protocol="Mix.")).encode()
            for subset in ("ProtocolQA", "SeqQA", "CloningScenarios", "FigQA")
        },
        "omni-math-2": {"Omni-Math-2.jsonl": lines(row(name)).encode(), "README.md": b"x"},
    }[name]
    with running() as hub:
        hub.repos[upstream.repo] = Repo(private=False)
        hub.repos[upstream.repo].commits[upstream.revision] = content
        environment = {**os.environ, **hub.environment(tmp_path, token=None)}

        def run(*command: str) -> str:
            done = subprocess.run(
                [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        # Another file of the revision is cached already; that must not pass for the benchmark.
        content["LICENSE"] = b"terms"
        get = f"hf_hub_download({upstream.repo!r}, 'LICENSE', repo_type='dataset', revision={upstream.revision!r})"
        run("-c", f"from huggingface_hub import hf_hub_download; {get}")
        printed = []
        for _ in range(2):
            hub.requests.clear()
            printed.append(json.loads(run("-m", "dhd_labels", "problems", name, "--json")))
        assert printed[0] == printed[1] and printed[0]["usable"] == (3 if name == "lab-bench" else 1)
        assert not hub.requests and not hub.unknown
