"""What the engine remembers of each job."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from math import inf

from roost_engine.cluster.features import COLUMN
from roost_engine.domain.actions import Decision
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Placement, Shape
from roost_engine.placement.candidates import Candidates

_SENTENCE_LIMIT = 1024  # of shapes whose sentence is kept


class JobState(StrEnum):
    """Where a job stands, by the engine's knowledge."""

    WAITING = "waiting"
    CLEARING = "clearing"  # others are being stopped to make room for it
    PLACING = "placing"  # Slurm was asked to start it
    RUNNING = "running"
    STOPPING = "stopping"  # runs until Slurm has stopped it
    LET_GO = "let_go"  # plain Slurm's
    ENDED = "ended"


@dataclass(slots=True, kw_only=True)
class JobRecord:
    """What the engine knows of a job. Read-only for everybody else.

    Attributes:
        spec: the request; None for a job that Slurm started on its own.
        queued_s: engine time at which it could first have been placed, in this spell of waiting.
        reason: why it is in this state, for a human.
        until_s: when a waiting job is decided at the latest, if that is known.
        last_try: what was found for it the last time.
        placement: what was chosen, also in shadow mode.
        decision: how.
        shares: what Slurm allocated.
        started_s: of the present run.
        earlier_run_s: seconds it ran before it was stopped, all runs together.
        stop_count: how often it was stopped.
        work_s: seconds that what it has done would have taken at ideal speed, by SpeedSeen.
        nvlink_frac, pcie_frac, nic_frac: how busy its links have been in this run, by LinksSeen;
            None: not known.
        speed_frac: its speed since `speed_since_s`; None: nobody has told.
        safe_until_s: before that it is not asked to stop, or not asked again.
        awaited: running jobs that must stop before it can be placed.
    """

    spec: JobSpec | None
    state: JobState
    queued_s: float
    reason: str = ""
    until_s: float | None = None
    last_try: Candidates | None = None
    placement: Placement | None = None
    decision: Decision | None = None
    shares: tuple[NodeShare, ...] = ()
    refusal_count: int = 0
    not_before_s: float = 0.0
    start_deadline_s: float = 0.0
    started_s: float | None = None
    ended_s: float | None = None
    earlier_run_s: float = 0.0
    stop_count: int = 0
    work_s: float = 0.0
    speed_frac: float | None = None
    speed_since_s: float = 0.0
    nvlink_frac: float | None = None
    pcie_frac: float | None = None
    nic_frac: float | None = None
    safe_until_s: float = inf
    awaited: dict[JobId, None] = field(default_factory=dict)

    @property
    def exclusions(self) -> tuple[tuple[str, int], ...]:
        """(reason, number of nodes) of the last try."""
        return () if self.last_try is None else self.last_try.exclusions

    @property
    def job_id(self) -> JobId:
        """Of a job whose request is known."""
        assert self.spec is not None
        return self.spec.job_id

    def run_s(self, at_s: float) -> float:
        """Seconds it has held GPUs by then, all runs together."""
        return self.earlier_run_s + (at_s - self.started_s if self.started_s is not None else 0.0)

    def attained_gpu_s(self, at_s: float) -> float:
        """GPU-seconds it has had by then: what least-attained-service orders go by."""
        if self.spec is None:
            return 0.0
        # Asked of every running job at every event: few calls.
        shape, run_s = self.spec.shapes[0], self.earlier_run_s
        if self.started_s is not None:
            run_s += at_s - self.started_s
        return run_s * (shape.node_count * shape.gpus_per_node)

    def efficiency(self, at_s: float) -> float:
        """Ideal time of its work over the time it took; 0 for a job that never ran.

        The work-weighted harmonic mean of its speeds, which needs no knowledge of its length
        (Dally's S, with the total number of iterations cancelled).
        """
        run_s = self.run_s(at_s)
        if run_s <= 0:
            return 0.0
        return self._work_s(at_s) / run_s

    def remember_runs(self, earlier: "JobRecord", at_s: float) -> None:
        """Carry over what it had before it came back into the queue."""
        self.earlier_run_s = earlier.run_s(at_s)
        self.work_s = earlier._work_s(at_s)
        self.stop_count = earlier.stop_count + (earlier.started_s is not None)

    def note_speed(self, speed_frac: float | None, at_s: float) -> None:
        """Go on at another speed from now on; None: it stands or nobody can tell."""
        self.work_s = self._work_s(at_s)
        self.speed_frac, self.speed_since_s = speed_frac, at_s

    def note_links(
        self, nvlink_frac: float | None, pcie_frac: float | None, nic_frac: float | None
    ) -> None:
        """Take in how busy the links of a job that runs have been; of no other job it is news."""
        if self.started_s is not None:
            self.nvlink_frac, self.pcie_frac, self.nic_frac = nvlink_frac, pcie_frac, nic_frac

    def _work_s(self, at_s: float) -> float:
        return self.work_s + (self.speed_frac or 0.0) * (at_s - self.speed_since_s)


def shares_of(placement: Placement) -> tuple[NodeShare, ...]:
    """What a job holds once Slurm has started it as planned.

    Of a scattered placement each node gives CPUs and memory in proportion to its GPUs.
    """
    shape, size = placement.shape, placement.shape.gpus_per_node
    if not placement.indices_by_node:
        cpus, memory_bytes = shape.cpus_per_node, shape.memory_per_node_bytes
        indices = placement.gpu_indices
        return tuple([NodeShare(node, indices, cpus, memory_bytes) for node in placement.nodes])
    return tuple(
        NodeShare(
            node,
            indices,
            -(-len(indices) * shape.cpus_per_node // size),
            -(-len(indices) * shape.memory_per_node_bytes // size),
        )
        for node, indices in placement.by_node()
    )


def tier_of(record: JobRecord) -> int:
    """The tier of a placed job: 0 one node, 1 one rack, 2 across racks."""
    assert record.placement is not None
    assert record.decision is not None
    if len(record.placement.nodes) == 1:
        return 0
    return round(float(record.decision.features[0, COLUMN["tier_frac"]]) * 2)


def tiers_of(record: JobRecord) -> tuple[int, int]:
    """The tier of a running job, and the closest one that its request allows.

    Of one that another engine placed racks are not known: on several nodes it counts as in one.
    """
    assert record.spec is not None
    closest = 0 if any(shape.node_count == 1 for shape in record.spec.shapes) else 1
    if record.placement is None or record.decision is None:
        return min(len(record.shares) - 1, 1), closest
    return tier_of(record), closest


@lru_cache(_SENTENCE_LIMIT)
def room_wanted(shape: Shape) -> str:
    """What a job without room waits for, in words."""
    gpus = f"{shape.gpus_per_node} GPU{'s' if shape.gpus_per_node > 1 else ''}"
    if shape.node_count == 1:
        return f"waits for {gpus} on one node"
    return f"waits for the same {gpus} on each of {shape.node_count} nodes"
