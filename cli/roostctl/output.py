"""Where results go: tables that fit the terminal, JSON, and complaints on stderr.

Colour only on a terminal (and NO_COLOR is honoured). Nothing is cut off: a pipe gets lines as long
as they need be, a terminal too narrow for a table gets one block a row instead.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from roostctl.quantities import safe_text

_PIPE_WIDTH = 4096
_PROSE_MIN_WIDTH = 16
_GAP = 2
_MANY_ROWS = 100
_PADDING = (0, _GAP, 0, 0)

Cell = str | Text


def new_console() -> Console:
    """A console on the present stdout that takes text as it is: no markup, no emoji."""
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = _PIPE_WIDTH
    return console


class _LongTable:
    """The table that `listing` makes, for many rows: rich's own takes 1.5 ms a row."""

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        self._rows = [[Text(head, "bold") for head in heads], *rows]
        columns = list(zip(*self._rows, strict=True))[:-1]
        self._widths = [max(cell_len(_plain(cell)) for cell in column) for column in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left_width = sum(self._widths) + _GAP * len(self._widths)
        for row in self._rows:
            for cell, width in zip(row, self._widths, strict=False):
                yield from _segments(console, cell)
                yield Segment(" " * (width - cell_len(_plain(cell)) + _GAP))
            for number, line in enumerate(self._lines(console, row[-1], left_width)):
                yield Segment(" " * left_width if number else "")
                yield from _segments(console, line)
                yield Segment.line()

    @staticmethod
    def _lines(console: Console, cell: Cell, left_width: int) -> Iterable[Cell]:
        width = max(console.width - left_width, 1)
        plain = _plain(cell)
        if cell_len(plain) <= width and "\n" not in plain:
            return [cell]
        text = Text(cell) if isinstance(cell, str) else cell
        return text.wrap(console, width, overflow="fold")


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _segments(console: Console, cell: Cell) -> Iterable[Segment]:
    if isinstance(cell, str):
        return [Segment(cell)]
    return Segment.apply_style(cell.render(console), console.get_style(cell.style))


def listing(
    console: Console, heads: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> Table | _LongTable:
    """Build a table whose last column may wrap; where it cannot fit, a block of lines per row."""
    if _narrowest(heads, rows) > console.width:
        return _blocks(heads, rows)
    if len(rows) >= _MANY_ROWS:
        return _LongTable(heads, rows)
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
