"""vLLM as a server on this machine: in a process group of its own, which is gone when the block ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODEL = "smollm2-135m-instruct"
_START_S = 240
_OPTIONS = (
    "--dtype=bfloat16", "--max-model-len=1024", "--block-size=32", "--enforce-eager", "--enable-prompt-tokens-details",
    # With chunks, a request that has its own seed can kill the engine on a CPU.
    "--no-enable-chunked-prefill", "--max-num-batched-tokens=8192", "--disable-uvicorn-access-log",
)  # fmt: skip


@dataclass(frozen=True)
class VllmServer:
    """A server that answers. `port` is on the loopback interface."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        """Base URL of the API."""
        return f"http://127.0.0.1:{self.port}/v1"

    def post(self, path: str) -> None:
        """Send an empty request outside the API, e.g. to `/reset_prefix_cache`."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", b"", method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def kill(self) -> None:
        """End the server and its engine at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def vllm_server(weights: str, *options: str, port: int | None = None) -> Iterator[VllmServer]:
    """Start a server of the weights, wait until it answers, and kill it in the end.

    `python -m` is used because the command `vllm serve` does not find its own package in the CPU build.
    """
    port = port or free_port()
    line = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", f"--model={weights}"]
    line += [f"--served-model-name={MODEL}", "--host=127.0.0.1", f"--port={port}", *_OPTIONS, *options]
    settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                line, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **settings}, start_new_session=True
            )
        server = VllmServer(process, port, log)
        try:
            _wait_until_healthy(server)
            yield server
        finally:
            server.kill()


def _wait_until_healthy(server: VllmServer) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if server.process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise AssertionError(f"the server did not start:\n{server.log.read_text(errors='replace')[-3000:]}")
