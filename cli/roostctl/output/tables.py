"""Tables of many rows, which fit themselves to the terminal; `output.show` prints them.

rich's own table takes 1.5 ms a row, and rich takes 0.1 ms to print a row of cells that are done:
these tables draw themselves.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar, runtime_checkable

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from roostctl.output.quantities import ABSENT

GAP = 2
_PROSE_MIN_WIDTH = 16

Cell = str | Text
_Item = TypeVar("_Item")


@runtime_checkable
class Drawn(Protocol):
    """What can draw itself."""

    def drawn(self, console: Console) -> str:
        """Return the lines, in the console's colours, without the last line's end."""


class LongTable:
    """The table that `listing` makes, for many rows: rich's own takes 1.5 ms a row.

    Args:
        columns: of each its head and its cells, one cell a row.
    """

    def __init__(self, columns: Sequence[tuple[str, Sequence[Cell]]]) -> None:
        listed = [[Text(head, "bold"), *cells] for head, cells in columns]
        *self._columns, self._last = listed
        self._widths = list(map(width_of_all, self._columns))

    def drawn(self, console: Console) -> str:
        """Return the table column by column: rich takes 50 times as long."""
        paint = _painter(console)
        columns = [
            _padded(column, width, paint)
            for column, width in zip(self._columns, self._widths, strict=True)
        ]
        left = " " * (sum(self._widths) + GAP * len(self._widths))
        width, begin = max(console.width - len(left), 1), "\n" + left
        said = [
            cell
            if isinstance(cell, str) and cell.isascii() and len(cell) <= width and "\n" not in cell
            else begin.join(map(paint, _lines(console, cell, width)))
            for cell in self._last
        ]
        return "\n".join(map("".join, zip(*columns, said, strict=True)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left_width = sum(self._widths) + GAP * len(self._widths)
        width = max(console.width - left_width, 1)
        for row in zip(*self._columns, self._last, strict=True):
            for cell, wanted in zip(row, self._widths, strict=False):
                yield from _segments(console, cell, wanted + GAP)
            *lines, last = _lines(console, row[-1], width)
            for line in lines:
                yield from _segments(console, line)
                yield Segment("\n" + " " * left_width)
            yield from _segments(console, last)
            yield Segment.line()


def _lines(console: Console, cell: Cell, width: int) -> Sequence[Cell]:
    if width_of(cell) <= width and "\n" not in _plain(cell):
        return [cell]
    text = Text(cell) if isinstance(cell, str) else cell
    return list(text.wrap(console, width, overflow="fold"))


def width_of(cell: Cell) -> int:
    """Return the columns that a cell takes; rich's own count costs ten times as much."""
    plain = _plain(cell)
    return len(plain) if plain.isascii() else cell_len(plain)


def width_of_all(cells: Sequence[Cell]) -> int:
    """Return the columns that the widest of some cells takes."""
    plain = [_plain(cell) for cell in cells]
    return max(map(len if _are_ascii(plain) else width_of, plain), default=0)


def _padded(cells: Sequence[Cell], width: int, paint: Callable[[Cell], str]) -> list[str]:
    """Return cells as text that reaches to the next column."""
    plain = [cell for cell in cells if isinstance(cell, str)]
    if len(plain) == len(cells) and _are_ascii(plain):
        return [text.ljust(width + GAP) for text in plain]
    return [paint(cell) + " " * (width + GAP - width_of(cell)) for cell in cells]


def _painter(console: Console) -> Callable[[Cell], str]:
    """Return what gives a cell the console's colours; it asks rich once for equal cells."""
    painted: dict[Hashable, str] = {}

    def paint(cell: Cell) -> str:
        if isinstance(cell, str):
            return cell
        if not console.color_system:
            return cell.plain
        key = cell.plain, cell.style, tuple(cell.spans)
        if key not in painted:
            with console.capture() as captured:
                console.print(cell, end="", soft_wrap=True)
            painted[key] = captured.get()
        return painted[key]

    return paint


def _are_ascii(texts: Sequence[str]) -> bool:
    return "".join(texts).isascii()


def _plain(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.plain


def _segments(console: Console, cell: Cell, width: int = 0) -> Iterable[Segment]:
    blanks = Segment(" " * (width - width_of(cell)))
    if isinstance(cell, str):
        return [Segment(cell), blanks]
    return [*Segment.apply_style(cell.render(console), console.get_style(cell.style)), blanks]


@dataclass(frozen=True, slots=True)
class Column(Generic[_Item]):
    """One column of a table that fits itself to the terminal.

    Attributes:
        head: its heading.
        cell: returns what it shows of an item.
        rank: on a narrow terminal the columns of the lowest rank go first; None: it stays.
    """

    head: str
    cell: Callable[[_Item], Cell]
    rank: int | None = None


def wide_listing(
    console: Console, columns: Sequence[Column[_Item]], items: Sequence[_Item]
) -> RenderableType:
    """Build a table that leaves columns out where the terminal is too narrow for all.

    Where the last column, running text, still does not fit, it goes below the others, indented.
    """
    cells = {column.head: [column.cell(item) for item in items] for column in columns}
    widths = {
        column.head: max(len(column.head), width_of_all(cells[column.head])) for column in columns
    }
    *shown, last = columns
    ranked = sorted((one for one in shown if one.rank is not None), key=lambda one: one.rank or 0)
    least = min(widths[last.head], _PROSE_MIN_WIDTH)
    for left_out in ranked:
        if sum(widths[one.head] + GAP for one in shown) + least <= console.width:
            break
        shown.remove(left_out)
    fits = sum(widths[one.head] + GAP for one in shown) + least <= console.width
    if fits:
        return LongTable([(one.head, cells[one.head]) for one in (*shown, last)])
    return _TwoLines(ranked, shown, last.head, cells, widths)


class _TwoLines:
    """A table whose last column stands below the others."""

    def __init__(
        self,
        ranked: Sequence[Column[_Item]],
        shown: Sequence[Column[_Item]],
        last: str,
        cells: Mapping[str, Sequence[Cell]],
        widths: Mapping[str, int],
    ) -> None:
        self._ranked, self._fixed = list(reversed(ranked)), [one.head for one in shown]
        self._last, self._cells, self._widths = last, cells, widths

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = self._heads(console)
        yield from self._line(console, heads, [Text(head, "bold") for head in heads])
        for number, said in enumerate(self._cells[self._last]):
            yield from self._line(console, heads, [self._cells[head][number] for head in heads])
            for line in _below(_plain(said), console.width):
                yield Segment(line)
                yield Segment.line()

    def drawn(self, console: Console) -> str:
        """See Drawn."""
        heads = self._heads(console)
        if self._width(heads) > console.width:
            with console.capture() as captured:
                console.print(self)
            return captured.get().removesuffix("\n")
        paint = _painter(console)
        columns = (
            _padded([Text(head, "bold"), *self._cells[head]], self._widths[head], paint)
            for head in heads
        )
        below = cache(lambda said: "".join(f"\n{line}" for line in _below(said, console.width)))
        said = ["", *(below(_plain(cell)) for cell in self._cells[self._last])]
        return "\n".join(map("".join, zip(*columns, said, strict=True)))

    def _heads(self, console: Console) -> list[str]:
        """Return the columns of the first line, in their order."""
        heads = list(self._fixed)
        for column in self._ranked:  # the most important first
            if self._width([*heads, column.head]) <= console.width:
                heads.append(column.head)
        return [head for head in self._cells if head in heads]

    def _width(self, heads: Sequence[str]) -> int:
        return sum(self._widths[head] + GAP for head in heads) - GAP

    def _line(
        self, console: Console, heads: Sequence[str], cells: Sequence[Cell]
    ) -> Iterable[Segment]:
        left = console.width
        for place, (head, cell) in enumerate(zip(heads, cells, strict=True)):
            width = self._widths[head]
            if place and width > left:  # even the columns that stay do not fit on one line
                yield Segment("\n" + " " * 2 * GAP)
                left = console.width - 2 * GAP
            yield from _segments(console, cell, width + GAP)
            left -= width + GAP
        yield Segment.line()


def _below(said: str, width: int) -> list[str]:
    """Return the indented lines of what stands below a row; none for "-"."""
    if said == ABSENT:
        return []
    return [" " * 2 * GAP + line for line in _wrapped(said, max(width - 2 * GAP, 1))]


def _wrapped(said: str, width: int) -> list[str]:
    """Break a text into lines at its blanks, and long words where they must be."""
    lines, rest = [], said
    while len(rest) > width and rest.isascii():
        end = rest.rfind(" ", 1, width + 1)
        if end < 0:
            break
        lines.append(rest[:end].rstrip(" "))
        rest = rest[end + 1 :].lstrip(" ")
    if "\n" not in said and rest.isascii() and len(rest) <= width:
        return [*lines, rest]
    # rich takes 20 us, but knows how wide other characters are.
    return [line.plain for line in Text(said).wrap(_PLAIN_CONSOLE, width, overflow="fold")]


_PLAIN_CONSOLE = Console(markup=False, emoji=False, highlight=False)
