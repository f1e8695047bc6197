from __future__ import annotations

from typing import Any

import pytest

from dhd_labels.dataset import card
from dhd_labels.dataset.metadata import check_metadata
from dhd_labels.errors import DhdError
from tests.dataset.samples import facts, licensed

GOOD = card.metadata(facts({"messages": {"train": 5, "validation": 0, "test": 1}}))
CONFIG: dict[str, Any] = GOOD["configs"][0]


def test_our_header_is_accepted_under_any_licence() -> None:
    check_metadata(GOOD)
    for licence in ("mit", "cc-by-nc-sa-4.0", "unknown", "Some Exam Board 2.0", "other"):
        check_metadata(card.metadata(facts({"messages": {"train": 5}}, benchmarks=(licensed(licence),))))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("license", "apache"),
        ("license", None),
        ("license", ["mit"]),
        ("license", "other"),
        ("pretty_name", 3),
        ("language", ["English"]),
        ("language", [False]),
        ("tags", [1]),
        ("tags", ["x" * 101]),
        ("tags", {"a": 1}),
        ("task_categories", ["Text Ranking"]),
        ("task_ids", "A"),
        ("size_categories", ["10<n<20"]),
        ("configs", {"config_name": "messages"}),
        ("configs", [CONFIG, CONFIG]),
        ("configs", [CONFIG, {**CONFIG, "config_name": "replays"}]),  # two defaults
        ("configs", [{**CONFIG, "data_files": [{"split": "a b", "path": "x"}]}]),
        ("configs", [{**CONFIG, "data_files": []}]),
        ("configs", [{"data_files": CONFIG["data_files"]}]),
        ("dataset_info", [{"config_name": "messages", "features": [{"dtype": "string"}]}]),
        ("dataset_info", [{"config_name": "messages"}]),
        ("dataset_info", "messages"),
    ],
)
def test_what_the_hub_would_refuse_is_named(key: str, value: Any) -> None:
    with pytest.raises(DhdError, match=f"The '(?:{key}|license_name)' of the card's header must be .*, got"):
        check_metadata({**GOOD, key: value})
