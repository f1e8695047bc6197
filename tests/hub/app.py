"""The HTTP side of the Hub: routes, rights and answers, in the Hub's own words where clients read them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import yaml

from tests.hub.faults import Fault
from tests.hub.state import READ_TOKEN, TOKEN, Files, HubStub, Repo, blob_id

_NOTHING = Fault("", "")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def running(port: int = 0) -> Iterator[HubStub]:
    """Serve an empty Hub on a port of loopback (a free one by default) until the block ends."""
    hub = HubStub()
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"hub": hub}))
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
    """An error answer: status, the Hub's message and error code."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.message, self.code = status, message, code


class _Handler(BaseHTTPRequestHandler):
    hub: HubStub
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: apart, each answer waits 40 ms for an acknowledgement

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output clean."""

    def handle(self) -> None:
        with suppress(ConnectionError):  # a client that was killed or gave up
            super().handle()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        path, self.query = parts.path, parse_qs(parts.query)
        self.hub.requests.append((self.command, path))
        self.fault = self.hub.faults.strike(self.command, path) or _NOTHING
        if self._struck():
            return
        self.body = self._read_body()
        try:
            if self.fault.status is not None:
                raise _Refused(self.fault.status, self.fault.message)
            self._route(path)
        except _Refused as refused:
            code = {"X-Error-Code": refused.code} if refused.code else {}
            headers = {"X-Error-Message": refused.message, **code, **self.fault.headers}
            self._send(refused.status, {"error": refused.message}, headers)

    def _struck(self) -> bool:
        """Let the fault do what comes before the request is read; whether that was the end of it."""
        fault = self.fault
        time.sleep(fault.seconds)
        if fault.hold is not None:
            fault.hold.stop_here()
        if fault.kill is not None and not fault.killed_after:
            fault.kill()
            self.close_connection = True
            return True
        if fault.cut == "upload":
            self.rfile.read(int(self.headers.get("Content-Length") or 0) // 2)
            self.close_connection = True
            return True
        return False

    def _route(self, path: str) -> None:
        for method, pattern, handle in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method:
                return handle(self, *(unquote(group or "") for group in match.groups()))
        self.hub.unknown.append((self.command, path))
        raise _Refused(404, f"no such page: {path}")

    def _read_body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(length) if length else self._chunks()

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
        if self.fault.kill is not None:
            self.fault.kill()
        if self.fault.cut == "answer":
            self.close_connection = True
            return
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", kind)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.fault.cut == "download":
            body, self.close_connection = body[: len(body) // 2], True
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self) -> Any:
        return json.loads(self.body or b"{}")

    def _logged_in(self) -> bool:
        """Whether a valid token came along; a wrong one is refused at once, as the Hub does."""
        sent = self.headers.get("Authorization")
        if sent not in (None, f"Bearer {TOKEN}", f"Bearer {READ_TOKEN}"):
            raise _Refused(401, "Invalid credentials in Authorization header")
        return sent is not None

    def _may_write(self, name: str = "") -> None:
        if not self._logged_in():
            raise _Refused(401, "Invalid username or password.")
        if self.hub.read_only or self.headers["Authorization"] == f"Bearer {READ_TOKEN}":
            raise _Refused(403, "Forbidden: you must use a write token")
        if name.partition("/")[0] in self.hub.forbidden:
            raise _Refused(403, f"You don't have the rights to write in the namespace {name.partition('/')[0]!r}")

    def _repo(self, kind: str, name: str) -> Repo:
        logged_in = self._logged_in()
        repo = self.hub.of_type(kind).get(name)
        if repo is None or (repo.private and not logged_in):
            if not logged_in:
                raise _Refused(401, "Invalid username or password.")
            raise _Refused(404, "Repository not found", "RepoNotFound")
        return repo

    def _files(self, kind: str, name: str, revision: str) -> tuple[Repo, str, Files]:
        repo = self._repo(kind, name)
        oid = repo.resolve(revision)
        if oid is None:
            raise _Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return repo, oid, repo.commits[oid]

    def _page_of(self, kind: str, name: str) -> str:
        return f"{self.hub.endpoint}/{'datasets/' if kind == 'datasets' else ''}{name}"

    def whoami(self) -> None:
        if not self._logged_in():
            raise _Refused(401, "Invalid username or password.")
        role = "read" if self.headers["Authorization"] == f"Bearer {READ_TOKEN}" else "write"
        auth = {"type": "access_token", "accessToken": {"displayName": "stub", "role": role}}
        self._send(200, {"type": "user", "name": "stub-user", "orgs": [], "auth": auth})

    def create(self) -> None:
        asked = self._json()
        name = f"{asked.get('organization') or 'stub-user'}/{asked['name']}"
        self._may_write(name)
        kind = f"{asked.get('type', 'model')}s"
        if not re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", name) or re.search(r"--|\.\.|\.git$", name):
            raise _Refused(400, f"Invalid repository name: {name}")
        private = asked.get("private", asked.get("visibility") == "private")
        with self.hub.lock:
            repos = self.hub.of_type(kind)
            if name in repos:
                said = f"You already created this {kind[:-1]} repo: {name}"
                return self._send(409, {"error": said, "url": self._page_of(kind, name)})
            repos[name] = Repo(bool(private))
            patterns = "".join(f"*{suffix} filter=lfs\n" for suffix in self.hub.lfs_suffixes)
            repos[name].commit("main", {".gitattributes": patterns.encode()})
        return self._send(200, {"url": self._page_of(kind, name), "name": name})

    def validate_yaml(self) -> None:
        front = re.match(r"---\r?\n(.*?)\r?\n---", self._json()["content"], re.DOTALL)
        errors = []
        try:
            yaml.safe_load(front[1] if front else "")
        except yaml.YAMLError as error:
            errors = [{"message": str(error)}]
        self._send(400 if errors else 200, {"errors": errors, "warnings": []})

    def preupload(self, kind: str, name: str, revision: str) -> None:
        if self.query.get("create_pr") != ["1"]:
            self._may_write(name)
        repo, _, files = self._files(kind, name, revision)
        modes = []
        for file in self._json()["files"]:
            large = self.hub.is_lfs(file["path"], file["size"])
            entry = repo.entry(file["path"], files[file["path"]]) if file["path"] in files else {}
            oid = entry.get("lfs", entry).get("oid")
            mode = "lfs" if large else "regular"
            modes.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._send(200, {"files": modes})

    def branch(self, kind: str, name: str, branch: str) -> None:
        self._may_write(name)
        repo = self._repo(kind, name)
        start = repo.resolve(self._json().get("startingPoint") or "main")
        with self.hub.lock:
            if branch in repo.refs:
                raise _Refused(409, "Reference already exists")
            if start is None or branch.startswith("refs/"):
                raise _Refused(400, f"Invalid reference: {branch}")
            repo.refs[branch] = start
        self._send(201, {})

    def tag(self, kind: str, name: str, revision: str) -> None:
        self._may_write(name)
        repo, oid, _ = self._files(kind, name, revision)
        tag = self._json()["tag"]
        if tag in repo.tags:
            raise _Refused(409, "Reference already exists")
        repo.tags[tag] = oid
        self._send(201, {})

    def commit(self, kind: str, name: str, revision: str) -> None:
        as_pr = self.query.get("create_pr") == ["1"]
        if not as_pr:
            self._may_write(name)
        items = [json.loads(line) for line in self.body.splitlines()]
        with self.hub.lock:
            repo, head, _ = self._files(kind, name, revision)
            asked = items[0]["value"].get("parentCommit")
            if not as_pr and revision not in repo.refs:
                raise _Refused(400, f"Not a branch: {revision}")
            if asked is not None and asked not in repo.commits:
                raise _Refused(404, f"Invalid rev id: {asked}", "RevisionNotFound")
            if asked not in (None, head) and not as_pr:
                raise _Refused(412, "A commit has happened since. Please refresh and try again.")
            parent = asked or head
            files = self._apply(repo, dict(repo.commits[parent]), items[1:])
            number = 1 + sum(r.startswith("refs/pr/") for r in repo.refs)
            ref = f"refs/pr/{number}" if as_pr else revision
            oid = repo.commit(ref, files, parent)
        url = self._page_of(kind, name)
        pr = {"pullRequestUrl": f"{url}/discussions/{number}"} if as_pr else {}
        self._send(200, {"success": True, "commitOid": oid, "commitUrl": f"{url}/commit/{oid}", **pr})

    def _apply(self, repo: Repo, files: Files, items: list[Any]) -> Files:
        """Carry out a commit's operations; a refusal of one leaves the repository as it was."""
        lfs = set(repo.lfs)
        for item in items:
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
                lfs.discard(value["path"])
            elif item["key"] == "lfsFile":
                if value["oid"] not in self.hub.objects:
                    raise _Refused(400, f"LFS pointer pointed to a file that does not exist: {value['path']}")
                files[value["path"]] = self.hub.objects[value["oid"]]
                lfs.add(value["path"])
            elif item["key"] == "deletedFile":
                if value["path"] not in files:
                    raise _Refused(404, "A file with this name doesn't exist", "EntryNotFound")
                del files[value["path"]]
            elif item["key"] == "deletedFolder":
                inside = [path for path in files if path.startswith(value["path"].rstrip("/") + "/")]
                for path in inside:
                    del files[path]
            else:
                raise _Refused(400, f"Unknown operation: {item['key']}")
        repo.lfs = lfs
        return files

    def lfs_batch(self, prefix: str, name: str) -> None:
        kind = "datasets" if prefix else "models"
        self._may_write(name)
        self._repo(kind, name)
        objects = []
        for item in self._json()["objects"]:
            oid, size = item["oid"], item["size"]
            upload: dict[str, Any] = {"href": f"{self.hub.endpoint}/lfs/{oid}", "header": {}}
            if size > self.hub.multipart_above:
                step = self.hub.part_size
                count = -(-size // step)
                urls = {str(n): f"{self.hub.endpoint}/lfs/{oid}/{n}" for n in range(1, count + 1)}
                upload = {"href": f"{upload['href']}/complete", "header": {"chunk_size": str(step), **urls}}
            verify = {"href": f"{self._page_of(kind, name)}.git/info/lfs/verify", "header": {}}
            known = oid in self.hub.objects
            objects.append({**item, **({} if known else {"actions": {"upload": upload, "verify": verify}})})
        self._send(200, {"transfer": "basic", "objects": objects})

    def lfs_put(self, oid: str) -> None:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise _Refused(400, "content does not match its oid")
        with self.hub.lock:
            self.hub.uploaded += len(self.body)
            self.hub.objects[oid] = self.body
        self._send(200, {})

    def lfs_part(self, oid: str, number: str) -> None:
        with self.hub.lock:
            self.hub.uploaded += len(self.body)
            self.hub.parts[oid, int(number)] = self.body
        self._send(200, {}, {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'})

    def lfs_complete(self, oid: str) -> None:
        parts = [self.hub.parts.pop((oid, part["partNumber"])) for part in self._json()["parts"]]
        content = b"".join(parts)
        if hashlib.sha256(content).hexdigest() != oid:
            raise _Refused(400, "content does not match its oid")
        self.hub.objects[oid] = content
        self._send(200, {})

    def lfs_verify(self, _: str, name: str) -> None:
        self._may_write(name)
        asked = self._json()
        if len(self.hub.objects.get(asked["oid"], b"")) != asked["size"]:
            raise _Refused(404, "Object was not uploaded")
        self._send(200, {"message": "ok"})

    def info(self, kind: str, name: str, revision: str = "main") -> None:
        repo, oid, files = self._files(kind, name, revision)
        blobs = "blobs" in self.query
        siblings = [{"rfilename": p, **(_blob(repo, p, files[p]) if blobs else {})} for p in sorted(files)]
        facts = {"id": name, "author": name.partition("/")[0], "sha": oid, "private": repo.private}
        facts |= {"gated": "manual" if repo.gated else False, "disabled": False, "tags": [], "siblings": siblings}
        self._send(200, {**facts, "downloads": 0, "likes": 0, "lastModified": "2026-01-01T00:00:00.000Z"})

    def auth_check(self, kind: str, name: str) -> None:
        self._check_gate(kind, name, self._repo(kind, name))
        self._send(200, {})

    def refs(self, kind: str, name: str) -> None:
        repo = self._repo(kind, name)
        branches = [r for r in repo.refs if not r.startswith("refs/pr/")]
        found: dict[str, Any] = {
            "branches": [{"name": r, "ref": f"refs/heads/{r}", "targetCommit": repo.refs[r]} for r in branches],
            "tags": [{"name": t, "ref": f"refs/tags/{t}", "targetCommit": oid} for t, oid in repo.tags.items()],
            "converts": [],
        }
        if "include_prs" in self.query:
            prs = [r for r in repo.refs if r.startswith("refs/pr/")]
            found["pullRequests"] = [{"name": r[5:], "ref": r, "targetCommit": repo.refs[r]} for r in prs]
        self._send(200, found)

    def tree(self, kind: str, name: str, revision: str, folder: str = "") -> None:
        repo, _, files = self._files(kind, name, revision)
        prefix = f"{folder}/" if folder else ""
        inside = sorted(path for path in files if path.startswith(prefix))
        if folder and not inside:
            raise _Refused(404, f"{folder} does not exist on {revision!r}", "EntryNotFound")
        if self.query.get("recursive") not in (["True"], ["true"], ["1"]):
            folders = {prefix + p[len(prefix) :].split("/")[0] for p in inside if "/" in p[len(prefix) :]}
            inside = [p for p in inside if "/" not in p[len(prefix) :]]
        else:
            folders = {"/".join(p.split("/")[:n]) for p in inside for n in range(1, p.count("/") + 1)}
            folders = {p for p in folders if p.startswith(prefix)}
        found = [_folder(p) for p in sorted(folders)] + [repo.entry(path, files[path]) for path in inside]
        start = int(self.query.get("cursor", ["0"])[0])
        stop = start + self.hub.page
        more = "&".join([f"{k}={quote(v[0])}" for k, v in self.query.items() if k != "cursor"] + [f"cursor={stop}"])
        url = f"{self.hub.endpoint}{urlsplit(self.path).path}?{more}"
        self._send(200, found[start:stop], {"Link": f'<{url}>; rel="next"'} if stop < len(found) else {})

    def paths_info(self, kind: str, name: str, revision: str) -> None:
        repo, _, files = self._files(kind, name, revision)
        form = self._json() if self.body.startswith(b"{") else parse_qs(self.body.decode())
        found: list[dict[str, Any]] = []
        for path in form["paths"]:
            if path in files:
                found.append(repo.entry(path, files[path]))
            elif any(p.startswith(f"{path}/") for p in files):
                found.append(_folder(path))
        self._send(200, found)

    def _check_gate(self, kind: str, name: str, repo: Repo) -> None:
        if not repo.gated:
            return
        said = f"Access to {kind[:-1]} {name} is restricted"
        if not self._logged_in():
            raise _Refused(401, f"{said}. You must have access to it and be authenticated to access it.", "GatedRepo")
        raise _Refused(403, f"{said} and you are not in the authorized list. Visit its page to ask.", "GatedRepo")

    def resolve(self, prefix: str, name: str, revision: str, path: str) -> None:
        kind = "datasets" if prefix else "models"
        repo, oid, files = self._files(kind, name, revision)
        self._check_gate(kind, name, repo)
        if path not in files:
            raise _Refused(404, "Entry not found", "EntryNotFound")
        content = self.hub.corrupt.get(path, files[path])
        etag = hashlib.sha256(content).hexdigest() if path in repo.lfs else blob_id(content)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": oid, "Accept-Ranges": "bytes"}
        if path in repo.lfs:
            headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content))}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if not span or self.command != "GET":
            return self._send(200, content, headers)
        start, stop = int(span[1]), int(span[2] or len(content) - 1) + 1
        if start >= len(content):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{min(stop, len(content)) - 1}/{len(content)}"
        return self._send(206, content[start:stop], headers)


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}


def _blob(repo: Repo, path: str, content: bytes) -> dict[str, Any]:
    entry = repo.entry(path, content)
    large = {"lfs": {"sha256": entry["lfs"]["oid"], **entry["lfs"]}} if "lfs" in entry else {}
    return {"blobId": entry["oid"], "size": entry["size"], **large}


_NAME = r"([^/]+/[^/]+)"
_API = rf"/api/(datasets|models)/{_NAME}"
_PAGE = rf"/(datasets/)?{_NAME}"
_ROUTES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("GET", r"/api/whoami-v2", _Handler.whoami),
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", r"/api/validate-yaml", _Handler.validate_yaml),
    ("POST", _API + r"/preupload/([^/]+)", _Handler.preupload),
    ("POST", _API + r"/branch/([^/]+)", _Handler.branch),
    ("POST", _API + r"/tag/([^/]+)", _Handler.tag),
    ("POST", _API + r"/commit/([^/]+)", _Handler.commit),
    ("POST", _API + r"/paths-info/([^/]+)", _Handler.paths_info),
    ("GET", _API, _Handler.info),
    ("GET", _API + r"/revision/([^/]+)", _Handler.info),
    ("GET", _API + r"/auth-check", _Handler.auth_check),
    ("GET", _API + r"/refs", _Handler.refs),
    ("GET", _API + r"/tree/([^/]+)", _Handler.tree),
    ("GET", _API + r"/tree/([^/]+)/(.+)", _Handler.tree),
    ("PUT", r"/lfs/([0-9a-f]{64})", _Handler.lfs_put),
    ("PUT", r"/lfs/([0-9a-f]{64})/(\d+)", _Handler.lfs_part),
    ("POST", r"/lfs/([0-9a-f]{64})/complete", _Handler.lfs_complete),
    ("POST", _PAGE + r"\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("POST", _PAGE + r"\.git/info/lfs/verify", _Handler.lfs_verify),
    ("GET HEAD", _PAGE + r"/resolve/([^/]+)/(.+)", _Handler.resolve),
)
