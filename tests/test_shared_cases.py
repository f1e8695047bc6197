"""Every reported bug of the areas that a run is about, with its own input; none may be forgotten.

The kinds behind them have tests of their own beside the code; this file proves that the very inputs behave too.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import SHARED, problem, reply

from dhd_labels.engines.chat_api import reply_of
from dhd_labels.grading.grader import grade_by_rules
from dhd_labels.grading.verdict import read_verdict
from dhd_labels.labels import bootstrap_interval, stability_of
from dhd_labels.protocol.parse import confidence_level, confidence_value, parse_message, parse_roles
from dhd_labels.protocol.reasoning import split_reasoning
from dhd_labels.protocol.roles import is_final
from dhd_labels.records import Message, Role
from dhd_labels.replay.collect import judge_reply
from dhd_labels.replay.probe import summarise_probe

AREAS = ("model_output_format", "replay_cache", "resume_store", "reference_code_reading", "judge_verdict")
ROLE = Role("Role 0", "a lens")
HARMONY = ("<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|start|>")
Check = Callable[[Any], None]


def empty_final(given: Any) -> None:
    answer = reply_of({"id": "x", "model": "m", **given}, "m")
    graded = judge_reply(answer, problem(), grade_by_rules)
    assert (graded.status, graded.reason, graded.correct) == ("operational", "empty_final_with_tokens", None)
    assert answer.completion_tokens == 812 and answer.finish_reason == "stop" and not is_final(answer), "asked again"


def truncated(given: Any) -> None:
    graded = judge_reply(reply_of({"id": "x", "model": "m", **given}, "m"), problem(), grade_by_rules)
    assert (graded.status, graded.correct) == ("truncated", None)


def malformed_harmony(given: Any) -> None:
    for raw in given["raw_outputs"]:
        message = parse_message(reply(raw), 0, ROLE)
        assert message.status == "parse_failed" and message.raw == raw
        shown = [getattr(message, name) for name in Message.__slots__ if name not in ("raw", "slot")]
        assert not any(token in str(value) for token in HARMONY for value in shown)
        assert judge_reply(reply(raw), problem(), grade_by_rules).status == "operational"


def missing_open_tag(given: Any) -> None:
    assert split_reasoning(given["text"]).final.strip() == "391"


def broken_json_escapes(given: Any) -> None:
    roles, reason = parse_roles(given["text"])
    message = parse_message(reply(given["text"].replace("reason", "key_idea")), 0, ROLE)
    for text in (*(role.lens for role in roles), message.key_idea, message.raw):
        assert "\f" not in text
    assert reason and roles == (), "fewer than five roles are never taken"
    assert message.key_idea == r"uses \pmod{7} and \frac{1}{2}"


def cold_and_warm(given: Any) -> None:
    conditions = ("alone, cold", "alone, warm", "batch, warm")
    found = summarise_probe(("0", c, text) for c, text in zip(conditions, given["fake_server_replies"], strict=True))
    assert found and sum(differ for differ, _ in found.by_condition.values()) == 1
    assert sum(n for _, n in found.by_condition.values()) == 3


def not_batch_invariant(given: Any) -> None:
    pairs = [(n, c) for n in range(20) for c in ("alone, cold", "batch, warm")]
    odd = given["fake_disagreements"]
    found = summarise_probe((str(n), c, "y" if n < odd and c.startswith("batch") else "x") for n, c in pairs)
    assert found and (found.differ, found.compared) == (3, 20) and not found.identical


def confidence(given: Any) -> None:
    texts = given["confidence_texts"]
    assert [confidence_level(text) for text in texts[:4]] == ["low"] * 4
    assert [confidence_value(text) for text in texts[:4]] == [None] * 4
    assert [confidence_value(text) for text in texts[4:]] == [0.7, 0.7]


def judge_texts(given: Any) -> None:
    assert [read_verdict(text).correct for text in given["judge_texts"]] == [True, True, False, None]


def verdict_is(correct: bool) -> Check:
    def check(given: Any) -> None:
        assert read_verdict(given["judge_text"], given.get("labels")).correct is correct

    return check


def one_block(given: Any) -> None:
    deltas = [float(delta) for delta in given["block_deltas"]]
    assert stability_of(bootstrap_interval(deltas), len(deltas)) == "indeterminate"


def not_renderable(given: Any) -> None:
    fields = {name: given["message"][name] for name in ("proposed_answer", "key_idea", "confidence")}
    text = "\n".join(f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in fields.items())
    assert parse_message(reply(text), 0, ROLE).status == "not_renderable"


def harmony_header(given: Any) -> None:
    """The server fails on one answer: that call is tried again, the others go on, and nothing is wrong or lost."""
    from tests.engines.fault_server import FaultServer, failure, good, serving
    from tests.engines.test_openai import ask, request

    said = given["server_reply"]
    once, always = request(1, "once"), request(2, "always")

    def script(seen: Any) -> Any:
        text = seen.body["messages"][-1]["content"]
        if text == "always" or (text == "once" and seen.tries == 1):
            return failure(said["status"], said["body"])
        return good(seen)

    with serving(FaultServer(script)) as server:
        replies = ask(server, [once, request(3), always], max_tries=3, api_key_env="NO_SUCH_KEY")
    assert [replies[n].status for n in range(3)] == ["ok", "ok", "server_error"]
    assert said["body"][:20] in str(replies[2].error)
    assert judge_reply(replies[2], problem(), grade_by_rules).status == "operational" and not is_final(replies[2])


def covered_by(module: str, function: str) -> Check:
    """The input is about a whole run: the test of that name does just that, here it only must not disappear."""

    def check(given: Any) -> None:
        assert callable(getattr(importlib.import_module(module), function))

    return check


CHECKS: dict[str, Check] = {
    "vllm/issues/45736": empty_final,
    "frontend-crates/issues/237": malformed_harmony,
    "harmony/issues/38": harmony_header,
    "vllm/issues/13125": missing_open_tag,
    "AutoGroq/issues/38": broken_json_escapes,
    "vllm/issues/24184": truncated,
    "lm-evaluation-harness/pull/3839": covered_by(
        "tests.replay.test_records_kept", "test_byte_identical_prompts_are_separate_answers_and_come_back_in_order"
    ),
    "lm-evaluation-harness/issues/3881": covered_by(
        "tests.replay.test_records_kept", "test_every_setting_of_a_role_is_in_the_key"
    ),
    "vllm/issues/40896": cold_and_warm,
    "vllm/issues/57016": not_batch_invariant,
    "oumi/pull/2516": covered_by("tests.engines.test_openai", "test_a_busy_server_is_waited_for_as_long_as_it_says"),
    "verifiers/pull/803": covered_by(
        "tests.replay.test_records_kept", "test_a_log_torn_at_any_byte_keeps_what_was_whole_and_goes_on"
    ),
    "hermes-agent/pull/112575": covered_by(
        "tests.replay.test_records_kept", "test_a_log_torn_at_any_byte_keeps_what_was_whole_and_goes_on"
    ),
    "lm-evaluation-harness/issues/2140": covered_by(
        "tests.replay.test_judge", "test_a_scorer_that_fails_costs_its_answer_alone_and_no_call"
    ),
    "analysis/run_offline_review_closure.py": confidence,
    "src/dhd/labels.py": judge_texts,
    "src/dhd/labels.py#stability": one_block,
    "oss_proposal_answer_audit.json": not_renderable,
    "opencompass/pull/2598": verdict_is(False),
    "OpenWebRL/issues/5": verdict_is(False),
    "Gym/pull/3367": verdict_is(False),
}


def rows() -> list[dict[str, Any]]:
    if SHARED is None:
        return []
    text = Path(SHARED, "cases", "bug_inputs.jsonl").read_text(encoding="utf-8")
    return [row for row in map(json.loads, text.splitlines()) if row["area"] in AREAS]


@pytest.mark.skipif(SHARED is None, reason="no shared cases at hand")
def test_every_row_has_a_check() -> None:
    sources = [row["source"] for row in rows()]
    assert len(sources) == len(CHECKS)
    assert all(sum(source.endswith(end) for source in sources) == 1 for end in CHECKS)


@pytest.mark.parametrize("end", CHECKS)
@pytest.mark.skipif(SHARED is None, reason="no shared cases at hand")
def test_the_reported_input_behaves_as_it_should(end: str) -> None:
    (row,) = [row for row in rows() if row["source"].endswith(end)]
    CHECKS[end](row["input"])
