"""Verdicts: answer extraction and one rule an answer type. What a rule cannot decide is undetermined, never wrong.

The way of an answer: `extract` (text to answer), `rules` (dispatch by declared type), `options`, `quantity`, `units`,
`ranges`, `expressions` (`notation`, `mathtext`, `structure`, `evaluate`, `compare`; in `workers`: `numeric`, `values`),
`official` (the benchmarks' own scorers). `command` is the command line; the README has a table of the rules.
"""
