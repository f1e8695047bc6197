"""Verdicts: answer extraction and one rule an answer type. What a rule cannot decide is undetermined, never wrong.

| answer type | strict (ours) | official |
|---|---|---|
| `choice` | one option letter, or the text of exactly one option; several letters are wrong | JEEBench: the set of capitals A-D; LAB-Bench: its regular expression |
| `choices` | the same set of letters; alternatives ("A or C") are undetermined | JEEBench: 0.25 a letter for a part of the key, 0 with a wrong letter |
| `choice_any` | either letter of the key ("C OR D"), not both | as strict |
| `integer`, `number` | exact; JEEBench within 0.01, bound inside, exact arithmetic | JEEBench: within 0.01 in double precision |
| `quantity` | SciBench within 5 % of the reference; units converted and must agree; exact at 0 | SciBench: within 5 % of the larger, units never compared |
| `range` | closed intervals and their unions; a plain number is one point | MaScQA: the same; a plain number after rounding both to the fewer decimals |
| `expression` | equal strings, exact arithmetic, else equal at dozens of points to 40 digits | Omni-MATH-2 has a judge model only: as strict |
| `text` | equal words; yes against no; all else undetermined | as strict |

A number without a unit is read in the unit of the reference (without the power of ten that some references keep there).
The way of an answer: `extract` (text to answer), `rules` (dispatch by declared type), `options`, `quantity` and `units`,
`ranges`, `expressions` (`notation`, `mathtext`, `structure`, `evaluate`, `compare`; in `workers`: `numeric`, `values`),
`official`; `command` is the command line.
"""
