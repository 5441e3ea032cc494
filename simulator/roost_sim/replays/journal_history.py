"""The history of a cluster: what roostd observed, read from all runs of a journal.

A job is *recorded* when it waited for Roost and was then started: by Roost or, in shadow and
advise, by Slurm. A job that Slurm started without asking (no lease, released to Slurm, held by an
operator, without GPUs) is an *outsider*: a what-if leaves its nodes and times as they were.
Page: docs/simulator/replay.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from roost_engine.domain.actions import Action, Place, ReleaseToSlurm
from roost_engine.domain.events import (
    Event,
    ForeignMemorySeen,
    GpuHealthChanged,
    JobChanged,
    JobEnded,
    JobQueued,
    JobsStopped,
    JobStarted,
    JobWithdrawn,
    LoadsSeen,
    NodeLost,
    NodeSeen,
    PlacementRefused,
    TopologySeen,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, NodeSpec


class Fate(StrEnum):
    """How a recorded job stands at the end of the journal."""

    ENDED = "ended"
    RUNNING = "running"
    WAITING = "waiting"
    LEFT = "left"  # it left the queue without having run
    LOST = "lost"  # it ran, and ended while no daemon was running


@dataclass(slots=True, kw_only=True)
class RecordedJob:
    """A job that waited for Roost. Times are engine times.

    Attributes:
        spec: the request at `arrived_s`; the id is made unique if Slurm used it twice.
        arrived_s: when the engine received the job, in the wait that led to its start.
        since_s: when its wait begins: submission, eligibility or release from a hold.
        fate: how it stands at the end of the journal.
        changes: of the request while it waited.
        started_s: the first start; None: it never ran.
        held_s: seconds it held GPUs, all its runs together.
        shares: the GPUs of its first run.
        ended_s: when it ended or left the queue; the end of the journal for a job that did not.
    """

    spec: JobSpec
    arrived_s: float
    since_s: float
    fate: Fate = Fate.WAITING
    changes: list[JobChanged] = field(default_factory=list)
    started_s: float | None = None
    held_s: float = 0.0
    shares: tuple[NodeShare, ...] = ()
    ended_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Jobs and events of a journal: the input of a what-if.

    Attributes:
        jobs: the recorded jobs, in the order in which the engine received them.
        outside: events of nodes and of outsiders, in order of time.
        outsider_count: outsiders that held GPUs.
        load_count: load samples; they are left out, since they belong to the recorded placements.
        start_delay_s: median time from a placement to the job's start; None: no job was started.
        began_s, ended_s: first and last engine time of the journal.
    """

    jobs: tuple[RecordedJob, ...]
    outside: tuple[Event, ...]
    outsider_count: int
    load_count: int
    start_delay_s: float | None
    began_s: float
    ended_s: float

    def largest_node_gpu_count(self) -> int:
        """Return GPUs of the largest node that was ever in the cluster."""
        return max(self._node_gpu_counts().values(), default=0)

    def gpu_count(self) -> int:
        """Return GPUs of all nodes that were ever in the cluster."""
        return sum(self._node_gpu_counts().values())

    def _node_gpu_counts(self) -> dict[NodeName, int]:
        """The most GPUs that each node ever had."""
        counts: dict[NodeName, int] = {}
        for event in self.outside:
            if isinstance(event, NodeSeen):
                name, count = event.node.name, event.node.gpu_count
                counts[name] = max(count, counts.get(name, 0))
        return counts


@dataclass(slots=True)
class _Follower:
    """A job that has not ended yet.

    Attributes:
        job: None: an outsider, or a job that is only known by its start.
        is_outsider: Slurm started it without asking.
        is_away: it waits, but not for Roost: held, or released to Slurm.
        run_since_s: start of the present run; None while it waits.
        placed_s: its latest placement; None: none, or refused.
        shares: the GPUs of an outsider's run.
    """

    job: RecordedJob | None
    is_outsider: bool = False
    is_away: bool = False
    run_since_s: float | None = None
    placed_s: float | None = None
    shares: tuple[NodeShare, ...] = ()


class HistoryBuilder:
    """Builds the history of jobs and nodes from the steps of a journal, run after run."""

    def __init__(self) -> None:
        self._jobs: list[RecordedJob] = []
        self._outside: list[Event] = []
        self._live: dict[JobId, _Follower] = {}
        self._nodes: dict[NodeName, NodeSpec] = {}
        self._id_counts: dict[JobId, int] = {}
        self._delays_s: list[float] = []
        self._outsider_count = self._load_count = 0
        self._began_s: float | None = None
        self._last_s = 0.0
        self._run_began_s = 0.0
        self._named_jobs: set[JobId] = set()
        self._named_nodes: set[NodeName] = set()

    def begin_run(self, began_s: float) -> None:
        """Begin a run: a fresh engine, to which all nodes and jobs are reported again."""
        self._close_run()
        self._run_began_s = began_s
        self._named_jobs.clear()
        self._named_nodes.clear()

    def apply(self, event: Event, actions: Iterable[Action]) -> None:
        """Apply one step of the engine."""
        if self._began_s is None:
            self._began_s = event.at_s
        self._last_s = max(self._last_s, event.at_s)
        self._apply_event(event)
        for action in actions:
            match action:
                case Place() if action.job_id in self._live:
                    self._live[action.job_id].placed_s = event.at_s
                case ReleaseToSlurm():
                    self._turn_away(action.job_id, event.at_s)

    def finish(self) -> History:
        """Return the history of all steps."""
        self._close_run()
        for follower in self._live.values():
            self._leave_open(follower)
        delays_s = sorted(self._delays_s)
        return History(
            jobs=tuple(sorted(self._jobs, key=lambda job: job.arrived_s)),
            outside=tuple(sorted(self._outside, key=lambda event: event.at_s)),
            outsider_count=self._outsider_count,
            load_count=self._load_count,
            start_delay_s=delays_s[len(delays_s) // 2] if delays_s else None,
            began_s=self._began_s or 0.0,
            ended_s=self._last_s,
        )

    def _apply_event(self, event: Event) -> None:
        match event:
            case NodeSeen():
                self._named_nodes.add(event.node.name)
                if self._nodes.get(event.node.name) != event.node:
                    self._nodes[event.node.name] = event.node
                    self._outside.append(event)
            case NodeLost():
                self._nodes.pop(event.name, None)
                self._outside.append(event)
            case TopologySeen() | GpuHealthChanged() | ForeignMemorySeen():
                self._outside.append(event)
            case LoadsSeen():
                self._load_count += len(event.names)
            case JobQueued() | JobChanged():
                self._queue(event.job, event.at_s)
            case JobWithdrawn():
                self._turn_away(event.job_id, event.at_s)
            case JobStarted():
                self._start(event)
            case JobEnded():
                self._end(event.job_id, event.at_s, Fate.ENDED)
            case PlacementRefused() if event.job_id in self._live:
                self._live[event.job_id].placed_s = None
            case JobsStopped():
                for job_id in event.job_ids:
                    self._stop(self._live.get(job_id), event.at_s)

    def _queue(self, spec: JobSpec, at_s: float) -> None:
        spec = replace(spec, fixed_indices=())  # left by a pin that another policy may not choose
        self._named_jobs.add(spec.job_id)
        follower = self._live.get(spec.job_id)
        if follower is not None and follower.is_outsider:
            self._end(spec.job_id, at_s, Fate.ENDED)  # requeued; it waits for Roost from now on
            follower = None
        if follower is None:
            follower = self._live[spec.job_id] = _Follower(None)
        if follower.run_since_s is not None:
            self._stop(follower, at_s)  # a requeue
        elif follower.job is None:
            since_s = max(spec.submit_s, spec.eligible_s)
            follower.job = RecordedJob(spec=self._unique(spec), arrived_s=at_s, since_s=since_s)
        elif follower.is_away:
            known = replace(spec, job_id=follower.job.spec.job_id)
            follower.job = RecordedJob(spec=known, arrived_s=at_s, since_s=at_s)
            follower.is_away = False
        elif follower.job.started_s is None:
            change = replace(spec, job_id=follower.job.spec.job_id)
            if at_s == follower.job.arrived_s:
                follower.job.spec = change
            else:
                follower.job.changes.append(JobChanged(at_s=at_s, job=change))

    def _unique(self, spec: JobSpec) -> JobSpec:
        count = self._id_counts[spec.job_id] = self._id_counts.get(spec.job_id, 0) + 1
        return spec if count == 1 else replace(spec, job_id=JobId(f"{spec.job_id}~{count}"))

    def _turn_away(self, job_id: JobId, at_s: float) -> None:
        """Note that a job still waits, but no longer for Roost."""
        self._named_jobs.add(job_id)
        follower = self._live.get(job_id)
        if follower is None or follower.job is None or follower.run_since_s is not None:
            return
        if follower.job.started_s is None and not follower.is_away:
            follower.is_away = True
            follower.job.ended_s = at_s

    def _start(self, event: JobStarted) -> None:
        self._named_jobs.add(event.job_id)
        follower = self._live.get(event.job_id)
        if follower is None:
            follower = self._live[event.job_id] = _Follower(None)
        if follower.job is None or follower.is_away:
            self._start_outsider(follower, event)
            return
        if follower.run_since_s is not None:
            return  # every running job is reported to a daemon that starts
        follower.run_since_s = event.at_s
        if follower.job.started_s is None:
            follower.job.started_s, follower.job.shares = event.at_s, event.shares
            self._jobs.append(follower.job)
        if follower.placed_s is not None and follower.job.spec.binding:
            self._delays_s.append(event.at_s - follower.placed_s)

    def _start_outsider(self, follower: _Follower, event: JobStarted) -> None:
        if not follower.is_outsider and any(share.gpu_indices for share in event.shares):
            self._outsider_count += 1
        follower.is_outsider, follower.is_away, follower.job = True, False, None
        if follower.run_since_s is None or follower.shares != event.shares:
            follower.run_since_s, follower.shares = event.at_s, event.shares
            self._outside.append(replace(event, job_id=_outsider_id(event.job_id)))

    def _stop(self, follower: _Follower | None, at_s: float) -> None:
        """Note that a running job waits again."""
        if follower is None or follower.run_since_s is None:
            return
        if follower.job is not None:
            follower.job.held_s += at_s - follower.run_since_s
        follower.run_since_s = follower.placed_s = None

    def _end(self, job_id: JobId, at_s: float, fate: Fate) -> None:
        follower = self._live.pop(job_id, None)
        if follower is None:
            return
        if follower.is_outsider:
            self._outside.append(JobEnded(at_s=at_s, job_id=_outsider_id(job_id)))
            return
        job = follower.job
        if job is None:
            return
        self._stop(follower, at_s)
        if job.started_s is not None:
            job.fate, job.ended_s = fate, at_s
        else:
            self._jobs.append(job)
            job.fate, job.ended_s = Fate.LEFT, job.ended_s if follower.is_away else at_s

    def _leave_open(self, follower: _Follower) -> None:
        job = follower.job
        if job is None:
            return
        is_running = job.started_s is not None
        self._stop(follower, self._last_s)
        if follower.is_away:
            job.fate = Fate.LEFT
        else:
            job.fate, job.ended_s = Fate.RUNNING if is_running else Fate.WAITING, self._last_s
        if not is_running:
            self._jobs.append(job)

    def _close_run(self) -> None:
        """End what was never reported to the run's engine: it was gone when the run began."""
        if not self._named_nodes:
            return  # Slurm did not answer in this run, so nothing is known
        at_s = self._run_began_s
        for job_id in [job_id for job_id in self._live if job_id not in self._named_jobs]:
            self._end(job_id, at_s, Fate.LOST)
        for name in [name for name in self._nodes if name not in self._named_nodes]:
            del self._nodes[name]
            self._outside.append(NodeLost(at_s=at_s, name=name))


def _outsider_id(job_id: JobId) -> JobId:
    """An id that no recorded job has: the same Slurm job may be recorded at another time."""
    return JobId(f"{job_id}~outside")
