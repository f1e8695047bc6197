"""Two streams of rows, compared a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.dataset.compare import first_difference

VALUES = st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=30)
CUTS = st.lists(st.integers(0, 30), max_size=6)


def stream(values: list[int | None], cuts: list[int]) -> Iterator[pa.Table]:
    """The rows in tables that end at the cuts; some may be empty."""
    table = pa.table({"before": pa.nulls(len(values)), "x": pa.array(values, pa.int64())})
    ends = sorted(min(cut, len(values)) for cut in cuts)
    for start, stop in zip([0, *ends], [*ends, len(values)], strict=True):
        yield table[start:stop]


@given(VALUES, CUTS, CUTS)
def test_where_the_batches_end_does_not_matter(values: list[int | None], one: list[int], other: list[int]) -> None:
    assert first_difference(stream(values, one), stream(values, other)) is None


@given(VALUES, VALUES, CUTS, CUTS)
def test_the_first_row_that_differs_is_named(
    sent: list[int | None], back: list[int | None], one: list[int], other: list[int]
) -> None:
    found = first_difference(stream(sent, one), stream(back, other))
    differing = [n for n, (s, b) in enumerate(zip(sent, back, strict=False)) if s != b]
    if differing:
        n = differing[0]
        assert found == f"row {n}, column 'x': {back[n]}, not {sent[n]}"
    elif len(sent) != len(back):
        assert found == f"there are {len(back)} rows, not {len(sent)}"
    else:
        assert found is None


def test_another_type_is_a_difference_even_of_equal_values() -> None:
    rows = [pa.table({"x": pa.array([1], kind)}) for kind in (pa.int8(), pa.int64())]
    assert first_difference(iter(rows[:1]), iter(rows[1:])) == "the columns are ['x'], not ['x'], or of another type"
