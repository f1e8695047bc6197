"""A titled table of text that prints as Markdown (cards) and on a terminal (rich).

Cells can hold text that a model or a user wrote, so nothing in them may act as Markdown, HTML or terminal
markup.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.table

_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_ACTIVE = re.compile(r"([\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_]))")
_BLOCK_MARK = re.compile(r"^(?:[-+=:#]|\d+[.)])(?!\S)|^[-=:]{2,}$|^#{2,}")
_BARE_LINK = re.compile(r"(?:https?|ftp):(?=//)|www\.|\w@", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of plain text. Every row has one cell a column.

    Raises:
        ValueError: a row has another number of cells than there are columns.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"Row {number} of the table {self.title!r} must have {len(self.columns)} cells, got {len(row)}"
                )

    def to_markdown(self) -> str:
        """Return a GitHub-flavoured Markdown table: bold title, table, note; no line break at the end."""
        parts = [f"**{escape(self.title)}**"] if self.title else []
        rule = f"|{' --- |' * len(self.columns)}"
        parts.append("\n".join((_line(self.columns), rule, *map(_line, self.rows))))
        if self.note:
            parts.append(escape(self.note))
        return "\n\n".join(parts)

    def to_rich(self) -> rich.table.Table:
        """Return the table for `rich.print`; markup and control characters are shown, not obeyed."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=Text(visible(self.title)), caption=Text(visible(self.note)) if self.note else None)
        for column in self.columns:
            table.add_column(Text(visible(column)), overflow="fold")  # a name cut short could be another's
        for row in self.rows:
            table.add_row(*(Text(visible(cell)) for cell in row))
        return table

    def visible_cells(self) -> tuple[tuple[str, ...], ...]:
        """Return the column names and then the rows, each cell one line without control or invisible characters."""
        return tuple(tuple(map(visible, line)) for line in (self.columns, *self.rows))


def escape(text: str) -> str:
    """Return one line of Markdown that shows the text and does nothing else (no markup, HTML, link)."""
    return _BLOCK_MARK.sub(_as_entity, _inline(text))


def _inline(text: str) -> str:
    """Escape text that does not start a line, so that `- x` or `1.` cannot begin a list."""
    line = "".join(_HTML.get(char, char) for char in visible(text))
    return _BARE_LINK.sub(_as_entity, _ACTIVE.sub(r"\\\1", line))


def _as_entity(found: re.Match[str]) -> str:
    """Return the match with its last character as an HTML entity: it shows but does not act."""
    return f"{found[0][:-1]}&#{ord(found[0][-1])};"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(map(_inline, cells))} |"


def visible(text: str) -> str:
    """Return the text as one line: control characters shown as U+FFFD, invisible formatting dropped."""
    return " ".join(visible_as_set(text).split())


def visible_as_set(text: str) -> str:
    """Return `visible` with every space in its place: for text whose indentation means something, such as YAML."""
    return "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    if char.isspace():
        return " "
    kind = unicodedata.category(char)
    if kind == "Cf":
        return ""
    return "\ufffd" if kind in {"Cc", "Cs"} else char
