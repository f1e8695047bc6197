"""A data set's repository on the Hub as a push sees it: its head, its files, its card; and requests that are repeated.

`huggingface_hub` repeats uploads by itself. What it asks only once is repeated here, a bounded number of times.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dhd_labels.dataset.header import CARD_NAME
from dhd_labels.dataset.hub import explain, is_network_error, quiet
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_T = TypeVar("_T")
_TRIES = 4
_LONGEST_WAIT = 300
"""Seconds: whoever is told to wait longer gets an error that says how long."""
_TRANSIENT = frozenset({500, 502, 503, 504})
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its size in bytes, the SHA-256 of its bytes and the id that git gives them, in hex digits."""

    size: int
    sha256: str
    blob: str


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of the repository: its size in bytes and its SHA-256, or where it is no large file its git blob id."""

    size: int
    digest: str
    large: bool

    def holds(self, content: Content) -> bool:
        """Whether the content is the same."""
        return self.size == content.size and self.digest == (content.sha256 if self.large else content.blob)


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository at one commit: its files by path, and its card (None where there is none)."""

    head: str
    files: Mapping[str, RemoteFile]
    card: str | None


def content_of(path: Path) -> Content:
    """Return what a file holds, read a piece at a time.

    Raises:
        OSError: it cannot be read, or it grew or shrank meanwhile.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        found = _content(size, iter(lambda: file.read(_CHUNK), b""))
    if found.size != size:
        raise OSError(f"The file {path} must keep its size while it is read, got {found.size} bytes instead of {size}")
    return found


def content_of_bytes(data: bytes) -> Content:
    """Return what a file of these bytes holds."""
    return _content(len(data), [data])


def _content(size: int, chunks: Iterable[bytes]) -> Content:
    sha256, blob, read = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False), 0
    for chunk in chunks:
        sha256.update(chunk)
        blob.update(chunk)
        read += len(chunk)
    return Content(read, sha256.hexdigest(), blob.hexdigest())


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what the Hub's libraries raise into one plain sentence, without its cause, which can hold headers.

    Raises:
        DhdError: anything went wrong.
    """
    try:
        with quiet():
            yield
    except DhdError:
        raise
    except Exception as error:
        raise DhdError(explain(error, what)) from None


def repeated(call: Callable[[], _T]) -> _T:
    """Call, and again after a wait when the Hub is busy, has an error of its own or cannot be reached.

    Raises:
        Exception: whatever the last call raised.
    """
    for number in range(_TRIES - 1):
        try:
            return call()
        except Exception as error:
            wait = _wait(error, 0.5 * 2**number)
            if wait is None:
                raise
            time.sleep(wait)
    return call()


def _wait(error: BaseException, otherwise: float) -> float | None:
    """Return the seconds to wait before the call is repeated, or None when that is no use."""
    status = status_of(error)
    if status == 429:
        told = getattr(error, "response").headers.get("Retry-After", "")  # noqa: B009  (of whatever HTTP library)
        seconds = float(told) if told.isdigit() else otherwise
        return seconds if seconds <= _LONGEST_WAIT else None
    return otherwise if status in _TRANSIENT or (status is None and is_network_error(error)) else None


def status_of(error: BaseException) -> int | None:
    """Return the status of the answer that made an error, or None where none did."""
    found = getattr(getattr(error, "response", None), "status_code", None)
    return found if isinstance(found, int) else None


def find_repository(api: HfApi, repo: str, revision: str | None = None) -> Any | None:
    """Return what the Hub says about a data set at a branch, or None where there is no such data set.

    Raises:
        HfHubHTTPError: any other refusal; also `RevisionNotFoundError`.
    """
    from huggingface_hub import errors

    try:
        return repeated(lambda: api.dataset_info(repo, revision=revision, timeout=30))
    except errors.RepositoryNotFoundError:
        return None


def is_model(api: HfApi, repo: str) -> bool:
    """Whether a model of that name is there (and may be seen)."""
    from huggingface_hub import errors

    try:
        repeated(lambda: api.model_info(repo, timeout=30))
    except errors.RepositoryNotFoundError:
        return False
    return True


def read_remote(api: HfApi, repo: str, head: str) -> Remote:
    """Return the files and the card of a data set at a commit.

    Raises:
        HfHubHTTPError: the Hub refuses.
    """
    from huggingface_hub import RepoFile

    entries = repeated(lambda: list(api.list_repo_tree(repo, repo_type="dataset", revision=head, recursive=True)))
    files = {
        entry.path: RemoteFile(entry.size, entry.lfs.sha256 if entry.lfs else entry.blob_id, entry.lfs is not None)
        for entry in entries
        if isinstance(entry, RepoFile)
    }
    return Remote(head, files, _card(api, repo, head) if CARD_NAME in files else None)


def _card(api: HfApi, repo: str, head: str) -> str:
    found = repeated(lambda: api.hf_hub_download(repo, CARD_NAME, repo_type="dataset", revision=head))
    return Path(found).read_bytes().decode("utf-8", errors="replace")
