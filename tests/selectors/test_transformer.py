"""What of the transformer selector needs no torch: its texts, its tokens, its linear head, and what it says without."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from dhd_labels.errors import DhdError
from dhd_selectors import load_selector
from dhd_selectors.base import TEXT_COLUMNS
from dhd_selectors.transformer.inputs import Texts, row_texts, tokenise
from dhd_selectors.transformer.probe import fit_probe, group_parts

CONTROLS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789[]", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789")]
    backend = Tokenizer(WordPiece({token: n for n, token in enumerate((*CONTROLS, *letters))}, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    backend.add_special_tokens(list(CONTROLS))
    return SimpleNamespace(backend_tokenizer=backend, cls_token_id=2, sep_token_id=3)


def rows(*answers: str, **columns: str) -> pd.DataFrame:
    texts = dict.fromkeys(TEXT_COLUMNS, "") | columns
    frame = pd.DataFrame([texts | {"proposed_answer": answer} for answer in answers], dtype=object)
    return frame.assign(pool=0, slot=np.arange(len(answers), dtype=float))


def test_a_message_is_read_with_what_the_others_answer() -> None:
    found = row_texts(rows("\\boxed{7}", "7.0", "9", "", question="How many?", key_idea="Add them."))
    assert {row.question for row in found} == {"How many?"}
    assert found[0].message == "Answer: 7. Key idea: Add them"
    assert found[3].message == "Key idea: Add them"
    assert [row.context for row in found] == [
        "1 of 3 agree. Others: 7 by 1, 9 by 1, none by 1.",
        "1 of 3 agree. Others: 7 by 1, 9 by 1, none by 1.",
        "0 of 3 agree. Others: 7 by 2, none by 1.",
        "0 of 3 agree. Others: 7 by 2, 9 by 1.",
    ]


def test_the_order_of_rows_and_other_pools_change_nothing() -> None:
    both = pd.concat([rows("1", "2", "2"), rows("2", "3").assign(pool=1)], ignore_index=True)
    found = row_texts(both)
    order = np.array([4, 1, 0, 3, 2])
    assert row_texts(both.iloc[order]) == [found[n] for n in order]
    assert row_texts(rows("2", "3").assign(pool=1)) == found[3:]
    assert row_texts(rows("5"))[0].context == ""


def test_missing_columns_are_named() -> None:
    with pytest.raises(DhdError, match="got none named question, pool"):
        row_texts(rows("1").drop(columns=["question", "pool"]))


@given(
    texts=st.tuples(
        *[st.lists(st.sampled_from(["abc", "[SEP]", "[CLS]", "x9", "[MASK] [PAD]", "é§", "\n"])).map(" ".join)] * 3
    ),
    longest=st.integers(16, 60),
)
def test_controls_stand_only_where_they_were_put(tokenizer: Any, texts: tuple[str, str, str], longest: int) -> None:
    (found,) = tokenise(tokenizer, [Texts(*texts)], longest)
    ids, (first, last) = found.ids.tolist(), found.message
    assert len(ids) <= longest
    assert (ids[0], ids[found.second - 1], ids[-1]) == (2, 3, 3)
    assert first == found.second <= last < len(ids)
    text = ids[1 : found.second - 1] + ids[found.second : -1]
    assert not {0, 2, 3, 4} & set(text)


def test_a_long_message_gets_what_the_question_and_the_pool_leave(tokenizer: Any) -> None:
    long = "a " * 500
    room = 100 - 3
    for texts, expected in (
        (Texts("a", long, "a"), room - 2),
        (Texts(long, long, long), room - int(0.3 * room) - int(0.2 * room)),
        (Texts(long, "a", long), 1),
    ):
        (found,) = tokenise(tokenizer, [texts], 100)
        assert found.message[1] - found.message[0] == expected
    with pytest.raises(DhdError, match="must have a token that starts"):
        tokenise(SimpleNamespace(cls_token_id=None, bos_token_id=None, sep_token_id=3), [Texts("", "", "")], 20)  # type: ignore[arg-type]


def test_the_probe_finds_a_line_and_nothing_where_there_is_none() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(600, 80)) * 7 + 3
    columns[:, 5] = 1.0
    groups = np.arange(600) // 5
    y = 0.1 + 0.02 * columns[:, 0] + rng.normal(0, 0.1, 600)
    probe = fit_probe(columns[:500], y[:500], np.ones(500), groups[:500], np.random.default_rng(1))
    assert np.corrcoef(probe.predict(columns[500:]), y[500:])[0, 1] > 0.7
    noise = fit_probe(columns, rng.normal(0.3, 1.0, 600), np.ones(600), groups, np.random.default_rng(1))
    assert np.abs(noise.predict(columns) - noise.offset).max() < 0.5


@pytest.mark.parametrize("n", [1, 5, 60])
def test_the_probe_weighs_its_rows(n: int) -> None:
    """A whole weight is as many equal rows, with more columns than rows and with fewer."""
    rng = np.random.default_rng(2)
    columns, y, groups = rng.normal(size=(n, 12)), rng.normal(size=n), np.arange(n) // 5
    weight = rng.integers(1, 4, n)
    weighted = fit_probe(columns, y, weight.astype(float), groups, np.random.default_rng(0))
    again = np.repeat(np.arange(n), weight)
    repeated = fit_probe(columns[again], y[again], np.ones(len(again)), groups[again], np.random.default_rng(0))
    assert np.isfinite(weighted.predict(columns)).all()
    # The penalty is in units of rows, and there are more of them.
    assert weighted.offset == pytest.approx(repeated.offset)
    if n == 1:
        assert (weighted.coef == 0).all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(2, 7))
def test_parts_hold_whole_groups(groups: list[int], n_parts: int) -> None:
    part = group_parts(np.array(groups), n_parts, np.random.default_rng(0))
    assert set(part.tolist()) == set(range(min(n_parts, len(set(groups)))))
    assert len({(g, p) for g, p in zip(groups, part.tolist(), strict=True)}) == len(set(groups))


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DhdError, match=r"must have torch, transformers, safetensors installed.*\[neural\]"):
        load_selector("transformer").fit(rows("1", "2"), np.zeros(2))
    with pytest.raises(DhdError, match="at least one finite value"):
        load_selector("transformer").fit(rows("1", "2"), np.full(2, np.nan))
