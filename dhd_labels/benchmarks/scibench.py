r"""SciBench: 580 problems of ten textbooks, text only (Wang et al., ICML 2024).

Takes the authors' folder of ten books (`dataset/original`) or the same rows as JSON lines. Worked examples
(`*_sol.json`) are not problems and are left alone.

The question ends with the line of the official prompt, "The unit of the answer is ...", with the unit as plain text.
A power of ten in `unit` belongs to the number: "3.52" with unit "$10^{-19} \mathrm{~J}$" is the quantity "3.52e-19
J", and the question asks for J. Where the unit is nothing but a power, the official prompt shows the power as the
unit and its scorer keeps the bare mantissa; here the question has no unit line and the power counts. What the
official scorer needs (`answer_number`, `unit`) is in the metadata as it is upstream. A row without a unit is a
`number`, any other a `quantity`.
"""

from __future__ import annotations

import re
from collections import Counter

from dhd_labels.benchmarks.fields import make_problem, optional, text
from dhd_labels.benchmarks.problem_set import Row
from dhd_labels.benchmarks.reader import Reader
from dhd_labels.benchmarks.registry import SCIBENCH, facts
from dhd_labels.records import AnswerType, Problem

FILES = ("dataset/original/*.json", "original/*.json", "*.json", "*.jsonl")
SUBSET = "source"
_POWER = re.compile(r"10\^(?:\{\s*([+-]?\d{1,4})\s*\}|([+-]?\d{1,4}))\s*")
_STYLE = re.compile(r"\\(?:mathrm|text|mathbf|operatorname)\s*(?=\{)")
_HAT = re.compile(r"\\hat\s*\{[^{}]*\{[^{}]*\}[^{}]*\}|\\hat\s*\{[^{}]*\}")
_EXPONENT = re.compile(r"\^\s*\{\s*([+-]?\d+)\s*\}")
_SYMBOLS = {
    "\\%": "%",
    "\\cdot": " ",
    "\\circ": "\N{DEGREE SIGN}",
    "\\mu": "\N{MICRO SIGN}",
    "\\Omega": "\N{GREEK CAPITAL LETTER OMEGA}",
    "\\alpha": "\N{GREEK SMALL LETTER ALPHA}",
    "~": " ",
}
# Slips of the file that would be other units if taken at their word.
_SLIPS = {"KJ": "kJ", "kPA": "kPa", "JK^-1": "J K^-1"}
_DOLLARS = {"$", "$\\$$", "\\$"}


def problem(row: Row, where: str, noted: Counter[str]) -> Problem:
    """Make the problem of a row; raises UnusableRowError."""
    number, unit = text(row, "answer_number", where, blank=True), text(row, "unit", where, blank=True)
    power, plain = split_unit(unit)
    noted["power_of_ten_unit"] += power != 0
    gold = f"{number}{f'e{power}' if power else ''} {plain}" if number else ""
    kind: AnswerType = "quantity" if power or plain else "number"
    question = text(row, "problem_text", where)
    if plain:
        question += f"\n\nThe unit of the answer is {plain}."
    source, number_in_book = text(row, "source", where), text(row, "problemid", where)
    return make_problem(
        facts(SCIBENCH),
        f"{source}:{number_in_book}",
        question,
        kind,
        gold,
        noted,
        metadata={
            "type": _type_name(power, plain),
            SUBSET: source,
            "answer_number": number,
            "answer_latex": optional(row, "answer_latex", where),
            "unit": unit,
            "comment": optional(row, "comment", where),
        },
    )


def split_unit(latex: str) -> tuple[int, str]:
    r"""Return the power of ten and the plain unit of a LaTeX unit: `$10^{-19} \mathrm{~J}$` is (-19, "J").

    Exponents are written "s^-1", degrees and micro as their signs, the dollar as "$". An empty unit is "".
    """
    if latex.strip() in _DOLLARS:
        return 0, "$"
    unit = _HAT.sub("", latex.replace("$", " "))
    for symbol, plain in _SYMBOLS.items():
        unit = unit.replace(symbol, plain)
    power = 0
    unit = _STYLE.sub("", unit)
    if found := _POWER.search(unit):
        power = int(found[1] or found[2])
        unit = unit[: found.start()] + unit[found.end() :]
    unit = _EXPONENT.sub(r"^\1 ", unit).replace("{", " ").replace("}", " ")
    # What is left of `{ }^{\circ} \mathrm{C}` is "^ ° C".
    unit = re.sub(r"\^\s*\N{DEGREE SIGN}\s*", "\N{DEGREE SIGN}", unit)
    unit = re.sub(r"\N{MICRO SIGN}\s+", "\N{MICRO SIGN}", unit)
    unit = re.sub(r"\s+(\^|-)", r"\1", unit)
    words = " ".join(unit.replace("/", " / ").split()).rstrip(";")
    return power, " ".join(_SLIPS.get(word, word) for word in words.split(" "))


def _type_name(power: int, unit: str) -> str:
    if unit in ("%", "$"):
        return "percent" if unit == "%" else "currency"
    if unit == "\N{DEGREE SIGN}":
        return "angle"
    return "numeric_with_unit" if power or unit else "numeric"


READER = Reader(problem, FILES, SUBSET, wanted=lambda file: not file.stem.endswith("_sol"))
