"""The reasons of waits that Slurm is to hear: in the admin comments of the jobs.

Reasons that Slurm refuses are announced again, after pauses that double.
"""

import time
from collections.abc import Mapping

from roost_engine.domain.actions import Wait
from roost_engine.domain.errors import SlurmError
from roost_engine.domain.model import JobId
from roost_slurm.text.limits import LAST_EPOCH_S
from roostd.app.actions.slurm_refusals import RepeatedRefusals
from roostd.ops.metrics import Metrics
from roostd.slurm.port import SlurmPort
from roostd.state import DaemonState

_LONGEST_REASON = 160
_DAY_S = 86_400.0
_FIRST_PAUSE_S = 4.0
_LONGEST_PAUSE_S = 60.0


class WaitReasons:
    """Collects the reasons that began or changed since the last announcement.

    Args:
        slurm: the cluster.
        state: has the engine's clock, and the jobs that are held.
        metrics: counts refusals.
    """

    def __init__(self, slurm: SlurmPort, state: DaemonState, metrics: Metrics) -> None:
        self._slurm, self._state = slurm, state
        self._refusals = RepeatedRefusals(metrics, "announce")
        self._unannounced: dict[JobId, str] = {}
        self._announcing: dict[JobId, str] = {}  # in the call that Slurm answers now
        self._announced: dict[JobId, str] = {}  # as they stand in Slurm
        self._pause_s = _FIRST_PAUSE_S
        self._paused_until_s = 0.0  # engine time

    def add(self, action: Wait) -> None:
        """Collect the reason of a wait."""
        self._unannounced[action.job_id] = self._stated(action)

    def forget(self, job_id: JobId) -> None:
        """Drop the reason of a job that started or ended."""
        for reasons in (self._unannounced, self._announcing, self._announced):
            reasons.pop(job_id, None)

    @property
    def are_due(self) -> bool:
        """Whether reasons that began or changed may be announced now."""
        return bool(self._unannounced) and self._state.clock.now_s() >= self._paused_until_s

    def take(self) -> dict[JobId, str]:
        """Return the reasons to announce now, and begin to collect the next ones.

        None are returned while Slurm is left alone after a refusal: they are still collected.
        """
        if self._state.clock.now_s() < self._paused_until_s:
            return {}
        due, self._unannounced = self._unannounced, {}
        return self._overtaken() | due

    def keep(self, reasons: Mapping[JobId, str]) -> None:
        """Announce these with the next ones: their jobs are worked on at the moment."""
        self._unannounced = {**reasons, **self._unannounced}

    async def announce(self, reasons: Mapping[JobId, str]) -> None:
        """Write reasons into Slurm; where it refuses one, or does not answer, again after a pause.

        Those that it has by then cost no call.
        """
        self._announcing = dict(reasons)
        with self._refusals.logged():
            try:
                await self._slurm.announce(reasons)
            except SlurmError:
                self.keep(self._announcing)
                self._paused_until_s = self._state.clock.now_s() + self._pause_s
                self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
                raise
            self._announced |= self._announcing
            self._pause_s = _FIRST_PAUSE_S

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
