"""A small Hub on localhost: enough of its API for the real `huggingface_hub` and `datasets` clients.

The clients read HF_ENDPOINT when they are imported, so tests run them in a child process with
`HubStub.environment`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_StubTokenThatMustNeverBePrinted"
Files = dict[str, bytes]


@dataclass
class Repo:
    """One repository: its commits by id, its branches and pull requests, and which files are LFS."""

    private: bool
    folder: str = "datasets/"  # where its page is; "" for a model
    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    lfs: set[str] = field(default_factory=set)

    def commit(self, ref: str, files: Files) -> str:
        content = json.dumps(
            [ref, len(self.commits), sorted((p, hashlib.sha256(b).hexdigest()) for p, b in files.items())]
        )
        oid = hashlib.sha1(content.encode()).hexdigest()
        self.commits[oid] = files
        self.refs[ref] = oid
        return oid

    def resolve(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.refs.get(revision)


@dataclass
class HubStub:
    """The state of the Hub and what was asked of it. `corrupt[path]` is served instead of what was pushed."""

    repos: dict[str, Repo] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    corrupt: dict[str, bytes] = field(default_factory=dict)
    objects: Files = field(default_factory=dict)
    lfs_above: int = 1 << 30
    read_only: bool = False
    endpoint: str = ""

    def commits(self, repo: str) -> int:
        """How many commits clients made (the first, empty one is the Hub's own)."""
        return len(self.repos[repo].commits) - 1

    def environment(self, home: Path, token: str | None = TOKEN) -> dict[str, str]:
        """Return the variables with which a child process talks to this Hub and to no other."""
        found = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        found |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "5", "NO_PROXY": "127.0.0.1"}
        return found | ({"HF_TOKEN": token} if token is not None else {})


@contextmanager
def running() -> Iterator[HubStub]:
    """Serve an empty Hub on a free port of localhost until the block ends."""
    hub = HubStub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Refused(Exception):
    """An error answer: status, the Hub's error code and message."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.message, self.code = status, message, code


class _Handler(BaseHTTPRequestHandler):
    hub: HubStub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output clean."""

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        path, self.query = parts.path, parse_qs(parts.query)
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else self._chunks()
        self.hub.requests.append((self.command, path))
        try:
            for method, pattern, handle in _ROUTES:
                match = re.fullmatch(pattern, path)
                if match and self.command in method:
                    return handle(self, *map(unquote, match.groups()))
            self.hub.unknown.append((self.command, path))
            raise _Refused(404, f"no such page: {path}")
        except _Refused as refused:
            self._send(
                refused.status,
                {"error": refused.message},
                {"X-Error-Message": refused.message, "X-Error-Code": refused.code},
            )

    def _chunks(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return b""
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header(
            "Content-Type", "application/octet-stream" if isinstance(content, bytes) else "application/json"
        )
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self) -> Any:
        return json.loads(self.body or b"{}")

    def _logged_in(self) -> bool:
        """Whether a valid token came along; a wrong one is refused at once, as the Hub does."""
        sent = self.headers.get("Authorization")
        if sent is not None and sent != f"Bearer {TOKEN}":
            raise _Refused(401, "Invalid credentials in Authorization header")
        return sent is not None

    def _may_write(self) -> None:
        if not self._logged_in():
            raise _Refused(401, "Invalid username or password.")
        if self.hub.read_only:
            raise _Refused(403, "Forbidden: you must use a write token")

    def _repo(self, name: str) -> Repo:
        logged_in = self._logged_in()
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not logged_in):
            raise _Refused(404 if logged_in else 401, "Repository not found", "RepoNotFound")
        return repo

    def _files(self, name: str, revision: str) -> tuple[Repo, str, Files]:
        repo = self._repo(name)
        oid = repo.resolve(revision)
        if oid is None:
            raise _Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return repo, oid, repo.commits[oid]

    def whoami(self) -> None:
        if not self._logged_in():
            raise _Refused(401, "Invalid username or password.")
        self._send(200, {"type": "user", "name": "stub-user", "orgs": [], "auth": {"type": "access_token"}})

    def create(self) -> None:
        self._may_write()
        asked = self._json()
        name = "/".join(filter(None, (asked.get("organization", "stub-user"), asked["name"])))
        folder = "datasets/" if asked.get("type") == "dataset" else ""
        url = f"{self.hub.endpoint}/{folder}{name}"
        if name in self.hub.repos:
            return self._send(409, {"error": "You already created this repo", "url": url})
        private = asked.get("private", asked.get("visibility") == "private")
        self.hub.repos[name] = Repo(bool(private), folder)
        self.hub.repos[name].commit("main", {".gitattributes": b"*.parquet filter=lfs\n"})
        return self._send(200, {"url": url, "name": name})

    def validate_yaml(self) -> None:
        self._send(200, {"errors": [], "warnings": []})

    def preupload(self, name: str, revision: str) -> None:
        self._may_write()
        _, _, files = self._files(name, revision)
        asked = self._json()["files"]
        modes = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["size"] > self.hub.lfs_above else "regular",
                "shouldIgnore": False,
                "oid": _blob_id(files[file["path"]]) if file["path"] in files else None,
            }
            for file in asked
        ]
        self._send(200, {"files": modes})

    def branch(self, name: str, branch: str) -> None:
        self._may_write()
        repo = self._repo(name)
        if branch in repo.refs:
            return self._send(409, {"error": "Reference already exists"})
        repo.refs[branch] = repo.refs["main"]
        return self._send(201, {})

    def commit(self, name: str, revision: str) -> None:
        self._may_write()
        repo, _, before = self._files(name, revision)
        files = dict(before)
        for line in self.body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
                repo.lfs.add(value["path"])
            elif item["key"] == "deletedFile":
                del files[value["path"]]
        as_pr = self.query.get("create_pr") == ["1"]
        ref = f"refs/pr/{1 + sum(r.startswith('refs/pr/') for r in repo.refs)}" if as_pr else revision
        oid = repo.commit(ref, files)
        url = f"{self.hub.endpoint}/{repo.folder}{name}"
        pr = {"pullRequestUrl": f"{url}/discussions/{ref.rpartition('/')[2]}"} if as_pr else {}
        self._send(200, {"success": True, "commitOid": oid, "commitUrl": f"{url}/commit/{oid}", **pr})

    def lfs_batch(self, name: str) -> None:
        self._may_write()
        objects = []
        for item in self._json()["objects"]:
            upload = {"href": f"{self.hub.endpoint}/lfs/{item['oid']}", "header": {}}
            known = item["oid"] in self.hub.objects
            objects.append({**item, **({} if known else {"actions": {"upload": upload}})})
        self._send(200, {"transfer": "basic", "objects": objects})

    def lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise _Refused(400, "content does not match its oid")
        self.hub.objects[oid] = self.body
        self._send(200, {})

    def info(self, name: str, revision: str = "main") -> None:
        repo, oid, files = self._files(name, revision)
        siblings = [{"rfilename": path} for path in sorted(files)]
        self._send(
            200,
            {
                "id": name,
                "sha": oid,
                "private": repo.private,
                "tags": [],
                "siblings": siblings,
                "downloads": 0,
                "likes": 0,
            },
        )

    def refs(self, name: str) -> None:
        repo = self._repo(name)
        branches = [{"name": r, "ref": f"refs/heads/{r}", "targetCommit": oid} for r, oid in repo.refs.items()]
        self._send(200, {"branches": branches, "converts": [], "tags": []})

    def tree(self, name: str, revision: str, _: str | None = None, folder: str = "") -> None:
        repo, _oid, files = self._files(name, revision)
        prefix = f"{folder}/" if folder else ""
        inside = sorted(path for path in files if path.startswith(prefix))
        if self.query.get("recursive") not in (["True"], ["true"], ["1"]):
            folders = sorted({prefix + p[len(prefix) :].split("/")[0] for p in inside if "/" in p[len(prefix) :]})
            inside = [p for p in inside if "/" not in p[len(prefix) :]]
        else:
            folders = sorted({"/".join(p.split("/")[:n]) for p in inside for n in range(1, p.count("/") + 1)})
        found = [{"type": "directory", "path": p, "oid": "0" * 40, "size": 0} for p in folders]
        self._send(200, found + [self._entry(repo, path, files[path]) for path in inside])

    def paths_info(self, name: str, revision: str) -> None:
        repo, _, files = self._files(name, revision)
        form = parse_qs(self.body.decode()) if b"=" in self.body and not self.body.startswith(b"{") else self._json()
        found: list[dict[str, Any]] = []
        for path in form["paths"]:
            if path in files:
                found.append(self._entry(repo, path, files[path]))
            elif any(p.startswith(f"{path}/") for p in files):
                found.append({"type": "directory", "path": path, "oid": "0" * 40, "size": 0})
        self._send(200, found)

    def resolve(self, name: str, revision: str, path: str) -> None:
        repo, oid, files = self._files(name, revision)
        if path not in files:
            raise _Refused(404, "Entry not found", "EntryNotFound")
        content = self.hub.corrupt.get(path, files[path])
        etag = hashlib.sha256(content).hexdigest() if path in repo.lfs else _blob_id(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": oid, "Accept-Ranges": "bytes"}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if span and self.command == "GET":
            start, stop = int(span[1]), int(span[2] or len(content) - 1) + 1
            headers["Content-Range"] = f"bytes {start}-{min(stop, len(content)) - 1}/{len(content)}"
            return self._send(206, content[start:stop], headers)
        return self._send(200, content, headers)

    def _entry(self, repo: Repo, path: str, content: bytes) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "path": path, "oid": _blob_id(content), "size": len(content)}
        if path in repo.lfs:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
        return entry


def _blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


_D = r"/api/(?:datasets|models)/([^/]+/[^/]+)"
_ROUTES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("GET", r"/api/whoami-v2", _Handler.whoami),
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", r"/api/validate-yaml", _Handler.validate_yaml),
    ("POST", _D + r"/preupload/([^/]+)", _Handler.preupload),
    ("POST", _D + r"/branch/([^/]+)", _Handler.branch),
    ("POST", _D + r"/commit/([^/]+)", _Handler.commit),
    ("POST", _D + r"/paths-info/([^/]+)", _Handler.paths_info),
    ("GET", _D, _Handler.info),
    ("GET", _D + r"/revision/([^/]+)", _Handler.info),
    ("GET", _D + r"/refs", _Handler.refs),
    ("GET", _D + r"/tree/([^/]+)", _Handler.tree),
    ("GET", _D + r"/tree/([^/]+)(/)(.+)", _Handler.tree),
    ("GET HEAD", r"(?:/datasets)?/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", _Handler.resolve),
    ("POST", r"(?:/datasets)?/([^/]+/[^/]+)\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("PUT", r"/lfs/([0-9a-f]{64})", _Handler.lfs_put),
)
