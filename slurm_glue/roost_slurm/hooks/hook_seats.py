"""What Prolog found out about a job, for the TaskProlog of each of its tasks on this node.

Which GPUs second seats are is known to slurmctld alone. Prolog asks it, once for each job and
node, and leaves the answer in a folder that root alone may write: a file for each job.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

SEAT_FOLDER = "/dev/roost"  # has a device for each second seat, where the site has them
_INDICES = re.compile(r"\d{1,3}(?:,\d{1,3}){0,127}\n", re.ASCII)


def remember(folder: Path, job_id: int, gpu_indices: Iterable[int]) -> None:
    """Write which GPUs a job has on this node.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder.mkdir(mode=0o755, exist_ok=True)
    temporary = folder / f".{job_id}.{os.getpid()}"
    temporary.write_text(",".join(map(str, gpu_indices)) + "\n", encoding="ascii")
    temporary.chmod(0o644)
    os.replace(temporary, folder / str(job_id))


def forget(folder: Path, job_id: int) -> None:
    """Remove what was written of a job, if anything was."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        (folder / str(job_id)).unlink()


def recall(folder: Path, job_id: int, owner: int = 0) -> tuple[int, ...] | None:
    """Return which GPUs a job has on this node; None where nothing was written.

    Args:
        folder: of the files.
        job_id: the job.
        owner: the user who must own the folder; only that user may write to it.
    """
    try:
        status = folder.lstat()
        if status.st_uid != owner or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
        text = (folder / str(job_id)).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return tuple(map(int, text.split(","))) if _INDICES.fullmatch(text) else None
