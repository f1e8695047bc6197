from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from huggingface_hub import DatasetCard
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.dataset import card
from dhd_labels.dataset.header import parse_header
from dhd_labels.dataset.licences import STRICTNESS, Overall, overall
from dhd_labels.dataset.merge import REQUIRED, addressed, merge_card, read_header, seal
from dhd_labels.errors import DhdError
from dhd_labels.report.table import Table
from tests.dataset.samples import facts, licensed

ROWS = {"messages": {"train": 800, "validation": 100, "test": 100}}
OLD = card.render(facts(ROWS))
HEADER, BODY = OLD.split("\n---\n", 1)
NEW = card.render(
    facts(
        {"messages": {"train": 801, "validation": 100, "test": 100}},
        tables=(Table("Taxonomy", ("cell", "n"), (("wrong_helpful", "4"),)),),
    )
)
"""A later card of the same data set: other rows and results, and so another digest of these sections."""
MARK = re.compile(r"<!-- dhd-labels:(?:begin|end) .*? -->")


def data(text: str) -> dict[str, Any]:
    found: dict[str, Any] = DatasetCard(text).data.to_dict()
    return found


def with_header(**changes: Any) -> str:
    """The old card after a person changed its header."""
    header = {name: value for name, value in {**data(OLD), **changes}.items() if value is not None}
    return f"---\n{yaml.safe_dump(header)}---\n{BODY}"


def section(text: str, name: str) -> str:
    found = re.search(rf"<!-- dhd-labels:begin {name} \S+ -->\n(.*?)\n<!-- dhd-labels:end {name} -->", text, re.DOTALL)
    assert found, name
    return found[1]


def test_a_card_that_nobody_edited_becomes_the_new_one() -> None:
    assert merge_card(NEW, OLD) == merge_card(NEW, None)
    assert merge_card(NEW, "\n").text == NEW
    assert merge_card(OLD, OLD).text == OLD


def test_text_outside_of_the_sections_stays_where_it_is() -> None:
    edited = OLD.replace("<!-- dhd-labels:begin results", "Read **this** first.\n\n<!-- dhd-labels:begin results")
    edited = edited.replace("\n---\n", "\n---\nNews: paper accepted.\n", 1) + "\n## Contact\n\nme@example.org\n"
    merged = merge_card(NEW, edited)
    assert merged.kept == ()
    assert section(merged.text, "results") == section(NEW, "results")
    body = merged.text.split("\n---\n", 1)[1]
    assert body.startswith("\nNews: paper accepted.\n\n<!-- dhd-labels:begin summary")
    assert "Read **this** first.\n\n<!-- dhd-labels:begin results" in body
    assert body.endswith("\n## Contact\n\nme@example.org\n")


def test_an_edited_section_that_did_not_change_stays_as_it_is() -> None:
    edited = OLD.replace("## Citation", "## Please cite\n\nus and")
    merged = merge_card(NEW, edited)
    assert merged.kept == ("citation",)
    assert section(merged.text, "citation").startswith("## Please cite\n\nus and")
    assert "## Citation" not in merged.text


def test_an_edited_section_that_changed_is_followed_by_the_new_one() -> None:
    edited = OLD.replace("## Results", "## Results, as I see them")
    merged = merge_card(NEW, edited)
    assert merged.kept == ("results",)
    theirs, ours = merged.text.index("## Results, as I see them"), merged.text.index("## Results\n")
    assert theirs < merged.text.index("<!-- dhd-labels:begin results") < ours
    assert section(merged.text, "results") == section(NEW, "results")
    assert merge_card(NEW, merged.text).kept == ()  # it is the person's text from now on


@pytest.mark.parametrize("name", re.findall(r"dhd-labels:begin (\S+)", OLD))
@pytest.mark.parametrize("how", ["all of it", "its text", "its first mark"])
def test_a_deleted_section_comes_back_only_when_the_data_need_it(name: str, how: str) -> None:
    text = section(OLD, name)
    begin, end = f"<!-- dhd-labels:begin {name} ", f"<!-- dhd-labels:end {name} -->"
    whole = OLD[OLD.index(begin) : OLD.index(end) + len(end)]
    edited = OLD.replace(
        whole, {"all of it": "", "its text": whole.replace(text, ""), "its first mark": f"{text}\n{end}"}[how]
    )
    merged = merge_card(NEW, edited).text
    assert (f"begin {name} " in merged) == (name in REQUIRED)
    order = [mark for mark in re.findall(r"dhd-labels:begin (\S+)", NEW) if mark in REQUIRED or mark != name]
    assert re.findall(r"dhd-labels:begin (\S+)", merged) == order
    assert merge_card(NEW, merged).text == merged


def test_a_section_that_only_the_new_version_has_comes_in() -> None:
    older = re.sub(r"<!-- dhd-labels:begin train.*?end train -->\n\n", "", BODY, flags=re.DOTALL)
    assert "How to train" not in older
    assert merge_card(NEW, HEADER.replace("  - train\n", "") + "\n---\n" + older).text == NEW


def test_a_section_that_is_no_more_goes_unless_a_person_wrote_in_it() -> None:
    begin, end = "<!-- dhd-labels:begin gone -->\n", "\n<!-- dhd-labels:end gone -->\n\n"
    body = re.sub(r" sha256:\w{16}", "", BODY)
    older = seal(data(OLD), f"{begin}Figures.{end}{body}")
    assert merge_card(NEW, older) == merge_card(NEW, OLD)
    merged = merge_card(NEW, older.replace("Figures.", "My figures."))
    assert merged.kept == ("gone",)
    assert "My figures." in merged.text
    assert "begin gone" not in merged.text


def test_a_card_of_somebody_else_stays_and_ours_follows() -> None:
    there = "---\nlicense: cc-by-nc-sa-4.0\ntags: mine\nlanguage: no\ncustom: {a: 1}\n---\n# Mine\n\nText.\n"
    merged = merge_card(NEW, there)
    header = data(merged.text)
    assert header["license"] == "cc-by-nc-sa-4.0"
    assert header["tags"] == [*data(NEW)["tags"], "mine"]
    assert header["language"] == ["en", "no"]
    assert header["custom"] == {"a": 1}
    assert header["configs"] == data(NEW)["configs"]
    assert merged.text.split("\n---\n", 1)[1].startswith("\n# Mine\n\nText.\n\n<!-- dhd-labels:begin summary")
    assert parse_header(merged.text) == parse_header(NEW)


def test_what_we_own_in_the_header_is_ours() -> None:
    edited = with_header(
        configs=[{"config_name": "x", "data_files": "x.csv"}], size_categories=["n>1T"], dataset_info=None
    )
    found, ours = data(merge_card(NEW, edited).text), data(NEW)
    assert all(found[name] == ours[name] for name in ("configs", "size_categories", "dataset_info", "dhd_labels"))


def test_a_name_that_a_person_gave_stays_and_one_that_we_gave_does_not() -> None:
    fresh = card.render(facts(ROWS, title="A new name"))
    assert data(merge_card(fresh, OLD).text)["pretty_name"] == "A new name"
    assert data(merge_card(fresh, with_header(pretty_name="Ours")).text)["pretty_name"] == "Ours"


@pytest.mark.parametrize(
    ("chosen", "result"),
    [
        ("cc-by-nc-4.0", "cc-by-nc-4.0"),
        ("mit", "apache-2.0"),
        ("wtfpl", "apache-2.0"),
        (None, "apache-2.0"),
        (["x"], "apache-2.0"),
    ],
)
def test_a_licence_is_never_looser_than_the_rows(chosen: Any, result: str) -> None:
    merged = merge_card(NEW, with_header(license=chosen)).text
    assert data(merged)["license"] == result
    assert data(merge_card(NEW, merged).text)["license"] == result


def test_a_licence_that_we_wrote_can_become_looser() -> None:
    """Such as after a build that leaves the non-commercial rows out."""
    strict = card.render(facts(ROWS, benchmarks=(licensed("cc-by-nc-sa-4.0"),)))
    assert data(merge_card(NEW, strict).text)["license"] == "apache-2.0"


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("license: mit\ntags: [a, b\npretty_name: x", "line 4"),
        ("license: mit\n\tx: 1", "line 3"),
        ("a: b: c", "line 2"),
        ("a: !!python/object:os.system x", "line 2"),
        ("a: \x07", "line 2"),
        ("when: 2026-13-45", "month"),
        ("- a\n- b", "it is"),
        ("1: 2", "it is"),
        ("self: 2", "client"),
    ],
)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_broken_header_says_where_and_how_to_go_on(header: str, line: str, ends: str) -> None:
    there = f"---\n{header}\n---\n# Mine\n".replace("\n", ends)
    with pytest.raises(DhdError, match=r"(?s)YAML header .*--replace-card") as found:
        merge_card(NEW, there)
    assert line in str(found.value)


def test_a_header_without_an_end_is_not_taken_for_text() -> None:
    with pytest.raises(DhdError, match="no line '---' ends it"):
        merge_card(NEW, OLD.replace("\n---\n", "\n", 1))
    assert "# A rule\n\n<!-- dhd" in merge_card(NEW, "---\n\n# A rule\n").text


@pytest.mark.parametrize("header", ["---\n---\n", "---\n# only a comment\n---\n", ""])
def test_an_empty_header_is_none(header: str) -> None:
    assert read_header(f"{header}# Mine\n") == {}
    assert "\n# Mine\n" in merge_card(NEW, f"{header}# Mine\n").text


def test_a_browser_and_an_editor_change_nothing_by_saving() -> None:
    saved = OLD.replace("\n", "\r\n")
    assert merge_card(NEW, saved).text == NEW
    assert merge_card(NEW, "\ufeff" + saved).text == NEW
    assert merge_card(NEW, OLD.replace(" |\n", " |   \n")).text == NEW


def test_a_very_long_card() -> None:
    edited = OLD + "\n" + "<!-- dhd-labels:begin x\n" * 20_000 + "Größe ∑ \ud800\n" * 50_000
    merged = merge_card(NEW, edited).text
    assert merged.count("Größe ∑ \ufffd") == 50_000
    assert merge_card(NEW, merged).text == merged
    merged.encode()


def short(text: str) -> str:
    """A card with few header lines: YAML takes nearly all of the time."""
    body = re.sub(r" sha256:\w{16}", "", text.split("\n---\n", 1)[1])
    header = {name: data(text)[name] for name in ("license", "pretty_name", "tags")}
    return seal(header | {"dhd_labels": {"rows": {}}}, body)


SHORT_OLD, SHORT_NEW = short(OLD), short(NEW)
LINES = st.sampled_from(
    (
        "", "A person's line.", "# Title", "---", "```", "\ufeff", "\r", "Ünïcode ∑", "  two spaces  ", "<!--", "-->",
        "<!-- dhd-labels:begin results -->", "<!-- dhd-labels:end results -->", "<!-- dhd-labels:end nothing -->",
        *MARK.findall(SHORT_OLD),
    )
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.sampled_from(("insert", "delete", "double", "cut", "append")), st.integers(0, 300), LINES | st.text()),
    max_size=12,
)


def edited_by(edits: list[tuple[str, int, str]]) -> str:
    """The old card with lines of its body put in, taken out, doubled, cut in the middle or written on."""
    header, body = SHORT_OLD.split("\n---\n", 1)
    lines = body.split("\n")
    for kind, place, text in edits:
        at = place % len(lines) if lines else 0
        if kind == "insert" or not lines:
            lines.insert(at, text)
        elif kind == "delete":
            del lines[at : at + 1 + len(text)]
        elif kind == "double":
            lines[at:at] = lines[at : at + 10]
        elif kind == "cut":
            lines[at] = lines[at][: len(lines[at]) // 2]
        else:
            lines[at] += text
    return header + "\n---\n" + "\n".join(lines)


@given(EDITS)
def test_merging_twice_changes_nothing_whatever_was_edited(edits: list[tuple[str, int, str]]) -> None:
    there = edited_by(edits)
    for fresh in (SHORT_OLD, SHORT_NEW):
        merged = merge_card(fresh, there)
        again = merge_card(fresh, merged.text)
        assert again.text == merged.text
        assert set(again.kept) <= set(merged.kept)
        assert str(DatasetCard(merged.text)) == merged.text
        names = re.findall(r"dhd-labels:begin (\S+) sha256:\w{16} -->", merged.text)
        assert set(names) >= REQUIRED
        assert len(names) == len(set(names))


@given(EDITS)
def test_no_line_of_a_person_is_lost(edits: list[tuple[str, int, str]]) -> None:
    there = edited_by(edits)
    generated = {line.strip() for line in OLD.splitlines()}
    plain = MARK.sub("\n", there.replace("\r", "\n").replace("\ufeff", ""))
    merged = merge_card(SHORT_NEW, there).text.replace("\ufeff", "")
    for line in plain.split("\n"):
        if line.strip() and line.strip() not in generated and "dhd-labels:" not in line:
            assert line.strip() in merged


KNOWN = st.sampled_from(sorted(STRICTNESS))


@given(st.lists(KNOWN | st.sampled_from(("unknown", "", "other", "my own", "MIT"))))
def test_the_overall_licence_asks_for_all_that_the_parts_ask_for(parts: list[str]) -> None:
    found = overall(parts)
    assert overall(reversed(parts)) == found
    if found.license == "other":
        assert found.name
        assert found.link
    else:
        assert found.license in {part.lower() for part in parts}
        assert len(set(parts)) == 1 or all(STRICTNESS[p.lower()] <= STRICTNESS[found.license] for p in parts)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        (("mit",), Overall("mit")),
        (("apache-2.0", "mit"), Overall("apache-2.0")),
        (("cc-by-nc-sa-4.0", "mit", "apache-2.0"), Overall("cc-by-nc-sa-4.0")),
        (("cc-by-sa-4.0", "cc-by-nc-sa-4.0"), Overall("other", "several-licences-by-row", "LICENSE.md")),
        (("mit", "unknown"), Overall("other", "see-the-licence-of-each-row", "LICENSE.md")),
        (("gpl-3.0",), Overall("gpl-3.0")),
        (("gpl-3.0", "mit"), Overall("other", "see-the-licence-of-each-row", "LICENSE.md")),
        (("Exam board",), Overall("other", "exam-board", "LICENSE.md")),
    ],
)
def test_overall_licences(parts: tuple[str, ...], whole: Overall) -> None:
    assert overall(parts) == whole


def test_the_examples_of_a_pushed_card_name_the_repository() -> None:
    text = OLD
    there = addressed(text, "me/demo")
    assert 'load_dataset("me/demo"' in there
    assert "--labels me/demo" in there
    assert merge_card(there, there).text == there
    assert merge_card(addressed(text, "me/demo"), there).kept == ()
    edited = text.replace("With `streaming=True`", "Edited: with `streaming=True`")
    assert 'load_dataset("DATASET"' in addressed(edited, "me/demo"), "a person's text stays as it is"
