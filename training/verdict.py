"""One plain sentence on what a gain does and does not show."""

from __future__ import annotations

from collections.abc import Sequence

from training.gain import Gain

MIN_PROBLEMS = 50
"""Fewest problems for a conclusion. With 50 problems, five blocks and a removal in half of the pools, the
noise of the draws alone gives an interval of up to +-5 points; published gains are 1 to 3 points."""


def verdict(
    gain: Gain,
    *,
    placebos: Sequence[str] = (),
    learned: Gain | None = None,
    privileged: bool = False,
    upper_bound: bool = False,
    cross_fitted: bool = False,
    same_problem: bool = False,
) -> str:
    """Return the sentence.

    Args:
        gain: the selector's gain over its first reference.
        placebos: names of the placebos that gain too.
        learned: its gain over the same policy with predictions of correctness; None where there is no such comparison.
        privileged: whether it knows the verdicts.
        upper_bound: whether it knows the outcomes.
        cross_fitted: whether several folds decided, so that a test split can still confirm.
        same_problem: whether other draws of the same problems were learned from.
    """
    if upper_bound:
        return f"Upper bound, not a selector: it decides by outcomes that nobody has beforehand. {_found(gain)}"
    if privileged:
        return f"Privileged, not deployable: it knows which proposals are right. {_found(gain)}"
    found = _found(gain)
    if not found.startswith("A gain"):
        return found
    if placebos:
        found += f" But {_listed(placebos)} gain{'s' if len(placebos) == 1 else ''} too, so part of it needs no labels."
    if learned is not None and (learned.ci_low is None or learned.ci_low <= 0.0):
        found += " No evidence that it beats the same policy with predicted correctness."
    if same_problem:
        return f"{found} Other draws of the same problems were learned from, so it says nothing of unseen problems."
    return found + (" Confirm it on the test split with --test." if cross_fitted else "")


def _found(gain: Gain) -> str:
    if gain.gain is None:
        return f"No comparison with {gain.reference} was possible."
    if gain.n_problems < MIN_PROBLEMS:
        return (
            f"Too few problems to conclude anything: {gain.n_problems}, and at least {MIN_PROBLEMS} are "
            "needed. The numbers show that the pipeline works, not that the selector does."
        )
    if gain.ci_low is None or gain.ci_high is None:
        return f"No evidence of a gain over {gain.reference} ({gain.gain:+.2f} points): all problems differ alike."
    if gain.ci_low == gain.ci_high == 0.0:
        return f"No evidence of a gain over {gain.reference}: no outcome differs from it."
    span = f"{gain.gain:+.2f} points, 95 % interval {gain.ci_low:+.2f} to {gain.ci_high:+.2f}"
    if gain.ci_low <= 0.0 <= gain.ci_high:
        return f"No evidence of a gain over {gain.reference} ({span})."
    return f"A {'gain over' if gain.gain > 0.0 else 'loss against'} {gain.reference} ({span})."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
