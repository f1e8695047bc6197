"""Take a release in the layout of the paper's authors for a data set of ours, wherever labels are loaded.

It is converted once into the cache of `datasets`, in a folder that its content names.
"""

from __future__ import annotations

from pathlib import Path

from dhd_labels.dataset.header import read_header
from dhd_labels.dataset.hub import RepoRef, explain, quiet
from dhd_labels.errors import DhdError


class NotOursError(DhdError):
    """A data set on the Hub that dhd-labels did not make."""


def is_unread_release(folder: Path) -> bool:
    """Return whether a folder is a release and no data set of ours."""
    from dhd_labels.dataset.paper import is_release

    return folder.is_dir() and read_header(folder) is None and is_release(folder)


def imported(release: Path) -> Path:
    """Return the data set of a release.

    Raises:
        DhdError: a file of the release cannot be read; names the line.
    """
    import datasets

    from dhd_labels.dataset.paper.convert import cached_import

    return cached_import(release, Path(datasets.config.HF_DATASETS_CACHE) / "dhd_labels")


def fetch_release(ref: RepoRef) -> Path | None:
    """Return a folder with the files of a release on the Hub, or None when the repository is none.

    Raises:
        DhdError: the Hub said no.
    """
    from huggingface_hub import snapshot_download

    from dhd_labels.dataset.paper.files import PATTERNS

    try:
        with quiet():
            found = snapshot_download(
                ref.repo, repo_type="dataset", revision=ref.revision, allow_patterns=list(PATTERNS)
            )
    except Exception as error:
        raise DhdError(explain(error, f"Fetching the release {ref.repo!r} from the Hub")) from None
    return Path(found) if is_unread_release(Path(found)) else None
