"""The site's table of model speeds: CSV, one line for each model and number of GPUs.

    model,gpus,node,rack,across
    bert,8,1.0,0.82,0.74

node, rack and across are speeds on one node, in one rack and across racks; only their ratios
matter. Page: docs/delay.md.
"""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path

from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roostd.config.csv_table import read_table

HEADS = ("model", "gpus", "node", "rack", "across")


def load_speeds(path: Path) -> tuple[ModelSpeeds, ...]:
    """Read a table and check all of it.

    Raises:
        ConfigError: with the problems, each with file, line and cure.
    """
    return read_table(path, HEADS, _row, lambda one: f"{one.model} on {one.gpu_count} GPUs")


def _row(given: Mapping[str, str]) -> ModelSpeeds:
    """Read one line.

    Raises:
        ValueError: says what is wrong with it.
    """
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
