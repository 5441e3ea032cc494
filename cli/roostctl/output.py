"""Where results go: tables that fit the terminal, JSON, and complaints on stderr.

Colour only on a terminal (and NO_COLOR is honoured). Nothing is cut off: a pipe gets lines as long
as they need be, a terminal too narrow for a table gets one block a row instead.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from roostctl.quantities import safe_text

_PIPE_WIDTH = 4096
_PROSE_MIN_WIDTH = 16
_GAP = 2
_PADDING = (0, _GAP, 0, 0)

Cell = str | Text


def new_console() -> Console:
    """A console on the present stdout that takes text as it is: no markup, no emoji."""
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _PIPE_WIDTH
    return console


def listing(console: Console, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """Build a table whose last column may wrap; where it cannot fit, a block of lines per row."""
    if _narrowest(heads, rows) > console.width:
        return _blocks(heads, rows)
    table = Table(box=None, pad_edge=False, padding=_PADDING, header_style="bold")
    for head in heads[:-1]:
        table.add_column(head, no_wrap=True)
    table.add_column(heads[-1], overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _narrowest(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> int:
    """Columns of the terminal that the table needs at least."""
    widths = [
        max(cell_len(cell if isinstance(cell, str) else cell.plain) for cell in column)
        for column in zip(heads, *rows, strict=True)
    ]
    return sum(widths[:-1]) + _GAP * (len(heads) - 1) + min(widths[-1], _PROSE_MIN_WIDTH)


def pairs(rows: Sequence[tuple[str, Cell]]) -> Table:
    """Lay out names and values in two columns, values wrapping."""
    table = Table(box=None, pad_edge=False, padding=_PADDING, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def _blocks(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    table = pairs([])
    for number, row in enumerate(rows):
        if number:
            table.add_row("", "")
        for head, cell in zip(heads, row, strict=True):
            table.add_row(head, cell)
    return table


def show(console: Console, *parts: RenderableType, clear: bool = False, wrap: bool = True) -> None:
    """Print the parts, without trailing blanks, in whatever encoding stdout has.

    Args:
        console: from new_console.
        parts: what to print, one below the other.
        clear: wipe the terminal first.
        wrap: False leaves long lines to the terminal, as a matrix needs it.
    """
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=not wrap)
    text = "\n".join(line.rstrip() for line in captured.get().split("\n"))
    if clear:
        console.clear()
    encoding = console.encoding
    console.file.write(text.encode(encoding, "backslashreplace").decode(encoding))
    console.file.flush()


def prose(text: str, style: str = "") -> Text:
    """Running text that wraps at the terminal's edge."""
    return Text(text, style=style, overflow="fold")


def print_document(document: Mapping[str, object], compact: bool = False) -> None:
    """Print JSON: indented, or on one line when documents follow one another."""
    click.echo(json.dumps(document, indent=None if compact else 2, allow_nan=False))


def complain(message: str) -> None:
    """Print on stderr what went wrong."""
    line = f"roostctl: {safe_text(message)}"
    encoding = sys.stderr.encoding or "utf-8"
    click.echo(line.encode(encoding, "backslashreplace").decode(encoding), err=True)
