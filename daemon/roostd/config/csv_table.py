"""Small CSV tables that a site writes: read whole, with every problem named by file and line."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from roost_engine.domain.errors import ConfigError
from roostd.config.plain_file import NO_FILE, is_no_file

_MAX_BYTES = 4 << 20
_MOST_PROBLEMS = 10

Row = TypeVar("Row")


def read_table(
    path: Path,
    heads: Sequence[str],
    read_row: Callable[[Mapping[str, str]], Row],
    name_of: Callable[[Row], str],
) -> tuple[Row, ...]:
    """Read a table and check all of it.

    Args:
        path: UTF-8 text; the first line names the columns.
        heads: the columns, in order.
        read_row: makes a row of the texts by column; raises ValueError with what is wrong.
        name_of: names what a row is of; no two rows may be of the same, in any case of letters.

    Raises:
        ConfigError: with the problems, each with file, line and cure.
    """
    reader = csv.DictReader(_text(path).splitlines(), skipinitialspace=True)
    problems: list[str] = []
    try:
        if tuple(reader.fieldnames or ()) != tuple(heads):
            raise ConfigError([f"{path}:1: want the line {','.join(heads)}"])
        rows = tuple(_rows(path, reader, read_row, name_of, problems))
    except csv.Error as error:
        line = reader.reader.line_num  # DictReader's own counts the lines that were read well
        raise ConfigError([f"{path}:{line}: {error}; a quote without its second one?"]) from error
    if problems:
        raise ConfigError(problems[:_MOST_PROBLEMS])
    return rows


def _text(path: Path) -> str:
    try:
        if is_no_file(path):
            raise ConfigError([f"{path}: {NO_FILE}"])
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError([f"{path}: larger than {_MAX_BYTES} bytes; no such table is"])
        return path.read_text(encoding="utf-8-sig")  # spreadsheets write a byte order mark
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 at byte {error.start}"]) from error


def _rows(
    path: Path,
    reader: "csv.DictReader[str]",
    read_row: Callable[[Mapping[str, str]], Row],
    name_of: Callable[[Row], str],
    problems: list[str],
) -> Iterator[Row]:
    lines = dict[str, int]()
    heads = reader.fieldnames or ()
    for row in reader:
        where = f"{path}:{reader.line_num}"
        if None in row or None in row.values():
            problems.append(f"{where}: want {len(heads)} values: {','.join(heads)}")
            continue
        try:
            found = read_row({head: row[head].strip() for head in heads})
        except ValueError as error:
            problems.append(f"{where}: {error}")
            continue
        name = name_of(found)
        first = lines.setdefault(name.lower(), reader.line_num)
        if first != reader.line_num:
            problems.append(f"{where}: {name} is in line {first} too; keep one")
        yield found
