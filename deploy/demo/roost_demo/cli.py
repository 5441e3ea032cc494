"""`roost-demo`: watch Roost place 20 GPU jobs on a throw-away Slurm cluster."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

from rich.console import Console

from roost_demo.desk import Desk, RealCluster
from roost_demo.embedded import EmbeddedCluster
from roost_demo.show import Row, print_head, print_row, print_sum
from roost_slurm.testing.local_slurm import LocalSlurmUnavailable, check_available

JOB_GPU_COUNTS = (8, 2, 2, 4, 2, 1, 2, 3, 2, 2, 16, 2, 6, 2, 4, 1, 2, 8, 4, 2)
DEADLINE_S = 50.0


def main() -> int:
    """Run the demonstration. Exit codes: 0 all as chosen, 1 not, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="roost-demo", description=__doc__)
    parser.add_argument(
        "--embedded", action="store_true", help="use the in-memory Slurm stand-in, no root needed"
    )
    parser.add_argument("--job-s", type=float, default=4.0, help="how long each job runs")
    options = parser.parse_args()
    console = Console(highlight=False)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore SIGINT
        signal.signal(number, _interrupt)
    try:
        with _open_desk(console, options.embedded) as desk:
            return _run(console, desk, options.job_s)
    except KeyboardInterrupt:
        console.print("interrupted; everything is cleaned up")
        return 130


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _open_desk(console: Console, embedded: bool) -> Desk:
    why = "as asked for"
    if not embedded:
        try:
            check_available()
        except LocalSlurmUnavailable as error:
            why = str(error)
        else:
            console.print("starting a throw-away Slurm cluster, 4 nodes of 8 fake GPUs ...")
            return Desk(RealCluster())
    console.print(f"on an embedded stand-in for Slurm, not on Slurm itself ({why})", soft_wrap=True)
    return Desk(EmbeddedCluster())


def _run(console: Console, desk: Desk, job_s: float) -> int:
    started_s = time.monotonic()
    for line in desk.introduction():
        console.print(line, soft_wrap=True)
    console.print()
    print_head(console)
    job_ids = [desk.submit(count, job_s) for count in JOB_GPU_COUNTS]
    rows: list[Row] = []
    for row in _rows_as_they_come(desk, job_ids, started_s + DEADLINE_S):
        print_row(console, row)
        rows.append(row)
    print_sum(console, rows, len(job_ids), time.monotonic() - started_s)
    return 0 if len(rows) == len(job_ids) and all(row.is_exact for row in rows) else 1


def _rows_as_they_come(desk: Desk, job_ids: list[str], deadline_s: float) -> Iterator[Row]:
    missing = dict.fromkeys(job_ids)
    while missing and time.monotonic() < deadline_s:
        for job_id in list(missing):
            row = desk.started(job_id)
            if row is not None:
                del missing[job_id]
                yield row
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
