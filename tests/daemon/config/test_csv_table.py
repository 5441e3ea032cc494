"""A damaged table is refused with file, line and cure, whatever it is a table of."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.config.csv_table import read_table


def read(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text)
    return read_table(path, ("name", "size"), row, lambda name: name)


def row(given: Mapping[str, str]) -> str:
    if not given["size"].isdecimal():
        raise ValueError(f"size: want a whole number, got {given['size']!r}")
    return given["name"]


def test_rows_are_read_without_blanks_around_values(tmp_path: Path) -> None:
    assert read(tmp_path / "t.csv", "name,size\n a , 1\nb,2\n") == ("a", "b")


def test_a_byte_order_mark_of_a_spreadsheet_is_no_part_of_the_table(tmp_path: Path) -> None:
    assert read(tmp_path / "t.csv", "\ufeffname,size\r\na,1\r\n") == ("a",)


def test_a_pipe_or_device_is_refused_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="a pipe, a socket or a device; want a file"):
            read_table(path, ("name", "size"), row, lambda name: name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name\n", r"t\.csv:1: want the line name,size"),
        ("name,size\na\n", r"t\.csv:2: want 2 values: name,size"),
        ("name,size\na,1,2\n", r"t\.csv:2: want 2 values"),
        ("name,size\na,x\n", r"t\.csv:2: size: want a whole number, got 'x'"),
        ("name,size\na,1\nA,2\n", r"t\.csv:3: A is in line 2 too; keep one"),
        ('name,size\n"' + 200_000 * "a" + "\n", r"a quote without its second one\?"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(tmp_path / "t.csv", text)


def test_every_problem_is_told_up_to_ten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path / "t.csv", "name,size\n" + "".join(f"{n},x\n" for n in range(12)))
    assert str(refused.value).count("size: want") == 10
