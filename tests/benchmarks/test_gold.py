from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dhd_labels.benchmarks.gold import is_void, read_gold, read_letters, read_number, read_range
from dhd_labels.benchmarks.options import split_options

DECIMALS = st.decimals(min_value=-(10**9), max_value=10**9, places=3)


@given(DECIMALS)
def test_a_number_keeps_its_value_however_it_is_written(value: Decimal) -> None:
    for text in (f"{value}", f" {value} ", f"{value:,}", f"{value:+}", f"{value}".replace("-", "\u2212")):
        assert Decimal(read_number(text, Counter())) == value


@given(st.text(max_size=12))
def test_a_gold_is_read_or_refused_and_never_anything_else(text: str) -> None:
    for kind in ("choice", "choices", "choice_any", "integer", "number", "quantity", "range"):
        try:
            form = read_gold(kind, text, Counter())  # type: ignore[arg-type]
        except ValueError:
            continue
        assert form.isascii() or kind == "quantity"
        assert read_gold(kind, form, Counter()) == form  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "1,23", "12,3456", "1.2.3", "5/6", "2 s", "1e5", "nan", "inf", "\u0663", "4-1", "--2"]
)
def test_what_is_not_one_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        read_number(text, Counter())


def test_an_integer_may_be_long_but_not_broken() -> None:
    assert read_gold("integer", "9" * 5000, Counter()) == "9" * 5000
    assert read_gold("integer", "12.00", Counter()) == "12.00"
    with pytest.raises(ValueError, match="must be an integer"):
        read_gold("integer", "12.5", Counter())


@pytest.mark.parametrize(
    ("key", "kind", "form"),
    [
        ("B", "choice", "B"),
        (" b ", "choice", "B"),
        ("ACD", "choices", "ACD"),
        ("D, A", "choices", "AD"),
        ("A,B,C", "choices", "ABC"),
        ("B; D", "choices", "BD"),
        ("A and C", "choices", "AC"),
        ("C OR D", "choice_any", "C OR D"),
        ("d or c or a", "choice_any", "A OR C OR D"),
    ],
)
def test_letter_keys(key: str, kind: str, form: str) -> None:
    assert read_letters(key, Counter()) == (kind, form)


@pytest.mark.parametrize("key", ["", "AA", "A, A", "A,,B", "A or", "BA", "TRUE", "none", "A,C OR D", "1", "(A"])
def test_what_is_not_a_letter_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="must"):
        read_letters(key, Counter())


@pytest.mark.parametrize(
    ("key", "form", "noted"),
    [
        ("6.00 : 7.30", "6.00 to 7.30", {}),
        ("0.5 to 0.5", "0.5 to 0.5", {}),
        (" -1600 TO -1500", "-1600 to -1500", {}),
        ("\u22125 to 5", "-5 to 5", {"unicode_minus": 1}),
        ("350 T0 350", "350 to 350", {"letter_for_digit": 1}),
        ("155.0 T0 165.0", "155.0 to 165.0", {"letter_for_digit": 1}),
        ("48O TO 494", "480 to 494", {"letter_for_digit": 1}),
        ("O.5 to 1o", "0.5 to 10", {"letter_for_digit": 1}),
        ("0.90 TO 0.94 OR -0.94 TO -0.90", "0.90 to 0.94 or -0.94 to -0.90", {}),
        ("7 to 6", "6 to 7", {"reversed_range": 1}),
        ("1,000 to 1,200", "1000 to 1200", {"thousands_comma": 2}),
    ],
)
def test_ranges(key: str, form: str, noted: dict[str, int]) -> None:
    seen = Counter[str]()
    assert (read_range(key, seen), dict(seen)) == (form, noted)


@given(DECIMALS, DECIMALS, st.sampled_from([" to ", " TO ", " : ", ":", " T0 "]))
def test_a_range_is_closed_and_ordered(one: Decimal, other: Decimal, between: str) -> None:
    low, _, high = read_range(f"{one}{between}{other}", Counter()).partition(" to ")
    assert (Decimal(low), Decimal(high)) == (min(one, other), max(one, other))


@pytest.mark.parametrize("key", ["5", "1 to 2 to 3", "to 5", "1 or 2", "about 5 to 6", ""])
def test_what_is_not_a_range_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        read_range(key, Counter())


def test_void_keys_are_known_by_their_words() -> None:
    assert is_void("Marks to all ") and is_void("MARKS TO ALL") and not is_void("A")


@pytest.mark.parametrize("style", ["({})", "[{}]", "( {} )", "[\\mathrm{{{}}}]", "(\\text{{{}}})"])
@pytest.mark.parametrize("between", ["\n\n", " "])
@given(st.lists(st.text("xyz $+1", min_size=1, max_size=6).filter(str.strip), min_size=2, max_size=8))
def test_options_are_split_whole_or_not_at_all(style: str, between: str, options: list[str]) -> None:
    text = "Which?" + "".join(f"{between}{style.format(chr(65 + i))} {option}" for i, option in enumerate(options))
    stem, found = split_options(text)
    whole = all(option.count("$") % 2 == 0 and option.strip("$ ") for option in options)
    assert (stem, found) == (("Which?", tuple(o.strip() for o in options)) if whole else (text.strip(), ()))


@pytest.mark.parametrize(
    "text",
    [
        "no options",
        "one (A) x",
        "(A) x (C) y",
        "Assertion (A): x. Reason (R): y. (A) one (B) two",
        "Which? (A) {x (B) y}",
        "Which? (A) x (B)",
        "(A) x (B) y",
    ],
)
def test_a_split_that_is_not_safe_is_not_made(text: str) -> None:
    assert split_options(text) == (text, ())


def test_the_dollar_before_a_mark_stays_with_its_option() -> None:
    assert split_options("Q\n$[\\mathrm{A}] x$\n$[\\mathrm{B}] y$") == ("Q", ("$x$", "$y$"))
