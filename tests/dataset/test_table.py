from __future__ import annotations

import io

import pytest
import rich.console

from dhd_labels.report.table import Table, escape


def test_markdown_of_a_plain_table() -> None:
    table = Table("Taxonomy", ("cell", "gain"), (("wrong_helpful", "-0.12"), ("b", "1.5")), "A note.")
    assert table.to_markdown() == (
        "**Taxonomy**\n\n| cell | gain |\n| --- | --- |\n| wrong_helpful | -0.12 |\n| b | 1.5 |\n\nA note."
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("a\nb\r\nc\u2028d", "a b c d"),
        ("`code`", r"\`code\`"),
        ("<img src=x>&", "&lt;img src=x&gt;&amp;"),
        (r"a\|b", r"a\\\|b"),
        ("[t](http://x.y)", r"\[t\](http&#58;//x.y)"),
        ("www.x.y a@b", "www&#46;x.y a&#64;b"),
        ("*b* _i_ __b__ a_b ~~s~~ $m$", r"\*b\* \_i\_ \_\_b\_\_ a_b \~\~s\~\~ \$m\$"),
        ("# h", "&#35; h"),
        ("- item", "&#45; item"),
        ("1. item", "1&#46; item"),
        ("\x1b[31mred\x00", "\ufffd\\[31mred\ufffd"),
        ("\u202eabc\u200b", "abc"),
        ("\udc00", "\ufffd"),
    ],
)
def test_cells_show_and_do_not_act(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_rich_shows_markup_and_strips_control_characters() -> None:
    out = io.StringIO()
    table = Table("[b]t", ("c",), (("[red]x[/red] \x1b[31m",),), "n")
    rich.console.Console(file=out, width=60, force_terminal=False).print(table.to_rich())
    assert "[red]x[/red]" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="Row 1 of the table 't' must have 2 cells, got 1"):
        Table("t", ("a", "b"), (("1", "2"), ("3",)))


def test_a_long_name_is_never_cut_short_on_a_terminal() -> None:
    names = ("an-organisation/a-model-with-a-long-name-1", "an-organisation/a-model-with-a-long-name-2")
    table = Table("systems", ("actor", "integrator"), (names, names[::-1]))
    out = io.StringIO()
    rich.console.Console(file=out, width=40).print(table.to_rich())
    lines = [line.strip("│").split("│") for line in out.getvalue().splitlines() if line.startswith("│")]
    first = "".join(left.strip() for left, _ in lines)
    assert first == "".join(names)
