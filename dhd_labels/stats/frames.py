"""From the files of a data set to arrays: one unit a (pool, integrator, order), its messages and all of its outcomes.

Outcomes are joined by (pool, integrator, order, arm, block, draw), never by their place in a list; what cannot be
joined without doubt is an error that names the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.records import POOL_SIZE, Arm
from dhd_labels.replay.plan import FULL_DRAWS
from dhd_labels.stats.answers import answer_classes

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dhd_labels.dataset.columns import Source

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SmallIntArray = npt.NDArray[np.int8]
BoolArray = npt.NDArray[np.bool_]

UNIT_KEYS = ("pool_id", "integrator", "order")
GROUP_KEYS = ("benchmark", "actor", "integrator", "order")
POOL_FACTS = ("problem_id", "benchmark", "actor")
"""What has one value a pool."""
_ARMS = (
    Arm.alone(),
    *(Arm.only(slot) for slot in range(POOL_SIZE)),
    *(Arm.prefix(k) for k in range(1, POOL_SIZE + 1)),
    *(Arm.without(slot, k) for k in range(2, POOL_SIZE + 1) for slot in range(k)),
)
ARMS = tuple(arm.name for arm in _ARMS)
"""The arms that tables read, by place in `Units.main`; other subsets are a selector's own choice."""
PLACE = {name: place for place, name in enumerate(ARMS)}
ALONE, FULL = PLACE[Arm.alone().name], PLACE[Arm.full().name]
ONLY = [PLACE[Arm.only(slot).name] for slot in range(POOL_SIZE)]
WITHOUT = [PLACE[Arm.without(slot).name] for slot in range(POOL_SIZE)]
PREFIX = [ALONE, *(PLACE[Arm.prefix(k).name] for k in range(1, POOL_SIZE + 1))]
"""By K, 0 to 5."""

_ARM_FACTS = {
    "k": np.array([arm.k for arm in _ARMS]),
    "removed": np.array([-1 if arm.removed is None else arm.removed for arm in _ARMS]),
}
"""What an arm's name says, by place in `ARMS`; -1 for none."""
_ARM_NAMES = (*ARMS, Arm.subset(()).kind)
STATUSES = ("graded", "no_answer", "truncated", "operational", "undetermined")
NO_ANSWER = -1
ABSENT = -9
"""Code of an outcome that the data set does not have. Others: 1 correct, 0 wrong, -1..-4 by place in `STATUSES`."""
_LEVELS = {"low": 0.25, "medium": 0.5, "high": 0.75}
_MOST_CELLS = 2_000_000_000
_LABELS = (
    "single_effect", "in_pool_effect", "trajectory_value", "ci_low", "ci_high", "n_blocks", "stability", "cell",
    "stable_cell",
)  # fmt: skip
_MESSAGES = (
    *UNIT_KEYS, *POOL_FACTS, "slot", "proposed_answer", "confidence_level", "confidence_value", "proposal_status",
    "proposal_correct", "recruiter_tokens", "writer_tokens", "screen_blocks", *_LABELS,
)  # fmt: skip
_REPLAYS = (*UNIT_KEYS, *POOL_FACTS, "arm", "k", "removed", "block", "draw", "status", "correct")
_WRITING = ("recruiter_tokens", "writer_tokens")
_TOKENS = ("prompt_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Units:
    """Everything that the tables need of n units; a unit is a pool under one integrator in one message order."""

    keys: pd.DataFrame
    """(n, 6) the columns `UNIT_KEYS` and `POOL_FACTS`."""
    proposal: SmallIntArray
    """(n, 5) 1 right, 0 wrong, -1 without a verdict."""
    answer: IntArray
    """(n, 5) class of equal proposed answers, -1 without one, -2 where its text is withheld."""
    confidence: FloatArray
    """(n, 5) self-reported: the stated fraction, else low 0.25, medium 0.5, high 0.75; NaN when unclear."""
    main: SmallIntArray
    """(n, len(ARMS), n_draws) outcome codes outside blocks."""
    full: SmallIntArray
    """(n, n_blocks, 2) outcome codes of the two full draws of each block."""
    without: SmallIntArray
    """(n, n_blocks, 5) outcome codes of the removal draws of each block."""
    tokens: FloatArray
    """(n, len(ARMS)) mean tokens of an answer, prompt and completion; NaN where not recorded."""
    pool_tokens: FloatArray
    """(n, 2) tokens of the recruiter's call, and mean tokens of a writer's; NaN where not recorded."""
    screen: IntArray
    """(n,) first blocks, that decided how many more a unit has; 0 under fixed allocation."""
    alone_answer: IntArray
    """(n, n_draws) class of the answers of the independent solves, -1 without one."""
    labels: pd.DataFrame
    """(n * 5, 9) the labels that the data set states, unit by unit, slot by slot."""
    ignored: dict[str, int]
    """Rows that no table reads, by reason."""

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, rows: IntArray | BoolArray) -> Units:
        """Return some of the units."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        cells = (index[:, None] * POOL_SIZE + np.arange(POOL_SIZE)).ravel()
        return replace(
            self,
            keys=self.keys.iloc[index].reset_index(drop=True),
            proposal=self.proposal[index],
            answer=self.answer[index],
            confidence=self.confidence[index],
            main=self.main[index],
            full=self.full[index],
            without=self.without[index],
            tokens=self.tokens[index],
            pool_tokens=self.pool_tokens[index],
            screen=self.screen[index],
            alone_answer=self.alone_answer[index],
            labels=self.labels.iloc[cells].reset_index(drop=True),
        )


def accuracy(codes: SmallIntArray) -> FloatArray:
    """Return success by the rule for accuracy: `no_answer` is incorrect, every other ungraded outcome NaN."""
    return np.where(codes >= 0, codes, np.where(codes == NO_ANSWER, 0.0, np.nan))


def effect_success(codes: SmallIntArray, *, no_answer_is_wrong: bool = False) -> FloatArray:
    """Return success by the rule for effects: every ungraded outcome is NaN, unless the run says otherwise."""
    return accuracy(codes) if no_answer_is_wrong else np.where(codes >= 0, codes, np.nan)


def read_units(source: Source) -> Units:
    """Read a data set into arrays.

    Raises:
        DhdError: rows contradict one another or cannot be joined.
        NothingMadeError: there is no message.
    """
    messages = _message_frame(source)
    if messages.empty:
        raise NothingMadeError(f"The data set {source.name!r} holds no messages, so there is nothing to count.")
    codes, keys = _unit_codes(messages)
    cells = _slots(messages, codes, keys)
    n = len(keys)
    outcomes = _Outcomes(keys)
    for batch in source.batches("replays", (*_REPLAYS, *_TOKENS)):
        outcomes.add(batch)
    main, full, without, tokens = outcomes.arrays()

    def by_slot(values: Any) -> npt.NDArray[Any]:
        return np.asarray(values)[cells].reshape(n, POOL_SIZE)

    problem = messages["problem_id"].cat.codes.to_numpy()
    proposed = messages["proposed_answer"]  # a message without an answer has an empty one
    classes = answer_classes(problem, proposed, proposed.isna().to_numpy(dtype=np.bool_))
    return Units(
        keys=keys,
        proposal=by_slot(_proposal(messages)),
        answer=by_slot(classes),
        confidence=by_slot(
            messages["confidence_value"].fillna(messages["confidence_level"].map(_LEVELS).astype(float))
        ),
        main=main,
        full=full,
        without=without,
        tokens=tokens,
        pool_tokens=np.stack([by_slot(_numbers(messages[name])).mean(axis=1) for name in _WRITING], axis=1),
        screen=_screen(by_slot(messages["screen_blocks"].fillna(0).astype(np.int64)), keys),
        alone_answer=_alone_answers(source, keys, main.shape[2]),
        labels=messages[list(_LABELS)].iloc[cells].reset_index(drop=True),
        ignored=outcomes.ignored,
    )


def _screen(stated: IntArray, keys: pd.DataFrame) -> IntArray:
    """Return (n,) the screening blocks of each unit, from (n, 5) those that its messages state."""
    mixed = np.flatnonzero((stated != stated[:, :1]).any(axis=1) | (stated[:, 0] < 0))
    if len(mixed):
        raise DhdError(
            f"The 'screen_blocks' of {name_unit(keys, int(mixed[0]))} must be one number, 0 or more, for all five "
            f"messages, got {stated[mixed[0]].tolist()}. The data set was edited; build it again from its run."
        )
    return stated[:, 0]


def _numbers(values: pd.Series[Any]) -> FloatArray:
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def to_frame(batches: Iterator[pa.RecordBatch], columns: Sequence[str]) -> pd.DataFrame:
    """Return batches as a frame: repeated text is categorical, nullable whole numbers and verdicts stay nullable."""
    import pandas as pd
    import pyarrow as pa

    found = list(batches)
    if not found:
        return pd.DataFrame({name: pd.Series([], dtype=object) for name in columns})
    table = pa.Table.from_batches(found).unify_dictionaries()
    frame: pd.DataFrame = table.to_pandas(
        types_mapper={pa.bool_(): pd.BooleanDtype(), pa.int32(): pd.Int32Dtype(), pa.int8(): pd.Int8Dtype()}.get
    )
    return frame


def _message_frame(source: Source) -> pd.DataFrame:
    frame = to_frame(source.batches("messages", _MESSAGES), _MESSAGES)
    for name in (*UNIT_KEYS, *POOL_FACTS):
        values = frame[name].astype("category").cat.remove_unused_categories()
        # Sorted, so that units, and with them every seeded draw, do not depend on the order of the rows.
        frame[name] = values.cat.reorder_categories(sorted(values.cat.categories))
        if frame[name].isna().any():
            raise DhdError(f"The {name!r} of every message must be known, but {frame[name].isna().sum()} rows lack it.")
    return frame


def _unit_codes(messages: pd.DataFrame) -> tuple[IntArray, pd.DataFrame]:
    """Return (n_messages,) the unit of each message and the keys of the units, sorted."""
    by_key = messages.groupby(list(UNIT_KEYS), observed=True, sort=True)
    codes = by_key.ngroup().to_numpy().astype(np.int64)
    _, first = np.unique(codes, return_index=True)
    keys = messages.iloc[first][[*UNIT_KEYS, *POOL_FACTS]].reset_index(drop=True)
    for name in POOL_FACTS:
        of_pool = messages[name].cat.codes.groupby(messages["pool_id"], observed=True)
        mixed = of_pool.min() != of_pool.max()
        if mixed.any():
            pool = list(mixed.index)[int(mixed.to_numpy().argmax())]
            values = sorted(set(messages.loc[messages["pool_id"] == pool, name]))
            raise DhdError(
                f"The {name!r} of the pool {pool} must be one for all of its messages, got {', '.join(values)}. "
                "Labels of different pools were mixed; build the data set again."
            )
    return codes, keys


def _slots(messages: pd.DataFrame, codes: IntArray, keys: pd.DataFrame) -> IntArray:
    """Return (n_units * 5,) the row of each unit's messages in slot order.

    Raises:
        DhdError: a unit has a message twice, or not exactly the slots 0 to 4.
    """
    slot = messages["slot"].to_numpy(dtype=np.int64, na_value=-1)
    order = np.lexsort((slot, codes))
    sizes = np.bincount(codes, minlength=len(keys))
    regular = len(slot) == POOL_SIZE * len(keys) and (slot[order].reshape(-1, POOL_SIZE) == np.arange(POOL_SIZE)).all()
    if not regular:
        unit = next(u for u in range(len(keys)) if sorted(slot[codes == u]) != list(range(POOL_SIZE)))
        found = sorted(slot[codes == unit].tolist())
        raise DhdError(
            f"The messages of {name_unit(keys, unit)} must have the slots 0 to {POOL_SIZE - 1}, once each, got "
            f"{', '.join(map(str, found))} ({sizes[unit]} rows). A pool of another size is another protocol, and rows "
            "that are there twice would count twice; build the data set again."
        )
    return order


def name_unit(keys: pd.DataFrame, unit: int) -> str:
    """Name a unit for errors."""
    row = keys.iloc[unit]
    return f"pool {row['pool_id']} ({row['problem_id']}, integrator {row['integrator']}, order {row['order']})"


def _proposal(messages: pd.DataFrame) -> SmallIntArray:
    verdict = messages["proposal_correct"].to_numpy(dtype=np.float64, na_value=-1.0).astype(np.int8)
    graded = (messages["proposal_status"] == "graded").to_numpy(dtype=bool, na_value=False)
    wrong = np.flatnonzero(graded != (verdict >= 0))
    if len(wrong):
        row = messages.iloc[wrong[0]]
        raise DhdError(
            f"The 'proposal_correct' of slot {row['slot']} of the pool {row['pool_id']} must be null exactly when "
            f"'proposal_status' is not `graded`, got {row['proposal_correct']} and {row['proposal_status']!r}."
        )
    return verdict


class _Outcomes:
    """Collects replay rows as small numbers, then places them."""

    def __init__(self, keys: pd.DataFrame) -> None:
        import pandas as pd

        self._keys = keys
        self._index = {
            name: pd.Index(keys[name].cat.categories.to_numpy(dtype=object)) for name in (*UNIT_KEYS, *POOL_FACTS)
        }
        self._arms, self._statuses = pd.Index(_ARM_NAMES, dtype=object), pd.Index(STATUSES, dtype=object)
        self._codes = {name: keys[name].cat.codes.to_numpy() for name in (*UNIT_KEYS, *POOL_FACTS)}
        code = self._join(*(self._codes[name] for name in UNIT_KEYS))
        self._order = np.argsort(code)
        self._sorted = code[self._order]
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self.ignored: dict[str, int] = {}

    def _join(self, pool: npt.NDArray[Any], integrator: npt.NDArray[Any], order: npt.NDArray[Any]) -> IntArray:
        """Return one number a unit; -1 where a part is unknown (-1), lest it reads as a part of another unit."""
        joined = (pool.astype(np.int64) * len(self._index["integrator"]) + integrator) * len(self._index["order"])
        return np.where((pool < 0) | (integrator < 0) | (order < 0), -1, joined + order)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows."""
        if not batch.num_rows:
            return
        codes = {name: _coded(batch.column(name), self._index[name]) for name in (*UNIT_KEYS, *POOL_FACTS)}
        joined = self._join(*(codes[name] for name in UNIT_KEYS))
        place = np.minimum(np.searchsorted(self._sorted, joined), len(self._sorted) - 1)
        unit = self._order[place]
        self._refuse(
            batch, self._sorted[place] != joined, "must belong to messages of the data set, but there are none"
        )
        for name in POOL_FACTS:
            self._refuse(
                batch, codes[name] != self._codes[name][unit], f"must have the {name!r} of the messages of its pool"
            )
        arm = _coded(batch.column("arm"), self._arms)
        self._refuse(batch, arm < 0, "must have an 'arm' of the protocol")
        block, draw, verdict = (_whole(batch.column(name)) for name in ("block", "draw", "correct"))
        for name, of_arm in _ARM_FACTS.items():
            wrong = _whole(batch.column(name)) != of_arm[np.minimum(arm, len(ARMS) - 1)]
            self._refuse(batch, wrong & (arm < len(ARMS)), f"must have the {name!r} of its arm")
        outside = np.asarray(batch.column("block").is_null())
        self._refuse(batch, (block < 0) & ~outside, "must have a 'block' of 0 or more, or none outside blocks")
        self._refuse(batch, draw < 0, "must have a 'draw' of 0 or more")
        self._refuse(batch, _misfit(arm, block, draw), "of a block must be one of its two full draws or five removals")
        status = _coded(batch.column("status"), self._statuses)
        self._refuse(batch, status < 0, f"must have a 'status' of {', '.join(STATUSES)}")
        self._refuse(batch, (status == 0) != (verdict >= 0), "must have a 'correct' exactly when it is `graded`")
        code = np.where(status == 0, verdict, -status).astype(np.int8)
        tokens = _floats(batch.column("prompt_tokens")) + _floats(batch.column("completion_tokens"))
        kept = arm < len(ARMS)
        if not kept.all():
            self.ignored["replay of another subset"] = self.ignored.get("replay of another subset", 0) + int(
                (~kept).sum()
            )
        small = (unit.astype(np.int32), arm.astype(np.int8), block.astype(np.int32), draw.astype(np.int32), code)
        self._parts.append(tuple(part[kept] for part in (*small, tokens)))

    def arrays(self) -> tuple[SmallIntArray, SmallIntArray, SmallIntArray, FloatArray]:
        """Return the outcome codes outside blocks, of full draws, of removals, and mean tokens, as in `Units`."""
        n = len(self._keys)
        if not self._parts:
            raise NothingMadeError("The data set has no replays, so there is nothing to count.")
        unit, arm, block, draw, code, tokens = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        self._parts.clear()
        in_block = block >= 0
        out = ~in_block
        main = self._placed((n, len(ARMS), _size(draw[out])), code[out], unit[out], arm[out], draw[out], block=None)
        blocks = _size(block)
        is_full = in_block & (arm == FULL)
        full = self._placed(
            (n, blocks, FULL_DRAWS), code[is_full], unit[is_full], block[is_full], draw[is_full], block=1
        )
        removal = in_block & ~is_full
        slot = arm[removal] - WITHOUT[0]
        without = self._placed((n, blocks, POOL_SIZE), code[removal], unit[removal], block[removal], slot, block=1)
        return main, full, without, _mean_tokens(n, unit, arm, tokens)

    def _placed(
        self, shape: tuple[int, ...], code: SmallIntArray, *where: npt.NDArray[Any], block: int | None
    ) -> SmallIntArray:
        """Return the codes in their cells.

        Raises:
            DhdError: two outcomes have one cell, or an index is absurdly high.
        """
        if np.prod([float(size) for size in shape]) > _MOST_CELLS:
            raise DhdError(f"The draws and blocks must be numbered 0, 1, 2, ..., got numbers up to {max(shape) - 1}.")
        cell = np.ravel_multi_index(tuple(np.asarray(w, dtype=np.int64) for w in where), shape)
        counts = np.bincount(cell, minlength=1) if len(cell) else np.zeros(1, dtype=np.int64)
        if counts.max() > 1:
            twice = np.unravel_index(int(counts.argmax()), shape)
            raise DhdError(self._twice(tuple(int(i) for i in twice), in_block=block is not None))
        found = np.full(int(np.prod(shape)), ABSENT, dtype=np.int8)
        found[cell] = code
        return found.reshape(shape)

    def _twice(self, at: tuple[int, ...], *, in_block: bool) -> str:
        where = f"block {at[1]}, place {at[2]} of its draws" if in_block else f"arm {ARMS[at[1]]}, draw {at[2]}"
        return (
            f"A draw must be recorded once, but {name_unit(self._keys, at[0])} has several outcomes of {where}. "
            "Two runs may have been put together; build the data set from one run directory."
        )

    @staticmethod
    def _refuse(batch: pa.RecordBatch, wrong: BoolArray, rule: str) -> None:
        if wrong.any():
            row = batch.slice(int(wrong.argmax()), 1).to_pylist()[0]
            shown = ", ".join(f"{name} {row[name]}" for name in _REPLAYS)
            raise DhdError(f"A replay {rule}, got {shown} ({int(wrong.sum())} such rows). Build the data set again.")


def _coded(column: pa.DictionaryArray, names: pd.Index[Any]) -> IntArray:
    """Return the place of each text among `names`, -1 for others and nulls."""
    places = names.get_indexer(column.dictionary.to_numpy(zero_copy_only=False))
    index = column.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
    found: IntArray = np.append(places, -1).astype(np.int64)[index]
    return found


def _whole(column: pa.Array) -> IntArray:
    """Return whole numbers or verdicts, -1 for null."""
    import pyarrow as pa

    found: IntArray = column.cast(pa.int64()).fill_null(-1).to_numpy()
    return found


def _floats(column: pa.Array) -> npt.NDArray[np.float32]:
    import pyarrow as pa

    found: npt.NDArray[np.float32] = column.cast(pa.float32()).to_numpy(zero_copy_only=False)
    return found


def _misfit(arm: IntArray, block: IntArray, draw: IntArray) -> BoolArray:
    """Return which rows are in a block but have no place there."""
    full, removal = arm == FULL, np.isin(arm, WITHOUT)
    fits = (full & (draw < FULL_DRAWS)) | (removal & (draw == 0)) | (arm == len(ARMS))
    found: BoolArray = (block >= 0) & ~fits
    return found


def _size(numbers: npt.NDArray[Any]) -> int:
    return int(numbers.max()) + 1 if len(numbers) and numbers.max() >= 0 else 0


def _mean_tokens(n: int, unit: npt.NDArray[Any], arm: npt.NDArray[Any], tokens: npt.NDArray[Any]) -> FloatArray:
    known = np.isfinite(tokens)
    cell = unit[known].astype(np.int64) * len(ARMS) + arm[known]
    total = np.bincount(cell, weights=tokens[known], minlength=n * len(ARMS))
    count = np.bincount(cell, minlength=n * len(ARMS))
    mean: FloatArray = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
    return mean.reshape(n, len(ARMS))


def _alone_answers(source: Source, keys: pd.DataFrame, draws: int) -> IntArray:
    """Return (n, draws) the class of each independent solve's answer."""
    import pyarrow.compute as pc

    columns = (*UNIT_KEYS, "draw", "status", "answer")
    alone = (pc.field("arm") == Arm.alone().name) & pc.field("block").is_null()
    frame = to_frame(source.batches("replays", columns, where=alone), columns)
    found = np.full((len(keys), max(draws, 1)), -1, dtype=np.int64)
    if not frame.empty:
        unit = _units_of(frame, keys)
        problem = keys["problem_id"].cat.codes.to_numpy()[unit]
        withheld = frame["answer"].isna() & frame["status"].isin(("graded", "undetermined"))
        classes = answer_classes(problem, frame["answer"], withheld.to_numpy(dtype=np.bool_))
        found[unit, frame["draw"].to_numpy(dtype=np.int64)] = classes
    return found


def _units_of(frame: pd.DataFrame, keys: pd.DataFrame) -> IntArray:
    import pandas as pd

    names = list(UNIT_KEYS)
    wanted = pd.MultiIndex.from_frame(frame[names].astype(object))
    return pd.MultiIndex.from_frame(keys[names].astype(object)).get_indexer(wanted)
