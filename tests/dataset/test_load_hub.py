"""Labels from the Hub: as the card says, streamed, cached, at a revision; and what is not as it was pushed."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import oracle

from dhd_labels.dataset import schema
from dhd_labels.dataset.build import build
from dhd_labels.replay.run import run
from tests.dataset.samples import child
from tests.hub import HubStub
from tests.hub.client import Clients


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of two runs."""
    place = tmp_path_factory.mktemp("built")
    small = ("benchmark.size=12", "protocol.blocks=1", "protocol.only_draws=0")
    runs = [run(oracle(*small, f"actor={name}"), place / name).directory for name in "ab"]
    build(runs, place / "data")
    return place / "data"


def test_load_dataset_streams_what_it_loads(hub: HubStub, client: Clients, built: Path) -> None:
    out = child(
        client,
        built,
        """
from datasets import disable_progress_bars, load_dataset
disable_progress_bars()
push(folder, "org/labels")
for config in ("messages", "replays", "problems"):
    whole, streamed = load_dataset("org/labels", config), load_dataset("org/labels", config, streaming=True)
    for split, rows in whole.items():
        assert list(streamed[split]) == list(rows), (config, split)
        assert streamed[split].features == rows.features
    first = next(iter(load_dataset("org/labels", config, split="train", streaming=True)))
    print(config, len(whole["train"]), len({*whole["train"]["run"]}), first["run"])
""",
    ).splitlines()
    assert [line.split()[0] for line in out] == ["messages", "replays", "problems"]
    assert all(line.split()[2] == "2" for line in out), "both runs are in every config"


def test_a_revision_is_loaded_as_it_was_and_fetched_once(hub: HubStub, client: Clients, built: Path) -> None:
    code = """
from dhd_labels.dataset.load import load
old = push(folder, "org/labels").commit
print(old)
"""
    old = child(client, built, code).strip()
    hub.repos["org/labels"].commit("main", {"README.md": b"gone"}, old)
    hub.requests.clear()
    again = """
from dhd_labels.dataset.load import load
print(load_frame("org/labels@" + REVISION).equals(load_frame(folder)), load_frame("org/labels@" + REVISION).shape[0])
attempt(lambda: load_frame("org/labels"))
""".replace("REVISION", repr(old))
    first, second = child(client, built, again).splitlines(), child(client, built, again).splitlines()
    assert first[0].startswith("True ") and first == second
    assert "was not made by dhd-labels" in first[1]
    fetched = [path for method, path in hub.requests if method == "GET" and path.endswith(".parquet")]
    assert len(fetched) == len(set(fetched)), "no file is fetched twice"


def _pushed(client: Clients, built: Path) -> None:
    child(client, built, 'push(folder, "org/labels")')


def _load(client: Clients, built: Path) -> str:
    code = 'attempt(lambda: load_frame("org/labels", splits=("train", "validation", "test")).shape)\n'
    both = code + (
        "from dhd_labels.dataset.columns import open_source\n"
        'attempt(lambda: len(list(open_source("org/labels").batches("messages", ("pool_id",)))))\n'
    )
    one, other = child(client, built, both).splitlines()
    assert one.startswith("DhdError: ") and other.startswith("DhdError: "), (one, other)
    return one


@pytest.mark.parametrize(("version", "whose"), [("99", "A newer version"), ("1", "An older version")])
def test_another_schema_version_is_named(hub: HubStub, client: Clients, built: Path, version: str, whose: str) -> None:
    _pushed(client, built)
    head = hub.repos["org/labels"].head()
    ours = f"schema_version: '{schema.SCHEMA_VERSION}'".encode()
    assert ours in head["README.md"]
    card = head["README.md"].replace(ours, f"schema_version: '{version}'".encode())
    hub.repos["org/labels"].commit("main", {**head, "README.md": card})
    said = _load(client, built)
    assert f"must be '{schema.SCHEMA_VERSION}', got '{version}'. {whose} of dhd-labels wrote it" in said


def test_a_card_with_broken_yaml_is_named(hub: HubStub, client: Clients, built: Path) -> None:
    _pushed(client, built)
    head = hub.repos["org/labels"].head()
    broken = head["README.md"].replace(b"pretty_name: ", b"pretty_name: [", 1)
    hub.repos["org/labels"].commit("main", {**head, "README.md": broken})
    assert "The card of the data set 'org/labels' cannot be read: line " in _load(client, built)


def _value(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("trajectory_value")
    return table.set_column(place, table.schema.field(place), pa.array([0.5] * len(table), pa.float64()))


def _type(table: pa.Table) -> pa.Table:
    place = table.schema.get_field_index("slot")
    return table.set_column(place, "slot", table["slot"].cast(pa.string()))


@pytest.mark.parametrize("edit", [_value, _type, lambda table: table.slice(1)], ids=["a value", "a type", "a row less"])
def test_an_edited_file_is_named(hub: HubStub, client: Clients, built: Path, edit: object) -> None:
    _pushed(client, built)
    head = hub.repos["org/labels"].head()
    name = next(path for path in head if path.startswith("messages/train"))
    out = io.BytesIO()
    pq.write_table(edit(pq.read_table(io.BytesIO(head[name]))), out)  # type: ignore[operator]
    hub.repos["org/labels"].commit("main", {**head, name: out.getvalue()})
    said = _load(client, built)
    assert f"The file {name} of the data set 'org/labels' must be as it was built" in said
