"""The roles: prompts, and the parsing of what comes back. Only the evaluator's prompt ever holds a reference answer."""
