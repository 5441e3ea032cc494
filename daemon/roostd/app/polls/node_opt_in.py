"""Leaves jobs to Slurm that do not fit on those nodes of their partition that Roost gives out."""

from collections.abc import Callable, Iterator, Sequence

from roost_engine.domain.actions import Action, Wait
from roost_engine.domain.events import Event, JobChanged
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobState
from roostd.state import DaemonState

HandOver = Callable[[JobId, str], None]

_PATIENCE_S = 5.0


class NodeOptIn:
    """Observes the engine's steps; see loop.StepObserver.

    A job that could start on the other nodes of its partition never waits for those that Roost
    gives out: where it does not fit there now it is left to Slurm at once and for good. A job that
    the gate lets wait until a certain time fits, and waits for closer GPUs. A job that could start
    on no other node waits as anywhere, in line by a standing pin; where there are none, jobs that
    were left to Slurm would pass it for ever, so it is left as well.

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
        partitions = self._state.partly_given_out()
        if not partitions:
            return
        for job_id, reason in self._waiting(event, actions):
            spec = self._state.engine.record(job_id).spec
            if self._leaves(spec, partitions):
                text = f"{self._why(spec.partition)}: left to Slurm ({reason})"
                self._due.setdefault(job_id, (event.at_s + _PATIENCE_S, text))
        if self._due:
            self._leave(event.at_s, partitions)

    def _waiting(self, event: Event, actions: Sequence[Action]) -> Iterator[tuple[JobId, str]]:
        """Yield the jobs that wait until an unknown time, and why."""
        for action in actions:
            if isinstance(action, Wait) and action.until_s is None:
                yield action.job_id, action.reason
        if isinstance(event, JobChanged) and self._waits(event.job.job_id):
            record = self._state.engine.record(event.job.job_id)
            if record.reason and record.until_s is None:  # as before the change: no new report
                yield record.job_id, record.reason

    def _leaves(self, spec: JobSpec, partitions: frozenset[str]) -> bool:
        if not spec.binding or spec.partition not in partitions:
            return False
        return spec.starts_elsewhere or not self._state.engine.config.standing_pins

    def _why(self, partition: str) -> str:
        if partition in self._state.config.listed_nodes():
            return f"does not fit on partitions.{partition}.nodes of roostd.yaml now"
        if partition in self._state.untyped_partitions():
            return f"does not fit now on {partition}'s nodes with types by index"
        if partition in self._state.cpu_sharing:
            return f"does not fit now on CPUs that no other job of {partition} or below has"
        return f"does not fit now on the nodes of {partition} that Slurm shows"

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
        record = self._state.engine.managed(job_id)
        return record is not None and record.state is JobState.WAITING
