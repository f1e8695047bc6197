"""Child processes with the real clients, ready at once: one process imports them, and each piece of code runs in a
fork of it. What a test sets or breaks in a fork is gone with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.hub.state import TOKEN, HubStub


@dataclass
class Child:
    """A running fork."""

    pid: int
    folder: Path
    token: str | None
    status: Future[int] = field(default_factory=Future)

    def wait(self, timeout: float = 120) -> str:
        """Return what the code printed; it must end well, and print no token and no warning.

        Raises:
            AssertionError: it did not.
        """
        status, out, err = self.status.result(timeout), self.text("out"), self.text("err")
        assert (self.token or TOKEN) not in out + err
        assert (status, err) == (0, ""), (status, out, err)
        return out

    def text(self, stream: str) -> str:
        """Return what was printed to `out` or `err` so far."""
        return (self.folder / stream).read_text()


class Clients:
    """The process that imported the clients for one Hub."""

    def __init__(self, hub: HubStub, home: Path) -> None:
        keep = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING"))}
        env = keep | hub.environment(home) | {"PYTHONPATH": os.pathsep.join(sys.path)}
        # huggingface_hub's own LFS upload uses a deprecated argument of its HTTP client
        strict = ["-W", "error", "-W", "ignore:Use 'content=<...>':DeprecationWarning"]
        command = [sys.executable, *strict, "-m", "tests.hub.forks"]
        self._home, self._started, self._lock = home, 0, threading.Lock()
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._pids: list[Future[int]] = []
        self._children: dict[int, Child] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, code: str, *arguments: object, token: str | None = TOKEN) -> Child:
        """Run code in a fork, with `arguments` as `sys.argv[1:]`, and return at once."""
        with self._lock:
            self._started += 1
            folder = self._home / f"child-{self._started}"
            folder.mkdir(parents=True)
            child = Child(0, folder, token)
            asked = {"code": code, "arguments": list(map(str, arguments)), "folder": str(folder), "token": token}
            self._children[self._started] = child
            assert self._process.stdin is not None
            pid: Future[int] = Future()
            self._pids.append(pid)
            self._process.stdin.write(json.dumps({**asked, "number": self._started}) + "\n")
            self._process.stdin.flush()
        child.pid = pid.result(120)
        return child

    def run(self, code: str, *arguments: object, token: str | None = TOKEN) -> str:
        """Run code in a fork and return what it printed."""
        return self.start(code, *arguments, token=token).wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "pid" in said:
                self._pids[said["number"] - 1].set_result(said["pid"])
            else:
                self._children[said["number"]].status.set_result(said["status"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@contextmanager
def clients(hub: HubStub, home: Path) -> Iterator[Clients]:
    """Give a `Clients` that ends with the block."""
    found = Clients(hub, home)
    try:
        yield found
    finally:
        found.close()
