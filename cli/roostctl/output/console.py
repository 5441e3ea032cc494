"""Where results go: tables that fit the terminal, JSON, and complaints on stderr.

Colour only on a terminal (and NO_COLOR is honoured). Nothing is cut off: a pipe gets lines as long
as they need be, a terminal too narrow for a table gets one block a row instead.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from roostctl.output.quantities import safe_text
from roostctl.output.tables import GAP, Drawn, LongTable, width_of_all
from roostctl.output.tables import Cell as Cell

_PIPE_WIDTH = 4096
_PROSE_MIN_WIDTH = 16
_MANY_ROWS = 100
_PADDING = (0, GAP, 0, 0)


def new_console() -> Console:
    """Return a console on the present stdout that takes text as it is: no markup, no emoji."""
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _PIPE_WIDTH
    return console


def listing(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> Table | LongTable:
    """Build a table whose last column may wrap; where it cannot fit, a block of lines per row."""
    if _narrowest(heads, rows) > console.width:
        return _blocks(heads, rows)
    if len(rows) >= _MANY_ROWS:
        return LongTable(list(zip(heads, zip(*rows, strict=True), strict=True)))
    table = Table(box=None, pad_edge=False, padding=_PADDING, header_style="bold")
    for head in heads[:-1]:
        table.add_column(head, no_wrap=True)
    table.add_column(heads[-1], overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _narrowest(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> int:
    """Columns of the terminal that the table needs at least."""
    widths = [width_of_all(column) for column in zip(heads, *rows, strict=True)]
    return sum(widths[:-1]) + GAP * (len(heads) - 1) + min(widths[-1], _PROSE_MIN_WIDTH)


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
    pieces = []
    for part in parts:
        if isinstance(part, Drawn):
            pieces.append(part.drawn(console))
            continue
        with console.capture() as captured:
            console.print(part, soft_wrap=not wrap)
        pieces.append(captured.get().removesuffix("\n"))
    text = "\n".join(line.rstrip() for line in [*"\n".join(pieces).split("\n"), ""])
    if clear:
        console.clear()
    encoding = console.encoding
    console.file.write(text.encode(encoding, "backslashreplace").decode(encoding))
    console.file.flush()


def prose(text: str, style: str = "") -> Text:
    """Running text that wraps at the terminal's edge."""
    return Text(text, style=style, overflow="fold")


def print_document(document: Mapping[str, object], compact: bool = False) -> None:
    """Print JSON: indented, or on one line when documents follow one another.

    Long lists get one line an item: Python's own encoder takes 0.1 ms an item to indent it.
    """
    if compact:
        click.echo(json.dumps(document, allow_nan=False))
        return
    parts = (f"  {json.dumps(key)}: {_indented(value)}" for key, value in document.items())
    click.echo("{\n" + ",\n".join(parts) + "\n}")


def _indented(value: object) -> str:
    if isinstance(value, list) and len(value) >= _MANY_ROWS:
        return "[\n    " + ",\n    ".join(_one_line(item) for item in value) + "\n  ]"
    return json.dumps(value, indent=2, allow_nan=False).replace("\n", "\n  ")


_one_line = json.JSONEncoder(allow_nan=False).encode


def complain(message: str) -> None:
    """Print on stderr what went wrong."""
    line = f"roostctl: {safe_text(message)}"
    encoding = sys.stderr.encoding or "utf-8"
    click.echo(line.encode(encoding, "backslashreplace").decode(encoding), err=True)
