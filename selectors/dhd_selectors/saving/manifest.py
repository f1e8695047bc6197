"""`dhd_selector.json`: what a saved rule is, and the SHA-256 of every file that belongs to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dhd_labels.dataset.schema import SCHEMA_VERSION
from dhd_labels.errors import DhdError
from dhd_labels.records import content_id
from dhd_selectors.features import FEATURE_NAMES, FEATURE_VERSION

MANIFEST_NAME = "dhd_selector.json"
FORMAT = 1
"""Version of the layout of the folder."""
SELECTOR_FOLDER = "selector"
_KEYS = (
    "format",
    "versions",
    "selector",
    "class",
    "policy",
    "thresholds",
    "feature_version",
    "features",
    "schema_version",
    "training",
    "files",
)
REPORTS = tuple(f"report.{kind}" for kind in ("json", "md", "svg", "png"))
"""What may lie beside a rule: how its gain was measured. Nothing reads it back."""
_FILE = re.compile(rf"README\.md|{SELECTOR_FOLDER}/(?:[A-Za-z0-9_-][\w.-]*/)*[A-Za-z0-9_-][\w.-]*")
_PACKAGES = ("dhd-labels", "lightgbm", "numpy", "safetensors", "scikit-learn", "skops", "torch", "transformers")
HOW_TO_GET = "Save the rule again, or download it again."
HOW_TO_MAKE = "Make one with `python -m training.fit ... --out DIR`."


def write_manifest(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write the manifest of a folder whose other files are all there.

    Args:
        folder: the folder of the rule.
        fields: `selector`, `class`, `policy`, `thresholds` and `training`, JSON-ready.
    """
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if strangers := [name for name in files if not _FILE.fullmatch(name)]:
        raise DhdError(
            f"The files of a saved selector must have plain names (letters, digits, '-', '_', '.'), got {strangers}."
        )
    content = {
        **fields,
        "format": FORMAT,
        "versions": package_versions(),
        "feature_version": FEATURE_VERSION,
        "features": list(FEATURE_NAMES),
        "schema_version": SCHEMA_VERSION,
        "files": {name: file_digest(folder / name) for name in files},
    }
    content = {key: content[key] for key in _KEYS}
    text = json.dumps(content | {"digest": content_id(content)}, indent=1, allow_nan=False, ensure_ascii=False)
    (folder / MANIFEST_NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(file: Path) -> dict[str, Any]:
    """Return a manifest that this version can use; the files that it lists are not read.

    Raises:
        DhdError: it is damaged, was edited, or is of another format, feature or schema version.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DhdError(f"The file {file} cannot be read ({error}); it is cut short or damaged. {HOW_TO_GET}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise DhdError(f"The file {file} must be a saved rule of dhd-labels, got something else. {HOW_TO_MAKE}")
    _check_version(file, content, "format", FORMAT)
    digest = content.pop("digest", None)
    if set(content) != set(_KEYS) or digest != content_id(content):
        raise DhdError(
            f"The file {file} was edited after it was saved, so its gains are not those of what it now says. "
            f"{HOW_TO_GET} To change a rule: dataclasses.replace(rule, ...).save_pretrained(DIR)."
        )
    _check_version(file, content, "feature_version", FEATURE_VERSION)
    _check_version(file, content, "schema_version", SCHEMA_VERSION)
    if content["features"] != list(FEATURE_NAMES):
        changed = sorted(set(content["features"]) ^ set(FEATURE_NAMES)) or ["their order"]
        raise DhdError(
            f"The 'features' of {file} must be those of this version, but differ in {', '.join(changed[:5])}. "
            f"{_other(content)}"
        )
    for name in content["files"]:
        if not _FILE.fullmatch(name):
            raise DhdError(f"The files of {file} must have plain names, got {name!r}. {HOW_TO_GET}")
    return content


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Compare every file with the digest that the manifest has of it.

    Raises:
        DhdError: a file is missing, cut short or edited.
    """
    for name, digest in manifest["files"].items():
        if not (folder / name).is_file():
            raise DhdError(f"The saved rule in {folder} lacks the file {name}. {HOW_TO_GET}")
        if file_digest(folder / name) != digest:
            raise DhdError(f"The file {folder / name} was edited or cut short after it was saved. {HOW_TO_GET}")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_version(file: Path, content: Mapping[str, Any], key: str, expected: object) -> None:
    if content.get(key) != expected:
        raise DhdError(f"The {key!r} of {file} must be {expected!r}, got {content.get(key)!r}. {_other(content)}")


def _other(content: Mapping[str, Any]) -> str:
    versions = content.get("versions")
    wrote = versions.get("dhd-labels", "another") if isinstance(versions, dict) else "another"
    return f"Fit and save it again with this version of dhd-labels, or install the one that wrote it ({wrote})."


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a saved rule depends on, as far as they are installed."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
