"""Reads the results of a large run in several processes, in the order and with the content of `collect.collect`.

Readers are plain child processes that open the store themselves and write pickled results to a pipe, so they work from
scripts and threads alike. Reader k of n takes every n-th chunk of problems from chunk k on; a full pipe holds back a
reader that is ahead. What comes through a pipe was pickled by our own code.
"""

from __future__ import annotations

import contextlib
import copyreg
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

from dhd_labels.errors import DhdError
from dhd_labels.grading.grader import Graded
from dhd_labels.labels import Proposal
from dhd_labels.records import Arm, Mask, Message, Outcome, Pool, Problem, Replay, Role
from dhd_labels.replay.collect import ProblemResult, collect, collect_problem
from dhd_labels.replay.directory import RunDirectory
from dhd_labels.replay.plan import Target
from dhd_labels.replay.store import Store

MANY_PROBLEMS = 2_000
"""Problems from which starting other processes pays."""
READERS = 2
_CHUNK = 100
_SOURCE_ROOT = str(Path(__file__).parents[2])
_RECORDS = (Arm, Graded, Mask, Message, Outcome, Pool, Problem, ProblemResult, Proposal, Replay, Role, Target)
_LENGTH = 8


def read_all(directory: RunDirectory, store: Store, n_problems: int) -> Iterator[ProblemResult]:
    """Yield the result of every problem of a run, in benchmark order; by other processes where there are many.

    Raises:
        DhdError: the store is damaged, or a reader ended early.
    """
    readers = min(READERS, os.cpu_count() or 1)
    if n_problems < MANY_PROBLEMS or readers < 2:
        yield from collect(store, directory.config, directory.models)
        return
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(_reader(directory, k, readers)) for k in range(readers)]
        for reader in itertools.cycle(started):
            results = _receive(reader)
            if results is None:  # the chunks end with the first reader that has none left
                return
            yield from results


@contextlib.contextmanager
def _reader(directory: RunDirectory, k: int, n: int) -> Iterator[subprocess.Popen[bytes]]:
    paths = [_SOURCE_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    # -P: what lies in the current folder is not importable.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dhd_labels.replay.readers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # it is told why when its output is read
            process.stdin.write(pickle.dumps((directory, k, n)))
            process.stdin.close()
        yield process
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()


def _receive(reader: subprocess.Popen[bytes]) -> list[ProblemResult] | None:
    """Return the next chunk of a reader, None after its last.

    Raises:
        DhdError: what went wrong in the reader, or that it ended early.
    """
    assert reader.stdout is not None
    head = reader.stdout.read(_LENGTH)
    body = reader.stdout.read(int.from_bytes(head)) if len(head) == _LENGTH else b""
    if len(head) < _LENGTH or len(body) < int.from_bytes(head):
        raise DhdError(
            f"A process that reads the store must come to its end, but it ended with code {reader.wait()}. Is there "
            "memory left? Run the same command again."
        )
    found: list[ProblemResult] | BaseException | None = pickle.loads(body)  # noqa: S301  (our own process wrote it)
    if isinstance(found, BaseException):
        raise found
    return found


def _send(out: IO[bytes], found: object) -> None:
    body = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    out.write(len(body).to_bytes(_LENGTH))
    out.write(body)
    out.flush()


def _results(directory: RunDirectory, k: int, n: int) -> Iterator[list[ProblemResult]]:
    """Yield every n-th chunk from chunk k on."""
    store = directory.open_store()
    try:
        problems = store.problems()
        for number in itertools.count():
            chunk = list(itertools.islice(problems, _CHUNK))
            if not chunk:
                return
            if number % n == k:
                yield [collect_problem(store, directory.config, directory.models, problem) for problem in chunk]
    finally:
        store.close()


def _reduce(record: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return how a record is made again: its class and its fields, several times as fast as the general way."""
    return type(record), _FIELDS[type(record)](record)


_FIELDS = {kind: attrgetter(*kind.__slots__) for kind in _RECORDS}


def main() -> None:
    """Read in a child process."""
    for kind in _RECORDS:
        copyreg.pickle(kind, _reduce)
    directory, k, n = pickle.load(sys.stdin.buffer)  # noqa: S301  (our own process wrote it)
    out = sys.stdout.buffer
    try:
        for results in _results(directory, k, n):
            _send(out, results)
        _send(out, None)
    except BrokenPipeError:
        os._exit(1)  # nobody reads on
    except DhdError as error:
        _send(out, error)


if __name__ == "__main__":
    main()
