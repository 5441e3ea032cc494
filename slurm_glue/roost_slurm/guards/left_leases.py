"""Leases that a stopped roostd leaves: waiting jobs get their own begin times back.

Each lease ends by itself, after a minute, or up to an hour where thousands of jobs wait. An
administrator who removes Roost need not wait for that. A job whose user asked for a begin time
keeps that time: the admin comment names it; where the user moved it after submission, the job's
begin time is later than any lease.
"""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from roost_slurm.command_run import RunCommand, run_command
from roost_slurm.guards.orphaned_pins import is_eligible, waits_pinned
from roost_slurm.hooks import heartbeat
from roost_slurm.text import commands
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roost_slurm.text.stamp import Stamp, parse_stamp

LONGEST_GROWN_LEASE_S = 3_600  # roostd.slurm.lease_plan lets no lease grow beyond it
JOBS_PER_CALL = 500
_TIMEOUT_S = 30.0  # of one command
_LATE_S = 60.0  # a lease of an hour ends up to this much later, by the clock of another host


class RoostdRuns(Exception):
    """roostd is alive, and would lease the jobs again."""


def end_leases(
    runtime_folder: Path,
    run: RunCommand = run_command,
    *,
    longest_lease_s: float = LONGEST_GROWN_LEASE_S,
    wall_clock: Callable[[], float] = time.time,
) -> Iterator[str]:
    """Give leased jobs their own begin times, and release them to Slurm. Yields their ids.

    Jobs that a pin keeps waiting are left to `roost-slurm unpin`, and jobs that another roostd has
    leased to that one.

    Args:
        runtime_folder: of the roostd that was stopped.
        run: runs Slurm's commands.
        longest_lease_s: of that roostd: a later begin time is a user's own.
        wall_clock: seconds since the epoch.

    Raises:
        RoostdRuns: its heartbeat is fresh.
        OSError, subprocess.SubprocessError: Slurm does not answer, or refuses every job, as it does
            where the caller is no operator of Slurm.
    """
    now_s = wall_clock()
    latest_s = now_s + max(longest_lease_s, LONGEST_GROWN_LEASE_S) + _LATE_S
    if _beats(runtime_folder, now_s):
        raise RoostdRuns(f"roostd beats in {runtime_folder}; stop it first: systemctl stop roostd")
    mine = {"", heartbeat.owner_of(runtime_folder, socket.gethostname())}
    jobs_by_begin: dict[int | None, list[str]] = {}
    for job in parse_queue(run(commands.pending_queue(), _TIMEOUT_S)).jobs:
        stamp = parse_stamp(job.admin_comment)
        if stamp is not None and stamp.owner in mine and _is_leased(job, now_s):
            jobs_by_begin.setdefault(_begin_of(job, stamp, now_s, latest_s), []).extend(job.job_ids)
    released_count, refusals = 0, list[subprocess.CalledProcessError]()
    for begin_s, job_ids in jobs_by_begin.items():
        for start in range(0, len(job_ids), JOBS_PER_CALL):
            for job_id in _release(job_ids[start : start + JOBS_PER_CALL], begin_s, run, refusals):
                released_count += 1
                yield job_id
    if refusals and not released_count:
        raise refusals[-1]


def _beats(runtime_folder: Path, now_s: float) -> bool:
    try:
        text = (runtime_folder / "heartbeat").read_text(encoding="ascii", errors="replace")
        return heartbeat.parse(text).is_fresh(now_s)
    except (heartbeat.HeartbeatError, OSError):
        return False


def _is_leased(job: QueuedJob, now_s: float) -> bool:
    return job.is_pending and not is_eligible(job, now_s) and not waits_pinned(job)


def _begin_of(job: QueuedJob, stamp: Stamp, now_s: float, latest_s: float) -> int | None:
    """Return the begin time that a job's user asked for; None: none, or it has passed.

    `latest_s` is when the last lease ends.
    """
    begin_s = stamp.begin_epoch_s
    shown_s = job.start_epoch_s
    if shown_s is not None and shown_s > latest_s:
        begin_s = int(shown_s)
    return None if begin_s is None or begin_s <= now_s else begin_s


def _release(
    job_ids: list[str],
    begin_s: int | None,
    run: RunCommand,
    refusals: list[subprocess.CalledProcessError],
) -> Iterator[str]:
    """Release jobs; where one of them is refused, each by itself, so that the others are released.

    Refusals of single jobs are added to `refusals`: a job may have started or ended meanwhile.
    """
    try:
        run(commands.release(job_ids, begin_s), _TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        if len(job_ids) == 1:
            refusals.append(error)
            return
        for job_id in job_ids:
            yield from _release([job_id], begin_s, run, refusals)
        return
    yield from job_ids
