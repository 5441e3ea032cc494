"""The site's table of model speeds: CSV, one line for each model and number of GPUs.

    model,gpus,node,rack,across
    bert,8,1.0,0.82,0.74

node, rack and across are speeds on one node, in one rack and across racks; only their ratios
matter. Page: docs/delay.md.
"""

import csv
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path

from roost_engine.domain.errors import ConfigError
from roost_engine.prediction.speed_table import ModelSpeeds
from roost_engine.prediction.tier_speeds import TierSpeeds

HEADS = ("model", "gpus", "node", "rack", "across")
_MAX_BYTES = 4 << 20
_MOST_PROBLEMS = 10


def load_speeds(path: Path) -> tuple[ModelSpeeds, ...]:
    """Read a table and check all of it.

    Raises:
        ConfigError: with the problems, each with file, line and cure.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError([f"{path}: larger than {_MAX_BYTES} bytes; no table of speeds is"])
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 at byte {error.start}"]) from error
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    if tuple(reader.fieldnames or ()) != HEADS:
        raise ConfigError([f"{path}:1: want the line {','.join(HEADS)}"])
    problems: list[str] = []
    rows = tuple(_rows(path, reader, problems))
    if problems:
        raise ConfigError(problems[:_MOST_PROBLEMS])
    return rows


def _rows(path: Path, reader: "csv.DictReader[str]", problems: list[str]) -> Iterator[ModelSpeeds]:
    seen = dict[tuple[str, int], int]()
    for row in reader:
        try:
            found = _row(row)
        except ValueError as error:
            problems.append(f"{path}:{reader.line_num}: {error}")
            continue
        key = found.model.lower(), found.gpu_count
        if key in seen:
            problems.append(
                f"{path}:{reader.line_num}: {found.model} on {found.gpu_count} GPUs stands here"
                f" and in line {seen[key]}; keep one"
            )
        seen[key] = reader.line_num
        yield found


def _row(row: Mapping[str, str | None]) -> ModelSpeeds:
    """Read one line.

    Raises:
        ValueError: says what is wrong with it.
    """
    if None in row or None in row.values():
        raise ValueError(f"want {len(HEADS)} values: {','.join(HEADS)}")
    given = {head: (row[head] or "").strip() for head in HEADS}
    if not given["model"]:
        raise ValueError("model: want a name")
    if not given["gpus"].isdecimal() or int(given["gpus"]) < 2:
        raise ValueError(f"gpus: want a whole number of 2 or more, got {given['gpus']!r}")
    node, rack, across = (_speed(head, given[head]) for head in HEADS[2:])
    if not node >= rack >= across:
        raise ValueError("want node >= rack >= across: farther apart is never faster")
    return ModelSpeeds(
        model=given["model"],
        gpu_count=int(given["gpus"]),
        speeds=TierSpeeds(1.0, rack / node, across / node),
    )


def _speed(head: str, text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not (isfinite(speed) and speed > 0):
        raise ValueError(f"{head}: want a number above 0, got {text!r}")
    return speed
