"""The process behind `tests.hub.client`: imports the clients, then forks for each line of its input."""

from __future__ import annotations

import json
import os
import select
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

# What a push needs, so that no fork has to import it again.
import datasets  # noqa: F401
import huggingface_hub  # noqa: F401
import pyarrow.parquet  # noqa: F401
import scipy.io  # noqa: F401  (a stream of `datasets` imports it)
from huggingface_hub import HfApi, hf_file_system  # noqa: F401

import dhd_labels.dataset.load
import dhd_labels.dataset.publish  # noqa: F401


def main() -> None:
    """Fork for each request until the input ends; report process ids and exit statuses."""
    numbers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([sys.stdin.fileno()], [], [], 0.005 if numbers else None)
        while numbers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            say(number=numbers.pop(ended[0]), status=os.waitstatus_to_exitcode(ended[1]))
        if ready:
            line = read_line()
            if not line:
                return
            asked = json.loads(line)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # forking beside the libraries' idle threads
                pid = os.fork()
            if pid == 0:
                run(asked)
            numbers[pid] = asked["number"]
            say(number=asked["number"], pid=pid)


def read_line() -> str:
    """Read one line, and not a byte more: what is buffered would not wake `select`."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := os.read(sys.stdin.fileno(), 1)):
            return ""
        line += byte
    return line.decode()


def say(**facts: int) -> None:
    """Print a message for the process of the tests."""
    print(json.dumps(facts), flush=True)


def run(asked: dict[str, Any]) -> None:
    """Run the code of a request in this process and end it."""
    status = 1
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(Path(asked["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        os.environ.pop("HF_TOKEN", None)
        if asked["token"] is not None:
            os.environ["HF_TOKEN"] = asked["token"]
        sys.argv = ["child", *asked["arguments"]]
        exec(compile(asked["code"], "child", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
