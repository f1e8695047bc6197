"""Put a data set on the Hub in one commit, load it back and compare it row by row with what was sent.

A token is read where the Hub's own tools keep it and is never printed: errors are made from status codes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dhd_labels.dataset.header import SIMULATION_NAME, Header, data_files, local_header
from dhd_labels.dataset.hub import explain, parse_repo, quiet
from dhd_labels.dataset.schema import CONFIGS
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    import pyarrow as pa
    from huggingface_hub import HfApi

HOW_TO_LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access."
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PushFile:
    """One file that goes up: its path in the repository, its size in bytes and the SHA-256 of its content."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PushResult:
    """What was pushed. `commit` and `url` are None after a dry run; `url` is the pull request's if there is one."""

    commit: str | None
    url: str | None
    files: tuple[PushFile, ...]


def check_token(endpoint: str | None = None) -> str:
    """Return the name of the user whose token is in place. Meant to be called before any model call is paid
    for.

    Args:
        endpoint: the Hub to ask; the one of HF_ENDPOINT, else huggingface.co, by default.

    Raises:
        DhdError: there is no token, the Hub does not accept it, or the Hub cannot be reached.
    """
    from huggingface_hub import HfApi, get_token

    if not get_token():
        raise DhdError(f"Pushing needs a Hub token, and there is none. {HOW_TO_LOG_IN}")
    with _explained("Checking the Hub token"):
        return str(HfApi(endpoint=endpoint).whoami()["name"])


def push(
    dataset_dir: Path,
    repo: str,
    *,
    private: bool = True,
    revision: str | None = None,
    create_pr: bool = False,
    dry_run: bool = False,
) -> PushResult:
    """Push a data set folder to the Hub as one commit, then load every config back and compare it.

    Args:
        dataset_dir: a folder that `write_dataset` wrote. Only the files of the data set go up.
        repo: `org/name`; made if it is not there.
        private: make it private. An existing public repository is refused, so that nothing private is shown
            by mistake.
        revision: branch to commit to (made if it is not there); `main` by default.
        create_pr: open a pull request instead of committing to the branch.
        dry_run: only list what would go up, without any request.

    Raises:
        DhdError: not one of our data sets, a bad repository id, no or a bad token, a refusal of the Hub, or
            what
            comes back is not what was sent.
    """
    parse_repo(repo)
    if create_pr and revision not in (None, "main"):
        raise DhdError(
            f"A pull request goes to 'main', so --create-pr cannot go with --revision {revision!r}. Drop one."
        )
    header = local_header(dataset_dir)
    files = tuple(_describe(dataset_dir, path) for path in data_files(dataset_dir))
    _check_listed(header, files, dataset_dir)
    if dry_run:
        return PushResult(None, None, files)
    check_token()
    commit, url = _commit(dataset_dir, repo, files, private=private, revision=revision, create_pr=create_pr)
    for config, paths in header.files.items():
        _compare(dataset_dir, repo, config, paths, commit)
    return PushResult(commit, url, files)


def _commit(
    folder: Path,
    repo: str,
    files: tuple[PushFile, ...],
    *,
    private: bool,
    revision: str | None,
    create_pr: bool,
) -> tuple[str, str]:
    """Make the repository if need be, send every file in one commit; return the commit and its page."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi()
    added = [CommitOperationAdd(path_in_repo=file.path, path_or_fileobj=folder / file.path) for file in files]
    with _explained(f"Pushing to the data set {repo!r}"):
        url = str(api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True))
        if private:
            _check_private(api, repo)
        if revision is not None:
            api.create_branch(repo, branch=revision, repo_type="dataset", exist_ok=True)
        stale = _stale(api.list_repo_files(repo, repo_type="dataset", revision=revision), files)
        done = api.create_commit(
            repo,
            [*added, *(CommitOperationDelete(path_in_repo=path) for path in stale)],
            commit_message="Update the data set with dhd-labels",
            repo_type="dataset",
            revision=revision,
            create_pr=create_pr,
        )
    return done.oid, done.pr_url or url


def _stale(there: Iterable[str], files: tuple[PushFile, ...]) -> list[str]:
    """Return the files that only an earlier push had: rows that were taken out must not stay behind."""
    sent = {file.path for file in files}
    ours = re.compile(rf"(?:{'|'.join(CONFIGS)})/[^/]+\.parquet|{re.escape(SIMULATION_NAME)}")
    return [path for path in there if path not in sent and ours.fullmatch(path)]


def _check_private(api: HfApi, repo: str) -> None:
    if not api.dataset_info(repo).private:
        raise DhdError(
            f"The data set {repo!r} is public already, and pushes are private by default, so nothing was sent. "
            "Push with --public if everyone may see the labels, or choose another --repo."
        )


def _check_listed(header: Header, files: tuple[PushFile, ...], folder: Path) -> None:
    """Refuse Parquet files that the card does not list: they would go up and nobody would load them."""
    listed = set(header.paths)
    strangers = [file.path for file in files if file.path.endswith(".parquet") and file.path not in listed]
    if strangers:
        raise DhdError(
            f"The card of {folder} must list every Parquet file, but not {', '.join(strangers)}. Remove them, or "
            "build the data set again."
        )


def _describe(folder: Path, path: str) -> PushFile:
    digest = hashlib.sha256()
    with (folder / path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return PushFile(path, (folder / path).stat().st_size, digest.hexdigest())


def _compare(folder: Path, repo: str, config: str, paths: Mapping[str, tuple[str, ...]], commit: str) -> None:
    """Load a config from the Hub at the commit and check that every split is the local file, row by row."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _explained(f"Loading the config {config!r} of {repo!r} back"):
        loaded = datasets.load_dataset(repo, config, revision=commit)
    if set(loaded) != set(paths):
        raise DhdError(_differs(repo, config, commit, f"the splits are {sorted(loaded)}, not {sorted(paths)}"))
    for split, files in paths.items():
        sent = pa.concat_tables([pq.read_table(folder / path) for path in files])
        difference = _difference(sent, loaded[split].with_format("arrow")[:])
        if difference:
            raise DhdError(_differs(repo, config, commit, f"split {split}, {difference}"))


def _differs(repo: str, config: str, commit: str, how: str) -> str:
    return (
        f"What the Hub returns must be what was pushed, but config {config!r} of {repo!r} at {commit[:12]} "
        f"differs: {how}. Push again; if it stays, report it."
    )


def _difference(sent: pa.Table, returned: pa.Table) -> str | None:
    """Return where two tables first differ, or None when they are equal."""
    if sent.schema.remove_metadata() != returned.schema.remove_metadata():
        return f"the columns are {returned.schema.names}, not {sent.schema.names}, or of another type"
    if sent.num_rows != returned.num_rows:
        return f"there are {returned.num_rows} rows, not {sent.num_rows}"
    for name in sent.column_names:
        if not sent.column(name).equals(returned.column(name)):
            pairs = zip(sent.column(name).to_pylist(), returned.column(name).to_pylist(), strict=True)
            row, (here, there) = next((number, pair) for number, pair in enumerate(pairs) if pair[0] != pair[1])
            return f"row {row}, column {name!r}: {repr(there)[:60]}, not {repr(here)[:60]}"
    return None


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what the Hub's libraries raise into one plain sentence, without its cause, which can hold headers."""
    try:
        with quiet():
            yield
    except DhdError:
        raise
    except Exception as error:
        raise DhdError(explain(error, what)) from None
