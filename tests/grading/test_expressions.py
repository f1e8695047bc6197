from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import problem

from dhd_labels.grading.rules import Verdict, grade, grade_by

EQUAL = [
    ("-45^\\circ", "-45"), ("180^\\circ-45^\\circ", "135"), ("\\sqrt{n^2+1}-n", "\\frac{1}{\\sqrt{n^2+1}+n}"),
    ("2\\sqrt{3}", "\\sqrt{12}"), ("\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}"), ("\\log_2 8", "3"),
    ("e^{i\\pi}", "-1"), ("\\sin 30^\\circ", "\\frac12"), ("45^\\circ", "\\frac{\\pi}{4}"), ("45^\\circ", "45"),
    ("\\binom{2n}{n}", "\\frac{(2n)!}{(n!)^2}"), ("(x+1)^2", "x^2+2x+1"), ("\\cos^2 x", "1-\\sin^2 x"),
    ("\\sum_{k=1}^{n} k", "\\frac{n(n+1)}{2}"), ("\\prod_{k=1}^{n} k", "n!"), ("2^{n}", "4^{n/2}"),
    ("\\lceil n/2 \\rceil", "\\lfloor (n+1)/2 \\rfloor"), ("1{,}234", "1234"), ("0.1\\overline{6}", "\\frac16"),
    ("\\sqrt[3]{-8}", "-2"), ("50\\%", "\\frac12"), ("0", "\\sqrt{3+2\\sqrt{2}}-1-\\sqrt{2}"), ("\\{1,2\\}", "2, 1"),
    ("(1,2),(3,4)", "(3,4) \\text{ and } (1,2)"), ("x=1,y=2", "(1,2)"), ("x=5", "5"), ("\\pm 3", "3,-3"),
    ("x > 3", "(3,\\infty)"), ("0\\le r\\le 1", "[0,1]"), ("3 > x \\ge 2", "[2,3)"),
    ("(-\\infty,1)\\cup(2,3)", "(2,3)\\cup(-\\infty,1)"), ("f(x)=2x", "f(t)=2t"),
    ("2x+4y-3=0", "y=-\\frac12 x+\\frac34"), ("n \\neq 5", "5 \\ne n"), ("\\frac{3}{2}\\text{ cm}", "1.5"),
    ("\\max = 7, \\min = 3", "minimum 3 and maximum 7"), ("\\gcd(12, 18)", "6"), ("|{-3}|", "3"), ("ab", "b a"),
    ("5 \\cdot 2^{3}", "40"), ("4.8 \\times 10^{8}", "480000000"), ("\\tfrac{1}{2}", "2^{-1}"), ("\\ln 4", "2\\ln 2"),
    ("500 cm", "5 m"), ("\\log 8/\\log 2", "3"), ("\\log x^2 - \\log x^2 + 1", "1"), ("\\frac{3}{4}", "0.75"),
    ("\\frac{3}{4}", "\\frac{75}{100}"), ("\\frac{3}{4}", "75\\%"), ("2^{10}", "1024"), ("2^{10}", "2^10"),
    ("10!", "3628800"), ("\\binom{10}{3}", "120"), ("\\frac{1+\\sqrt5}{2}", "\\frac{1}{2}+\\frac{\\sqrt{5}}{2}"),
    ("\\sqrt{2}+\\sqrt{3}", "\\sqrt{5+2\\sqrt{6}}"), ("2n-1", "2n - 1"), ("n^2+n", "n(n+1)"),
    ("\\frac{n(n-1)}{2}", "\\binom{n}{2}"), ("\\left\\lfloor\\frac{n}{2}\\right\\rfloor", "\\lfloor n/2\\rfloor"),
    ("n!", "\\prod_{i=1}^n i"), ("(n-1)!", "n!/n"), ("2^{n-1}", "2^n/2"), ("2^n-1", "\\sum_{k=0}^{n-1}2^k"),
    ("\\frac{\\pi}{6}", "30^\\circ"), ("60^\\circ", "60 \\text{ degrees}"),
    ("60^\\circ", "\\frac{\\pi}{3} \\text{ radians}"), ("60", "60^{\\circ}"), ("(3,4)", "x=3, y=4"),
    ("(3,4)", "y=4, x=3"), ("(a,b)=(3,4)", "(3,4)"), ("(3,4)", "(x,y)=(3,4)"), ("(2,1),(1,2)", "(1,2),(2,1)"),
    ("(2,1),(1,2)", "(x,y)=(1,2),(2,1)"), ("(2, 1), (3, 1), (1, 2), (1, 3)", "\\{(1,2),(1,3),(2,1),(3,1)\\}"),
    ("x=1", "1"), ("1", "x=1"), ("x=1 \\text{ or } x=2", "x \\in \\{1,2\\}"), ("x=1 \\text{ or } x=2", "1,2"),
    ("x=1,2", "1,2"), ("x=\\pm 1", "-1, 1"), ("\\pm \\frac{9}{4}", "\\frac{9}{4},-\\frac94"),
    ("[0,1]", "0\\leq x\\leq 1"), ("(0,\\infty)", "x>0"), ("\\lambda \\geq e", "\\lambda\\ge e"),
    ("\\lambda \\geq e", "[e, \\infty)"), ("(-\\infty, 0) \\cup (1, \\infty)", "x<0 \\text{ or } x>1"),
    ("f(x)=x", "f(x) = x"), ("f(x)=x", "f(n)=n"), ("f(x)=x", "x"), ("1999", "1999"), ("\\boxed{1999}", "1999."),
    ("1999", "\\text{1999}"), ("1999", "M = 1999"), ("1999", "1,999"), ("10^{6}", "1000000"),
    ("10^6", "1{,}000{,}000"), ("2,3,7", "2, 3, \\text{ and } 7"), ("2,3,7", "p \\in \\{2,3,7\\}"),
    ("\\emptyset", "\\varnothing"), ("\\{\\}", "\\emptyset"), ("1-\\frac{1}{e}", "1-e^{-1}"),
    ("1-\\frac{1}{e}", "\\frac{e-1}{e}"), ("\\log_{2} 3", "\\frac{\\ln 3}{\\ln 2}"),
    ("\\tan 15^\\circ", "2-\\sqrt{3}"), ("\\arctan 1", "\\frac{\\pi}{4}"), ("\\cos\\frac{\\pi}{3}", "1/2"),
    ("\\sin^{-1}(1)", "\\pi/2"), ("\\frac{a+b}{2}", "\\frac{b+a}{2}"), ("ab+bc+ca", "ac+ab+bc"),
    ("x^2+y^2=1", "y^2 + x^2 = 1"), ("x^2+y^2=1", "1-x^2=y^2"), ("x^2+y^2=1", "2x^2+2y^2=2"),
    ("y=2x+1", "2x - y + 1 = 0"), ("y=2x+1", "2x+1"), ("3+4i", "4i+3"), ("i", "\\sqrt{-1}"), ("-1", "i^2"),
    ("|z|", "|z|"), ("2\\cdot 3^{5}", "486"), ("\\frac{2^{10}-1}{3}", "341"), ("2^{2^{3}}", "256"),
    ("7^{7^7}", "7^{7^{7}}"), ("2007", "\\frac{2007}{1}"), ("\\infty", "+\\infty"), ("\\text{even}", "even"),
    ("\\frac{m}{n}", "m/n"), ("a_n = 2^n", "2^n"), ("a_n=2^n", "a_n = 2^{n}"), ("a_{n}=2^n", "a_n=2^n"),
    ("S=\\frac{1}{2}bh", "\\frac{bh}{2}"), ("p=2", "2"), ("\\frac{p-1}{2}", "(p-1)/2"),
    ("0.\\overline{3}", "\\frac13"), ("\\sqrt[3]{2}", "2^{1/3}"), ("4\\sqrt{3}", "\\frac{12}{\\sqrt{3}}"),
    ("\\frac{1}{2}\\ln 2", "\\ln\\sqrt{2}"), ("16\\pi", "16 \\pi \\text{ cm}^2"), ("\\$12", "12"),
    ("12 \\text{ minutes}", "12"), ("12\\text{ hours}", "720 \\text{ minutes}"), ("12:30", "12:30"), ("100\\%", "1"),
    ("n\\ge3", "n \\geq 3"), ("a=1,b=2,c=3", "(1,2,3)"), ("2\\times 3", "6"), ("2 \\ast 3", "6"),
    ("5\\,\\text{cm}", "5cm"), ("-3", "−3"), ("1.5", "3/2"), ("1.50", "1.5"), ("x^{2}", "x*x"),
    ("sqrt(2)", "\\sqrt{2}"), ("pi/2", "\\frac{\\pi}{2}"), ("\\frac{\\sqrt{3}}{2}", "sqrt(3)/2"),
    ("2sqrt(3)", "2\\sqrt3"), ("2 \\sqrt 3", "\\sqrt{12}"), ("99!", "99!"), ("\\frac{100!}{99!}", "100"),
    ("\\binom{2020}{1010}", "\\frac{2020!}{1010!^2}"), ("\\binom{2020}{1010}", "\\frac{2020!}{(1010!)^2}"),
    ("\\left(\\frac{2}{3}\\right)^{n}", "\\frac{2^n}{3^n}"), ("3^{1/2}", "\\sqrt3"), ("\\sec^2 x", "1+\\tan^2 x"),
    ("2\\sin x\\cos x", "\\sin 2x"), ("e^{x}", "\\exp(x)"), ("(\\sqrt{2}-1)^{-1}", "\\sqrt{2}+1"),
]  # fmt: skip
UNEQUAL = [
    ("4", "4\\sqrt(2)"), ("\\frac{1}{2004!}", "\\frac{1}{2006!}"), ("1/2^{99}", "1/2^{98}"),
    ("1-\\frac{1}{\\mathrm{e}}", "1+\\frac{1}{\\mathrm{e}}"), ("3*x-1*y+13=0", "3x + 4y + 14=0"),
    ("n=2,3,4", "n=1,2,3"), ("(1,2)", "[1,2]"), ("(1,2)", "(1,2]"), ("(1,2)", "(2,1)"), ("(1,2)", "\\{1,2\\}"),
    ("1,2", "1"), ("1,2", "1,2,3"), ("x > 3", "[3,\\infty)"), ("x > 3", "x < 3"), ("\\infty", "-\\infty"),
    ("x=1,y=2", "(2,1)"), ("-2^{4}", "(-2)^4"), ("10^{100}", "10^{100}+1"), ("\\sqrt{2}", "\\sqrt{2}+10^{-300}"),
    ("x", "x+10^{-50}"), ("0", "10^{-300}"), ("\\binom{2n}{n}", "\\binom{2n}{n+1}"),
    ("\\frac{n}{2}", "\\lfloor n/2 \\rfloor"), ("f(x)=2x", "f(x)=3x"), ("\\{1,2\\}", "\\{1,-2\\}"), ("\\pm 3", "3"),
    ("45^\\circ", "\\frac{\\pi}{3}"), ("n \\neq 5", "n = 5"), ("5 cm", "5 m"), ("5 cm", "500 m"),
    ("\\max = 7, \\min = 3", "maximum 3 and minimum 7"), ("\\pi", "3.1"), ("\\frac{x+1}{2}", "x+\\frac12"),
    ("5", "5x"), ("\\sqrt{2}+\\sqrt{3}", "\\sqrt{5+\\sqrt{6}}"), ("2n-1", "2n+1"), ("(3,4)", "(4,3)"),
    ("\\pm\\frac94", "\\frac94"), ("[0,1)", "[0,1]"), ("\\lambda \\geq e", "(e, +\\infty)"), ("f(x)=x", "f(x)=-x"),
    ("\\emptyset", "0"), ("\\frac{a+b}{2}", "\\frac{a-b}{2}"), ("y=2x+1", "y=2x-1"), ("3+4i", "3-4i"),
    ("a_n=2^n", "a_n=2^{n+1}"), ("n \\geq 3", "n\\ge 4"), ("n>2", "n>3"), ("x = 5, y=6", "x=6,y=5"),
    ("(1,2,3)", "(1,3,2)"), ("[1,2,3]", "(1,2,3)"), ("2^{2020}-1", "2^{2020}+1"),
    ("\\sin x+\\cos x", "\\sin (x+\\cos x)"),
]  # fmt: skip
OPEN = [
    ("\\frac13", "0.333"), ("\\sqrt{2}", "1.414"), ("1/2n", "n"), ("3\\frac12", "3.5"), ("2 3", "5"), ("|x|", "x"),
    ("(-1)^{2n}", "1"), ("n(n+1)/2", "k(k+1)/2"), ("\\ln 5", "\\log 5"), ("1,2,2", "1,2"), ("x=3", "y=3"), ("x", "y"),
    ("1,2,\\ldots", "1,2"), ("\\int_0^1 x", "1"), ("all primes", "p"), ("x^2 = 4", "x = 2"), ("2^3^4", "2"),
    ("\\begin{cases} 1 \\\\ 2 \\end{cases}", "1"), ("\\sqrt12", "2"), ("x'", "x"), ("n!!", "n"), ("1, 2", "(1, 2)"),
    ("\\frac34", "3:4"), ("{10 \\choose 3}", "120"), ("C(10,3)", "120"), ("\\frac{1+\\sqrt5}{2}", "\\phi"),
    ("n-1", "n - 1 \\text{ for all } n"), ("(3,4)", "3,4"), ("f(x)=x+c", "f(x)=x+k"), ("1999", "1999\\text{ ways}"),
    ("1999", "1 999"), ("2,3,7", "2,3,7 \\text{ only}"), ("\\ln 2", "\\log 2"), ("\\log_{10} 2", "\\log 2"),
    ("x^2+y^2=1", "x^2+y^2=2"), ("\\sum_{k=1}^{\\infty} \\frac{1}{k^2}", "\\frac{\\pi^2}{6}"),
    ("n \\text{ odd}", "odd n"), ("k \\ge 2", "k>1"), ("0.333...", "1/3"), ("1/3", "0.3333333333"),
    ("16\\pi \\text{ square units}", "16\\pi"), ("AB=5", "5"), ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "(1,2)"),
    ("\\vec{v}", "v"), ("\\{x | x>0\\}", "x>0"), ("x**2", "x^2"), ("e", "2.718"), ("n=3k", "n=3k, k\\in\\mathbb{Z}"),
]  # fmt: skip


def verdict(gold: str, given: str) -> Verdict:
    return grade(problem(answer_type="expression", reference=gold), given)


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_expressions(one: str, other: str) -> None:
    assert verdict(one, other).correct is True
    assert verdict(other, one).correct is True


@pytest.mark.parametrize("gold", ["0<x<1", "x\\in(0,1)"])
def test_a_range_of_a_symbol_may_be_answered_by_an_open_interval_but_a_pair_not_by_a_range(gold: str) -> None:
    assert verdict(gold, "(0,1)").correct is True
    assert verdict("(0,1)", gold).correct is None
    assert verdict("(0,1)", gold.replace("1", "2")).correct is False


@pytest.mark.parametrize(("one", "other"), UNEQUAL)
def test_unequal_expressions(one: str, other: str) -> None:
    assert verdict(one, other).correct is False
    assert verdict(other, one).correct is False


@pytest.mark.parametrize(("one", "other"), OPEN)
def test_what_is_ambiguous_or_out_of_reach_is_undetermined(one: str, other: str) -> None:
    for gold, answer in ((one, other), (other, one)):
        found = verdict(gold, answer)
        assert (found.status, found.correct) == ("undetermined", None) and found.reason


@pytest.mark.parametrize("text", [text for pair in (*EQUAL, *UNEQUAL, *OPEN) for text in pair])
def test_every_expression_equals_itself_in_any_dress(text: str) -> None:
    for dressed in (
        text,
        f" {text} ",
        f"${text}$",
        f"\\[{text}\\]",
        f"\\boxed{{{text}}}",
        text if text.endswith(".") else f"{text}.",
    ):
        found = verdict(text, dressed)
        assert found.correct is True
        assert found.canonical == verdict(text, text).canonical


WRAPPERS = [
    lambda s: s.replace("\\frac", "\\dfrac"), lambda s: s.replace("(", "\\left(").replace(")", "\\right)"),
    lambda s: s.replace(" ", "\\ "), lambda s: s.replace("+", " + ").replace("-", " - "),
    lambda s: f"\\displaystyle {s}",
    lambda s: s.replace("\\frac{1}{2}", "\\frac12"), lambda s: s.replace("-", "\u2212"), lambda s: f"\\({s}\\)",
]  # fmt: skip


@pytest.mark.parametrize("wrap", range(len(WRAPPERS)))
def test_spelling_never_changes_a_verdict(wrap: int) -> None:
    for pairs, correct in ((EQUAL, True), (UNEQUAL, False)):
        for one, other in pairs:
            found = verdict(one, WRAPPERS[wrap](other))
            assert found.correct is correct, (one, WRAPPERS[wrap](other), found)


# Random expressions: what changes the value must change the verdict, what does not must not.


def _term(generator: random.Random, depth: int) -> str:
    if depth == 0:
        return generator.choice(["x", "y", "2", "3", "7", "\\pi", "\\sqrt{5}", "11"])
    one, other = _term(generator, depth - 1), _term(generator, depth - 1)
    return generator.choice(
        [f"({one}+{other})", f"({one}-3{{}}{other})", f"\\frac{{{one}}}{{{other}}}", f"({one})({other})", f"({one})^2",
         f"\\sqrt{{({one})^2+1}}"]
    ).replace("3{}", "")  # fmt: skip


@settings(max_examples=40)
@given(st.integers(0, 10**9))
def test_random_expressions(seed: int) -> None:
    generator = random.Random(seed)
    one, other = _term(generator, 2), _term(generator, 1)
    base = f"{one}+{other}"
    assert verdict(base, f"{other}+{one}").correct is True
    assert verdict(base, f"\\frac{{2({one})+2({other})}}{{2}}").correct is True
    assert verdict(base, f"{one}+{other}+1").correct is False
    assert verdict(base, f"2({one}+{other})").correct is not True or _is_zero(base)
    assert verdict(base, f"-({one}+{other})").correct is not True or _is_zero(base)


def _is_zero(text: str) -> bool:
    return verdict("0", text).correct is True


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_order_is_free_in_lists_and_sets_but_not_in_tuples(values: list[int], generator: random.Random) -> None:
    shuffled = generator.sample(values, len(values))
    one, other = (", ".join(map(str, side)) for side in (values, shuffled))
    for left, right in (("", ""), ("\\{", "\\}")):
        found = verdict(f"{left}{one}{right}", f"{left}{other}{right}")
        assert found.correct is True
        assert found.canonical == verdict(f"{left}{one}{right}", f"{left}{one}{right}").canonical
    assert verdict(f"({one})", f"({other})").correct is (values == shuffled)
    assert verdict(one, ", ".join(map(str, [*shuffled[1:], 10]))).correct is False


PRODUCTS_ALIKE = [
    ("3mn+m^2", "m^2+3nm"), ("\\frac{1}{3}cd", "\\frac{cd}{3}"), ("\\frac13 kg", "\\frac{gk}{3}"), ("4hr", "4rh"),
    ("w=5mg", "w=5gm"), ("z<4km", "z<4mk"), ("3\\pi hr", "3\\pi r h"), ("(p+q)^2", "p^2+q^2+2pq"), ("2 cd", "2dc"),
]  # fmt: skip
PRODUCTS_DROPPED = [
    ("c^2+3cd", "c^2+3"), ("8", "8mn"), ("9", "9kg"), ("\\frac{2}{3}km", "\\frac{2}{3}"), ("w=5mg", "w=5"),
    ("z<4km", "z<4"), ("g(t)=t+3mn", "g(t)=t+3"), ("6", "6\\mathrm{e}"), ("6", "6\\mathrm{h}"), ("4", "4 cd"),
    ("6", "6\\text{ s}"), ("k-2", "(k-2)\\text{ hr}"), ("k-2", "(k-2) mn"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), PRODUCTS_ALIKE)
def test_a_product_of_letters_is_no_unit(one: str, other: str) -> None:
    assert verdict(one, other).correct is verdict(other, one).correct is True


@pytest.mark.parametrize(("one", "other"), PRODUCTS_DROPPED)
def test_letters_are_never_dropped_as_if_they_were_a_unit(one: str, other: str) -> None:
    assert verdict(one, other).correct is not True and verdict(other, one).correct is not True


@settings(max_examples=150)
@given(
    st.integers(2, 99),
    st.lists(st.sampled_from("abcdghklmnprstxyz"), min_size=1, max_size=3, unique=True),
    st.sampled_from(
        ["{n}{p}", "{n} {p}", "\\frac{{1}}{{{n}}}{p}", "q^2+{n}{p}", "w={n}{p}", "w>{n}{p}", "{n}\\pi {p}"]
    ),
    st.data(),
)
def test_a_product_without_one_of_its_letters_is_another(
    number: int, letters: list[str], form: str, data: st.DataObject
) -> None:
    dropped = data.draw(st.sampled_from(letters))
    rest = "".join(letter for letter in letters if letter != dropped)
    whole, less = (form.format(n=number, p=part).strip() for part in ("".join(letters), rest))
    assert verdict(whole, less).correct is not True and verdict(less, whole).correct is not True
    shuffled = form.format(n=number, p="".join(data.draw(st.permutations(letters))))
    assert verdict(whole, shuffled).correct is not False


SIGNS_SPELLED_OUT = [
    ("\\pm 4, 7", "7, -4, 4"), ("\\{\\pm 4, 7\\}", "4, -4, 7"), ("x=\\pm 4, x=7", "7, 4, -4"),
    ("\\pm 2, \\pm 5", "-5, -2, 2, 5"), ("(\\pm 2, 5)", "(2,5), (-2,5)"), ("(\\pm 2, \\mp 5)", "(2,-5), (-2,5)"),
    ("(3, 1\\pm\\sqrt{2})", "(3,1+\\sqrt2) \\text{ and } (3,1-\\sqrt2)"), ("a\\pm b\\mp c", "a+b-c, a-b+c"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SIGNS_SPELLED_OUT)
def test_a_plus_minus_sign_is_two_values_wherever_it_stands(one: str, other: str) -> None:
    assert verdict(one, other).correct is verdict(other, one).correct is True
    less = other.rpartition(", " if "), " in other or "(" not in other else " \\text")[0]
    assert verdict(one, less).correct is False


@given(st.sets(st.integers(1, 30), min_size=1, max_size=3), st.booleans())
def test_lists_of_plus_minus_values_are_the_lists_of_both(values: set[int], with_zero: bool) -> None:
    short = ", ".join([*(f"\\pm {value}" for value in values), *["0"] * with_zero])
    both = sorted({sign * value for value in values for sign in (1, -1)} | ({0} if with_zero else set()))
    assert verdict(", ".join(map(str, both)), short).correct is True
    assert verdict(", ".join(map(str, both[1:])), short).correct is False


UNSURE = [
    # plus-minus signs that go together or not
    ("(\\pm 2,\\pm 5)", "(\\pm 2,\\mp 5)"), ("(\\pm 2,\\pm 5)", "(2,5),(-2,-5)"),
    ("\\pm 2\\pm\\sqrt5", "\\pm(2+\\sqrt5)"),
    # functions that are not known, or products
    ("\\phi(3n)", "3\\phi(n)"), ("\\zeta(6)", "3\\zeta(2)"), ("v(3t)", "3v(t)"), ("\\tau(n)", "n\\tau"),
    ("\\Gamma(m)", "(m-1)!"), ("\\mu(1)", "\\infty"), ("\\omega(2k)+1", "2\\omega(k)+1"),
    # named functions and values
    ("g(x)=x, h(x)=5x", "g(x)=5x, h(x)=x"), ("F(3)=8", "F(8)=8"), ("h(0)=1", "g(0)=1"), ("h(t)=3t", "g(t)=3t"),
    # units on one side only
    ("8", "8\\text{ percent}"), ("30\\%", "30"), ("\\frac15", "0.2\\text{ percent}"), ("\\pi", "\\pi^\\circ"),
    ("25^\\circ", "25\\text{ s}"), ("25^\\circ", "25\\text{ hours}"), ("25^\\circ", "25^\\circ\\text{C}"),
    ("7\\text{ hours}", "420"), ("7\\text{ cm}^2", "7\\text{ cm}"), ("25", "25\\text{ rad}"), ("2", "200\\text{ cm}"),
    ("20^\\circ+\\frac{\\pi}{9}", "40^\\circ"), ("\\arctan 3", "71.57^\\circ"),
    ("90^\\circ-\\beta", "\\frac{\\pi}{2}-\\beta"),
    # conditions that hold together or in turn; capital letters that may be digits or points
    ("(-\\infty,1)\\cup(4,\\infty)", "x<1 and x>4"), ("x>1, x<4", "x<1, x>4"), ("PQR", "RQP"), ("2MN", "2NM"),
    ("(4,567)", "4,567"), ("4=5", "5"), ("8, 8", "8"), ("5^1/2", "\\frac52"), ("x=1,y=6 or x=6,y=1", "(1,6),(6,1)"),
    ("14cm", "14"), ("\\pi(12)", "12\\pi"), ("180^\\circ-2\\beta", "\\pi-2\\beta"), ("3\\text{ m}", "300"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), UNSURE)
def test_what_may_mean_two_things_is_undetermined(one: str, other: str) -> None:
    for gold, answer in ((one, other), (other, one)):
        found = verdict(gold, answer)
        assert (found.status, found.correct) == ("undetermined", None) and found.reason
    for text in (one, other):
        assert verdict(text, text).correct is True


@pytest.mark.parametrize(
    ("one", "other", "correct"),
    [
        ("25^\\circ", "25\\text{ rad}", False), ("180^\\circ", "\\pi\\text{ rad}", True),
        ("20\\text{ degrees}", "\\frac{\\pi}{9}", True), ("20\\text{ degrees}", "20^\\circ", True),
        ("20\\%", "20\\text{ percent}", True), ("20\\%", "30\\text{ percent}", False),
        ("20\\text{ percent}", "0.2", True),
        ("\\$3", "300\\text{ cents}", True), ("\\$3", "3 cents", False), ("\\$3", "3 dollars", True),
        ("7\\text{ cm}", "7", True), ("7\\text{ cm}", "8", False), ("t=7\\text{ hours}", "7", True),
        ("7\\text{ hours}", "7\\text{ minutes}", False), ("9\\pi\\text{ cm}^2", "9\\pi", True),
        ("40^\\circ", "20^\\circ+20^\\circ", True), ("0.5\\text{ km}", "500\\text{ m}", True),
    ],
)  # fmt: skip
def test_units_that_are_written_count(one: str, other: str, correct: bool) -> None:
    assert verdict(one, other).correct is verdict(other, one).correct is correct


@pytest.mark.parametrize(
    ("one", "other", "correct"),
    [
        ("m(m+3)/2", "\\frac{m^2+3m}{2}", True), ("n(n-1)(n-2)^2", "(n^2-n)(n-2)^2", True),
        ("\\pi(R^2-r^2)", "\\pi R^2-\\pi r^2", True), ("\\lambda(\\lambda-2)", "\\lambda^2-2\\lambda", True),
        ("2\\pi r(r+t)", "2\\pi r^2+2\\pi rt", True), ("\\frac12n(n+1)", "\\frac{n(n+1)}{2}", True),
        ("p(1-p)^2", "p-2p^2+p^3", True), ("a(b+c)", "ab-ac", False), ("u(t)=2t", "u(t)=3t", False),
        ("F(3)=8", "F(3)=9", False), ("F(3)=8", "8", True), ("\\pi(0.5)^2", "\\frac{\\pi}{4}", True),
        ("\\pi(3)^2", "9\\pi", True), ("e(2)", "2e", True), ("u(t)=2t", "2t", True),
    ],
)  # fmt: skip
def test_a_symbol_before_a_sum_in_brackets_multiplies_it(one: str, other: str, correct: bool) -> None:
    assert verdict(one, other).correct is verdict(other, one).correct is correct


def test_nested_brackets_behind_symbols_are_read_in_little_time() -> None:
    deep = "n(1+" * 11 + "n" + ")" * 11
    assert verdict(deep, deep + "+0").correct is True


PIECES = [
    "\\frac", "{", "}", "(", ")", "[", "]", "\\sqrt", "1", "12", "0.5", "x", "n", "\\pi", "e", "i", "^", "_", "+",
    "-", "*", "/", "=", "<", "\\le", "\\in", "\\cup", ",", ";", "\\text{cm}", "%", "$", "\\$", "\\infty", "\\pm",
    "\\sum_{k=1}^{n}", "!", "|", "\\binom{n}{2}", "\\lfloor", "\\rfloor", "\\log", "\\sin", "\\min", "\\{", "\\}",
    "^\\circ", "\\times", "f(x)", "\\left(", "\\boxed{", "\\overline{3}", "or", "maximum", "km", "°", "½", "−",
    "\\approx",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from([" ", ""]))
def test_any_notation_gets_a_verdict_or_a_reason(pieces: list[str], space: str) -> None:
    for kind, reference in (("expression", "x+1"), ("quantity", "3 kJ"), ("option_text", "851, 113")):
        found = grade_by(kind, problem(answer_type="text", reference=reference), space.join(pieces))
        assert (found.correct is None) == (found.status != "graded") == (found.reason is not None)


@given(st.text(alphabet="0123456789xyn+-*/^_{}()[],=<> \\fracsqrtpi!.|%&$'\"", max_size=60))
def test_any_expression_gets_a_verdict_or_a_reason(text: str) -> None:
    found = verdict("x+1", text)
    assert (found.correct is None) == (found.status != "graded") == (found.reason is not None)


@pytest.mark.parametrize(
    "text", ["__import__('os').system('touch pwned')", "exec(1)", "\\input{/etc/passwd}", "lambda: 1"]
)
def test_code_is_not_run_but_unreadable(text: str) -> None:
    assert verdict("1", text).status == "undetermined"


BOMBS = [
    "\\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}", "9^{9^{9^{9}}}", "x^{9^{9^9}}", "((((10!)!)!)!)", "10000000!",
    "e^{e^{e^{e^e}}}",
    "\\sum_{i=1}^{10^9} i", "\\sin(10^{10^{10}})", "\\binom{10^9}{10^8}", "10^{-10^{10}}",
]  # fmt: skip
SWAMPS = [
    "1+" * 50_000 + "1", "\\frac{1}{" * 2_000 + "2" + "}" * 2_000, "(" * 150 + "1" + ")" * 150, "-" * 1_000 + "1",
    "\\sin" * 200, "x^{" * 60 + "2" + "}" * 60, "\\sqrt{" * 100 + "x" + "}" * 100, "|" * 200, "{" * 500 + "}" * 500,
]  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_towers_are_refused_as_timeouts_and_the_next_answer_is_graded(bomb: str) -> None:
    assert verdict("x+\\pi", bomb).status == "timeout"
    assert verdict("\\pi", "\\pi+0").correct is True


@pytest.mark.parametrize("swamp", SWAMPS)
def test_long_and_deep_answers_are_undetermined_and_the_next_answer_is_graded(swamp: str) -> None:
    assert verdict("1", swamp).status == "undetermined"
    assert verdict("\\pi", "\\pi+0").correct is True


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("20", "2.(10)"), ("30", "10.(3)"), ("30, 1", "1, 10.(3)"), ("6x", "2.(3x)"), ("\\frac{7}{3}", "2.(3)"),
        ("\\frac{1}{12}", "0.08(3)"), ("10^{-3}", "1e-3"), ("10^{-3}", "1\\mathrm{e}{-3}"), ("e-3", "1e-3"),
        ("1000", "1E3"),
    ],
)  # fmt: skip
def test_a_number_with_two_readings_decides_nothing(gold: str, answer: str) -> None:
    assert grade(problem(answer_type="expression", reference=gold, choices=()), answer).correct is None


@pytest.mark.parametrize(
    ("gold", "answer", "correct"),
    [
        ("\\frac{n(n-1)}{2}", "\\sum_{k=1}^{n-1}k", True),
        ("\\frac{n(n-1)}{2}", "\\sum_{k=1}^{n-2}k", False),
        ("n!", "\\prod_{k=1}^{n-1}k", False),
        ("2e - 5", "-5 + 2e", True),
        ("2(3)", "6", True),
    ],
)
def test_a_series_without_a_term_is_a_value_and_kills_no_worker(gold: str, answer: str, correct: bool) -> None:
    verdict = grade(problem(answer_type="expression", reference=gold, choices=()), answer)
    assert verdict.correct in (correct, None) and verdict.status != "timeout", verdict
    assert grade(problem(answer_type="expression", reference="\\sqrt{12}", choices=()), "2\\sqrt{3}").correct is True
