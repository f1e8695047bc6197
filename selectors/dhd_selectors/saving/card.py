"""The model card of a saved rule: typed facts in, a README with a YAML header out.

Whatever the template prints is escaped unless this module made it as Markdown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dhd_labels.dataset.card import Markdown, environment, plain, template
from dhd_labels.dataset.values import plain_text
from dhd_labels.errors import DhdError
from dhd_labels.report.table import Table
from dhd_selectors.features import FEATURE_VERSION
from dhd_selectors.policy import load_policy
from dhd_selectors.registry import is_shipped
from dhd_selectors.saving.facts import BenchmarkUse, TrainingFacts
from dhd_selectors.saving.manifest import FORMAT, package_versions

if TYPE_CHECKING:
    from dhd_selectors.saving.rule import DecisionRule

TEMPLATE = "model_card.md.jinja"
TAGS = ("dhd-labels", "multi-agent", "message-selection", "trajectory-value", "arxiv:2608.14375")
KEY = "dhd_labels"
ESTIMANDS: Mapping[str, str] = {
    "unseen-problem": "on problems that the judged selector had not seen.",
    "unseen-benchmark": "on benchmarks that the judged selector had not seen.",
    "unseen-integrator": "on integrators and problems that the judged selector had not seen.",
    "same-problem": "from other draws of the same problems: an upper bound for problems that were labelled.",
}
"""What the gains of each estimand are measured on; ends the sentence of the card."""
_KNOWS_VERDICTS = ("drop-wrong", "oracle-correct", "hindsight")


def render(rule: DecisionRule, versions: Mapping[str, str] | None = None) -> str:
    """Return the README of a saved rule.

    Args:
        rule: what the card is about.
        versions: package to version; of what is installed here unless given.

    Raises:
        DhdError: a fact is not a plain value, or the header does not read back as it was written.
        jinja2.UndefinedError: the template names a field that there is not.
    """
    body = environment().from_string(template(TEMPLATE)).render(_fields(rule, versions or package_versions()))
    return plain_text(f"---\n{_header(metadata(rule))}\n---\n\n{body}")


def metadata(rule: DecisionRule) -> dict[str, Any]:
    """Return the YAML header of the card as plain values."""
    facts = rule.training
    of_hub = {"datasets": [facts.labels]} if facts is not None and facts.revision is not None else {}
    data = {
        "language": ["en"],
        "library_name": "dhd-labels",
        "tags": TAGS,
        **of_hub,
        KEY: {"format": FORMAT, "feature_version": FEATURE_VERSION, "policy": rule.policy},
    }
    return {key: plain(value, key) for key, value in data.items()}


def licence_words(facts: TrainingFacts) -> str:
    """Return in sentences whether restricted rows were used, and how many."""
    barred = sum(use.dropped for use in facts.benchmarks)
    open_rows = sum(use.learned_from for use in facts.benchmarks if use.commercial_use is not True)
    said = [
        f"{open_rows} of the {facts.n_messages} messages that it learned from may not be used commercially, or nobody "
        "knows whether they may."
        if open_rows
        else "Every message that it learned from may be used commercially."
    ]
    said.append(f"{barred} messages were dropped because their licence does not allow training.")
    for benchmark, reason in facts.permissions.items():
        used = sum(
            use.learned_from for use in facts.benchmarks if use.benchmark == benchmark and use.train_allowed is not True
        )
        said.append(f"{used} messages of {benchmark} were learned from against their licence, by permission: {reason}.")
    return " ".join(said)


def _header(data: Mapping[str, Any]) -> str:
    """Return the YAML of the header, checked to read back as the same values with a safe loader."""
    import yaml
    from huggingface_hub import ModelCardData

    text = str(ModelCardData(**data).to_yaml())
    if yaml.safe_load(text) != data:
        raise DhdError("The YAML header of the card must read back as it was written; this is a bug, please report it.")
    return text


def _fields(rule: DecisionRule, versions: Mapping[str, str]) -> dict[str, Any]:
    facts = rule.training
    report: Mapping[str, Any] = {} if facts is None else facts.report
    excluded = {reason: count for reason, count in (report.get("excluded") or {}).items() if count}
    placebos = report.get("placebos") or []
    return {
        "title": f"When to listen: {rule.name}",
        "rule": rule,
        "what": _first_line(type(rule.selector)),
        "policy": _first_line(type(load_policy(rule.policy))),
        "thresholds": ", ".join(f"{t:.4g}" if math.isfinite(t) else "never acts" for t in rule.thresholds),
        "own_class": not is_shipped(rule.name),
        "feature_version": FEATURE_VERSION,
        "facts": facts,
        "estimand": report.get("estimand", "-"),
        "estimand_doc": ESTIMANDS.get(str(report.get("estimand")), ""),
        "verdict": report.get("verdict", "No verdict was recorded."),
        "n_problems": report.get("n_problems", 0),
        "notes": [str(note) for note in report.get("notes") or ()],
        "gains": _gains(report.get("gains") or [], "compared with", "reference"),
        "placebos": _gains(placebos, "placebo", "name") if placebos else None,
        "excluded": _table(("reason", "number"), list(excluded.items())) if excluded else None,
        "licences": None if facts is None else _licences(facts.benchmarks),
        "licence_words": None if facts is None else licence_words(facts),
        "versions": _table(("package", "version"), sorted(versions.items())),
    }


def _first_line(thing: type) -> str:
    return (thing.__doc__ or "a class without a docstring.").strip().splitlines()[0]


def _gains(rows: Sequence[Mapping[str, Any]], first: str, key: str) -> Markdown:
    columns = (first, *(("over",) if key == "name" else ()), "gain", "95 % interval", "p")
    table = [_gain(row, key) for row in rows]
    if any("may_gain" in row for row in rows):
        table = [(*cells, row["may_gain"]) for cells, row in zip(table, rows, strict=True)]
        columns = (*columns, "it may gain")
    return _table(columns, table)


def _gain(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    named = (row["name"], row["reference"]) if key == "name" else (row["reference"],)
    marked = tuple(f"{name}*" if name in _KNOWS_VERDICTS else str(name) for name in named)
    if row["gain"] is None:
        return (*marked, "-", "-", "-")
    interval = "-" if row["ci_low"] is None else f"{row['ci_low']:+.2f} to {row['ci_high']:+.2f}"
    p_value = "-" if row["p_value"] is None else f"{row['p_value']:.4f}"
    return (*marked, f"{row['gain']:+.2f}", interval, p_value)


def _licences(uses: Sequence[BenchmarkUse]) -> Markdown:
    columns = ("benchmark", "licence", "training allowed", "commercial use", "messages learned from", "dropped")
    rows = [
        (u.benchmark, u.license, _word(u.train_allowed), _word(u.commercial_use), u.learned_from, u.dropped)
        for u in uses
    ]
    return _table(columns, rows)


def _word(value: bool | None) -> str:
    return "unsettled" if value is None else "yes" if value else "no"


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Markdown:
    return Markdown(Table("", tuple(columns), tuple(tuple(map(str, row)) for row in rows)).to_markdown())
