"""Reading columns in batches: the same rows as `load`, from a folder or the Hub, with the same refusals."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dhd_labels.dataset.columns import open_source
from dhd_labels.dataset.load import load_frame
from dhd_labels.dataset.schema import CONFIGS, SPLITS
from dhd_labels.errors import DhdError
from tests.dataset.samples import child, row, write
from tests.hub.client import Clients


@pytest.mark.parametrize("config", ["messages", "replays", "problems", "masking"])
def test_batches_hold_the_rows_of_load_in_its_order(labels: Path, config: str) -> None:
    names = [column.name for column in CONFIGS[config]]
    batches = list(open_source(labels).batches(config, names))
    found = [plain for batch in batches for plain in batch.to_pylist()]
    loaded = load_frame(labels, config, SPLITS)
    assert len(found) == len(loaded) == open_source(labels).rows(config)
    for name in ("problem_id", "pool_id", "slot", "status", "correct", "seed"):
        if name in names:
            assert [plain[name] for plain in found] == [None if pd.isna(v) else v for v in loaded[name].astype(object)]


def test_rows_can_be_chosen_by_a_condition(labels: Path) -> None:
    where = pc.field("arm") == "alone"
    found = [p for b in open_source(labels).batches("replays", ("arm", "k"), where=where) for p in b.to_pylist()]
    assert found == [{"arm": "alone", "k": 0}] * 2


def test_the_hub_gives_the_same_rows(client: Clients, labels: Path) -> None:
    out = child(
        client,
        labels,
        """
from dhd_labels.dataset.columns import open_source
commit = push(folder, "org/labels").commit
names = ("pool_id", "slot", "trajectory_value")
there = [b.to_pylist() for b in open_source(f"org/labels@{commit}").batches("messages", names)]
print(there == [b.to_pylist() for b in open_source(folder).batches("messages", names)], len(there))
attempt(lambda: open_source("org/none"))
""",
    ).splitlines()
    assert out[0] == "True 3"
    assert "no such data set" in out[1]


def test_retyped_missing_and_lost_parts_are_named(labels: Path, tmp_path: Path) -> None:
    path = labels / "messages/train-all-00000.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("slot")
    pq.write_table(table.set_column(place, "slot", table["slot"].cast(pa.string())), path)
    with pytest.raises(DhdError, match="column 'slot' of .* must be int8, got string"):
        list(open_source(labels).batches("messages", ("pool_id", "slot")))
    pq.write_table(table.drop_columns(["slot"]), path)
    with pytest.raises(DhdError, match="lacks the columns slot"):
        list(open_source(labels).batches("messages", ("pool_id",)))
    path.write_bytes(b"torn")
    with pytest.raises(DhdError, match="cannot be read"):
        list(open_source(labels).batches("messages", ("pool_id",)))
    only = write(tmp_path / "only", {"messages": [row("messages")]})
    with pytest.raises(DhdError, match="has no config 'replays'"):
        list(open_source(only).batches("replays", ("pool_id",)))
    shutil.copy(only / "messages/train-all-00000.parquet", path)
    with pytest.raises(DhdError, match="train has 1, not 3"):
        list(open_source(labels).batches("messages", ("pool_id",)))
