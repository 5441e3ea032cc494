"""The reasons of waits that Slurm is to hear: in the admin comments of the jobs."""

import time
from collections.abc import Mapping

from roost_engine.domain.actions import Wait
from roost_engine.domain.model import JobId
from roost_slurm.text.limits import LAST_EPOCH_S
from roostd.state import DaemonState

_LONGEST_REASON = 160
_DAY_S = 86_400.0


class WaitReasons:
    """Collects the reasons that began or changed since the last announcement."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self._unannounced: dict[JobId, str] = {}
        self._announced: dict[JobId, str] = {}  # as they stand in Slurm

    def add(self, action: Wait) -> None:
        """Collect the reason of a wait."""
        self._unannounced[action.job_id] = self._stated(action)

    def forget(self, job_id: JobId) -> None:
        """Drop the reason of a job that started or ended."""
        self._unannounced.pop(job_id, None)
        self._announced.pop(job_id, None)

    def take(self) -> dict[JobId, str]:
        """Return the reasons to announce now, and begin to collect the next ones."""
        due, self._unannounced = self._unannounced, {}
        return self._overtaken() | due

    def keep(self, reasons: Mapping[JobId, str]) -> None:
        """Announce these with the next ones: their jobs are worked on at the moment."""
        self._unannounced = {**reasons, **self._unannounced}

    def note_announced(self, reasons: Mapping[JobId, str]) -> None:
        """Note that Slurm has these reasons."""
        self._announced |= reasons

    def _overtaken(self) -> dict[JobId, str]:
        """Return the reasons of jobs that were held since Slurm got the reason of their wait."""
        blocked = self._state.unmanaged
        return {
            job_id: _plain(blocked[job_id].reason)
            for job_id, announced in self._announced.items()
            if job_id in blocked
            and blocked[job_id].is_blocked
            and announced != _plain(blocked[job_id].reason)
        }

    def _stated(self, action: Wait) -> str:
        """Return why a job waits and until when, in a form that its admin comment can hold."""
        stated = _plain(action.reason)
        if action.until_s is None:
            return stated
        left_s = action.until_s - self._state.clock.now_s()  # deadlines are not the wall clock's
        ends_s = min(time.time() + left_s, LAST_EPOCH_S)  # localtime() raises far beyond it
        clock = "%H:%M" if left_s < _DAY_S else "%Y-%m-%d %H:%M"
        return f"{stated}, until {time.strftime(clock, time.localtime(ends_s))}"


def _plain(reason: str) -> str:
    """Return a reason in a form that an admin comment can hold."""
    # A word with = in it would look like one of the keys that scontrol prints.
    short = reason.replace("=", ":")[:_LONGEST_REASON]
    return "".join(letter for letter in short if letter.isprintable())
