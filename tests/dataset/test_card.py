from __future__ import annotations

from typing import Any

import datasets
import jinja2
import numpy as np
import pytest
import yaml
from huggingface_hub import DatasetCard

from dhd_labels.dataset import card, schema
from dhd_labels.dataset.header import parse_header
from dhd_labels.errors import DhdError
from dhd_labels.report.table import Table
from tests.dataset.samples import facts

ROWS = {
    "messages": {"train": 800, "validation": 100, "test": 100},
    "replays": {"train": 5, "validation": 0, "test": 0},
    "problems": {"train": 0, "validation": 0, "test": 0},
}


def test_the_header_round_trips_and_lists_only_what_can_be_loaded() -> None:
    text = card.render(facts(ROWS))
    data = DatasetCard(text).data.to_dict()
    assert data["license"] == "apache-2.0"
    assert data["pretty_name"] == "Quickstart labels"
    assert data["size_categories"] == ["1K<n<10K"]
    assert [c["config_name"] for c in data["configs"]] == ["messages", "replays"]
    assert data["configs"][0]["default"] is True
    assert [f["split"] for f in data["configs"][1]["data_files"]] == ["train"]
    assert str(DatasetCard(text)) == text
    found = parse_header(text)
    assert found is not None
    assert found.rows == ROWS


def test_dataset_info_is_the_declared_features() -> None:
    """huggingface/datasets#8608: the card never keeps the columns of an earlier push."""
    infos = yaml.safe_load(card.render(facts(ROWS)).split("---\n")[1])["dataset_info"]
    for info in infos:
        assert datasets.Features._from_yaml_list(info["features"]) == schema.features(info["config_name"])


def test_numpy_values_become_plain_yaml() -> None:
    """huggingface/datasets#6919: no '!!python/object' tags, from counts, names or arrays."""
    rows: dict[str, Any] = {"messages": {s: np.int64(n) for s, n in ROWS["messages"].items()}}
    text = card.render(facts(rows, title=np.str_("Labels")))
    assert "!!" not in text
    assert yaml.safe_load(text.split("---\n")[1])["dhd_labels"]["rows"] == {"messages": ROWS["messages"]}
    assert card.plain({"n": np.int64(6), "names": np.array(["helpful", "neutral"])}, "x") == {
        "n": 6,
        "names": ["helpful", "neutral"],
    }
    with pytest.raises(DhdError, match="'x' of the card must be plain values, got set"):
        card.plain({"a": {1}}, "x")


def test_every_column_is_documented() -> None:
    text = card.render(facts({**ROWS, **{name: {"train": 1} for name in schema.CONFIGS if name not in ROWS}}))
    for config in schema.CONFIGS.values():
        for column in config:
            assert f"| `{column.name}` | {column.type} | " in text


def test_the_card_says_what_it_must() -> None:
    limited = card.BenchmarkFacts("lab-bench", "cc-by-sa-4.0", False, None, False)
    text = card.render(facts(ROWS, benchmarks=(limited,)))
    assert "| lab-bench | cc-by-sa-4.0 | no | unsettled | no |" in text
    assert "Rows of lab-bench have `train_allowed` false" in text
    assert "The problem text of lab-bench is not redistributed" in text
    for part in (
        "2608.14375",
        "load_dataset(",
        "training.fit --selector lgbm",
        "Five blocks say little",
        "7.3 %",
    ):
        assert part in text
    assert "| actor | scripted | oracle | oracle | - | 0.7 | 1.0 | 4096 |" in text
    assert "More Information Needed" not in text
    assert "not redistributed" not in card.render(facts(ROWS))


def test_text_of_users_and_models_cannot_act() -> None:
    evil = "<script>x</script>\n\n# Heading\n---\n[a](http://evil.example) `c` | {{ facts.seed }} \udc00"
    text = card.render(
        facts(
            ROWS,
            title=evil,
            actor=evil,
            noise=evil,
            limits=(evil,),
            tables=(Table(evil, (evil,), ((evil,),), evil),),
            roles=(card.RoleFacts(evil, evil, evil, evil, evil, 0.0, 1.0, 1),),
            versions={evil: evil},
        )
    )
    body = text.split("\n---\n", 1)[1]
    assert "<script>" not in body
    assert "\n# Heading" not in body
    assert [line for line in body.splitlines() if "](http" in line.replace("\\](http", "")] == [
        "([arXiv 2608.14375](https://arxiv.org/abs/2608.14375))."
    ]
    assert "\\| {{ facts.seed }} \ufffd" in body
    assert DatasetCard(text).data.to_dict()["configs"]
    text.encode()


def test_an_undefined_field_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "template", lambda name: "{{ nothing }}")
    with pytest.raises(jinja2.UndefinedError, match="nothing"):
        card.render(facts(ROWS))


def test_unknown_configs_are_refused() -> None:
    with pytest.raises(DhdError, match="got extra"):
        card.render(facts({"extra": ROWS["messages"]}))


@pytest.mark.parametrize(
    ("rows", "size"),
    [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (2_000_000, "1M<n<10M"), (10**7, "10M<n<100M")],
)
def test_size_categories(rows: int, size: str) -> None:
    counts = {"messages": {"train": rows, "validation": 0, "test": 0}}
    assert card.metadata(facts(counts))["size_categories"] == [size]
