"""The processes that the jobs of a throw-away cluster leave behind when its slurmds are killed."""

from pathlib import Path

from roost_slurm.testing.cluster_plan import RunFolder
from roost_slurm.testing.parent_watch import has_open_file, kill_all

_TIMEOUT_S = 5.0


def kill_jobs(folder: RunFolder) -> None:
    """Kill slurmstepd, job and hook processes of this cluster; they outlive slurmd otherwise."""
    kill_all(lambda: _job_pids(folder), _TIMEOUT_S)


def _job_pids(folder: RunFolder) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_of_job(entry, folder)
    ]


def _is_of_job(process: Path, folder: RunFolder) -> bool:
    try:
        env = (process / "environ").read_bytes().split(b"\0")
        is_step = (process / "comm").read_text().startswith("slurmstepd")
    except OSError:
        return False  # it ended meanwhile
    if is_step and has_open_file(int(process.name), folder.root):
        return True  # the environment of a slurmstepd of 24.11 reads as empty
    # The commands and daemons that a test runs have SLURM_CONF too and must not be killed.
    in_job = any(entry.startswith(b"SLURM_JOB_ID=") for entry in env)
    return f"SLURM_CONF={folder.slurm_conf}".encode() in env and (in_job or is_step)
