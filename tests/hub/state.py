"""What the Hub holds: repositories with their commits, objects of large files, and what it was asked."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Any

from tests.hub.faults import Faults

TOKEN = "hf_StubTokenThatMustNeverBePrinted"
READ_TOKEN = "hf_StubTokenThatMayOnlyReadThings"
Files = dict[str, bytes]
_NUMBERS = count()
"""Numbers all commits of the process, so that no cache of a client can mistake one test's commit for another's."""


@dataclass
class Repo:
    """One repository: its commits by id, its branches, tags and pull requests, and which files are LFS."""

    private: bool
    gated: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    lfs: set[str] = field(default_factory=set)

    def commit(self, ref: str, files: Files, parent: str | None = None) -> str:
        """Make the files the content of a branch and return the id of the commit."""
        listed = sorted((path, hashlib.sha256(content).hexdigest()) for path, content in files.items())
        oid = hashlib.sha1(json.dumps([next(_NUMBERS), listed]).encode()).hexdigest()
        self.commits[oid], self.parents[oid] = files, parent or self.refs.get(ref)
        self.refs[ref] = oid
        return oid

    def resolve(self, revision: str) -> str | None:
        """Return the commit that a commit id, branch, pull request or tag names."""
        return revision if revision in self.commits else self.refs.get(revision) or self.tags.get(revision)

    def history(self, ref: str = "main") -> list[str]:
        """Return the commits of a branch, the newest first."""
        found: list[str] = []
        at: str | None = self.refs[ref]
        while at is not None:
            found.append(at)
            at = self.parents[at]
        return found

    def head(self, ref: str = "main") -> Files:
        """Return the files of a branch."""
        return self.commits[self.refs[ref]]

    def entry(self, path: str, content: bytes) -> dict[str, Any]:
        """Describe a file as the Hub's tree does."""
        entry: dict[str, Any] = {"type": "file", "path": path, "oid": blob_id(content), "size": len(content)}
        if path in self.lfs:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
        return entry


@dataclass
class HubStub:
    """The state of the Hub and what was asked of it.

    Attributes:
        repos: data sets by `org/name`; `models` likewise. One name can be both, as on the Hub.
        requests: (method, path) of every request, in the order of arrival.
        unknown: those that no route answers: a client asked for what this Hub cannot do.
        corrupt: path to what is served instead of what was pushed.
        objects: content of large files by SHA-256; `uploaded` counts the bytes that came for them.
        lfs_suffixes, lfs_above: which files are large: by name, or by size in bytes.
        multipart_above: size in bytes from which large files go up in parts of `part_size` bytes.
        read_only: refuse every write as for a token that may only read.
        forbidden: names of users and organisations where nobody may write.
        page: entries that one answer of the tree holds.
        faults: what goes wrong, and when.
    """

    repos: dict[str, Repo] = field(default_factory=dict)
    models: dict[str, Repo] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    corrupt: dict[str, bytes] = field(default_factory=dict)
    objects: Files = field(default_factory=dict)
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    uploaded: int = 0
    lfs_suffixes: tuple[str, ...] = (".parquet", ".arrow", ".bin", ".safetensors", ".zst", ".gz", ".npz", ".png")
    lfs_above: int = 10 << 20
    multipart_above: int = 1 << 40
    part_size: int = 1 << 20
    read_only: bool = False
    forbidden: set[str] = field(default_factory=set)
    page: int = 1000
    endpoint: str = ""
    faults: Faults = field(default_factory=Faults)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def reset(self) -> None:
        """Forget everything but the address."""
        new = HubStub(endpoint=self.endpoint)
        for item in fields(self):
            setattr(self, item.name, getattr(new, item.name))

    def of_type(self, kind: str) -> dict[str, Repo]:
        """Return the repositories of `datasets` or `models`."""
        return self.models if kind == "models" else self.repos

    def commits(self, repo: str, kind: str = "datasets") -> int:
        """How many commits clients made (the first is the Hub's own)."""
        return len(self.of_type(kind)[repo].commits) - 1

    def is_lfs(self, path: str, size: int) -> bool:
        """Whether the Hub wants a file as a large one."""
        return path.endswith(self.lfs_suffixes) or size > self.lfs_above

    def environment(self, home: Path, token: str | None = TOKEN) -> dict[str, str]:
        """Return the variables with which a child process talks to this Hub and to no other."""
        found = {"HF_ENDPOINT": self.endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        found |= {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DOWNLOAD_TIMEOUT": "5", "NO_PROXY": "127.0.0.1"}
        return found | ({"HF_TOKEN": token} if token is not None else {})


def blob_id(content: bytes) -> str:
    """Return the id that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
