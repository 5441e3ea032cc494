"""Asks Slurm to stop jobs whose GPUs others get, and reports refusals to the engine."""

from collections.abc import Callable

import structlog

from roost_engine.domain.actions import Preempt
from roost_engine.domain.errors import SlurmError
from roost_engine.domain.events import Event, PreemptionRefused
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobState
from roostd.app.decision.recorder import Recorder
from roostd.ops import failpoint
from roostd.ops.metrics import Metrics
from roostd.slurm.port import SlurmPort
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)


class Preempting:
    """See the module.

    Args:
        slurm: the cluster.
        state: has the engine.
        recorder: the journal.
        metrics: counts.
        emit: takes PreemptionRefused events.
        poll: schedules polls of the queue.
    """

    def __init__(
        self,
        slurm: SlurmPort,
        state: DaemonState,
        recorder: Recorder,
        metrics: Metrics,
        emit: Callable[[Event], None],
        poll: Callable[[JobId | None], None],
    ) -> None:
        self._slurm, self._state, self._recorder = slurm, state, recorder
        self._metrics, self._emit, self._poll = metrics, emit, poll

    async def stop(self, action: Preempt, ticket: int) -> None:
        """Ask Slurm to stop a job. The queue shows when it has: see `Applier.requeued`."""
        await self._recorder.wait_durable(ticket)
        failpoint.reach("before_requeue")
        if not self._is_wanted(action.job_id):
            return
        try:
            await self._slurm.requeue(action.job_id)
        except SlurmError as error:
            self._metrics.preemptions.labels("refused").inc()
            _log.warning("job_not_stopped", job_id=action.job_id, error=str(error))
            at_s = self._state.clock.now_s()
            self._emit(PreemptionRefused(at_s=at_s, job_id=action.job_id, reason=str(error)))
        else:
            self._metrics.preemptions.labels("stopped").inc()
            _log.info("job_stopped", job_id=action.job_id, for_job=action.for_job)
        self._poll(None)

    def _is_wanted(self, job_id: JobId) -> bool:
        """Whether the engine still wants the job stopped: it may have dropped that plan."""
        record = self._state.engine.managed(job_id)
        return record is not None and record.state is JobState.STOPPING
