"""The tables of the run store, and how a file of an older format is brought up to date."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dhd_labels.errors import DhdError

APPLICATION_ID = 0x44484431  # "DHD1": tells our files from other SQLite files
FORMAT = 2
SCHEMA = """
CREATE TABLE problems (
  problem_id TEXT PRIMARY KEY, ordinal INTEGER NOT NULL, content TEXT NOT NULL, studies TEXT NOT NULL);
CREATE TABLE pools (problem_id TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE calls (
  id INTEGER PRIMARY KEY, ticket TEXT NOT NULL, attempt INTEGER NOT NULL, key TEXT NOT NULL, role TEXT NOT NULL,
  problem_id TEXT NOT NULL, seed INTEGER NOT NULL, status TEXT NOT NULL, text TEXT NOT NULL, reasoning TEXT,
  finish_reason TEXT, prompt_tokens INTEGER, cached_tokens INTEGER, completion_tokens INTEGER, model TEXT NOT NULL,
  error TEXT, created_at REAL NOT NULL, digest TEXT NOT NULL, batch INTEGER, UNIQUE (ticket, attempt));
CREATE INDEX calls_by_problem ON calls (problem_id);
CREATE TABLE targets (problem_id TEXT NOT NULL, slot INTEGER NOT NULL, cell TEXT, PRIMARY KEY (problem_id, slot));
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
FROM_FORMAT_1 = """
ALTER TABLE problems ADD COLUMN studies TEXT NOT NULL DEFAULT '["blocks"]';
ALTER TABLE calls ADD COLUMN batch INTEGER;
CREATE TABLE targets (problem_id TEXT NOT NULL, slot INTEGER NOT NULL, cell TEXT, PRIMARY KEY (problem_id, slot));
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
SINCE_FORMAT_1 = {"problems": ('["blocks"]',), "calls": (None,), "pools": (), "targets": (), "meta": ()}
"""Columns that rows of a damaged store of format 1 lack."""
COLUMNS = {"problems": 4, "calls": 19, "pools": 2, "targets": 3, "meta": 2}


def check_ours(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a SQLite file of another program, or of a later format."""
    owner = db.execute("PRAGMA application_id").fetchone()[0]
    tables = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if owner != APPLICATION_ID and (owner or tables):
        raise DhdError(f"The file {path} must be a run store of dhd-labels, but another program made it. Move it away.")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if owner == APPLICATION_ID and found not in (1, FORMAT):
        raise DhdError(
            f"The run store {path} must have format 1 or {FORMAT}, got {found}: use the version of dhd-labels that "
            "made it."
        )
