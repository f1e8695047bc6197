"""The model card: what it has to say, what may not act in it, and its rendered example."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jinja2
import pytest
import yaml
from huggingface_hub import ModelCard

from dhd_selectors.baselines import KeepAll
from dhd_selectors.saving import BenchmarkUse, DecisionRule, TrainingFacts, card
from tests.model_card_example import EXAMPLE, REPORT, example

FACTS = TrainingFacts(
    "org/labels", "abc123", None, ("train",), 1, 10, 50, (BenchmarkUse("a", "MIT", True, True, 50, 0),), {}, REPORT
)
RULE = DecisionRule("keep-all", KeepAll(), "remove-worst", (float("-inf"),), FACTS)


def test_the_example_is_current() -> None:
    assert EXAMPLE.read_text(encoding="utf-8") == example(), "write it again: python -m tests.model_card_example"


def test_it_says_everything_it_has_to() -> None:
    text = example()
    for row in REPORT["gains"]:
        if row["gain"] is not None:
            assert f"{row['gain']:+.2f} | {row['ci_low']:+.2f} to {row['ci_high']:+.2f} | {row['p_value']:.4f}" in text
    for row in REPORT["placebos"]:
        assert f"{row['gain']:+.2f} | " in text and f"| {row['may_gain']} |" in text
    said = (
        REPORT["verdict"],
        "unseen-problem",
        "your-team/labels, commit 0123456789abcdef0123456789abcdef01234567",
        "| lab-bench | CC-BY-SA-4.0 | no | yes | 0 | 250 |",
        "| mascqa | none stated | unsettled | unsettled | 2250 | 0 |",
        "2250 of the 4750 messages that it learned from may not be used commercially, or nobody knows whether they",
        "250 messages were dropped because their licence does not allow training.",
        "2250 messages of mascqa were learned from against their licence, by permission: written permission",
        'Selector.from_pretrained("MODEL")',
        "## Limits",
        "@misc{",
        r"oracle-correct\*",
        "| train_not_allowed | 250 |",
    )
    assert [line for line in said if str(line) not in text] == []
    assert "no_trajectory_value" not in text, "a reason that left nothing out is no exclusion"


def test_the_header_round_trips() -> None:
    data = ModelCard(example()).data.to_dict()
    assert data["datasets"] == ["your-team/labels"]
    assert data["library_name"] == "dhd-labels"
    assert data["dhd_labels"]["policy"] == "remove-worst"
    assert "datasets" not in yaml.safe_load(card.render(changed(revision=None)).split("---\n")[1])


def changed(**changes: Any) -> DecisionRule:
    return dataclasses.replace(RULE, training=dataclasses.replace(FACTS, **changes))


HOSTILE = "](http://x) <script>alert(1)</script> | `x` {{ 7 * 7 }} \n# Heading"


@pytest.mark.parametrize("place", ["labels", "revision", "license", "permission", "verdict", "reference", "name"])
def test_nothing_that_a_user_wrote_acts(place: str) -> None:
    rule = {
        "labels": lambda: changed(labels=HOSTILE, revision=None),
        "revision": lambda: changed(revision=HOSTILE),
        "license": lambda: changed(benchmarks=(BenchmarkUse(HOSTILE, HOSTILE, None, None, 1, 0),)),
        "permission": lambda: changed(permissions={HOSTILE: HOSTILE}),
        "verdict": lambda: changed(report=REPORT | {"verdict": HOSTILE, "estimand": HOSTILE}),
        "reference": lambda: changed(report=REPORT | {"gains": [REPORT["gains"][0] | {"reference": HOSTILE}]}),
        "name": lambda: dataclasses.replace(RULE, name=HOSTILE),
    }[place]()
    body = card.render(rule).split("---\n", 2)[2]
    assert "<script" not in body and not re.search(r"(?<!\\)\]\(http:", body) and "\n# Heading" not in body
    assert "alert" in body and "7 \\* 7" in body, "it is shown, and is no template"


def test_a_rule_without_facts_and_an_own_class() -> None:
    text = card.render(dataclasses.replace(RULE, training=None, name="mine.py:Mine"))
    assert "Nothing was recorded about how this rule was trained" in text
    assert 'Selector.from_pretrained("MODEL", selector="path.py:Class")' in text
    assert "never acts" in text


def test_an_undefined_field_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "template", lambda name: "{{ nothing }}")
    with pytest.raises(jinja2.UndefinedError, match="nothing"):
        card.render(RULE)


def test_the_wheel_carries_the_template() -> None:
    import tomllib

    from support import ROOT

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried[f"cards/{card.TEMPLATE}"] == f"dhd_labels/cards/{card.TEMPLATE}"
    assert (ROOT / "cards" / card.TEMPLATE).is_file()
