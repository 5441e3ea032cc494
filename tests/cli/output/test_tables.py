"""Tables fit themselves to the terminal; with and without colours they say the same."""

import io
from typing import Literal, TypeAlias

import pytest
from rich.console import Console
from rich.text import Text

from roostctl.output.tables import Column, Drawn, wide_listing, width_of

Row: TypeAlias = tuple[str, ...]
ITEMS: list[Row] = [
    ("1", "alice", "10", "waits for the same 4 GPUs on each of 2 nodes"),
    ("23", "bob", "7", "-"),
    ("4", "käthe", "123456", "is held"),
]
COLUMNS: tuple[Column[Row], ...] = (
    Column("JOB", lambda item: item[0]),
    Column("USER", lambda item: Text(item[1], "green")),
    Column("PRIORITY", lambda item: item[2], 1),
    Column("REASON", lambda item: item[3]),
)


def printed(width: int, is_coloured: bool, is_drawn: bool = True) -> str:
    """The table as a terminal of that width shows it, without its colours."""
    colours: Literal["standard"] | None = "standard" if is_coloured else None
    out = io.StringIO()
    console = Console(
        file=out, width=width, color_system=colours, force_terminal=True, markup=False
    )
    table = wide_listing(console, COLUMNS, ITEMS)
    if is_drawn:
        assert isinstance(table, Drawn)
        out.write(table.drawn(console) + "\n")
    else:
        console.print(table)
    assert is_coloured == ("\x1b[" in out.getvalue())
    lines = Text.from_ansi(out.getvalue()).plain.split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


@pytest.mark.parametrize("width", [14, 20, 30, 40, 60, 200])
def test_colours_change_nothing_else(width: int) -> None:
    assert printed(width, True) == printed(width, False)


@pytest.mark.parametrize("width", [14, 20, 30, 40, 60, 200])
@pytest.mark.parametrize("is_coloured", [True, False])
def test_rich_draws_the_same(width: int, is_coloured: bool) -> None:
    assert printed(width, is_coloured, is_drawn=False) == printed(width, is_coloured)


def test_equal_cells_have_their_colours() -> None:
    console = Console(color_system="standard", force_terminal=True, width=20, markup=False)
    table = wide_listing(console, COLUMNS[:2], ITEMS)
    assert isinstance(table, Drawn)
    head, *rows = table.drawn(console).split("\n")
    assert head == "\x1b[1mJOB\x1b[0m  \x1b[1mUSER\x1b[0m"
    assert rows[0] == "1    \x1b[32malice\x1b[0m"


def test_the_least_important_column_goes_first_then_the_reason_goes_below() -> None:
    assert printed(80, False).splitlines()[0] == "JOB  USER   PRIORITY  REASON"
    assert printed(30, False).splitlines()[:3] == [
        "JOB  USER   REASON",
        "1    alice  waits for the same",
        "            4 GPUs on each of",
    ]
    assert printed(24, False).splitlines()[:4] == [
        "JOB  USER   PRIORITY",
        "1    alice  10",
        "    waits for the same 4",
        "    GPUs on each of 2",
    ]


@pytest.mark.parametrize("width", [14, 24, 30, 60])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(width_of, printed(width, False).splitlines())) <= width
