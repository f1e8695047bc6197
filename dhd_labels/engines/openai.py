"""Placeholder until the engine is merged."""
