"""Writes the traces that benchmarks make, as CSV that the simulator reads."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

_COLUMNS = ("submit_s", "duration_s", "num_gpus", "user", "job_name", "time_limit_s")


def write_trace(out: Path, rows: Iterable[Sequence[object]]) -> None:
    """Write rows of these columns: submit_s, duration_s, num_gpus, user, job_name, time_limit_s."""
    with out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        writer.writerows(rows)
