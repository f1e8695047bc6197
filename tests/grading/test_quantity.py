from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import problem

from dhd_labels.grading.quantity import canonical_number, read_quantity
from dhd_labels.grading.rules import Verdict, grade
from dhd_labels.grading.units import read_unit


def sci(reference: str, answer: str) -> Verdict:
    return grade(problem(benchmark="scibench", answer_type="quantity", reference=reference), answer)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("3.5", Fraction(7, 2), ""),
        ("-3,500.25 kg", Fraction(-14001, 4), "kilogram"),
        ("5\\,000", Fraction(5000), ""),
        ("7.0\\times 10^{7}\\text{ km}", Fraction(7 * 10**7), "kilometer"),
        ("1.5×10⁻³ mol/L", Fraction(3, 2000), "liter^-1 mole"),
        ("70 million km", Fraction(7 * 10**7), "kilometer"),
        ("7 $\\mathrm{10^7} \\mathrm{~km}$", Fraction(7 * 10**7), "kilometer"),
        ("2e3", Fraction(2000), ""),
        ("\\frac{1}{17}\\,\\Omega", Fraction(1, 17), "ohm"),
        ("x = 3 \\text{ cm}", Fraction(3), "centimeter"),
        ("x \\approx 0.33", Fraction(33, 100), ""),
        ("1/3 \\approx 0.33", Fraction(1, 3), ""),
        ("\\$5", Fraction(5), "dollar"),
        ("$5", Fraction(5), "dollar"),
        ("$5$", Fraction(5), ""),
        ("12^{\\circ}\\mathrm{C}", Fraction(12), "degree_Celsius"),
        ("4 J / (mol K)", Fraction(4), "joule kelvin^-1 mole^-1"),
        ("4 JK^{-1}", Fraction(4), "joule kelvin^-1"),
        ("4 \\mathrm{J\\,K^{-1}}", Fraction(4), "joule kelvin^-1"),
        ("2½", Fraction(5, 2), ""),
    ],
)
def test_numbers_and_units_are_read(text: str, value: Fraction, unit: str) -> None:
    found = read_quantity(text)
    assert found is not None
    assert (found.value, str(found.unit)) == (value, unit)


@pytest.mark.parametrize(
    "text",
    ["", "7 or 8", "5 J or 6 J", "12,34", "5 \\pm 1", "3 < x", "x \\ne 5", "a", "2 3", "7 +", "if x = 3", "1e999",
     "2^{9^{9}}", "T_1 = 999.5, T_2 = 433", "(1, 2)", "5;6", "1" * 400,
     "5 -", "5 m/", "5}", "(5", "5 \\cdot", "5 -m", "2\\frac"],
)  # fmt: skip
def test_what_is_not_one_number_is_not_read(text: str) -> None:
    assert read_quantity(text) is None


@pytest.mark.parametrize("text", ["cats", "or", "apples", "x", "bp", "photons"])
def test_words_are_no_units(text: str) -> None:
    unit = read_unit(text)
    assert unit is not None and not unit.factors and unit.nouns


@pytest.mark.parametrize(
    ("reference", "answer", "correct"),
    [
        ("-100 J", "-0.1 kJ", True),
        ("-100 J", "-100 kJ", False),
        ("-100 J", "100 J", False),
        ("-100 J", "-100", True),
        ("0.06 \\Omega", "60 m\\Omega", True),
        ("40 $^\\circ$", "0.698 rad", True),
        ("40 $^\\circ$", "50^\\circ", False),
        ("15 %", "0.15", True),
        ("15 %", "15", True),
        ("15 %", "0.15\\%", False),
        ("0.25", "25\\%", True),
        ("25", "25\\%", None),
        ("12 \\$", "12 dollars", True),
        ("1,200 $", "\\$1{,}200", True),
        ("3 $10^6$ m", "3000 km", True),
        ("3 $10^6$ m", "3", False),
        ("3 $10^{6}$", "3 \\times 10^6", True),
        ("3 $10^{10} \\text{ electrons; }$", "3\\times 10^{10}", True),
        ("3 $10^{10} \\text{ electrons; }$", "3\\times 10^{10}\\text{ protons}", None),
        ("20 $^{\\circ} \\mathrm{C}$", "293.15 K", True),
        ("20 $^{\\circ} \\mathrm{C}$", "20 K", None),
        ("3 $\\mathrm{ft-lb}$", "4.0675 J", True),
        ("3 $\\mathrm{~lb}$", "13.3 N", None),
        ("3 kJ/mol", "3 kJ", False),
        ("25.4 years", "25.4 days", False),
        ("2 $e$", "2 e", True),
        ("0", "0.01", False),
        ("0", "0 J", True),
        ("3", "3 m^2", None),
        ("100", "104.9", True),
        ("100", "105.2", False),
        ("−2", "-2", True),
    ],
)  # fmt: skip
def test_scibench_in_strict_mode(reference: str, answer: str, correct: bool | None) -> None:
    assert sci(reference, answer).correct is correct


@pytest.mark.parametrize(
    ("reference", "answer", "correct"),
    [
        ("0.83", "4-\\sqrt{10}", True),
        ("0.50", "0.51", True),
        ("0.50", "0.5101", False),
        ("0.50", "0.49", True),
        ("-11.62", "-11.62\\ \\mathrm{J\\,K^{-1}}", True),
        ("1.2", "1200 mm", None),
        ("1.2", "7 mm", False),
        ("0.83", "8.3", False),
    ],
)
def test_jeebench_in_strict_mode(reference: str, answer: str, correct: bool | None) -> None:
    assert grade(problem(benchmark="jeebench", answer_type="number", reference=reference), answer).correct is correct


PREFIXES = {"": 0, "k": 3, "m": -3, "M": 6, "n": -9, "\\mu ": -6}
UNITS = ["J", "m", "Pa", "eV", "\\Omega", "N"]


@given(st.integers(1, 10**6), st.integers(-3, 3), st.sampled_from(UNITS), st.sampled_from(sorted(PREFIXES)))
def test_a_prefix_changes_nothing_when_the_number_follows(digits: int, power: int, unit: str, prefix: str) -> None:
    reference = f"{digits * 10.0**power:.10e} \\mathrm{{{unit}}}"
    exponent = power - PREFIXES[prefix]
    verdict = sci(reference, f"{digits}\\times 10^{{{exponent}}}\\,\\mathrm{{{prefix}{unit}}}")
    assert verdict.correct is True
    assert verdict.canonical == sci(reference, f"{digits}\\times 10^{{{power}}}\\ \\text{{{unit}}}").canonical
    assert sci(reference, f"{-digits}\\times 10^{{{exponent}}}\\,\\mathrm{{{prefix}{unit}}}").correct is False
    assert sci(reference, f"{digits}\\times 10^{{{exponent + 1}}}\\,\\mathrm{{{prefix}{unit}}}").correct is False


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=400))
def test_a_number_has_one_canonical_form(value: Fraction) -> None:
    forms = [f"\\frac{{{value.numerator}}}{{{value.denominator}}}", f"{value.numerator}/{value.denominator}",
             f"x = \\dfrac{{{value.numerator}}}{{{value.denominator}}}"]  # fmt: skip
    found = {canonical_number(q) for form in forms if (q := read_quantity(form))}
    assert len(found) == 1
