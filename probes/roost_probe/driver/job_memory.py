"""Which Slurm jobs the processes on a GPU belong to, and how much of its memory each job uses.

Slurm's cgroup plugins give each job a folder, which its user's processes cannot leave:

    version 1    /slurm/uid_1000/job_123/step_0/task_0
    version 2    /system.slice/slurmstepd.scope/job_123/step_0/user/task_0

Where a node has several slurmd, these are slurm_n1 and n1_slurmstepd.scope. A process is of the
first job in its path: below it a user may have made folders of any name. Below /user.slice a user
may have made all of them.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

NO_JOB = 0
MOST_PROCESSES = 256  # of a GPU; with more of them its jobs' memory is not known
_JOB = re.compile(
    r"^[^:]*:[^:]*:(?!/user\.slice/)\S*?"
    r"/(?:[^/\s]*slurmstepd\.scope|slurm[^/\s]*/uid_[0-9]+)/job_([0-9]{1,10})(?:/|$)",
    re.ASCII | re.MULTILINE,
)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_TICKS = 19  # the 22nd field of stat, counted behind the name

# (Slurm's number or NO_JOB, bytes, user of the process that uses most of them), ascending
JobBytes: TypeAlias = tuple[tuple[int, int, int], ...]


def job_of(cgroups: str) -> int:
    """Return the Slurm job of a process, from its /proc/PID/cgroup; NO_JOB: of none."""
    found = _JOB.search(cgroups)
    return int(found[1]) if found else NO_JOB


def by_job(used_bytes: Mapping[int, int | None], listed_s: float, proc: Path) -> JobBytes | None:
    """Return what jobs use of one GPU.

    Args:
        used_bytes: by process id, as the driver lists it; None: it does not say.
        listed_s: CLOCK_BOOTTIME before it was asked: a process that started later has taken the
            number of one that has ended.
        proc: where procfs is mounted.

    Returns:
        None where the memory or the job of a process is not known: it has ended meanwhile, or may
        not be seen.
    """
    if len(used_bytes) > MOST_PROCESSES:
        return None
    found = dict[int, list[tuple[int, int]]]()
    for pid, used in used_bytes.items():
        owner = _job_and_user(proc / str(pid), listed_s)
        if used is None or owner is None:
            return None
        job, user_id = owner
        found.setdefault(job, []).append((used, user_id))
    return tuple(
        (job, sum(used for used, _ in each), max(each)[1]) for job, each in sorted(found.items())
    )


def _job_and_user(folder: Path, listed_s: float) -> tuple[int, int] | None:
    try:
        user_id = folder.stat().st_uid
        cgroups = (folder / "cgroup").read_text(errors="replace")
        stat = (folder / "stat").read_text(errors="replace")
        started_s = int(stat.rpartition(")")[2].split()[_START_TICKS]) / _TICKS_PER_S
    except (OSError, ValueError, IndexError):
        return None
    return (job_of(cgroups), user_id) if started_s < listed_s else None
