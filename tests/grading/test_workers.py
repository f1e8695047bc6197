from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT, problem

from dhd_labels.grading.rules import grade
from dhd_labels.grading.worker import MEMORY_BYTES
from dhd_labels.grading.workers import Pool, Worker, WorkerDiedError, WorkerTimeoutError

# Minutes of work that no bound on size refuses.
SUMS = "".join(f"\\sum_{{{index}=1}}^{{n}}" for index in "abcd")
LONG = (f"{SUMS} \\ln(a+\\sqrt{{b+c+d}})", f"{SUMS} \\ln(\\sqrt{{d+c+b}}+a)")
REQUEST = {"gold": LONG[0], "given": LONG[1], "thousands": True, "steps": 10**9}
PAIR = ("\\sqrt{12}", "2\\sqrt{3}")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(size=1, limit_s=1, steps=10**9)
    yield made
    made.close()


def run_script(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a user would write it: no main guard."""
    script = folder / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", str(script)]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=environment
    )


def test_work_over_time_is_a_timeout_and_the_next_is_done(pool: Pool) -> None:
    found, reason = pool.compare(*LONG)
    assert found == "timeout" and "1 s" in str(reason)
    assert pool.idle_workers() == []
    assert pool.compare(*PAIR) == ("equal", None)


def test_work_beyond_the_steps_is_a_timeout_on_every_machine() -> None:
    pool = Pool(size=1, limit_s=100)
    found, reason = pool.compare(*LONG)
    assert found == "timeout" and "steps" in str(reason)
    assert pool.compare(*PAIR) == ("equal", None)
    pool.close()


def test_a_timed_out_worker_is_gone() -> None:
    worker = Worker()
    with pytest.raises(WorkerTimeoutError, match=r"0\.2 s"):
        worker.ask(REQUEST, 0.2)
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


def test_a_killed_worker_loses_no_result() -> None:
    pool = Pool(size=1)
    assert pool.compare(*PAIR)[0] == "equal"
    victim = pool.idle_workers()[0]
    os.kill(victim, signal.SIGKILL)
    assert pool.compare("\\sqrt{8}", "2\\sqrt{2}")[0] == "equal"
    assert victim not in pool.idle_workers()
    pool.close()


def test_a_worker_that_dies_at_work_is_reported() -> None:
    worker = Worker()
    timer = threading.Timer(0.3, os.kill, (worker.pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(WorkerDiedError, match="code -9"):
        worker.ask(REQUEST, 30)
    timer.join()
    worker.close()


def test_a_worker_without_a_parent_ends_itself() -> None:
    request = json.dumps({**REQUEST, "limit_s": 0.1}).encode() + b"\n"
    command = [sys.executable, "-P", "-m", "dhd_labels.grading.worker"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write(request)
        process.stdin.flush()
        assert process.wait(60) == -signal.SIGALRM


def test_memory_is_limited(tmp_path: Path) -> None:
    worker = Worker()
    assert resource.prlimit(worker.pid, resource.RLIMIT_AS)[0] <= MEMORY_BYTES
    worker.close()
    done = run_script(
        tmp_path, "from dhd_labels.grading.worker import limit_memory\nlimit_memory()\nbytearray(2 << 30)\n"
    )
    assert "MemoryError" in done.stderr


def test_threads_get_the_verdicts_of_one_thread() -> None:
    answers = [f"{n}\\sqrt{{{m}}}" for n in range(1, 5) for m in (3, 12, 27, 48)]
    gold = problem(answer_type="expression", reference="\\sqrt{432}")
    alone = [grade(gold, answer).correct for answer in answers]
    found: dict[int, list[bool | None]] = {}
    pool = Pool(size=2)

    def work(index: int) -> None:
        found[index] = [pool.compare("\\sqrt{432}", answer)[0] == "equal" for answer in answers]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.close()
    assert True in alone and False in alone
    assert all(found[i] == alone for i in range(6))


SCRIPT = """
import multiprocessing
from dhd_labels.grading.rules import grade
from dhd_labels.grading import workers
from dhd_labels.records import Problem

P = Problem("p", "t", "q", "\\\\sqrt{432}", "expression", (), "x", True, True)
ANSWERS = [f"{n}\\\\sqrt{{{m}}}" for n in range(1, 5) for m in (3, 12, 27, 48)]
here = [grade(P, a).correct for a in ANSWERS]
workers._decided.cache_clear()
with multiprocessing.get_context("fork").Pool(2) as processes:
    there = processes.starmap(grade, [(P, a) for a in ANSWERS])
    processes.close()
    processes.join()
assert [v.correct for v in there] == here, (there, here)
assert [grade(P, a).correct for a in ANSWERS] == here
print(*workers._shared_pool().idle_workers())
"""


def test_scripts_and_forked_processes_get_the_same_verdicts_and_leave_no_worker(tmp_path: Path) -> None:
    done = run_script(tmp_path, SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.split()
    for pid in map(int, done.stdout.split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_modules_in_the_current_folder_are_not_imported_by_workers(tmp_path: Path) -> None:
    (tmp_path / "mpmath.py").write_text("raise SystemExit('wrong module')\n")
    code = SCRIPT.split("workers._decided")[0].replace("import multiprocessing", "import sys; sys.path.pop(0)")
    done = run_script(tmp_path, code + "print(here.count(True))")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "2", "")


def test_plain_answers_load_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
from dhd_labels.grading.rules import grade
from dhd_labels.records import Problem
kinds = {"integer": "7", "number": "0.5", "choice": "B", "choices": "AB", "expression": "1/2", "text": "x"}
for kind, reference in kinds.items():
    P = Problem("p", "t", "q", reference, kind, (), "x", True, True)
    assert grade(P, reference).correct
print(sorted({"mpmath", "pint", "sympy", "numpy", "pandas"} & set(sys.modules)))
"""
    assert run_script(tmp_path, code).stdout.strip() == "[]"
