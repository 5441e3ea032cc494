"""The command `roost-train interference`: figures of every predictor, and the model's two files."""

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

from roost_train.interference_pairs import read_pairs
from roost_train.interference_training import (
    as_table,
    compare,
    not_met,
    part_count,
    write_interference,
)
from roost_train.progress import ProgressBar


def run(data: Path, folder: Path | None, seed: int, *, as_json: bool) -> str:
    """Compare all predictors, train on all pairs, and return what is to be printed.

    Args:
        data: folder of the public tables.
        folder: for the model; None: no model is written.
        seed: of the random split.
        as_json: whether the result is a JSON object.

    Raises:
        BadTable: a table cannot be read.
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    pairs = read_pairs(data)
    bar = ProgressBar(part_count(pairs), sys.stderr)
    rows = compare(pairs, seed, lambda done: bar(done))
    missing = not_met(rows)
    words = ["roost-train", "interference", "--data", "DATA", "--seed", str(seed), "--out", "DIR"]
    path = None
    if folder is not None:
        path = write_interference(pairs, rows, folder, shlex.join(words), seed)
    if as_json:
        body = {"version": 1, "pairs": len(pairs), "rows": [asdict(row) for row in rows]}
        return json.dumps(
            {**body, "not_met": missing, "model": None if path is None else str(path)}
        )
    lines = [f"{len(pairs):,} ordered pairs", as_table(rows)]
    lines += [f"not met: {each}" for each in missing]
    if path is not None:
        lines.append(f"model: {path}")
    return "\n".join(lines)
