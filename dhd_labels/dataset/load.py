"""Read a data set of labels, from a folder or from the Hub, through `datasets.load_dataset`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset import header as headers
from dhd_labels.dataset.header import CARD_NAME, HOW_TO_BUILD, Header
from dhd_labels.dataset.hub import RepoRef, explain, parse_ref, quiet
from dhd_labels.dataset.schema import CONFIGS, DEFAULT_CONFIG, SPLITS, features
from dhd_labels.errors import DhdError, did_you_mean

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import pyarrow as pa

_INT_DTYPES = {"int8": "Int8", "int16": "Int16", "int32": "Int32", "int64": "Int64"}


def load(labels: str | Path, config: str = DEFAULT_CONFIG) -> datasets.DatasetDict:
    """Load one config of a data set of labels with all three splits (an empty split has zero rows).

    Args:
        labels: a folder that `build` or `simulate` wrote, or a Hub id `org/name` or `org/name@revision`. A
            folder of
            that name wins.
        config: `messages`, `replays` or `problems`.

    Raises:
        DhdError: no such data set, not one of ours, the config or a column is missing, or the Hub said no.
    """
    if config not in CONFIGS:
        raise DhdError(f"The config must be one of the data set's, got {config!r}. {did_you_mean(config, CONFIGS)}")
    if Path(labels).expanduser().exists():
        return _load_folder(Path(labels).expanduser().resolve(), config)
    ref = parse_ref(str(labels))
    if ref is None:
        headers.local_header(Path(labels))
        raise DhdError(f"There is no data set {str(labels)!r}. {HOW_TO_BUILD}")
    return _load_hub(ref, config)


def load_frame(
    labels: str | Path,
    config: str = DEFAULT_CONFIG,
    splits: Sequence[str] = ("train", "validation"),
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Load rows of one config as a data frame, splits in the given order, with a last column `split`.

    Missing values stay missing: whole numbers are nullable `Int*`, verdicts nullable `boolean`, text is
    `object` with None, floats are `float64` with NaN, lists are tuples or None.

    Args:
        labels: as in `load`.
        config: as in `load`.
        splits: which of `train`, `validation`, `test` to read.
        columns: columns to keep, in this order; all unless given.

    Raises:
        DhdError: as `load`; also an unknown split or column.
    """
    import pandas as pd

    check_splits(splits)
    loaded = load(labels, config)
    if columns is not None:
        known = next(iter(loaded.values())).column_names
        for column in columns:
            if column not in known:
                raise DhdError(
                    f"The config {config!r} of {str(labels)!r} has no column {column!r}. {did_you_mean(column, known)}"
                )
        loaded = loaded.select_columns(list(columns))
    frames = [_frame(loaded[split].with_format("arrow")[:]).assign(split=split) for split in splits]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return frame.astype({"split": object}) if frames else frame


def check_splits(splits: Sequence[str]) -> None:
    """Refuse an unknown split.

    Raises:
        DhdError: a split is none of the data set's.
    """
    for split in splits:
        if split not in SPLITS:
            raise DhdError(f"A split must be one of {', '.join(SPLITS)}, got {split!r}. {did_you_mean(split, SPLITS)}")


def _load_folder(folder: Path, config: str) -> datasets.DatasetDict:
    header = headers.local_header(folder)
    check_files(folder, header, config)
    return _load(str(folder), config, header, str(folder), None)


def _load_hub(ref: RepoRef, config: str) -> datasets.DatasetDict:
    header, revision = hub_header(ref)
    return _load(ref.repo, config, header, loading(ref), revision)


def loading(ref: RepoRef) -> str:
    """Name what is being done, for errors."""
    return f"Loading the data set {ref.repo!r} (there is no such folder here) from the Hub"


def hub_header(ref: RepoRef) -> tuple[Header, str | None]:
    """Return the header of a data set on the Hub and its commit, so that the card and the rows come from the same one.

    Raises:
        DhdError: the Hub said no, or the data set is not ours or of another version.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download

    try:
        with quiet():
            revision = ref.revision
            if not constants.HF_HUB_OFFLINE:
                revision = HfApi().dataset_info(ref.repo, revision=revision, timeout=30).sha
            card = hf_hub_download(ref.repo, CARD_NAME, repo_type="dataset", revision=revision)
    except Exception as error:
        raise DhdError(explain(error, loading(ref))) from None
    header = headers.read_header(Path(card).parent)
    if header is None:
        raise DhdError(
            f"The data set {ref.repo!r} was not made by dhd-labels (its card lacks the '{headers.KEY}' entry)."
        )
    headers.check_version(header, ref.repo)
    return header, revision


def _load(path: str, config: str, header: Header, where: str, revision: str | None) -> datasets.DatasetDict:
    import datasets

    if config not in header.rows:
        raise DhdError(
            f"The data set {path!r} has no config {config!r}; "
            f"it has {', '.join(sorted(header.rows)) or 'none'}. {HOW_TO_BUILD}"
        )
    found: dict[str, datasets.Dataset] = {}
    if header.files.get(config):
        try:
            with quiet():
                found = dict(datasets.load_dataset(path, config, revision=revision))
        except Exception as error:
            raise DhdError(_unreadable(error, path, config, where, local=revision is None)) from error
    shape = next(iter(found.values())).features if found else features(config)
    _check_columns(shape, config, path)
    check_rows({split: data.num_rows for split, data in found.items()}, header.rows[config], config, path)
    return datasets.DatasetDict({split: found[split] if split in found else _empty(shape) for split in SPLITS})


def _unreadable(error: Exception, path: str, config: str, where: str, *, local: bool) -> str:
    if not local:
        return explain(error, where)
    cause = error.__cause__ or error
    return f"The config {config!r} of {path} cannot be read ({type(cause).__name__}: {cause}). {HOW_TO_BUILD}"


def check_files(folder: Path, header: Header, config: str) -> None:
    """Refuse files without a declared column: `datasets` would fill it with nulls, as the card has it.

    Raises:
        DhdError: a file cannot be read or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in header.files.get(config, {}).values():
        try:
            missing = sorted(set(features(config)) - set(pq.read_schema(folder / path).names))
        except (OSError, pa.ArrowException) as error:
            raise DhdError(f"The file {folder / path} cannot be read ({error}). {HOW_TO_BUILD}") from error
        if missing:
            raise DhdError(f"The file {folder / path} lacks the columns {', '.join(missing)}. {HOW_TO_BUILD}")


def _check_columns(found: datasets.Features, config: str, path: str) -> None:
    """Refuse missing or retyped columns; further columns (a simulation's true values) are welcome."""
    wanted = features(config)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise DhdError(f"The config {config!r} of {path} lacks the columns {', '.join(missing)}. {HOW_TO_BUILD}")
    changed = [f"{name} must be {wanted[name]}, got {found[name]}" for name in wanted if found[name] != wanted[name]]
    if changed:
        raise DhdError(f"In the config {config!r} of {path}, {'; '.join(changed)}. {HOW_TO_BUILD}")


def check_rows(found: dict[str, int], listed: Any, config: str, path: str) -> None:
    """Refuse files whose rows are not as many as the card counts.

    Raises:
        DhdError: a split has other rows.
    """
    wrong = [
        f"{s} has {found.get(s, 0)}, not {listed.get(s, 0)}" for s in SPLITS if found.get(s, 0) != listed.get(s, 0)
    ]
    if wrong:
        raise DhdError(
            f"The rows of config {config!r} of {path} must be as many as its card counts, but {'; '.join(wrong)}: "
            f"the files and the card are not from one build. {HOW_TO_BUILD}"
        )


def _empty(shape: datasets.Features) -> datasets.Dataset:
    import datasets

    return datasets.Dataset(shape.arrow_schema.empty_table())


def _frame(table: pa.Table) -> pd.DataFrame:
    """Return a frame whose column types do not depend on which values happen to be null."""
    import pandas as pd

    return pd.DataFrame({name: _series(table.column(name)) for name in table.column_names})


def _series(column: pa.ChunkedArray) -> pd.Series[Any]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.types as kinds

    if kinds.is_boolean(column.type) or str(column.type) in _INT_DTYPES:
        dtype = "boolean" if kinds.is_boolean(column.type) else _INT_DTYPES[str(column.type)]
        values = column.fill_null(pa.scalar(0, pa.int8()).cast(column.type)).to_numpy()
        found = pd.Series(pd.array(values, dtype=dtype))
        found[column.is_null().to_numpy()] = pd.NA
        return found
    if kinds.is_floating(column.type):
        return pd.Series(column.to_numpy(), dtype="float64")
    if kinds.is_list(column.type):
        return pd.Series(_tuples(column), dtype=object)
    return pd.Series(column.to_numpy(), dtype=object)


def _tuples(column: pa.ChunkedArray) -> list[tuple[Any, ...] | None]:
    """Return lists as tuples, None where there is none."""
    found: list[tuple[Any, ...] | None] = []
    for chunk in column.chunks:
        values, ends = chunk.values.to_pylist(), chunk.offsets.to_pylist()
        found += [tuple(values[first:last]) for first, last in itertools.pairwise(ends)]
        for place in chunk.is_null().to_numpy(zero_copy_only=False).nonzero()[0]:
            found[len(found) - len(chunk) + int(place)] = None
    return found
