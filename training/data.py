"""From the data set's frames to aligned arrays: what a selector sees, learns from and earns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dhd_labels.errors import DhdError, NothingMadeError
from dhd_labels.records import POOL_SIZE
from dhd_labels.stats.blocks import Blocks
from dhd_selectors.base import (
    POOL_COLUMN,
    PRIVILEGED_COLUMNS,
    TEXT_COLUMNS,
    BoolArray,
    FloatArray,
    IntArray,
)
from dhd_selectors.features import OF_PROBLEM, build_features, pool_codes
from training.outcomes import actions_of, codes_of, complete_blocks, success_table

LoadFrame = Callable[[str, str, tuple[str, ...]], pd.DataFrame]


@dataclass(frozen=True, slots=True)
class LabelData:
    """Aligned arrays of n_messages rows and n_pools pools; a pool is a (pool_id, integrator, order).

    Rates and values are fractions; unknown ones are NaN. `labels` holds the privileged columns and reaches a
    selector only as far as it declares them.
    """

    X: pd.DataFrame
    """(n_messages, n_features) what the integrator could see, as numbers."""
    texts: pd.DataFrame | None
    """(n_messages, ...) the columns `TEXT_COLUMNS` and `pool`; None when nobody asked for texts."""
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
    rows: IntArray
    """(n_pools, 5) the row of each pool's message by slot."""
    trainable: BoolArray
    """(n_messages,) whether a model may be trained on the row; a pool is open or closed as a whole."""
    pools: pd.DataFrame
    """(n_pools, ...) text columns of each pool: the keys, `problem_id`, `benchmark`, `actor`, `split`, licence."""
    success: FloatArray
    """(n_pools, 32) mean success of each action over its recorded draws, by the rule for accuracy."""
    recorded: BoolArray
    """(n_pools, 32) whether an action was drawn at all, whatever became of it."""
    blocks: Blocks
    """Complete matched blocks, for the estimand that learns from some of them and judges by others."""
    fallback: int = 0
    """Messages whose `y` is the in-pool effect, as their pool has no matched block."""
    notes: tuple[str, ...] = ()
    """What a reader of any result has to know about these labels."""

    @property
    def n_pools(self) -> int:
        """Return the number of pools."""
        return len(self.pools)

    @property
    def pool_problem(self) -> pd.Series:
        """Return (n_pools,) the problem id of each pool."""
        return self.pools["problem_id"]

    @property
    def pool_group(self) -> pd.Series:
        """Return (n_pools,) what must not be on both sides of a fold: problems whose question is the same."""
        return self.pools.get("group", self.pool_problem)

    @property
    def open_pools(self) -> BoolArray:
        """Return (n_pools,) whether a model may be trained on the pool."""
        found: BoolArray = np.all(self.trainable[self.rows], axis=1)
        return found

    @property
    def problem(self) -> pd.Series:
        """Return (n_messages,) the problem id of each message."""
        return self.pool_problem.iloc[self.pool].reset_index(drop=True)

    @property
    def problem_code(self) -> IntArray:
        """Return (n_messages,) one number a problem, by the order of the ids."""
        codes, _ = pd.factorize(self.pool_problem, sort=True)
        return codes.astype(np.int64)[self.pool]


def load_data(
    labels: str, splits: Sequence[str], load_frame: LoadFrame | None = None, *, texts: bool = False,
    every_integrator: bool = False,
) -> LabelData:  # fmt: skip
    """Load a data set and align it.

    Args:
        labels: folder or Hub id, optionally with `@revision`.
        splits: splits to read.
        load_frame: reader of one config; the data set's own unless given.
        texts: whether to keep the texts.
        every_integrator: also keep integrators that never solved alone.

    Raises:
        DhdError: the data set cannot be read.
        NothingMadeError: it has no messages in these splits.
    """
    if load_frame is None:
        from training.read import read_frame as read

        load_frame = read
    chosen = tuple(splits)
    frames = [load_frame(labels, config, chosen) for config in ("messages", "replays", "problems")]
    if frames[0].empty:
        raise NothingMadeError(
            f"The splits {' and '.join(chosen)} of {labels!r} hold no messages, so there is nothing to learn "
            "from. Label more problems."
        )
    messages, replays, problems = frames
    return assemble(main_groups(messages, every_integrator=every_integrator), replays, problems, texts=texts)


def main_groups(messages: pd.DataFrame, *, every_integrator: bool = False) -> pd.DataFrame:
    """Return the rows of the original message order, by integrators that also solved alone.

    The rows of the sensitivity checks are labels of the same messages under another order or integrator; they would
    count some problems twice and have no outcome of the unmatched arms.
    """
    original = messages[(messages["order"] == "original").to_numpy(dtype=np.bool_)]
    solvers = original.loc[original["single_effect"].notna(), "integrator"].unique()
    if len(solvers) and not every_integrator:
        original = original[original["integrator"].isin(solvers)]
    return original.reset_index(drop=True)


def assemble(
    messages: pd.DataFrame, replays: pd.DataFrame, problems: pd.DataFrame, *, texts: bool = False
) -> LabelData:
    """Align the three configs by pool and problem.

    Args:
        messages: rows of `messages` with the column `split`.
        replays: rows of `replays`.
        problems: rows of `problems`.
        texts: whether to keep the texts.

    Returns:
        One row a message, in the order of `messages`; one pool for each (pool_id, integrator, order).

    Raises:
        DhdError: a pool has not the slots 0 to 4, once each; a draw of a block is there twice.
    """
    messages = messages.reset_index(drop=True)
    by_problem = problems.drop_duplicates("problem_id").set_index("problem_id")
    visible = messages.assign(**{name: messages["problem_id"].map(by_problem[name]) for name in OF_PROBLEM})
    pool = pool_codes(messages)
    _, first = np.unique(pool, return_index=True)
    pools = messages.iloc[first].reset_index(drop=True)
    slot = messages["slot"].to_numpy(dtype=np.int64, na_value=-1)
    screen = pools["screen_blocks"].to_numpy(dtype=np.int64, na_value=0)
    replayed, action = codes_of(replays, pools), actions_of(replays)
    success, recorded = success_table(replayed, action, replays, screen)
    y, fallback = _targets(messages, _with_blocks(replayed, replays, len(pools))[pool])
    blocks = messages["n_blocks"].to_numpy(dtype=np.float64, na_value=1.0)
    return LabelData(
        X=build_features(visible),
        texts=_texts(visible, pool) if texts else None,
        labels=_privileged(messages, pool).assign(trajectory_value=y),  # hindsight is about what is learned and judged
        y=y,
        weight=np.maximum(blocks, 1.0),
        slot=slot,
        pool=pool,
        rows=_rows(pool, slot, pools),
        trainable=_trainable(messages, pool, len(pools)),
        pools=pools.reindex(columns=list(_POOL_FACTS)).astype(object).assign(group=_groups(pools, by_problem)),
        success=success,
        recorded=recorded,
        blocks=complete_blocks(replayed, action, replays, screen),
        fallback=fallback,
    )


_NO_LETTER = re.compile(r"[\W_]")
_LICENCE = ("license", "train_allowed", "commercial_use")
_POOL_FACTS = ("pool_id", "integrator", "order", "problem_id", "benchmark", "actor", "split", *_LICENCE)


def _groups(pools: pd.DataFrame, by_problem: pd.DataFrame) -> list[str]:
    """Return the group of each pool: the first problem with the same question, or its own where that is withheld.

    Questions are the same where they differ in case, white space and punctuation only, as in `dataset.splits`.
    """
    first: dict[str, str] = {}
    group: dict[str, str] = {}
    for problem, question in by_problem["question"].sort_index().items():
        text = question if isinstance(question, str) else ""
        letters = _NO_LETTER.sub("", unicodedata.normalize("NFKC", text).casefold())
        group[str(problem)] = first.setdefault(letters, str(problem)) if letters else str(problem)
    return [group.get(problem, problem) for problem in pools["problem_id"]]


def _trainable(messages: pd.DataFrame, pool: IntArray, n_pools: int) -> BoolArray:
    """Return (n_messages,) whether all messages of its pool may be trained on: an outcome belongs to all of them."""
    barred = ~messages["train_allowed"].astype("boolean").fillna(False).to_numpy(dtype=np.bool_)
    open_pools: BoolArray = np.bincount(pool[barred], minlength=n_pools) == 0
    return open_pools[pool]


def _privileged(messages: pd.DataFrame, pool: IntArray) -> pd.DataFrame:
    right = messages["proposal_correct"].astype("boolean").fillna(False).to_numpy(dtype=np.float64)
    known = messages[[column for column in PRIVILEGED_COLUMNS if column in messages.columns]]
    return known.assign(pool_right=np.bincount(pool, right)[pool] if len(pool) else right)


def _targets(messages: pd.DataFrame, has_blocks: BoolArray) -> tuple[FloatArray, int]:
    """Return (n_messages,) the target of each message, and for how many it is the in-pool effect."""
    value = messages["trajectory_value"].to_numpy(dtype=np.float64, na_value=np.nan)
    effect = messages["in_pool_effect"].to_numpy(dtype=np.float64, na_value=np.nan)
    falls_back = ~has_blocks & np.isnan(value) & np.isfinite(effect)
    return np.where(falls_back, effect, value), int(falls_back.sum())


def _with_blocks(replayed: IntArray, replays: pd.DataFrame, n_pools: int) -> BoolArray:
    found = np.zeros(n_pools, dtype=np.bool_)
    found[replayed[replays["block"].notna().to_numpy(dtype=np.bool_) & (replayed >= 0)]] = True
    return found


def _rows(pool: IntArray, slot: IntArray, pools: pd.DataFrame) -> IntArray:
    """Return (n_pools, 5) the row of each pool's message by slot."""
    order = np.lexsort((slot, pool))
    sizes = np.bincount(pool, minlength=len(pools))
    if (sizes == POOL_SIZE).all() and (slot[order].reshape(-1, POOL_SIZE) == np.arange(POOL_SIZE)).all():
        return order.reshape(-1, POOL_SIZE).astype(np.int64)
    wrong = next(n for n in range(len(pools)) if sorted(slot[pool == n]) != list(range(POOL_SIZE)))
    raise DhdError(
        f"The messages of pool {pools['pool_id'].iloc[wrong]} ({pools['problem_id'].iloc[wrong]}) must have the slots "
        f"0 to {POOL_SIZE - 1}, once each, got {sorted(slot[pool == wrong].tolist())}. Build the data set again."
    )


def _texts(visible: pd.DataFrame, pool: IntArray) -> pd.DataFrame:
    texts = visible[list(TEXT_COLUMNS)].astype(object)
    return texts.where(texts.notna(), "").assign(**{POOL_COLUMN: pool})
