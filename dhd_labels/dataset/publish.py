"""Put a data set on the Hub in one commit, load it back and compare it row by row with what was sent.

A push reads the head of the branch, merges the card, uploads what the Hub lacks and commits on that head. If
somebody else committed meanwhile the Hub refuses, and the push starts again from the new head. Until the commit
nothing that can be seen has changed. `docs/publishing.md` says the rules.

A token is read where the Hub's own tools keep it and is never printed: errors are made from status codes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dhd_labels.dataset.compare import compare
from dhd_labels.dataset.header import CARD_NAME
from dhd_labels.dataset.hub import explain, is_network_error, parse_repo
from dhd_labels.dataset.merge import addressed
from dhd_labels.dataset.push_plan import Local, Plan, PushFile, card_diff, marks_of, planned, read_folder, some
from dhd_labels.dataset.remote import (
    Remote,
    explained,
    find_repository,
    is_model,
    read_remote,
    repeated,
    status_of,
)
from dhd_labels.errors import DhdError

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

HOW_TO_LOG_IN = "Log in with `hf auth login`, or set HF_TOKEN to a token with write access."
_T = TypeVar("_T")
_LOCK_TRIES = 6
_BATCH = 64
"""Files that are uploaded before the next ones are opened."""


@dataclass(frozen=True, slots=True)
class PushResult:
    """What was pushed, or what would be.

    Attributes:
        commit: the commit on the Hub; None after a dry run.
        url: the page of the data set or of the pull request; None after a dry run.
        files: every file of the data set; the deleted ones are `deleted`.
        card_diff: lines of a unified diff from the card on the Hub to the one that goes up.
        notes: what else a person should know, a sentence each.
    """

    commit: str | None
    url: str | None
    files: tuple[PushFile, ...]
    card_diff: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_token(endpoint: str | None = None) -> str:
    """Return the name of the user whose token is in place. Meant to be called before any model call is paid
    for.

    Args:
        endpoint: the Hub to ask; the one of HF_ENDPOINT, else huggingface.co, by default.

    Raises:
        DhdError: there is no token, it may only read, the Hub does not accept it, or the Hub cannot be reached.
    """
    from huggingface_hub import HfApi, get_token

    if not get_token():
        raise DhdError(f"Pushing needs a Hub token, and there is none. {HOW_TO_LOG_IN}")
    with explained("Checking the Hub token"):
        found = repeated(HfApi(endpoint=endpoint).whoami)
    if found.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise DhdError(f"Pushing needs a token that may write, but this one may only read. {HOW_TO_LOG_IN}")
    return str(found["name"])


def check_repository(repo: str, *, private: bool = True) -> None:
    """Refuse what a push would refuse before its first upload.

    Raises:
        DhdError: the name is not allowed, is that of a model, or the data set is public and `private` is asked for.
    """
    from huggingface_hub import HfApi

    parse_repo(repo)
    with explained(f"Asking for the data set {repo!r}"):
        _visibility(HfApi(), repo, private)


def push(
    dataset_dir: Path,
    repo: str,
    *,
    private: bool = True,
    revision: str | None = None,
    create_pr: bool = False,
    dry_run: bool = False,
    replace_card: bool = False,
) -> PushResult:
    """Push a data set folder to the Hub as one commit, then load every config back and compare it.

    Args:
        dataset_dir: a folder that `write_dataset` wrote. Only the files of the data set go up.
        repo: `org/name`; made if it is not there.
        private: make it private. An existing public repository is refused, so that nothing private is shown
            by mistake. An existing one never changes its visibility.
        revision: branch to commit to (made from `main` if it is not there); `main` by default.
        create_pr: open a pull request instead of committing to the branch.
        dry_run: send nothing; say what would go up and how it stands to what the Hub has, where it can be asked.
        replace_card: put our card in the place of the one that is there, edits of people with it.

    Raises:
        DhdError: not one of our data sets, a bad repository id, no or a bad token, a refusal of the Hub, the folder
            changed meanwhile, others kept committing, or what comes back is not what was sent.
    """
    from huggingface_hub import HfApi

    parse_repo(repo)
    if create_pr and revision not in (None, "main"):
        raise DhdError(
            f"A pull request goes to 'main', so --create-pr cannot go with --revision {revision!r}. Drop one."
        )
    local = read_folder(dataset_dir)
    local = replace(local, card=addressed(local.card, repo))
    target = _Target(HfApi(), repo, revision, private, create_pr, replace_card)
    if dry_run:
        return target.rehearse(local)
    check_token()
    commit, url, plan = target.send(local)
    _compare(local, repo, commit)
    return PushResult(commit, url, plan.files(), card_diff(plan), plan.notes)


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a push goes, and how."""

    api: HfApi
    repo: str
    revision: str | None
    private: bool
    create_pr: bool
    replace_card: bool

    def send(self, local: Local) -> tuple[str, str, Plan]:
        """Make the repository and the branch if need be, upload and commit; return the commit, its page, the plan."""
        with explained(f"Pushing to the data set {self.repo!r}"):
            url, notes = self._prepare()
            for _ in range(_LOCK_TRIES):
                plan = self._plan(local, notes)
                if not plan.needed:
                    return plan.head, url, plan
                done = self._commit(local, plan)
                if done is not None:
                    return done[0], done[1] or url, plan
        raise DhdError(
            f"Others committed to the data set {self.repo!r} {_LOCK_TRIES} times while this push prepared its own "
            "commit. Nothing was committed, and what was uploaded stays there. Push again when they are done."
        )

    def rehearse(self, local: Local) -> PushResult:
        """Return what `send` would do. Whatever the Hub cannot be asked is said to be unknown."""
        from huggingface_hub import get_token

        unknown = tuple(PushFile(path, c.size, c.sha256) for path, c in sorted(local.contents.items()))
        what = "which files it has already, who may see it, and how the card would be merged, is not known"
        if not get_token():
            return PushResult(None, None, unknown, (), (f"There is no token, so the Hub was not asked: {what}.",))
        try:
            with explained(f"Asking for the data set {self.repo!r}"):
                return self._rehearsed(local)
        except _NotAskedError as error:
            return PushResult(None, None, unknown, (), (f"{error} So {what}.",))

    def _rehearsed(self, local: Local) -> PushResult:
        there, notes = _askable(lambda: _visibility(self.api, self.repo, self.private))
        if there is None:
            seen = "private: only who may see it will" if self.private else "public: everyone will see it"
            plan = planned(local, Remote("", {}, None), self.replace_card, (f"It would be made, {seen}.",))
        else:
            plan = _askable(lambda: self._plan(local, notes, make_branch=False))
        return PushResult(None, None, plan.files(), card_diff(plan), plan.notes)

    def _prepare(self) -> tuple[str, tuple[str, ...]]:
        """Make the repository and the branch if they are not there; return the page and notes."""
        api = self.api
        there, notes = _visibility(api, self.repo, self.private)
        if there is None:
            repeated(lambda: api.create_repo(self.repo, repo_type="dataset", private=self.private, exist_ok=True))
            _, notes = _visibility(api, self.repo, self.private)
        if self.revision is not None and not self.revision.startswith("refs/pr/"):
            repeated(
                lambda: api.create_branch(self.repo, branch=self.revision or "", repo_type="dataset", exist_ok=True)
            )
        return f"{api.endpoint}/datasets/{self.repo}", notes

    def _plan(self, local: Local, notes: tuple[str, ...], *, make_branch: bool = True) -> Plan:
        from huggingface_hub import errors

        try:
            found = find_repository(self.api, self.repo, self.revision)
        except errors.RevisionNotFoundError:
            if make_branch:
                raise
            notes = (*notes, f"The branch {self.revision!r} would be made from main.")
            found = find_repository(self.api, self.repo)
        if found is None:
            raise DhdError(
                f"The data set {self.repo!r} was there a moment ago, but this token may not see it now. Check "
                "`hf auth whoami` and the page of the data set, then push again."
            )
        return planned(local, read_remote(self.api, self.repo, found.sha), self.replace_card, notes)

    def _commit(self, local: Local, plan: Plan) -> tuple[str, str | None] | None:
        """Upload and commit on the plan's head; return the commit and its pull request, or None if the head moved."""
        operations = self._upload(local, plan)
        local.check_unchanged()
        try:
            done = self._once(
                lambda: self.api.create_commit(
                    self.repo,
                    operations,
                    commit_message="Update the data set with dhd-labels",
                    repo_type="dataset",
                    revision=self.revision,
                    create_pr=self.create_pr,
                    parent_commit=plan.head,
                )
            )
        except Exception as error:
            if status_of(error) in (409, 412):
                return None
            if self.create_pr and (is_network_error(error) or (status_of(error) or 0) >= 500):
                raise DhdError(
                    f"{explain(error, f'Opening a pull request in {self.repo!r}')} The pull request may be open all "
                    "the same: look at the page of the data set before you push again."
                ) from None
            raise
        self._check_committed(plan, done.oid)
        return done.oid, done.pr_url

    def _once(self, call: Callable[[], _T]) -> _T:
        """Repeat a commit where that cannot make a second one: a parent is built on once, a pull request is not."""
        return call() if self.create_pr else repeated(call)

    def _upload(self, local: Local, plan: Plan) -> list[CommitOperationAdd | CommitOperationDelete]:
        """Upload the large files that the Hub lacks, some at a time; return the operations of the commit."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        operations: list[CommitOperationAdd | CommitOperationDelete] = []
        added = [path for path in plan.contents if plan.states[path] in ("new", "changed")]
        for start in range(0, len(added), _BATCH):
            batch = []
            for path in added[start : start + _BATCH]:
                source = plan.card.encode() if path == CARD_NAME else str(local.folder / path)
                batch.append(CommitOperationAdd(path_in_repo=path, path_or_fileobj=source))
                batch[-1].upload_info.sha256 = bytes.fromhex(plan.contents[path].sha256)  # not to hash it twice
            self.api.preupload_lfs_files(
                self.repo, batch, repo_type="dataset", revision=self.revision, create_pr=self.create_pr
            )
            operations += batch
        gone = (path for path, state in plan.states.items() if state == "deleted")
        return [*operations, *(CommitOperationDelete(path_in_repo=path) for path in gone)]

    def _check_committed(self, plan: Plan, commit: str) -> None:
        """Refuse a commit that holds anything but what was planned: a file that changed while it was read."""
        there = read_remote(self.api, self.repo, commit).files
        wrong = [path for path, content in plan.contents.items() if path not in there or not there[path].holds(content)]
        wrong += [path for path, state in plan.states.items() if state == "deleted" and path in there]
        if wrong:
            raise DhdError(
                f"The commit {commit[:12]} of {self.repo!r} must hold what was in the folder when the push began, but "
                f"{some(sorted(wrong))} differs. Push again; the commit before it is {plan.head[:12]}."
            )


class _NotAskedError(DhdError):
    """The Hub could not be asked, through no fault of what was asked."""


def _askable(call: Callable[[], _T]) -> _T:
    """Call; where the Hub cannot be reached or is down, say so instead of failing."""
    try:
        return call()
    except DhdError:
        raise
    except Exception as error:
        if is_network_error(error) or (status_of(error) or 0) >= 429:
            raise _NotAskedError(explain(error, "Asking the Hub")) from None
        raise


def _visibility(api: HfApi, repo: str, private: bool) -> tuple[Any | None, tuple[str, ...]]:
    """Return what the Hub says of the data set (None: not there), and notes.

    Raises:
        DhdError: the name is a model's, or the data set is public and must not be.
    """
    there = find_repository(api, repo)
    if there is None:
        if is_model(api, repo):
            raise DhdError(
                f"The repository must be a data set or a new name, but {repo!r} is a model on the Hub. Choose another "
                "--repo."
            )
        return None, ()
    if private and not there.private:
        raise DhdError(
            f"The data set {repo!r} is public already, and pushes are private by default, so nothing was sent. "
            "Push with --public if everyone may see the labels, or choose another --repo."
        )
    if not private and there.private:
        stays = f"The data set {repo!r} is private and stays so: --public only counts when a data set is made."
        return there, (f"{stays} Its settings on the Hub change it.",)
    return there, ()


def _compare(local: Local, repo: str, commit: str) -> None:
    """Compare what the Hub returns with the folder.

    Raises:
        DhdError: it differs, or the folder was changed since the commit, so that it cannot be said.
    """
    try:
        compare(local.folder, local.header, repo, commit)
    except (DhdError, OSError):
        if marks_of(local.folder) == local.marks:
            raise
    if marks_of(local.folder) != local.marks:
        raise DhdError(
            f"The data set went up as commit {commit[:12]} of {repo!r}, but {local.folder} changed before it was "
            "compared with what the Hub returns. Push again to compare what is there now."
        )
