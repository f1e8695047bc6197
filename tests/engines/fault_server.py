"""A server of the OpenAI chat API on localhost that misbehaves on purpose, as a function of the request says."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dhd_labels.config import ScriptedConfig
from dhd_labels.engines.base import ChatRequest, Turn
from dhd_labels.engines.scripted import ScriptedEngine

MODEL = "org/model"


@dataclass(frozen=True)
class Answer:
    """What the server sends. `cut_at` closes the connection after so many bytes of the body; `hangs` never answers."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_at: int | None = None
    chunked: bool = False
    hangs: bool = False

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Seen:
    """A request as it arrived. `number` counts the chat requests; `tries` those with the same seed, this one too."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    number: int
    tries: int

    @property
    def seed(self) -> int:
        return int(self.body["seed"])


Script = Callable[[Seen], Answer]


def completion(text: Any = "yes", **changes: Any) -> dict[str, Any]:
    """Return the body of a good answer; `message`, `choice` and top-level fields can be changed."""
    message = {"role": "assistant", "content": text, **changes.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **changes.pop("choice", {})}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    return {"id": "c", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage, **changes}


def good(seen: Seen) -> Answer:
    return Answer(body=completion(f"seed {seen.seed}", model=seen.body["model"]))


def failure(status: int, message: str = "no", **fields: Any) -> Answer:
    headers = fields.pop("headers", {})
    return Answer(status, {"error": {"message": message, **fields}}, headers)


class FaultServer:
    """Serves `/v1/models` and `/v1/chat/completions`; everything that arrived is in `seen`."""

    def __init__(self, script: Script = good, models: Answer | None = None, port: int = 0) -> None:
        self.script = script
        self.models = models or Answer(body={"object": "list", "data": [{"id": MODEL}]})
        self.seen: list[Seen] = []
        self.listed = 0
        self.busiest = 0
        self.released = threading.Event()
        self._busy = 0
        self._lock = threading.Lock()
        self.http = _Http(("127.0.0.1", port), self)
        self.port: int = self.http.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def chat(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Answer:
        with self._lock:
            tries = 1 + sum(earlier.body == body for earlier in self.seen)
            seen = Seen(path, headers, body, len(self.seen), tries)
            self.seen.append(seen)
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
        try:
            return self.script(seen)
        finally:
            with self._lock:
                self._busy -= 1

    def per_call(self) -> dict[int, int]:
        """Return how many tries every call had, by its seed."""
        found: dict[int, int] = {}
        for seen in self.seen:
            found[seen.seed] = found.get(seen.seed, 0) + 1
        return found


@contextmanager
def serving(server: FaultServer, tls: ssl.SSLContext | None = None) -> Iterator[FaultServer]:
    """Run a server in a thread until the block ends."""
    if tls:
        server.http.socket = tls.wrap_socket(server.http.socket, server_side=True)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.http.shutdown()
        thread.join()
        server.http.hang_up()
        server.http.server_close()


class ScriptedFront:
    """Answers from the oracle world, as the scripted engine in this process does."""

    def __init__(self, model: str, **world: Any) -> None:
        self._engine = ScriptedEngine(ScriptedConfig(kind="scripted", **world))
        self._model = model

    def __call__(self, seen: Seen) -> Answer:
        body = seen.body
        turns = tuple(Turn(turn["role"], turn["content"]) for turn in body["messages"])
        request = ChatRequest(
            turns, body["temperature"], body["top_p"], body["max_tokens"], body["seed"], None, affinity="p"
        )
        ((_, reply),) = next(self._engine.generate([(0, request)]))
        return Answer(body=completion(reply.text, model=self._model))


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], owner: FaultServer) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End the connections that clients keep open, so that no thread waits for the next request on them."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.server.owner.listed += 1
            self._send(self.server.owner.models)
        else:
            self._send(failure(404, "no such route"))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/chat/completions":
            self._send(self.server.owner.chat(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        else:
            self._send(failure(404, "no such route"))

    def _send(self, answer: Answer) -> None:
        if answer.hangs:
            self.server.owner.released.wait(30)
            self.close_connection = True
            return
        content = answer.content()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            content = b"%x\r\n%s\r\n" % (len(content), content)  # the closing chunk is missing
        else:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: answer.cut_at])
        self.close_connection = self.close_connection or answer.cut_at is not None or answer.chunked
