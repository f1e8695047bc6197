"""What loading and publishing share about the Hub: repository ids, plain errors, quiet libraries.

Messages made here carry a status, a class name or the server's own words, never a request, so no token can
slip in.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dhd_labels.errors import DhdError

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_REPO = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[^\s@]+))?")
_TOKEN = re.compile(r"\b(?:hf|api_org)_\w{6,}")


@dataclass(frozen=True, slots=True)
class RepoRef:
    """A data set on the Hub, `org/name`, and the revision (branch, tag or commit) when one is named."""

    repo: str
    revision: str | None = None


def parse_ref(text: str) -> RepoRef | None:
    """Return what `org/name` or `org/name@revision` names, or None when the text is neither."""
    match = _REPO.fullmatch(text)
    if match is None or "--" in match["repo"] or ".." in match["repo"]:
        return None
    return RepoRef(match["repo"], match["revision"])


def parse_repo(text: str) -> str:
    """Return a valid `org/name`.

    Raises:
        DhdError: the text is not a repository id of the Hub.
    """
    ref = parse_ref(text)
    if ref is None or ref.revision is not None:
        raise DhdError(
            f"The repository must be 'org/name' (letters, digits, '-', '_', '.'; at most 96 characters a part), "
            f"got {text!r}. Example: --repo my-team/quickstart-labels"
        )
    return ref.repo


def explain(error: BaseException, what: str, kind: str = "data set", marker: str = "README.md") -> str:
    """Say in one sentence why a Hub request about `what` failed, and what to do. Never quotes the request.

    Args:
        error: what the Hub's libraries raised.
        what: what was being done.
        kind: what the repository is, for people.
        marker: the file by which a repository of ours is known.
    """
    from huggingface_hub import constants, errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"{what} needs the Hub, but HF_HUB_OFFLINE is set. Unset it, or use a local folder."
    if isinstance(error, errors.HfHubHTTPError):
        return f"{what} failed: {_explain_status(error, kind, marker)}"
    if is_network_error(error):
        return (
            f"{what} failed: the Hub at {constants.ENDPOINT} cannot be reached ({type(error).__name__}). "
            "Check the network and HF_ENDPOINT, then try again."
        )
    said = redact(" ".join(str(error).split())[:300])
    return f"{what} failed ({type(error).__name__}{': ' + said if said else ''})."


def redact(text: str) -> str:
    """Return the text without the Hub token in use, and without anything shaped like one."""
    from huggingface_hub import get_token

    token = get_token()
    return _TOKEN.sub("***", text.replace(token, "***") if token else text)


def is_network_error(error: BaseException) -> bool:
    """Whether no answer came. By class name: huggingface_hub changes which HTTP library it uses."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"TransportError", "ConnectionError", "TimeoutError"})


def _explain_status(error: BaseException, kind: str, marker: str) -> str:
    from huggingface_hub import errors

    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return f"the {kind} is gated. Ask for access on its page, then log in with `hf auth login`."
    if isinstance(error, errors.RevisionNotFoundError):
        return "there is no such revision. Name an existing branch, tag or commit."
    if isinstance(error, errors.EntryNotFoundError):
        return f"the {kind} has no {marker}, so dhd-labels did not make it."
    if status == 401 and not isinstance(error, errors.RepositoryNotFoundError):
        return "the token is not valid (401). Log in with `hf auth login`, or set HF_TOKEN to a valid token."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such {kind}, or it is private and this token may not see it. Check the name and `hf auth whoami`."
    if status == 403:
        return "the token may not do this (403). Use a token with write access to that organisation."
    said = " ".join(str(getattr(error, "server_message", None) or "").split())[:300]
    return f"the Hub answered {status}{': ' + redact(said) if said else ''}."


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the Hub's libraries from drawing bars and from logging failures that we report ourselves."""
    import datasets

    bars, level = datasets.utils.are_progress_bars_disabled(), datasets.utils.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(datasets.utils.logging.CRITICAL)
    try:
        with quiet_hub():
            yield
    finally:
        datasets.utils.logging.set_verbosity(level)
        if not bars:
            datasets.enable_progress_bars()


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Do the same for the client of the Hub alone, without importing `datasets`."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    bars, level = not are_progress_bars_disabled(), hub_logging.get_verbosity()
    hub_logging.set_verbosity(logging.ERROR)
    if bars:
        disable_progress_bars()
    try:
        yield
    finally:
        hub_logging.set_verbosity(level)
        if bars:
            enable_progress_bars()
