"""Learn selectors from labels and measure what they gain.

The estimand is the gain of a selector's policy: the mean over problems that the selector has never seen of
(success of the arm that it chose - success of the arm that a reference policy chose), paired within the
problem. It is estimated by cross-fitting over problems (`crossfit`), with intervals and p-values that treat
the problem as the unit (`gain`). Entry point: `python -m training.fit`.
"""
