"""What the Hub checks of a card's YAML header when it is pushed, checked here first: no network is asked.

The Hub refuses a commit whose card breaks one of these rules, or shows a page on which the data set cannot be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from dhd_labels.dataset.licences import ON_THE_HUB, OTHER
from dhd_labels.errors import DhdError

_LANGUAGE = re.compile(r"[a-z]{2,3}|code|multilingual")
_SPLIT = re.compile(r"\w+(?:\.\w+)*")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LISTS = (
    "language",
    "tags",
    "task_categories",
    "task_ids",
    "size_categories",
    "annotations_creators",
    "source_datasets",
)
_STEPS = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T")
_SIZES = {"n<1K", *(f"{low}<n<{high}" for low, high in pairwise(_STEPS)), "n>1T", "other"}
_MOST_CHARS = 100
"""Length of a tag."""


def check_metadata(header: Mapping[str, Any]) -> None:
    """Refuse a header that the Hub would refuse.

    Args:
        header: the YAML header of a card as plain data.

    Raises:
        DhdError: it breaks a rule; the text names the key, the value and what the key takes.
    """
    for key, must, got in _faults(header):
        raise DhdError(
            f"The {key!r} of the card's header must be {must}, got {repr(got)[:80]}. Correct it on the page of the "
            "data set, or push with --replace-card; if nobody edited the card, this is a bug, please report it."
        )


def _faults(header: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (key, what it must be, what it is)."""
    licence = header.get("license")
    if not isinstance(licence, str) or licence not in ON_THE_HUB:
        yield "license", "one of the Hub's ids of licences, or 'other' with a 'license_name'", licence
    for key in ("license_name", "license_link"):
        if licence == OTHER and not (isinstance(header.get(key), str) and header[key]):
            yield key, "a text, because the licence is 'other'", header.get(key)
    name = header.get("pretty_name", "")
    if not isinstance(name, str):
        yield "pretty_name", "a text", name
    yield from _list_faults(header)
    yield from _config_faults(header)


def _list_faults(header: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key in _LISTS:
        value = header.get(key, [])
        items = value if isinstance(value, list) else [value]
        yield from ((key, "a list of texts", item) for item in items if not isinstance(item, str) or not item)
        texts = [item for item in items if isinstance(item, str)]
        yield from ((key, f"texts of at most {_MOST_CHARS} characters", t) for t in texts if len(t) > _MOST_CHARS)
        if key == "language":
            yield from ((key, "ISO 639 codes", t) for t in texts if not _LANGUAGE.fullmatch(t))
        if key in ("task_categories", "task_ids"):
            yield from ((key, "ids of tasks such as 'text-ranking'", t) for t in texts if not _ID.fullmatch(t))
        if key == "size_categories":
            yield from ((key, "sizes such as '1K<n<10K'", t) for t in texts if t not in _SIZES)


def _config_faults(header: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    configs, infos = header.get("configs", []), header.get("dataset_info", [])
    for key, entries in (("configs", configs), ("dataset_info", infos)):
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            yield key, "a list of configs", entries
            return
        names = [entry.get("config_name") for entry in entries]
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) != len(names):
            yield key, "configs with a 'config_name' each, every name once", names
    if sum(entry.get("default") is True for entry in configs) > 1:
        yield "configs", "configs of which at most one is the default", [c.get("config_name") for c in configs]
    for entry in configs:
        for file in entry.get("data_files") or [None]:
            if not isinstance(file, dict) or not _SPLIT.fullmatch(str(file.get("split", ""))) or not file.get("path"):
                yield "configs", "configs with 'data_files' of a 'split' and a 'path' each", entry
    yield from (
        ("dataset_info", "configs with a list of 'features' that have a 'name' each", entry.get("features"))
        for entry in infos
        if not isinstance(entry.get("features"), list) or not all(_is_feature(f) for f in entry["features"])
    )


def _is_feature(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("name"), str) and len(found) > 1
