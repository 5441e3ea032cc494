"""What can happen, as the engine is told. Time rides in every event.

`at_s` is engine time: seconds on a clock that never jumps, with an origin that the driver chooses
and keeps (the simulator starts at 0; roostd carries it across restarts in its journal).
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import GpuUuid, JobId, JobSpec, NodeName, NodeShare, NodeSpec
from roost_engine.domain.topology import LinkMatrix

LOAD_COLUMNS = ("sm_frac", "memory_activity_frac", "pcie_bytes_per_s", "nvlink_bytes_per_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """Slurm names a node, for the first time or with something changed."""

    at_s: float
    node: NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """Slurm no longer knows the node. Its jobs end by events of their own."""

    at_s: float
    name: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySeen:
    """A probe told how the GPUs of a node are linked."""

    at_s: float
    name: NodeName
    links: LinkMatrix
    gpu_uuids: tuple[GpuUuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadSeen:
    """The newest load of a node's GPUs.

    Attributes:
        load: float32 [gpu, 4], columns LOAD_COLUMNS; sent and received bytes added; NaN: unknown.
    """

    at_s: float
    name: NodeName
    load: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealthChanged:
    """A probe says that a GPU broke (`fault` names how) or works again (`fault` is empty)."""

    at_s: float
    name: NodeName
    gpu_index: int
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQueued:
    """A job waits for GPUs and nothing but Roost keeps it from running."""

    at_s: float
    job: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChanged:
    """A waiting job now asks for something else. The whole new request."""

    at_s: float
    job: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWithdrawn:
    """A waiting job is no longer Roost's to place: held, cancelled, depending, taken over."""

    at_s: float
    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Slurm allocated these; whether or not they are what was planned, they are the truth.

    Told for every job that holds resources on a GPU node, placed by Roost or not.

    Attributes:
        job: what it asked for, of a job under Roost that the engine has not seen wait: it has run
            since before the engine was born.
        since_s: engine time at which such a job started; None: now.
    """

    at_s: float
    job_id: JobId
    shares: tuple[NodeShare, ...]
    job: JobSpec | None = None
    since_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """The job holds nothing any more, or left the queue for good."""

    at_s: float
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRefused:
    """Slurm did not start a placed job. It waits again, and is decided anew after a pause."""

    at_s: float
    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsStopped:
    """Running jobs were stopped before their end, as Preempt asked, and wait again from now on."""

    at_s: float
    job_ids: tuple[JobId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRefused:
    """Slurm would not stop a job: it goes on running, and who was to follow it waits on."""

    at_s: float
    job_id: JobId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedSeen:
    """How fast a running job goes from now on.

    Attributes:
        speed_frac: of its speed alone on the best GPUs it could have; 1 is ideal.
    """

    at_s: float
    job_id: JobId
    speed_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksSeen:
    """How busy the links of a running job's GPUs have been, in this run of it so far.

    Attributes:
        nvlink_frac, pcie_frac, nic_frac: share of the time, 0 to 1, mean of its GPUs; of network
            cards, those nearest to each GPU; None: nobody can tell.
    """

    at_s: float
    job_id: JobId
    nvlink_frac: float | None
    pcie_frac: float | None
    nic_frac: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerPinned:
    """An operator set a timer of the gate by hand, or gave it back.

    Attributes:
        timer: its name, as prediction.job_class.TimerClass writes it.
        pinned_s: what it is from now on; None: what the gate finds best.
    """

    at_s: float
    timer: str
    pinned_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed: the answer to a WakeAt."""

    at_s: float


Event: TypeAlias = (
    NodeSeen
    | NodeLost
    | TopologySeen
    | LoadSeen
    | GpuHealthChanged
    | JobQueued
    | JobChanged
    | JobWithdrawn
    | JobStarted
    | JobEnded
    | PlacementRefused
    | JobsStopped
    | PreemptionRefused
    | SpeedSeen
    | LinksSeen
    | TimerPinned
    | Tick
)
