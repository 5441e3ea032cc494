"""Leaves jobs to Slurm that do not fit on those nodes of their partition that Roost gives out."""

from collections.abc import Callable, Sequence

from roost_engine.domain.actions import Action, Wait
from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roostd.state import DaemonState

HandOver = Callable[[JobId, str], None]

_PATIENCE_S = 5.0


class NodeOptIn:
    """Observes the engine's steps; see loop.StepObserver.

    A job of such a partition could start elsewhere, so it never waits for the listed nodes. A job
    that does not fit there now is left to Slurm at once and for good. A job that the gate lets wait
    until a certain time fits, and waits for closer GPUs.

    Slurm would start it on the GPUs of a job that is just being pinned: so it is left to Slurm once
    those jobs have started, which takes a fraction of a second, and after _PATIENCE_S anyway.

    Args:
        state: the daemon's.
        hand_over: leaves a waiting job to Slurm; see SlurmWatch.hand_over.
    """

    def __init__(self, state: DaemonState, hand_over: HandOver) -> None:
        self._state, self._hand_over = state, hand_over
        self._due: dict[JobId, tuple[float, str]] = {}  # until when at most, and why

    def observe(self, event: Event, actions: Sequence[Action]) -> None:
        """Hand over the jobs that would wait."""
        listed = self._state.config.listed_nodes()
        partitions = self._state.untyped_partitions().union(listed)
        if not partitions:
            return
        for action in actions:
            if isinstance(action, Wait) and action.until_s is None:
                spec = self._state.engine.record(action.job_id).spec
                if spec.binding and spec.partition in partitions:
                    reason = f"does not fit on partitions.{spec.partition}.nodes of roostd.yaml now"
                    if spec.partition not in listed:
                        reason = f"does not fit now on {spec.partition}'s nodes with types by index"
                    text = f"{reason}: left to Slurm ({action.reason})"
                    self._due.setdefault(action.job_id, (event.at_s + _PATIENCE_S, text))
        if self._due:
            self._leave(event.at_s, partitions)

    def _leave(self, now_s: float, partitions: frozenset[str]) -> None:
        is_pinning = any(
            record.state is JobState.PLACING and record.spec.partition in partitions
            for _, record in self._state.engine.records()
        )
        for job_id, (until_s, text) in list(self._due.items()):
            if not self._waits(job_id):
                del self._due[job_id]
            elif not is_pinning or now_s >= until_s:
                del self._due[job_id]
                self._hand_over(job_id, text)

    def _waits(self, job_id: JobId) -> bool:
        try:
            record = self._state.engine.find(job_id)
        except UnknownJob:
            return False
        return isinstance(record, JobRecord) and record.state is JobState.WAITING
