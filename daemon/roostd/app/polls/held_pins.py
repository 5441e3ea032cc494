"""Pinned jobs that Slurm holds, since it finds that no node can ever have them as they are pinned.

It shows no reason but BadConstraints, as for the segments of a job on 24.11, which it shows nowhere
and refuses beside named nodes. Such a job is placed once more, and then left to plain Slurm.
"""

from collections.abc import Callable, Iterable

from roost_engine.domain.events import Event, PlacementRefused
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobState
from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.rules.held_back import NO_SUCH_GPUS, is_held_by_pin
from roostd.state import DaemonState

_REASON = f"Slurm holds it where it is pinned ({NO_SUCH_GPUS})"


class HeldPins:
    """See the module.

    Args:
        state: has the engine.
        emit: takes PlacementRefused: the wait for a start would take `engine.start_timeout_s`.
        hand_over: leaves a job to plain Slurm.
    """

    def __init__(
        self,
        state: DaemonState,
        emit: Callable[[Event], None],
        hand_over: Callable[[JobId, str], None],
    ) -> None:
        self._state, self._emit, self._hand_over = state, emit, hand_over
        self._refused: dict[JobId, int] = {}  # the job's count of refusals at its first hold

    def see(self, jobs: Iterable[QueuedJob], asked_s: float) -> None:
        """Judge the jobs that a poll shows, on releases where a pin can be taken back.

        Args:
            jobs: of the poll.
            asked_s: engine time at which Slurm was asked for them.
        """
        if not self._state.can_pin_again:
            return
        pending = [job for job in jobs if job.is_pending]
        for job in pending:
            if job.priority == 0 and is_held_by_pin(job.reason, job.admin_comment):
                for job_id in map(JobId, job.job_ids):
                    self._judge(job_id, asked_s)
        if self._refused:
            known = {job_id for job in pending for job_id in job.job_ids}
            for job_id in self._refused.keys() - known:
                del self._refused[job_id]

    def _judge(self, job_id: JobId, asked_s: float) -> None:
        record = self._state.engine.managed(job_id)
        if record is None or (record.state is not JobState.PLACING and record.standing is None):
            return  # the pin is being taken back
        refused_count = self._refused.setdefault(job_id, record.refusal_count)
        if record.refusal_count > refused_count:
            # With thousands of jobs a dump takes seconds: an older one shows the first pin.
            if asked_s >= record.not_before_s:
                self._hand_over(job_id, f"left to Slurm: {_REASON}")
        else:
            at_s = self._state.clock.now_s()
            self._emit(PlacementRefused(at_s=at_s, job_id=job_id, reason=_REASON))
