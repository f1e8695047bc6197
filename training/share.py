"""`--out` and `--push`: fit once more on everything that may be learned from, save the rule, share it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from dhd_labels.dataset.header import CARD_NAME, local_header
from dhd_labels.dataset.hub import parse_ref, parse_repo
from dhd_labels.dataset.released import NotOursError, fetch_release, imported, is_unread_release
from dhd_labels.errors import DhdError, NothingMadeError
from dhd_selectors.base import BoolArray, FloatArray, IntArray, Selector, needs_labels, predict_values, selector_name
from dhd_selectors.policy import Policy
from dhd_selectors.saving import BenchmarkUse, DecisionRule, TrainingFacts, check_savable
from dhd_selectors.saving.hub import push_folder
from dhd_selectors.saving.manifest import file_digest
from dhd_selectors.saving.rule import check_target
from training.crossfit import Fitted, fit_fold
from training.data import LabelData
from training.estimands import Fold
from training.evidence import all_evidence
from training.report import Report
from training.tables import write_report

_FINAL = 1_000_000  # a fold number that no cross-fit has
_COMPARED = 500
_ROUNDING = 1e-6  # of a network that runs in other batches
_HOW_TO_KEEP = (
    "All that predict_value uses must be in attributes that end in an underscore, or in its own save and load."
)
_UNUSABLE = ": the report alone, as this comparator needs verdicts when it decides."


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Fit with one thread of linear algebra, whatever the machine has.

    With more, the last digits would depend on the machine; and matrices of some hundred features only get slower.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True, slots=True)
class Source:
    """Labels that stay the same: `labels` loads them, the rest says which they are (see `TrainingFacts`)."""

    labels: str
    name: str
    revision: str | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class Sharing:
    """Where the rule goes: a folder, a model repository `org/name`, both or neither."""

    out: Path | None = None
    push: str | None = None
    public: bool = False

    def __bool__(self) -> bool:
        return self.out is not None or self.push is not None

    def check(self, selector: Selector) -> None:
        """Refuse before anything is computed what would be refused afterwards.

        Raises:
            DhdError: the selector cannot be saved, the folder holds something else, or nothing may be pushed there.
        """
        if self.public and self.push is None:
            raise DhdError("--public says that a pushed rule may be seen by everyone, so it needs --push org/name.")
        if self.push is not None:
            check_savable(selector)
        if self.out is not None:
            check_target(self.out)
        if self.push is not None:
            from dhd_labels.dataset.publish import check_token

            parse_repo(self.push)
            check_token()


@dataclass(frozen=True, slots=True)
class Measured:
    """A report, and what it was measured with: the unfitted selector, the policy and the labels."""

    report: Report
    selector: Selector
    policy: Policy
    data: LabelData


def pin(labels: str) -> Source:
    """Return which labels a name stands for now; a data set on the Hub is pinned to its commit.

    Raises:
        DhdError: there is no such data set, or it is not ours.
    """
    folder = Path(labels).expanduser()
    ref = None if folder.exists() else parse_ref(labels)
    if ref is None:
        rows = imported(folder) if is_unread_release(folder) else folder
        local_header(rows)
        return Source(labels, folder.resolve().name, None, file_digest(rows / CARD_NAME))
    from dhd_labels.dataset.load import hub_header

    try:
        _, revision = hub_header(ref)
    except NotOursError:
        if (release := fetch_release(ref)) is None:
            raise
        revision = release.name  # the Hub's cache names a snapshot by its commit
    return Source(f"{ref.repo}@{revision}" if revision else labels, ref.repo, revision, None)


@one_blas_thread()
def fit_rule(measured: Measured, source: Source, permissions: Mapping[str, str] | None = None) -> DecisionRule:
    """Fit on all pools outside the test split, and tune the thresholds on them.

    Args:
        measured: what was measured.
        source: which labels these are.
        permissions: benchmark to what permits training on it although its licence does not.

    Raises:
        DhdError: the selector fails.
        NothingMadeError: no row may be learned from.
    """
    data, report = measured.data, measured.report
    train = np.flatnonzero((data.pools["split"] != "test").to_numpy(dtype=np.bool_))
    evidence = all_evidence(data)
    fold = Fold(train, train[:0], evidence, evidence, "the fit on everything")
    fitted = fit_fold(measured.selector, measured.policy, data, fold, seed=(report.seed, _FINAL))
    if fitted is None:
        raise NothingMadeError(f"No message of {source.name!r} may be learned from, so there is nothing to save.")
    learned = _learned_from(fitted, data, train)
    facts = TrainingFacts(
        labels=source.name,
        revision=source.revision,
        digest=source.digest,
        splits=tuple(str(split) for split in dict.fromkeys(data.pools["split"].iloc[train])),
        seed=report.seed,
        n_problems=int(data.problem[learned].nunique()),
        n_messages=int(learned.sum()),
        benchmarks=tuple(_uses(data, learned, train)),
        permissions=dict(permissions or {}),
        report=report.as_json(),
    )
    return DecisionRule(report.selector, fitted.selector, report.policy, fitted.thresholds, facts)


def share(rule: DecisionRule | None, data: LabelData, report: Report, sharing: Sharing) -> list[str]:
    """Save the rule and its report, check that what was saved predicts the same, and push it.

    Args:
        rule: the rule; None for a comparator that cannot be used, whose report alone is written.
        data: what it was fitted on.
        report: the measured gains.
        sharing: where all this goes.

    Returns:
        Where it is, in sentences.

    Raises:
        DhdError: it cannot be saved, does not come back the same, or the Hub refuses it.
    """
    said = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = sharing.out or Path(temporary, "rule")
        try:
            if rule is not None:
                rule.save_pretrained(folder)
                _check_same(rule, DecisionRule.from_pretrained(folder, selector=type(rule.selector)), data)
        finally:  # what was measured is not lost with a rule that cannot be saved
            write_report(report, folder)
        if sharing.out is not None:
            said.append(f"Saved in {sharing.out}{_UNUSABLE if rule is None else '.'}")
        if sharing.push is not None:
            pushed = push_folder(folder, sharing.push, private=not sharing.public)
            said.append(f"Pushed to {pushed.url} at commit {pushed.commit}.")
    return said


def _learned_from(fitted: Fitted, data: LabelData, train: IntArray) -> BoolArray:
    """Return (n_messages,) which messages the selector or its thresholds come from."""
    if not needs_labels(fitted.selector):
        return np.zeros(len(data.y), dtype=np.bool_)
    return np.isin(data.pool, train) & data.trainable & np.isfinite(data.y)


def _uses(data: LabelData, learned: BoolArray, train: IntArray) -> Iterator[BenchmarkUse]:
    """Yield one entry for each benchmark and licence among the training pools."""
    barred = ~data.trainable
    facts = data.pools.loc[train, ["benchmark", "license", "train_allowed", "commercial_use"]]
    facts = facts.assign(
        learned=np.bincount(data.pool[learned], minlength=data.n_pools)[train],
        dropped=np.bincount(data.pool[barred], minlength=data.n_pools)[train],
    )
    keys = ["benchmark", "license", "train_allowed", "commercial_use"]
    totals = facts.groupby(keys, dropna=False, sort=False)[["learned", "dropped"]].sum().reset_index()
    for row in totals.sort_values(["benchmark", "license"], kind="stable").to_dict("records"):
        licence = "unknown" if pd.isna(row["license"]) else str(row["license"])
        yield BenchmarkUse(
            str(row["benchmark"]),
            licence,
            _flag(row["train_allowed"]),
            _flag(row["commercial_use"]),
            int(row["learned"]),
            int(row["dropped"]),
        )


def _flag(value: object) -> bool | None:
    return None if value is None or value is pd.NA or value != value else bool(value)


def _check_same(rule: DecisionRule, back: DecisionRule, data: LabelData) -> None:
    """Refuse a saved selector that has forgotten something: it must predict what it predicted before."""
    rows = data.rows[: _COMPARED // data.rows.shape[1]].ravel()
    here = _predicted(rule.selector, data, rows)
    try:
        there = _predicted(back.selector, data, rows)
    except Exception as error:
        raise DhdError(
            f"The 'predict_value' of {selector_name(rule.selector)} must not fail once it is saved and loaded, but it "
            f"raised {type(error).__name__}: {error}. {_HOW_TO_KEEP}"
        ) from error
    if (differs := np.flatnonzero(~np.isclose(here, there, rtol=0.0, atol=_ROUNDING))).size:
        raise DhdError(
            f"The saved {selector_name(rule.selector)} must predict as it did before, but message {differs[0]} got "
            f"{there[differs[0]]}, not {here[differs[0]]}. {_HOW_TO_KEEP}"
        )


def _predicted(selector: Selector, data: LabelData, rows: IntArray) -> FloatArray:
    texts = None if data.texts is None else data.texts.iloc[rows]
    return predict_values(selector, data.X.iloc[rows], pd.DataFrame(index=rows), texts)
