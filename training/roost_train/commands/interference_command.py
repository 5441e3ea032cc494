"""The command `roost-train interference`: figures of every predictor, and the model's two files.

With a journal, the model in service is refitted to what the site's own jobs reported.
"""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from roost_formats.models.interference import load_onnx_interference
from roost_train.errors import TrainError
from roost_train.interference.journal import read_reports
from roost_train.interference.measured_pairs import read_measured
from roost_train.interference.pair_tables import read_pair_tables
from roost_train.interference.pairs import Pairs, join, read_pairs
from roost_train.interference.refit import as_text, refit, write_refit
from roost_train.interference.training import (
    as_table,
    compare,
    not_met,
    part_count,
    write_interference,
)
from roost_train.progress import ProgressBar


def read_sources(data: Path, pairs: Sequence[Path] = (), alone: Sequence[Path] = ()) -> Pairs:
    """Return the pairs of all sources: public, our own of an H200, and more tables.

    Args:
        data: folder of Gavel's tables, of P100 and K80.
        pairs: more tables of pairs, of any GPU type.
        alone: tables that say more of their jobs.

    Raises:
        TrainError: there are tables of jobs alone, and none of pairs.
        BadTable: a table cannot be read.
    """
    if alone and not pairs:
        raise TrainError("--alone says more of the jobs of --pairs; give --pairs too")
    more = [read_pair_tables(pairs, alone)] if pairs else []
    return join([read_pairs(data), read_measured(), *more])


def run(
    pairs: Pairs,
    folder: Path | None,
    seed: int,
    *,
    as_json: bool,
    more: Sequence[Path] = (),
    alone: Sequence[Path] = (),
) -> str:
    """Compare all predictors, train on all pairs, and return what is to be printed.

    Args:
        pairs: of all sources.
        folder: for the model; None: no model is written.
        seed: of the random split.
        as_json: whether the result is a JSON object.
        more: the tables of pairs beside the public ones and our own, for the model's card.
        alone: the tables that say more of their jobs, likewise.

    Raises:
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    bar = ProgressBar(part_count(pairs), sys.stderr)
    rows = compare(pairs, seed, lambda done: bar(done))
    missing = not_met(rows)
    words = ["roost-train", "interference", "--data", "DATA"]
    for option, tables in (("--pairs", more), ("--alone", alone)):
        words += [word for table in tables for word in (option, table.name)]
    words += ["--seed", str(seed), "--out", "DIR"]
    path = None
    if folder is not None:
        names = [table.name for table in more]
        path = write_interference(pairs, rows, folder, shlex.join(words), seed, names)
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


def run_refit(journal: Path, model: Path, folder: Path | None, *, as_json: bool) -> tuple[str, int]:
    """Refit a model to a journal; write it only where it predicts the last week better.

    Args:
        journal: of roostd.
        model: in service, which the new one would replace.
        folder: for the new model; None: figures alone.
        as_json: whether the result is a JSON object.

    Returns:
        What is to be printed, and the exit code: 0, the new model is better; 1, it is not.

    Raises:
        JournalError: the journal cannot be read.
        TooFewJobs: it has too few reports.
        ModelError: the model is of another form.
        PolicyError: the daemon would refuse the model.
        OSError: a file cannot be read or written.
    """
    in_service = load_onnx_interference(model, lambda: 0.0)
    words = ["roost-train", "interference", "--journal", journal.name, "--model", model.name]
    found = refit(model, read_reports(journal, in_service), shlex.join(words))
    figures, path = found.figures, None
    if figures.is_better and folder is not None:
        path = write_refit(found, folder)
    code = 0 if figures.is_better else 1
    if as_json:
        body = {"version": 1, **asdict(figures), "is_better": figures.is_better}
        return json.dumps({**body, "model": None if path is None else str(path)}), code
    if not figures.is_better:
        return (
            f"{as_text(figures)}\nrefused: the last week is not predicted better, {model} stays",
            code,
        )
    return as_text(figures) + ("" if path is None else f"\nmodel: {path}"), code
