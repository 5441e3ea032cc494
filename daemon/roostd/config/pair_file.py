"""The site's table of measured pairs: CSV, one line for each job beside another on a GPU.

    model,beside,speed,spread
    bert,ncf,0.97,0.02
    ncf,bert,0.93,0.03

speed is that of `model` beside the other one, of its speed alone; spread is the standard deviation
of its logarithm. Page: docs/sharing.md.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from roost_engine.domain.errors import ConfigError
from roost_engine.sharing.pairs import PairSpeed, key_of
from roostd.config.config import Config

HEADS = ("model", "beside", "speed", "spread")
_MAX_BYTES = 4 << 20
_MOST_PROBLEMS = 10


def read_shared_pairs(config: Config) -> tuple[PairSpeed, ...]:
    """Return the table of measured pairs that the configuration names; empty where none counts.

    Raises:
        ConfigError: the table cannot be used.
    """
    sharing = config.sharing
    return load_pairs(sharing.pairs) if sharing.enabled and sharing.pairs is not None else ()


def load_pairs(path: Path) -> tuple[PairSpeed, ...]:
    """Read a table and check all of it.

    Raises:
        ConfigError: with the problems, each with file, line and cure.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError([f"{path}: larger than {_MAX_BYTES} bytes; no table of pairs is"])
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 at byte {error.start}"]) from error
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    problems: list[str] = []
    try:
        if tuple(reader.fieldnames or ()) != HEADS:
            raise ConfigError([f"{path}:1: want the line {','.join(HEADS)}"])
        rows = tuple(_rows(path, reader, problems))
    except csv.Error as error:
        line = reader.reader.line_num  # DictReader's own counts the lines that were read well
        raise ConfigError([f"{path}:{line}: {error}; a quote without its second one?"]) from error
    if problems:
        raise ConfigError(problems[:_MOST_PROBLEMS])
    return rows


def _rows(path: Path, reader: "csv.DictReader[str]", problems: list[str]) -> Iterator[PairSpeed]:
    lines = dict[tuple[str, str], int]()
    for row in reader:
        try:
            pair = _row(row)
        except ValueError as error:
            problems.append(f"{path}:{reader.line_num}: {error}")
            continue
        first = lines.setdefault(key_of(pair.model, pair.beside), reader.line_num)
        if first != reader.line_num:
            named = f"{pair.model} beside {pair.beside}"
            problems.append(f"{path}:{reader.line_num}: {named} is in line {first} too; keep one")
        yield pair


def _row(row: Mapping[str, str | None]) -> PairSpeed:
    """Read one line.

    Raises:
        ValueError: says what is wrong with it.
    """
    if None in row or None in row.values():
        raise ValueError(f"want {len(HEADS)} values: {','.join(HEADS)}")
    given = {head: (row[head] or "").strip() for head in HEADS}
    for head in ("model", "beside"):
        if not given[head]:
            raise ValueError(f"{head}: want a name, as users write it in roost:model=")
    speed, spread = _number("speed", given["speed"]), _number("spread", given["spread"])
    if not speed > 0:
        raise ValueError(f"speed: want a number above 0, at most 1, got {given['speed']!r}")
    return PairSpeed(given["model"], given["beside"], speed, spread)


def _number(head: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"{head}: want a number from 0 to 1, got {text!r}")
    return number
