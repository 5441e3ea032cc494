"""The site's table of measured pairs: CSV, one line for each job beside another on a GPU.

    model,beside,speed,spread
    bert,ncf,0.97,0.02
    ncf,bert,0.93,0.03

speed is that of `model` beside the other one, of its speed alone; spread is the standard deviation
of its logarithm. Page: docs/sharing.md.
"""

from collections.abc import Mapping
from pathlib import Path

from roost_engine.sharing.pairs import PairSpeed
from roostd.config.config import Config
from roostd.config.csv_table import read_table

HEADS = ("model", "beside", "speed", "spread")


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
    return read_table(path, HEADS, _row, lambda pair: f"{pair.model} beside {pair.beside}")


def _row(given: Mapping[str, str]) -> PairSpeed:
    """Read one line.

    Raises:
        ValueError: says what is wrong with it.
    """
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
