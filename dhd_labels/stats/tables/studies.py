"""Component masking, and how trajectory values move with the message order and with the integrator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from dhd_labels.errors import DhdError
from dhd_labels.records import CONDITIONS
from dhd_labels.simulate.label_arrays import nan_mean
from dhd_labels.stats.frames import ABSENT, ALONE, GROUP_KEYS, POOL_FACTS, UNIT_KEYS, FloatArray, IntArray, to_frame
from dhd_labels.stats.intervals import cluster_bootstrap
from dhd_labels.stats.multiplicity import adjust
from dhd_labels.stats.rows import ALL, Row, StatTable
from dhd_labels.stats.tables.study import SEED, Study, interval

if TYPE_CHECKING:
    import pandas as pd

    from dhd_labels.dataset.columns import Source

CONTRASTS = (
    *((condition, "full") for condition in CONDITIONS if condition != "full"),
    ("reasoning_masked", "answer_masked"),
)
"""Pairs of conditions that are compared, success under the first minus under the second."""
METHOD = "exact two-sided sign-flip of per-target mean differences, all 2^m of the m non-zero ones"
ZEROS = "kept: a zero difference is zero under either sign, so it never changes p"
_TARGET = ("pool_id", "integrator", "order", "slot")
_MASKING = (*UNIT_KEYS, *POOL_FACTS, "slot", "cell", "condition", "repeat", "draw", "status", "correct")
_MOST_STATES = 5_000_000
_DRAWS = 100_000


def masking_tables(study: Study, source: Source) -> list[StatTable]:
    """Return `masking` and `masking_tests`."""
    frame = read_masking(source)
    rows: list[Row] = []
    tests: list[Row] = []
    for keys, targets in _masked_groups(frame, study):
        for cell, part in targets.groupby("cell", sort=True, observed=True):
            rows += _success_rows(keys, str(cell), part)
            tests += _contrast_rows(keys, str(cell), part)
    return [
        StatTable(
            "masking",
            "Success with a part of one message masked",
            "mean over target messages of the mean success over graded draws of a condition",
            "target message; intervals resample problems",
            "none",
            rows,
            note="repeat is full again, byte for byte: their difference is noise. Cells name what the target "
            "was chosen "
            "for, so full and removal of a chosen target are not fair estimates of its effect.",
            points=True,
        ),
        StatTable(
            "masking_tests",
            "Masking: paired exact tests",
            "mean over targets of success under the condition minus success under the other",
            "target message",
            "each target's difference is symmetric about 0",
            tests,
            hidden=frozenset({"zeros"}),
            note=f"Method: {METHOD}. Zero differences {ZEROS}. p_bh adjusts over the contrasts of one cell.",
            points=True,
        ),
    ]


def read_masking(source: Source) -> pd.DataFrame:
    """Return one row a graded or ungraded masked outcome.

    Raises:
        DhdError: a draw is there twice, or a condition is unknown.
    """
    if not source.rows("masking"):
        import pandas as pd

        return pd.DataFrame(columns=[*_MASKING, "success"])
    frame = to_frame(source.batches("masking", _MASKING), _MASKING)
    for name in (*UNIT_KEYS, *POOL_FACTS, "cell", "condition", "status"):
        frame[name] = frame[name].astype(object)
    unknown = ~frame["condition"].isin(CONDITIONS)
    if unknown.any():
        raise DhdError(
            f"The 'condition' of a masked replay must be one of {', '.join(CONDITIONS)}, got "
            f"{frame.loc[unknown, 'condition'].iloc[0]!r} for pool {frame.loc[unknown, 'pool_id'].iloc[0]}."
        )
    twice = frame.duplicated([*_TARGET, "condition", "repeat", "draw"])
    if twice.any():
        row = frame[twice].iloc[0]
        raise DhdError(
            f"A masked draw must be recorded once, but pool {row['pool_id']}, slot {row['slot']} has several of "
            f"{row['condition']}, repeat {row['repeat']}, draw {row['draw']}. Build the data set from one run "
            f"directory."
        )
    graded = (frame["status"] == "graded").to_numpy()
    verdict = frame["correct"].to_numpy(dtype=np.float64, na_value=np.nan)
    frame["cell"] = frame["cell"].where(frame["cell"].notna(), "by_list")
    return frame.assign(success=np.where(graded, verdict, np.nan))


def sign_flip(differences: Sequence[Fraction], rng: np.random.Generator) -> tuple[float, str]:
    """Return the two-sided p of a zero mean when each difference is symmetric about 0, and how it was found.

    Exact by adding up the differences with either sign on a grid of integers; zeros move nothing. Only when that grid
    is too large are signs drawn, with the add-one rule.
    """
    moving = [d for d in differences if d]
    if not moving:
        return 1.0, METHOD
    scale = lcm(*(d.denominator for d in moving))
    steps = [abs(int(d * scale)) for d in moving]
    observed, most = abs(sum(int(d * scale) for d in moving)), sum(steps)
    if 2 * most + 1 > _MOST_STATES:
        signs = rng.choice((-1.0, 1.0), (_DRAWS, len(moving)))
        hits = int((np.abs(signs @ np.array([float(d) for d in moving])) >= float(observed) / scale - 1e-9).sum())
        return (hits + 1) / (_DRAWS + 1), f"sign-flip of per-target mean differences, {_DRAWS} seeded draws, add-one"
    ways = np.zeros(2 * most + 1)
    ways[most] = 1.0
    for step in steps:  # halved each time, so the weights stay probabilities
        ways = (np.roll(ways, step) + np.roll(ways, -step)) / 2
    return float(
        min(1.0, ways[: most - observed + 1].sum() + ways[most + observed :].sum() if observed else 1.0)
    ), METHOD


def _masked_groups(frame: pd.DataFrame, study: Study) -> Iterator[tuple[Row, pd.DataFrame]]:
    """Yield the group's keys and one row a (target, condition) with counts of successes and graded draws."""
    if frame.empty:
        return
    columns = [*GROUP_KEYS, "problem_id", *(name for name in _TARGET if name not in GROUP_KEYS), "cell", "condition"]
    graded = frame.groupby(columns, sort=True)["success"].agg(["sum", "count", "size"]).reset_index()
    for (actor, integrator, order), part in graded.groupby(list(GROUP_KEYS[1:]), sort=True):
        keys = {"actor": actor, "integrator": integrator, "order": order}
        names = sorted(set(part["benchmark"]))
        for benchmark in names:
            own = part[part["benchmark"] == benchmark]
            lost = int((own["size"] - own["count"]).sum())
            if lost:
                study.exclusions.append(
                    {
                        "table": "masking",
                        "benchmark": benchmark,
                        **keys,
                        "reason": "outcome without a verdict",
                        "n": lost,
                    }
                )
            yield {"benchmark": benchmark, **keys}, own
        if len(names) > 1:
            yield {"benchmark": ALL, **keys}, part


def _success_rows(keys: Row, cell: str, targets: pd.DataFrame) -> Iterator[Row]:
    for condition in CONDITIONS:
        own = targets[(targets["condition"] == condition) & (targets["count"] > 0)]
        if len(own):
            mean = (own["sum"] / own["count"]).to_numpy(dtype=np.float64)
            by_problem = (
                own.assign(mean=mean).groupby(["benchmark", "problem_id"], sort=True)["mean"].agg(["sum", "count"])
            )
            strata = by_problem.index.get_level_values("benchmark").to_numpy()
            found = cluster_bootstrap(
                by_problem["sum"].to_numpy(), by_problem["count"].to_numpy(), np.random.default_rng(SEED), strata
            )[0]
            yield {
                **keys,
                "cell": cell,
                "condition": condition,
                "success": found.value,
                **interval(found),
                "n": len(own),
                "draws": int(own["count"].sum()),
            }


def _contrast_rows(keys: Row, cell: str, targets: pd.DataFrame) -> list[Row]:
    counts = targets[targets["count"] > 0].set_index([*_TARGET, "condition"])[["sum", "count"]]
    wide = counts.unstack("condition")
    rows: list[Row] = []
    for condition, other in CONTRASTS:
        if not {("sum", condition), ("sum", other)} <= set(wide.columns):
            continue
        names = [("sum", condition), ("count", condition), ("sum", other), ("count", other)]
        both = wide[names].dropna().to_numpy(dtype=np.int64)
        found = [Fraction(*map(int, row[:2])) - Fraction(*map(int, row[2:])) for row in both]
        if not found:
            continue
        p, method = sign_flip(found, np.random.default_rng(SEED))
        rows.append(
            {
                **keys,
                "cell": cell,
                "condition": condition,
                "against": other,
                "difference": float(sum(found, Fraction(0)) / len(found)),
                "p": p,
                "p_bh": None,
                "n": len(found),
                "nonzero": sum(d != 0 for d in found),
                "method": method,
                "zeros": ZEROS,
            }
        )
    for row, adjusted in zip(rows, adjust([row["p"] for row in rows])[0], strict=True):
        row["p_bh"] = float(adjusted)
    return rows


def sensitivity_table(study: Study) -> StatTable:
    """Return `sensitivity`."""
    rows = [row for change in ("order", "integrator") for row in _change_rows(study, change)]
    return StatTable(
        "sensitivity",
        "Trajectory values under another order or integrator",
        "mean_shift: changed minus original value of the same message over the same blocks; exact_sign: share with the "
        "same sign (positive, zero, negative); direction: the same among messages whose values are both not zero",
        "message; intervals resample problems",
        "none",
        rows,
        note="Both values are noisy, so two runs of one system would not agree on every sign either.",
        points=True,
    )


def _change_rows(study: Study, change: str) -> Iterator[Row]:
    effects = study.effect(study.units.full).mean(axis=2)[:, :, None] - study.effect(study.units.without)
    pairs = _pairs(study, change)
    for group in study.groups:
        chosen = pairs[pairs["changed"].isin(group.units)]
        if chosen.empty:
            continue
        changed, original = (chosen[name].to_numpy(dtype=np.int64) for name in ("changed", "original"))
        compared = np.isfinite(effects[changed]) & np.isfinite(effects[original])
        screen = study.units.screen[original][:, None, None]
        # Only some problems have blocks after a screen, because of what it found: all have those of the screen.
        compared &= (screen == 0) | (np.arange(effects.shape[1])[:, None] < screen)
        before, after = (
            nan_mean(np.where(compared, effects[rows], np.nan).transpose(0, 2, 1)) for rows in (original, changed)
        )
        known = np.isfinite(before)
        study.exclude("sensitivity", group, f"{change}: no block complete in both", int((~known).sum()))
        if known.any():
            yield _change_row(study, group.keys, change, changed, before, after)


def _change_row(study: Study, keys: Any, change: str, changed: IntArray, before: FloatArray, after: FloatArray) -> Row:
    known = np.isfinite(before)
    same = np.sign(before) == np.sign(after)
    both = known & (before != 0) & (after != 0)
    units = study.units.keys.iloc[changed]
    strata = units["benchmark"].cat.codes.to_numpy()
    shift = np.where(known, after - before, 0.0).sum(axis=1)
    found = cluster_bootstrap(shift, known.sum(axis=1), np.random.default_rng(SEED), strata)[0]
    return {
        **keys,
        "change": change,
        "mean_shift": found.value,
        **interval(found),
        "exact_sign": float(same[known].mean()),
        "direction": float(same[both].mean()) if both.any() else None,
        "n": int(known.sum()),
        "n_nonzero": int(both.sum()),
        "n_problems": len(np.unique(study.problem[changed])),
    }


def _pairs(study: Study, change: str) -> pd.DataFrame:
    """Return pairs of units of one pool, as places among all units: with the change, and without it.

    The original integrator of a pool is the one that also solved alone; where no draw or every integrator's draw tells,
    the first by name that has blocks.
    """
    import pandas as pd

    keys = study.units.keys
    has_blocks = (study.units.full != ABSENT).any(axis=(1, 2))
    frame = pd.DataFrame(
        {
            "pool": keys["pool_id"].cat.codes.to_numpy(),
            "integrator": keys["integrator"].cat.codes.to_numpy(),
            "reversed": (keys["order"].astype(object) != "original").to_numpy(),
            "unit": np.arange(len(keys)),
            "alone": (study.units.main[:, ALONE] != ABSENT).any(axis=1),
        }
    )[has_blocks]
    if change == "order":
        both = frame[frame["reversed"]].merge(frame[~frame["reversed"]], on=["pool", "integrator"])
    else:
        plain = frame[~frame["reversed"]].sort_values(["pool", "alone", "integrator"], ascending=[True, False, True])
        first = plain.drop_duplicates("pool")
        both = plain[~plain["unit"].isin(first["unit"])].merge(first, on="pool")
    return pd.DataFrame({"changed": both["unit_x"], "original": both["unit_y"]})
