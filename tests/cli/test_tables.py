"""Tables fit themselves to the terminal; with and without colours they say the same."""

import io
from typing import Literal, TypeAlias

import pytest
from rich.console import Console
from rich.text import Text

from roostctl.tables import Column, LongTable, wide_listing, width_of

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


def printed(width: int, is_coloured: bool) -> str:
    """The table as a terminal of that width shows it, without its colours."""
    colours: Literal["standard"] | None = "standard" if is_coloured else None
    out = io.StringIO()
    console = Console(
        file=out, width=width, color_system=colours, force_terminal=True, markup=False
    )
    table = wide_listing(console, COLUMNS, ITEMS)
    if is_coloured:
        console.print(table)
    else:
        assert isinstance(table, LongTable) or hasattr(table, "bare")
        out.write(table.bare(console) + "\n")
    lines = Text.from_ansi(out.getvalue()).plain.split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


@pytest.mark.parametrize("width", [14, 20, 30, 40, 60, 200])
def test_colours_change_nothing_else(width: int) -> None:
    assert printed(width, True) == printed(width, False)


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
