"""Saved rules on the Hub, as model repositories.

A token is read where the Hub's own tools keep it and is never printed: errors are made from status codes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.hub import RepoRef, explain, parse_repo, quiet_hub
from dhd_labels.dataset.publish import check_token
from dhd_labels.errors import DhdError
from dhd_selectors.saving.manifest import (
    HOW_TO_MAKE,
    MANIFEST_NAME,
    REPORTS,
    SELECTOR_FOLDER,
    check_files,
    file_digest,
    read_manifest,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi


@dataclass(frozen=True, slots=True)
class PushedRule:
    """Where a rule was pushed: its repository, the commit and the page."""

    repo: str
    commit: str
    url: str


def push_folder(folder: Path, repo: str, *, private: bool = True, revision: str | None = None) -> PushedRule:
    """Push a saved rule to the Hub as one commit, and compare what comes back, file by file.

    Args:
        folder: a folder that `DecisionRule.save_pretrained` wrote.
        repo: `org/name`; made if it is not there.
        private: make it private. An existing public repository is refused, so that nothing private is shown by mistake.
        revision: branch to commit to (made if it is not there); `main` by default.

    Raises:
        DhdError: a bad repository id, no or a bad token, a refusal of the Hub, or what comes back differs.
    """
    parse_repo(repo)
    check_token()
    needed = [MANIFEST_NAME, *read_manifest(folder / MANIFEST_NAME)["files"]]
    sent = [*needed, *(name for name in REPORTS if (folder / name).is_file())]
    commit, url = _commit(folder, repo, sent, private=private, revision=revision)
    back, _ = download(RepoRef(repo, commit))
    for name in needed:
        if file_digest(folder / name) != file_digest(back / name):
            raise DhdError(
                f"What the Hub returns must be what was pushed, but {name} of {repo!r} at {commit[:12]} differs. "
                "Push again; if it stays, report it."
            )
    return PushedRule(repo, commit, url)


def download(ref: RepoRef) -> tuple[Path, dict[str, Any]]:
    """Return the local copy of a rule on the Hub, every file checked, and its manifest.

    Raises:
        DhdError: there is no such rule, the Hub said no, or the rule is of another version.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download

    what = f"Loading the saved rule {ref.repo!r} (there is no such folder here) from the Hub"
    with _explained(what):
        revision = ref.revision
        if not constants.HF_HUB_OFFLINE:
            revision = HfApi().model_info(ref.repo, revision=revision, timeout=30).sha
        file = Path(hf_hub_download(ref.repo, MANIFEST_NAME, revision=revision))
        manifest = read_manifest(file)
        for name in manifest["files"]:
            hf_hub_download(ref.repo, name, revision=revision)
    check_files(file.parent, manifest)
    return file.parent, manifest


def _commit(folder: Path, repo: str, sent: list[str], *, private: bool, revision: str | None) -> tuple[str, str]:
    """Make the repository if need be, send every file in one commit; return the commit and its page."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi()
    added = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=folder / name) for name in sent]
    with _explained(f"Pushing to the model {repo!r}"):
        url = str(api.create_repo(repo, private=private, exist_ok=True))
        if private:
            _check_private(api, repo)
        if revision is not None:
            api.create_branch(repo, branch=revision, exist_ok=True)
        there = api.list_repo_files(repo, revision=revision)
        # What only an earlier push had must not stay behind.
        stale = [name for name in there if name.startswith(f"{SELECTOR_FOLDER}/") and name not in sent]
        done = api.create_commit(
            repo,
            [*added, *(CommitOperationDelete(path_in_repo=name) for name in stale)],
            commit_message="Update the rule with dhd-labels",
            revision=revision,
        )
    return done.oid, url


def _check_private(api: HfApi, repo: str) -> None:
    if not api.model_info(repo).private:
        raise DhdError(
            f"The model {repo!r} is public already, and pushes are private by default, so nothing was sent. Push with "
            "--public if everyone may see the rule, or choose another repository."
        )


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn what the Hub's client raises into one plain sentence, without its cause, which can hold headers."""
    try:
        with quiet_hub():
            yield
    except DhdError:
        raise
    except Exception as error:
        said = explain(error, what, "saved rule", MANIFEST_NAME)
        raise DhdError(f"{said} {HOW_TO_MAKE}" if MANIFEST_NAME in said else said) from None
