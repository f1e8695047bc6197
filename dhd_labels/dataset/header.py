"""The YAML header of a data set card: which configs, splits and rows there are, and that dhd-labels wrote
them.

`datasets.load_dataset` cannot load an empty split, so the header lists the files of the splits that have
rows under `configs:` and the row count of every split under our own key `dhd_labels`. That key is also how
a folder or a repository is recognised as one of our data sets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dhd_labels.dataset.schema import CONFIGS, SCHEMA_VERSION, SPLITS
from dhd_labels.errors import DhdError

CARD_NAME = "README.md"
SIMULATION_NAME = "simulation.json"
"""A further file that a data set of ours can have: a simulation's true effects."""
FIGURES = ("accuracy_by_k", "mean_value", "same_problem_selection", "flips")
"""Figures that a card can show, by the table of `stats` that they draw, the most wanted first."""
KEY = "dhd_labels"
WHOLE = "all"
"""The part of a data set whose rows are not kept apart by run."""
Files = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Config name to split to paths."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a card says.

    `rows[config][split]` counts rows, `files[config][split]` are paths in their order, `sha256[path]` is the digest of
    a file (none for a card that was rendered before its files were written).
    """

    schema_version: str
    rows: Mapping[str, Mapping[str, int]]
    files: Files
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """Return every listed path."""
        return [path for splits in self.files.values() for paths in splits.values() for path in paths]


def data_path(config: str, split: str, part: str = WHOLE, number: int = 0) -> str:
    """Return the path of a Parquet file inside the data set.

    Args:
        config: `messages`, `replays`, `problems` or `masking`.
        split: `train`, `validation` or `test`.
        part: the run that the rows come from, so that adding a run leaves the files of the others alone.
        number: number of the file, from 0, among those of the part.
    """
    return f"{config}/{split}-{part}-{number:05d}.parquet"


def figure_path(name: str) -> str:
    """Return the path of a figure of the card inside the data set."""
    return f"figures/{name}.png"


def part_name(run: str) -> str:
    """Return the name of a run as it stands in file names: lower-case letters, digits and single hyphens."""
    return re.sub("[^a-z0-9]+", "-", run.lower()).strip("-")


def single_files(rows: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the files of a data set with one file for each split that has rows."""
    return {c: {s: (data_path(c, s),) for s in SPLITS if n.get(s)} for c, n in rows.items() if any(n.values())}


def parse_header(text: str) -> Header | None:
    """Return the header of a card that dhd-labels wrote, or None for any other text."""
    from huggingface_hub import DatasetCard

    try:
        found: Any = DatasetCard(text, ignore_metadata_errors=True).data
        data: dict[str, Any] = found.to_dict()
    except Exception:  # not YAML at all, or YAML of a shape the Hub refuses: in each case not ours
        return None
    ours = data.get(KEY)
    if not isinstance(ours, dict) or not isinstance(ours.get("rows"), dict):
        return None
    try:
        files = {
            c["config_name"]: {f["split"]: _paths(f["path"]) for f in c["data_files"]}
            for c in data.get("configs") or []
        }
    except (KeyError, TypeError):
        return None
    digests = ours.get("sha256") or {}
    if not isinstance(digests, dict):
        return None
    return Header(str(ours.get("schema_version")), ours["rows"], files, digests)


def _paths(found: str | list[str]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else tuple(map(str, found))


def read_header(folder: Path) -> Header | None:
    """Return the header of the data set in a folder, or None when dhd-labels did not write that folder."""
    try:
        text = (folder / CARD_NAME).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return parse_header(text)


def local_header(folder: Path) -> Header:
    """Return the header of a whole, readable data set of ours.

    Raises:
        DhdError: the folder is missing, empty, not ours, of another schema version, or lacks a file it lists.
    """
    header = read_header(folder)
    if header is None:
        raise DhdError(f"{_why_not(folder)} {HOW_TO_BUILD}")
    check_version(header, str(folder))
    missing = [path for path in header.paths if not (folder / path).is_file()]
    if missing:
        raise DhdError(f"The data set in {folder} lacks {', '.join(missing)}, which its card lists. {HOW_TO_BUILD}")
    return header


def check_version(header: Header, where: str) -> None:
    """Refuse a data set whose columns this version does not know.

    Raises:
        DhdError: the schema version differs.
    """
    found = header.schema_version
    if found == SCHEMA_VERSION:
        return
    if found.isdecimal() and int(found) > int(SCHEMA_VERSION):
        todo = "A newer version of dhd-labels wrote it: install that version, or ask for an older revision."
    else:
        todo = (
            "An older version of dhd-labels wrote it: build it again with this one, or install the one that wrote it."
        )
    raise DhdError(f"The 'schema_version' of {where} must be {SCHEMA_VERSION!r}, got {found!r}. {todo}")


def data_files(folder: Path) -> list[str]:
    """Return the paths of a data set's own files in a folder, sorted; other files there do not count."""
    tables = [path.relative_to(folder).as_posix() for name in CONFIGS for path in (folder / name).glob("*.parquet")]
    others = (CARD_NAME, SIMULATION_NAME, *map(figure_path, FIGURES))
    return sorted([*tables, *(name for name in others if (folder / name).is_file())])


def empty_rows() -> dict[str, int]:
    """Return a zero count for every split."""
    return dict.fromkeys(SPLITS, 0)


HOW_TO_BUILD = "Build one with `python -m dhd_labels build RUN --out DIR`."


def _why_not(folder: Path) -> str:
    if not folder.exists():
        return f"There is no folder {str(folder)!r}."
    if not folder.is_dir():
        return f"{str(folder)!r} is a file; labels are a data set folder or a Hub id `org/name`."
    if not any(folder.iterdir()):
        return f"The folder {str(folder)!r} is empty."
    if broken := broken_yaml(folder / CARD_NAME):
        return f"The card {folder / CARD_NAME} cannot be read: {broken}. Mend it, or restore it from an older version."
    return f"The folder {str(folder)!r} holds no data set of dhd-labels (no {CARD_NAME} with a '{KEY}' entry)."


def broken_yaml(card: Path) -> str | None:
    """Return what is wrong with the YAML header of a card, or None where it is sound or there is none."""
    import yaml

    try:
        text = card.read_text(encoding="utf-8")
        found = re.match(r"\s*---[ \t]*\r?\n(.*?)^---[ \t]*$", text, re.DOTALL | re.MULTILINE)
        yaml.safe_load(found[1] if found else "")
    except (OSError, UnicodeDecodeError):
        return None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 2}: " if mark else ""
        return f"{line}its header is no valid YAML ({getattr(error, 'problem', None) or error})"
    return None
