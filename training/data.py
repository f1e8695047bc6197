"""From the data set's frames to aligned arrays: what a selector sees, learns from and earns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dhd_labels.errors import NothingMadeError
from dhd_labels.records import POOL_SIZE, Arm
from dhd_selectors.base import POOL_KEYS, PRIVILEGED_COLUMNS, BoolArray, FloatArray, IntArray
from dhd_selectors.features import OF_PROBLEM, build_features, pool_codes

ARMS = (Arm.full().name, *(Arm.without(slot).name for slot in range(POOL_SIZE)), Arm.alone().name)
"""Arms that a decision can lead to; an action is an index into this tuple."""
FULL = 0
ALONE = len(ARMS) - 1

LoadFrame = Callable[[str, str, tuple[str, ...]], pd.DataFrame]


@dataclass(frozen=True, slots=True)
class LabelData:
    """Aligned arrays of n_messages rows and n_pools pools.

    Rates and values are fractions; unknown ones are NaN. `labels` holds the privileged columns and reaches a
    selector only as far as it declares them.
    """

    X: pd.DataFrame
    """(n_messages, n_features) what the integrator could see."""
    labels: pd.DataFrame
    """(n_messages, ...) privileged columns."""
    y: FloatArray
    """(n_messages,) trajectory values, by the rule for effects (`no_answer` is missing)."""
    weight: FloatArray
    """(n_messages,) number of blocks behind each value, at least 1."""
    slot: IntArray
    """(n_messages,) slot of each message."""
    pool: IntArray
    """(n_messages,) number of each message's pool, 0..n_pools-1."""
    trainable: BoolArray
    """(n_messages,) whether the licence lets a model be trained on the row."""
    pool_problem: pd.Series
    """(n_pools,) problem id of each pool."""
    pool_split: pd.Series
    """(n_pools,) split of each pool."""
    success: FloatArray
    """(n_pools, len(ARMS)) mean success over the recorded draws, by the rule for accuracy."""

    @property
    def n_pools(self) -> int:
        """Return the number of pools."""
        return len(self.pool_problem)

    @property
    def problem(self) -> pd.Series:
        """Return (n_messages,) the problem id of each message."""
        return self.pool_problem.iloc[self.pool].reset_index(drop=True)

    @property
    def removal_gain(self) -> FloatArray:
        """Return (n_messages,) success without each message minus success of its full pool."""
        without = self.success[self.pool, action_of(self.slot)]
        gain: FloatArray = without - self.success[self.pool, FULL]
        return gain


def action_of(removed: IntArray) -> IntArray:
    """Return the action (index into `ARMS`) of removing each slot; `policy.KEEP_ALL` (-1) becomes `FULL`."""
    return removed + 1


def load_data(labels: str, splits: Sequence[str], load_frame: LoadFrame | None = None) -> LabelData:
    """Load a data set and align it.

    Args:
        labels: folder or Hub id, optionally with `@revision`.
        splits: splits to read.
        load_frame: reader of one config; the data set's own unless given.

    Raises:
        DhdError: the data set cannot be read.
        NothingMadeError: it has no messages in these splits.
    """
    if load_frame is None:
        from dhd_labels.dataset.load import load_frame as read

        load_frame = read
    chosen = tuple(splits)
    frames = [load_frame(labels, config, chosen) for config in ("messages", "replays", "problems")]
    if frames[0].empty:
        raise NothingMadeError(
            f"The splits {' and '.join(chosen)} of {labels!r} hold no messages, so there is nothing to learn "
            "from. Label more problems."
        )
    messages, replays, problems = frames
    return assemble(main_groups(messages), replays, problems)


def main_groups(messages: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the original message order, by integrators that also solved alone.

    The rows of the sensitivity checks are labels of the same messages under another order or integrator; they would
    count some problems twice and have no outcome of the unmatched arms.
    """
    original = messages[messages["order"] == "original"]
    solvers = original.loc[original["single_effect"].notna(), "integrator"].unique()
    return (original[original["integrator"].isin(solvers)] if len(solvers) else original).reset_index(drop=True)


def assemble(messages: pd.DataFrame, replays: pd.DataFrame, problems: pd.DataFrame) -> LabelData:
    """Align the three configs by pool and problem.

    Args:
        messages: rows of `messages` with the column `split`.
        replays: rows of `replays`.
        problems: rows of `problems`; only `answer_type` and `question` are used.

    Returns:
        One row a message, in the order of `messages`; one pool for each (pool_id, integrator, order).
    """
    messages = messages.reset_index(drop=True)
    by_problem = problems.drop_duplicates("problem_id").set_index("problem_id")
    visible = messages.assign(**{name: messages["problem_id"].map(by_problem[name]) for name in OF_PROBLEM})
    pool = pool_codes(messages)
    first = messages.groupby(pool).head(1).reset_index(drop=True)
    blocks = messages["n_blocks"].to_numpy(dtype=np.float64, na_value=1.0)
    return LabelData(
        X=build_features(visible),
        labels=messages[[column for column in PRIVILEGED_COLUMNS if column in messages.columns]],
        y=messages["trajectory_value"].to_numpy(dtype=np.float64, na_value=np.nan),
        weight=np.maximum(blocks, 1.0),
        slot=messages["slot"].to_numpy(dtype=np.int64),
        pool=pool,
        trainable=messages["train_allowed"].astype("boolean").fillna(False).to_numpy(dtype=np.bool_),
        pool_problem=first["problem_id"].astype(object),
        pool_split=first["split"].astype(object),
        success=success_table(first, replays),
    )


def success_table(pools: pd.DataFrame, replays: pd.DataFrame) -> FloatArray:
    """Return (n_pools, len(ARMS)) the mean success of each arm over its usable draws; NaN without any.

    The accuracy rule of protocol.md: `no_answer` counts as incorrect, any other ungraded outcome is missing.
    The full pool and the removals use the draws of matched blocks; `alone` uses all of its draws. Where the first
    blocks decided how many more a problem got, only these count: every problem has them, whatever came of them.
    """
    usable = replays[replays["arm"].isin(ARMS)]
    in_block = usable["block"].notna().to_numpy(dtype=np.bool_)
    usable = usable[in_block | (usable["arm"] == Arm.alone().name).to_numpy(dtype=np.bool_)]
    usable = usable[~_is_further(pools, usable)]
    drawn = usable[[*POOL_KEYS, "arm"]].assign(success=success_of(usable))
    mean = drawn.groupby([*POOL_KEYS, "arm"], dropna=False)["success"].mean().unstack("arm")
    index = pd.MultiIndex.from_frame(pools[list(POOL_KEYS)])
    return mean.reindex(index=index, columns=pd.Index(ARMS)).to_numpy(dtype=np.float64)


def _is_further(pools: pd.DataFrame, replays: pd.DataFrame) -> BoolArray:
    """Return (n_replays,) whether a draw is of a block that only some problems got because of their outcomes."""
    screen = pools.set_index(list(POOL_KEYS))["screen_blocks"].astype("Float64").fillna(0.0)
    of_replay = screen.reindex(pd.MultiIndex.from_frame(replays[list(POOL_KEYS)])).to_numpy(float, na_value=0.0)
    block = replays["block"].to_numpy(dtype=np.float64, na_value=-1.0)
    return np.asarray((of_replay > 0) & (block >= of_replay), dtype=np.bool_)


def success_of(replays: pd.DataFrame) -> FloatArray:
    """Return (n_rows,) 1 for correct, 0 for incorrect and `no_answer`, NaN for every other status."""
    status = replays["status"].astype(object).to_numpy()
    correct = replays["correct"].astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(status == "graded", correct, np.where(status == "no_answer", 0.0, np.nan))
