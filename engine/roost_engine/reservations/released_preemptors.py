"""Jobs for which Slurm may stop others, released to Slurm: what it frees for them is theirs.

Slurm stops the victims of such a job and starts the job about a second later. In between, the
victims' GPUs look free; a job that was placed there would wait in Slurm until the preemptor ends.
Page: docs/design/0012-standing-pins.md.
"""

from math import inf

from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId, NodeName
from roost_engine.job_record import JobState
from roost_engine.table.job_table import JobTable


class ReleasedPreemptors:
    """Keeps the nodes closed on which Slurm has stopped a victim of a released job.

    A preemptor is awaited for `stop_timeout_s`, and a node is closed for `start_timeout_s` after
    its victim has left, or until all awaited preemptors have started.

    Args:
        table: the jobs and the cluster.

    Attributes:
        is_active: whether a preemptor is awaited or a node closed; if not, there is nothing to note
            and nothing to advance.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self.is_active = False
        self._awaited_until_s: dict[JobId, float] = {}
        self._closed_until_s: dict[NodeName, float] = {}

    @property
    def nodes(self) -> NodeSet:
        """The nodes that are closed to other jobs."""
        return self._table.cluster.nodes_named(self._closed_until_s)

    @property
    def next_s(self) -> float:
        """When a node opens again at the latest; inf: none is closed."""
        return min(self._closed_until_s.values(), default=inf)

    def add(self, job_id: JobId, at_s: float) -> None:
        """Await the start of a job that was released to Slurm."""
        self._awaited_until_s[job_id] = at_s + self._table.config.stop_timeout_s
        self.is_active = True

    def note(self, event: Event) -> None:
        """Close the nodes that a victim is about to leave; call before the event is applied."""
        if not self._awaited_until_s:
            return
        match event:
            case JobStarted() | JobEnded():
                job_id = event.job_id
            case JobQueued():
                job_id = event.job.job_id
            case _:
                return
        shares = self._table.cluster.shares(job_id)
        if not shares or (isinstance(event, JobStarted) and event.shares == shares):
            return
        if self._may_be_victim(job_id):
            until_s = event.at_s + self._table.config.start_timeout_s
            self._closed_until_s.update((share.node, until_s) for share in shares)

    def advance(self, at_s: float) -> None:
        """Open the nodes again that are due; call after an event was applied."""
        self._awaited_until_s = {
            job_id: until_s
            for job_id, until_s in self._awaited_until_s.items()
            if at_s < until_s and self._is_released(job_id)
        }
        due = [
            name
            for name, until_s in self._closed_until_s.items()
            if until_s <= at_s or not self._awaited_until_s
        ]
        for name in due:
            del self._closed_until_s[name]
        self.is_active = bool(self._awaited_until_s or self._closed_until_s)
        if due:
            self._table.queue.recall_all()

    def _is_released(self, job_id: JobId) -> bool:
        record = self._table.jobs.get(job_id)
        return record is not None and record.state is JobState.RELEASED

    def _may_be_victim(self, job_id: JobId) -> bool:
        table = self._table
        known = table.jobs.get(job_id) or table.observed.get(job_id)
        if known is None or known.state not in (JobState.RUNNING, JobState.STOPPING):
            return False
        return any(
            known.preempt_class in table.jobs[preemptor].spec.preempts
            for preemptor in self._awaited_until_s
            if preemptor in table.jobs
        )
