"""Statistics of message effects: pure functions on numpy arrays, each stating its estimand, null and unit.

`blocks` turns replays into complete matched blocks. `families` names what a test looks at. `exact_null` tests single
problems, `pooled` all of them at once, `multiplicity` adjusts. `intervals` has rates and clustered bootstraps,
`cross_fit` the same-problem selection, `allocation` the rule that decides where further blocks are worth their calls.
"""
