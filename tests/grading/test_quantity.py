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


@pytest.mark.parametrize(
    ("reference", "answer", "correct"),
    [
        ("2.1 J mol^-1 K^-1", "2.1 J/mol\u00b7K", True),
        ("2.1 J mol^-1 K^-1", "2.1 \\mathrm{J/mol\\cdot K}", True),
        ("2.1 J mol^-1 K^-1", "3.1 J/mol\\cdot K", False),
        ("2.1 J mol^-1 K^-1", "2.1 J/mol K", None),
        ("2.1 J mol^-1 K^-1", "2.1 J/mol", False),
        ("2.1 J K mol^-1", "2.1 J/mol\\cdot K", None),
        ("0.6 W m^-1 K^-1", "0.6 W/m-K", True),
        ("0.6 W m^-1 K^-1", "0.6 W/mK", None),
        ("0.6 W m^-1 K^-1", "0.6 W/(mK)", None),
        ("0.9 J g^-1 K^-1", "0.9 J/g\u00b0C", True),
        ("0.9 J g^-1 K^-1", "0.9 kJ/kg\u00b7K", True),
        ("12 N m", "12 Nm", True),
        ("12 N m^-1", "12 Nm^{-1}", True),
        ("12 N m^-1", "12000 mNm^{-1}", True),
        ("12 N m^2 / C", "12 Nm^2/C", True),
        ("12 N m^-1", "12 Nm", False),
        ("3 m / s", "3 ms^{-1}", None),
        ("3 m / s^2", "3 ms^{-2}", None),
        ("3 m / s", "3 ms^{-2}", False),
        ("3 m / s", "3 kg", False),
        ("3 kg m / s", "3 kgms^{-1}", None),
        ("0.3 T", "3000 G", True),
        ("0.3 T", "3 kG", True),
        ("0.3 T", "3 gauss", False),
        ("40 Hz", "2400 rpm", True),
        ("40 Hz", "40 cycles/s", True),
        ("40 Hz", "40 rad/s", None),
        ("40 Hz", "41 rpm", False),
        ("3 rev / s", "180 rpm", True),
        ("3 rev / s", "18.85 rad/s", True),
        ("3 rev / s", "3 rad/s", False),
        ("3 rev / s", "3 s^{-1}", None),
        ("7 rad / s", "7 s^{-1}", True),
        ("7 rad / s", "7 rads^{-1}", None),
        ("7 rad / s", "7 Hz", None),
        ("8 kg", "8 kgs", True),
        ("8 kg", "8 units", None),
        ("8 kW", "8 KW", True),
        ("8 mol", "8 cd", None),
        ("30 \u00b0C", "30 deg C", True),
        ("30 \u00b0C", "30 degrees Celsius", True),
        ("30 \u00b0C", "30 C", None),
        ("30 \u00b0C", "320 K", False),
        ("0 \u00b0C", "273 K", None),
        ("0 \u00b0C", "273.15 K", True),
        ("1 \u00b0C", "274 K", None),
        ("0 \u00b0C", "280 K", False),
        ("17.5 %", "17.5 per cent", True),
        ("2,500 $", "\\$2.5k", None),
        ("2.5 kJ", "2.5(3) kJ", None),
        ("0.4", "0.4 (40\\%)", None),
        ("2 m", "2 M", None),
        ("3.2e-19 C", "2 e", True),
    ],
)  # fmt: skip
def test_a_notation_with_several_readings_is_not_called_wrong(
    reference: str, answer: str, correct: bool | None
) -> None:
    assert sci(reference, answer).correct is correct


@pytest.mark.parametrize(("reference", "answer"), [("1 atm", "760 mmHg"), ("1 mile", "1.609 km"), ("2 kg", "4.409 lb")])
def test_a_rounded_conversion_is_undecided_where_numbers_are_exact(reference: str, answer: str) -> None:
    p = problem(benchmark="own", answer_type="quantity", reference=reference)
    assert grade(p, answer).correct is None
    number, unit = answer.split()
    assert grade(p, f"{float(number) * 1.1} {unit}").correct is False


@given(
    st.lists(
        st.sampled_from(
            [
                "J",
                "mol",
                "K",
                "ms",
                "mK",
                "Nm",
                "G",
                "C",
                "\u00b0C",
                "\u00b0F",
                "rpm",
                "Hz",
                "neper",
                "mNeper",
                "dBm",
                "/",
                "\u00b7",
                "-",
                " ",
                "(",
                ")",
                "^2",
                "^{-12}",
                "%",
                " per ",
                "\\mu ",
                "lb",
                "=",
                "x",
                "10^9",
                "$",
            ]
        ),
        max_size=9,
    ),
    st.sampled_from(["25 \u00b0C", "3 Hz", "2 rev / s", "5", "0", "7 lb", "12 $", "5 %", "4 J kg^-1 \u00b0F^-1"]),
)
def test_any_run_of_units_gets_a_verdict(pieces: list[str], reference: str) -> None:
    verdict = sci(reference, "5 " + "".join(pieces))
    assert (verdict.correct is None) == (verdict.status != "graded")


def test_a_temperature_in_a_product_is_a_difference() -> None:
    assert sci("1 J g^-1 K^-1", "0.5556 J/(g \u00b0F)").correct is True
    assert sci("1 J g^-1 K^-1", "1 J/(g \u00b0F)").correct is False


def test_a_decimal_prefix_never_rounds() -> None:
    assert grade(problem(answer_type="quantity", reference="1 km"), "1001 m").correct is False


SYMBOLS = {"J": "J", "mol": "mol", "K": "K", "kg": "kg", "s": "s", "V": "V", "Pa": "Pa"}


@given(st.lists(st.sampled_from(sorted(SYMBOLS)), min_size=3, max_size=3, unique=True), st.integers(1, 999))
def test_a_dot_after_a_slash_stays_below_it(names: list[str], value: int) -> None:
    top, one, other = names
    below, beside = f"{value} {top} {one}^-1 {other}^-1", f"{value} {top} {other} {one}^-1"
    for dot in ("\\cdot ", "\u00b7", "-", "*"):
        assert sci(below, f"{value} {top}/{one}{dot}{other}").correct is True
        assert sci(below, f"{3 * value} {top}/{one}{dot}{other}").correct is False
        assert sci(beside, f"{value} {top}/{one}{dot}{other}").correct is not False
    assert sci(below, f"{value} {top}/{one} {other}").correct is not False


@pytest.mark.parametrize(
    "left", ["2x", "-x", "x/3", "x^2", "\\sqrt{x}", "x + 1", "a - b", "\\frac{1}{x}", "\\sin x", "\\ln y",
             "3 \\times 5", "n!", "5 kJ"])  # fmt: skip
@pytest.mark.parametrize("sign", ["=", "\\approx"])
def test_an_equation_about_something_else_is_no_value(left: str, sign: str) -> None:
    assert grade(problem(reference="12"), f"{left} {sign} 12").correct is None


@pytest.mark.parametrize(
    "left", ["x", "\\lambda", "f(2)", "v_{max}", "\\Delta H^\\circ", "|\\vec{F}|", "the total mass m", "n'", "P(X=3)",
             "3 \\times 4", "6 + 6", "x = 3 \\times 4", "E = mc^2", "\\text{pH}", "[Na^+]", "K_{sp}", ""])  # fmt: skip
@pytest.mark.parametrize("sign", ["=", "\\approx"])
def test_an_equation_that_names_its_value_is_read(left: str, sign: str) -> None:
    assert grade(problem(reference="12"), f"{left} {sign} 12").correct is True
    assert grade(problem(reference="13"), f"{left} {sign} 12").correct is False


def test_a_value_may_stand_before_its_name() -> None:
    assert grade(problem(reference="12"), "12 = x").correct is True
    assert grade(problem(reference="12"), "12 = 2x").correct is None


@given(st.integers(1, 400), st.integers(1, 99), st.sampled_from(["-", "\u2013", " - ", " \u2013 "]))
def test_two_ascending_numbers_are_a_range(low: int, step: int, dash: str) -> None:
    for scale, unit in ((1, ""), (100, ""), (100, " GPa"), (10, "\\%")):
        text = f"{low / scale:g}{dash}{(low + step) / scale:g}{unit}"
        assert read_quantity(text) is None
    back = read_quantity(f"{low + step} - {low}")
    assert back is not None and back.value == step
