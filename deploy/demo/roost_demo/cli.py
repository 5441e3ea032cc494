"""`roost-demo`: watch Roost place 20 GPU jobs on a throw-away Slurm cluster.

The last line on standard output is a JSON object: see show.summary.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

from rich.console import Console

from roost_demo.desk import Desk, RealCluster
from roost_demo.embedded import EmbeddedCluster
from roost_demo.privilege import run_as_root
from roost_demo.show import Row, print_head, print_row, print_sum, summary
from roost_slurm.testing.availability import LocalSlurmUnavailable, RootNeeded, check_available

JOB_GPU_COUNTS = (8, 2, 2, 4, 2, 1, 2, 3, 2, 2, 16, 2, 6, 2, 4, 1, 2, 8, 4, 2)
NODE_COUNT = 4  # of 8 GPUs each
_SPARE_S = 180.0  # roostd, Slurm and twenty prologs take 50 s beside 30 busy processes


def main() -> int:
    """Run the demonstration. Exit codes: 0 all as chosen, 1 not, 130 interrupted."""
    parser = argparse.ArgumentParser(prog="roost-demo", description=__doc__)
    parser.add_argument(
        "--embedded", action="store_true", help="use the in-memory Slurm stand-in, no root needed"
    )
    parser.add_argument("--job-s", type=float, default=4.0, help="how long each job runs")
    parser.add_argument(
        "--limit-s",
        type=float,
        help="give up after this long; by default long enough for jobs of --job-s",
    )
    parser.add_argument(
        "--no-sudo", action="store_true", help="never run again under sudo to start Slurm"
    )
    options = parser.parse_args()
    console = Console(highlight=False)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore SIGINT
        signal.signal(number, _interrupt)
    try:
        with _open_desk(console, options.embedded, may_sudo=not options.no_sudo) as desk:
            return _run(console, desk, options.job_s, options.limit_s)
    except KeyboardInterrupt:
        console.print("interrupted; everything is cleaned up")
        return 130


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _open_desk(console: Console, embedded: bool, *, may_sudo: bool) -> Desk:
    why = "as asked for"
    if not embedded:
        try:
            check_available()
        except RootNeeded as error:
            why = str(error)
            if may_sudo:
                run_as_root(lambda: console.print("Slurm's daemons need root: starting under sudo"))
        except LocalSlurmUnavailable as error:
            why = str(error)
        else:
            console.print("starting a throw-away Slurm cluster, 4 nodes of 8 fake GPUs ...")
            return Desk(RealCluster())
    console.print(f"on an embedded stand-in for Slurm, not on Slurm itself ({why})", soft_wrap=True)
    return Desk(EmbeddedCluster())


def default_limit_s(job_s: float) -> float:
    """Return the time limit: thrice what the GPUs need for all jobs, and some spare time."""
    return 3.0 * job_s * sum(JOB_GPU_COUNTS) / (8 * NODE_COUNT) + _SPARE_S


def _run(console: Console, desk: Desk, job_s: float, limit_s: float | None) -> int:
    started_s = time.monotonic()
    limit_s = default_limit_s(job_s) if limit_s is None else limit_s
    for line in desk.introduction():
        console.print(line, soft_wrap=True)
    console.print()
    print_head(console)
    job_ids = [desk.submit(count, job_s) for count in JOB_GPU_COUNTS]
    rows: list[Row] = []
    for row in _rows_as_they_come(desk, job_ids, started_s + limit_s):
        print_row(console, row)
        rows.append(row)
    completed_count = _wait_for_ends(desk, [row.job_id for row in rows], started_s + limit_s)
    print_sum(console, rows, len(job_ids), time.monotonic() - started_s)
    if completed_count < len(job_ids):
        console.print(
            f"gave up after {limit_s:g} s: {len(job_ids) - len(rows)} of {len(job_ids)} jobs had "
            f"not started and {len(rows) - completed_count} had not ended; --limit-s "
            f"{2 * limit_s:g} waits longer",
            style="bold red",
            soft_wrap=True,
        )
    found = summary(rows, desk.backend, desk.slurm_version(), len(job_ids), completed_count)
    print(json.dumps(found), flush=True)
    is_whole = completed_count == len(job_ids)
    return 0 if is_whole and all(row.is_exact for row in rows) else 1


def _rows_as_they_come(desk: Desk, job_ids: list[str], deadline_s: float) -> Iterator[Row]:
    missing = dict.fromkeys(job_ids)
    while missing and time.monotonic() < deadline_s:
        for job_id in list(missing):
            row = desk.started(job_id)
            if row is not None:
                del missing[job_id]
                yield row
        time.sleep(0.1)


def _wait_for_ends(desk: Desk, job_ids: list[str], deadline_s: float) -> int:
    """Wait until the jobs have ended, or time is up; return how many have."""
    while True:
        count = sum(map(desk.has_ended, job_ids))
        if count == len(job_ids) or time.monotonic() >= deadline_s:
            return count
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
