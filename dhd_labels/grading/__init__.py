"""Verdicts: answer extraction and one rule an answer type. What a rule cannot decide is undetermined, never wrong."""
