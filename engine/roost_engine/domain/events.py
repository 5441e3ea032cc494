"""What happened to the cluster and its jobs. Each event carries its time.

`at_s` is engine time: seconds on a clock that never jumps. The driver chooses the origin of that
clock and keeps it (the simulator starts at 0; roostd carries it across restarts in its journal).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import GpuUuid, JobId, JobSpec, NodeName, NodeShare, NodeSpec
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.domain.topology import LinkMatrix
from roost_engine.domain.value import value

LOAD_COLUMNS = ("sm_frac", "memory_activity_frac", "pcie_bytes_per_s", "nvlink_bytes_per_s")


@value(kw_only=True)
class NodeSeen:
    """Slurm reports a node for the first time, or a node of which something has changed."""

    at_s: float
    node: NodeSpec


@value(kw_only=True)
class NodeLost:
    """Slurm no longer knows the node. The jobs on it end by events of their own."""

    at_s: float
    name: NodeName


@value(kw_only=True)
class TopologySeen:
    """A probe reports how the GPUs of a node are linked."""

    at_s: float
    name: NodeName
    links: LinkMatrix
    gpu_uuids: tuple[GpuUuid, ...]
    gpu_memory_bytes: int = 0  # of its smallest GPU; 0: not known


@value(kw_only=True, eq=False)
class LoadsSeen:
    """Probes report the load of the GPUs of some nodes, each of which has as many GPUs.

    Each node may be named once. What is decided in the step sees the load of all of them.

    Attributes:
        load: float32 [node, gpu, 4], columns LOAD_COLUMNS; a rate in bytes is the sum of sent and
            received bytes; NaN: unknown.
    """

    at_s: float
    names: tuple[NodeName, ...]
    load: NDArray[np.float32]


@value(kw_only=True)
class GpuHealthChanged:
    """A probe reports that a GPU broke (`fault` names how) or works again (`fault` is empty)."""

    at_s: float
    name: NodeName
    gpu_index: int
    fault: str


@value(kw_only=True)
class ForeignMemorySeen:
    """Processes of no job use so much of a GPU's memory that other GPUs are to be given out first.

    Attributes:
        used_bytes: what they use; 0: so little that the GPU is given out like any other one.
    """

    at_s: float
    name: NodeName
    gpu_index: int
    used_bytes: int


@value(kw_only=True)
class EarlierRuns:
    """The runs of a job from which it came back into the queue.

    Attributes:
        run_s: seconds that it held GPUs, all these runs together.
        run_s_by_tier: the same by tier, without runs that Slurm started on its own.
        stop_count: how often it was stopped.
        work_s: seconds that its progress would have taken at ideal speed, by SpeedSeen.
    """

    run_s: float = 0.0
    run_s_by_tier: tuple[float, float, float] = (0.0, 0.0, 0.0)
    stop_count: int = 0
    work_s: float = 0.0


@value(kw_only=True)
class WaitSoFar:
    """A wait that began before the engine that continues it.

    Attributes:
        since_s: engine time at which the job began to wait.
        declined_s: by tier, node and rack: engine time from which the job has declined GPUs farther
            apart than that; None: it has not.
        refusal_count: placements that Slurm refused, in a row.
        not_before_s: end of the pause after the last refusal; 0 without one.
        pause_reason: why the job pauses, for a human.
        hand_over_at_s: when the job is released to plain Slurm if it has not got the only GPU
            indices that it can have; None: it can have any.
        limited_since_s: engine time from which one of Slurm's limits has kept it waiting; None:
            none does.
        runs: before this wait; None: the job has not run.
        precedence, overtakes: see JobSpec.
    """

    since_s: float
    declined_s: tuple[float | None, float | None] = (None, None)
    refusal_count: int = 0
    not_before_s: float = 0.0
    pause_reason: str = ""
    hand_over_at_s: float | None = None
    limited_since_s: float | None = None
    runs: EarlierRuns | None = None
    precedence: int = 0
    overtakes: tuple[JobId, ...] = ()


@value(kw_only=True)
class JobQueued:
    """A job waits for GPUs, and nothing but Roost's decision keeps it from starting.

    Attributes:
        wait: given for a job that has waited since before the engine began; None: its wait begins
            now, or continues as this engine knows it.
    """

    at_s: float
    job: JobSpec
    wait: WaitSoFar | None = None


@value(kw_only=True)
class JobChanged:
    """A waiting job's request has changed; `job` is the whole new request."""

    at_s: float
    job: JobSpec


@value(kw_only=True)
class JobWithdrawn:
    """A waiting job is no longer Roost's to place.

    It was held or cancelled, it waits for another job, or a user took it over.
    """

    at_s: float
    job_id: JobId
    reason: str


@value(kw_only=True)
class JobStarted:
    """Slurm allocated these shares to a job.

    They count as the truth, whether or not they are the planned shares. Reported for every job
    that holds resources on a GPU node, placed by Roost or not.

    Attributes:
        job: the request, given for a job under Roost that never waited in this engine because it
            has run since before the engine began.
        since_s: engine time at which such a job started; None: now.
        end_s: engine time at which the time limit ends the run; None: it has none, or the limit is
            that of the waiting job.
        preempt_class: as which Slurm's preemption knows the job: "qos:low"; "" where Slurm would
            not stop it for any job.
        spared_until_s: engine time before which Slurm would not stop it for any job.
        queued_s: engine time at which the wait of such a job began; None: it did not wait.
        runs: of such a job, before this one; None: it has not run before.
    """

    at_s: float
    job_id: JobId
    shares: tuple[NodeShare, ...]
    job: JobSpec | None = None
    since_s: float | None = None
    end_s: float | None = None
    preempt_class: str = ""
    spared_until_s: float = 0.0
    queued_s: float | None = None
    runs: EarlierRuns | None = None


@value(kw_only=True)
class JobEnded:
    """The job holds no resources any more, or left the queue for good."""

    at_s: float
    job_id: JobId


@value(kw_only=True)
class PlacementRefused:
    """Slurm did not start a placed job. The job waits again and is decided again after a pause."""

    at_s: float
    job_id: JobId
    reason: str


@value(kw_only=True)
class JobsStopped:
    """Running jobs were stopped before their end, as Preempt requested; they now wait again."""

    at_s: float
    job_ids: tuple[JobId, ...]


@value(kw_only=True)
class PreemptionRefused:
    """Slurm refused to stop a job: it keeps running, and the job for which it was to stop waits."""

    at_s: float
    job_id: JobId
    reason: str


@value(kw_only=True)
class SpeedSeen:
    """The speed of a running job changes to this from now on.

    Attributes:
        speed_frac: speed as a fraction of the job's speed alone on the best GPUs that it could
            have; 1 is ideal.
    """

    at_s: float
    job_id: JobId
    speed_frac: float


@value(kw_only=True)
class LinksSeen:
    """How busy the links of a running job's GPUs have been since the job last started.

    Attributes:
        nvlink_frac, pcie_frac, nic_frac: fraction of the time, 0 to 1, averaged over the job's
            GPUs; for network cards, of the card nearest to each GPU; None: not reported.
    """

    at_s: float
    job_id: JobId
    nvlink_frac: float | None
    pcie_frac: float | None
    nic_frac: float | None = None


@value(kw_only=True)
class JobLoadSeen:
    """What probes have reported of the GPUs of a running job over the last minutes.

    Attributes:
        load: fractions 0 to 1 by quantity, as "power", and "power_variation" for how it varies:
            prediction.interference.interference_vector. What is not known is missing.
    """

    at_s: float
    job_id: JobId
    load: Mapping[str, float]


@value(kw_only=True)
class MemorySeen:
    """A running job that may share GPUs uses more of their memory than it was expected to need.

    It may share them already: then its probe has listed its processes.

    Attributes:
        used_bytes: the highest use of any of its GPUs since it started.
    """

    at_s: float
    job_id: JobId
    used_bytes: int


@value(kw_only=True)
class SharingWithdrawn:
    """The owner of a running job that may share GPUs wants it to share none any more.

    No other job joins it, nor one that is placed beside it and has not started. A job that runs
    beside it stays.
    """

    at_s: float
    job_id: JobId


@value(kw_only=True)
class TimerPinned:
    """An operator set a timer of the gate by hand, or returned it to the gate.

    Attributes:
        timer: the timer's name, as prediction.speed.job_class.TimerClass writes it.
        pinned_s: the timer's value from now on; None: the gate tunes the timer again.
    """

    at_s: float
    timer: str
    pinned_s: float | None


@value(kw_only=True)
class QuotasSeen:
    """Slurm's limits leave this much now, the running jobs subtracted.

    Attributes:
        free: by quota, see model.QuotaUse; a quota that is not in it has no limit.
        node_cpus: by limit on the CPUs of each node (JobSpec.node_quotas): what it leaves on each;
            there is no limit on other nodes.
    """

    at_s: float
    free: Mapping[str, float]
    node_cpus: Mapping[str, Mapping[NodeName, float]] = field(default_factory=dict)


@value(kw_only=True)
class SharesSeen:
    """Slurm promises users these shares of the cluster, from now on.

    Attributes:
        shares: by user id, each a fraction 0 to 1 of all; a user that is not in it has none of its
            own. Empty: the site has no shares, and all users have equal ones.
    """

    at_s: float
    shares: Mapping[int, float]


@value(kw_only=True)
class PairsSeen:
    """What reports of progress change of predicted losses of pairs of kinds, from now on.

    Attributes:
        pairs: those that have changed since the last such event or the run's beginning; one with a
            mean of 0 is forgotten.
    """

    at_s: float
    pairs: tuple[PairCorrection, ...]


@value(kw_only=True)
class Tick:
    """Time passed: the answer to a WakeAt."""

    at_s: float


OtherEvent: TypeAlias = (
    NodeSeen
    | NodeLost
    | TopologySeen
    | LoadsSeen
    | GpuHealthChanged
    | ForeignMemorySeen
    | JobChanged
    | JobWithdrawn
    | PlacementRefused
    | JobsStopped
    | PreemptionRefused
    | SpeedSeen
    | LinksSeen
    | JobLoadSeen
    | MemorySeen
    | SharingWithdrawn
    | TimerPinned
    | QuotasSeen
    | SharesSeen
    | PairsSeen
)
"""The events that are not among the most frequent ones, which the engine tells apart first."""
Event: TypeAlias = JobQueued | JobStarted | JobEnded | Tick | OtherEvent
