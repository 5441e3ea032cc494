"""Jobs of which Slurm has lost the launch or the end with one of its daemons: they are cancelled.

Slurm shows them as running for minutes, or holds them. It does that without Roost too.
"""

import time

from tests.crash.crash_report import Report

from roost_slurm.testing.local_slurm import LocalSlurm

_LAUNCH_S = 15.0  # a prolog takes a second at most


class LostJobs:
    """See the module.

    Args:
        slurm: the cluster.
        asked: GPUs of each job that is not over; a job that is cancelled is taken out.
        report: counts them.
    """

    def __init__(self, slurm: LocalSlurm, asked: dict[str, int], report: Report) -> None:
        self._slurm, self._asked, self._report = slurm, asked, report
        self._slurm_killed_s: float | None = None
        self._unchanged_since_s: dict[tuple[str, str], float] = {}

    def note_kill(self) -> None:
        """Note that one of Slurm's daemons was ended."""
        self._slurm_killed_s = time.monotonic()

    def cancel(self) -> None:
        """Cancel the jobs that are lost by now, and resume nodes drained for such a job."""
        self._cancel_lost()
        self._mend_what_was_launched_twice()

    def _cancel_lost(self) -> None:
        """Cancel jobs that Slurm shows as running though they never began, or have ended."""
        killed_s = self._slurm_killed_s
        if killed_s is None or time.monotonic() < killed_s + _LAUNCH_S:
            return
        shown = self._slurm.run("squeue", "-h", "-t", "RUNNING", "-o", "%A", check=False)
        for job_id in shown.split():
            if job_id not in self._asked:
                continue
            output = self._slurm.output(job_id)
            stage = "ended" if "\nended" in output else "began" if "began" in output else "none"
            if stage == "began" or self._unchanged_s(job_id, stage) < _LAUNCH_S:
                continue
            self._slurm.run("scancel", job_id, check=False)
            del self._asked[job_id]
            self._report.end_lost_count += stage == "ended"
            self._report.launch_lost_count += stage == "none"

    def _mend_what_was_launched_twice(self) -> None:
        slurm = self._slurm
        shown = slurm.run("scontrol", "-o", "show", "nodes", check=False)
        for line in shown.splitlines():
            if "+DRAIN" in line and "Reason=Duplicate jobid" in line:
                name = line.partition(" ")[0].removeprefix("NodeName=")
                slurm.run("scontrol", "update", f"nodename={name}", "state=resume", check=False)
                self._report.launched_twice_count += 1
        waiting = slurm.run("squeue", "-h", "-t", "PENDING", "-o", "%A %r", check=False)
        for job_id, reason in (line.split(maxsplit=1) for line in waiting.splitlines()):
            held = reason.replace("_", " ").startswith("launch failed requeued held")
            # After a restart slurmctld has forgotten why it holds the job.
            if (held or reason == "JobHeldAdmin") and job_id in self._asked:
                slurm.run("scancel", job_id, check=False)
                del self._asked[job_id]
                self._report.launch_lost_count += 1

    def _unchanged_s(self, job_id: str, stage: str) -> float:
        """Return for how long a running job has been seen at that stage, seconds."""
        now_s = time.monotonic()
        return now_s - self._unchanged_since_s.setdefault((job_id, stage), now_s)
