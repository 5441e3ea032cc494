"""The running jobs that another job could join, and all that an offer beside one depends on.

A job that sits alone on its GPUs is offered to others only where what is known of it now allows
that, and not only what it stated when it was submitted:

* it opted in, starts in Slurm, and holds GPUs of one node alone;
* its node has second seats in Slurm and is not reserved for a job that waits longer;
* the node's probe, if it ever reported a load, has done so within STALE_S;
* its GPUs have no fault; a probe reports MIG mode as a fault;
* its GPUs have no foreign memory (cluster.foreign_memory): how much is left is not known;
* it does not move much over NVLink, by the mean since it started or by the load reported last:
  pairs are measured on one GPU, so what such a job would lose is not known;
* it counts with the memory that it, or a job of its kind, was seen to use, where that is more
  than it stated.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import LOAD_QUANTITIES
from roost_engine.cluster.node_sets import NodeSet
from roost_engine.cluster.seats import Seats
from roost_engine.domain.events import Event, LoadsSeen, NodeLost
from roost_engine.domain.model import JobSpec, NodeName
from roost_engine.job_record import JobRecord, JobState
from roost_engine.sharing.memory_needs import MemoryNeeds
from roost_engine.table.job_table import JobTable

# Of the time, by LinksSeen; of a load it is a tenth of the scale of cluster.features, 50 GB/s. No
# measurement tells where sharing begins to cost such a job more: a cautious guess.
NVLINK_HEAVY_FRAC = 0.1
STALE_S = 120.0  # probes report every second, at most every minute
_NVLINK = LOAD_QUANTITIES.index("nvlink")


class Host(NamedTuple):
    """A running job that another one could join.

    Attributes:
        node: of all its GPUs.
        seat: that it has on them.
        gpus: its GPUs that it shares with no job and that have no fault and no foreign memory.
        gpu_memory_bytes: of each GPU, that it needs.
        cpu_count, memory_bytes: what is free on the node.
    """

    spec: JobSpec
    name: NodeName
    node: int
    seat: int
    gpus: tuple[int, ...]
    gpu_memory_bytes: int
    cpu_count: int
    memory_bytes: int


class Hosts:
    """See the module.

    Args:
        seats: that jobs hold.
        table: the jobs.
        needs: what jobs need of a GPU's memory.
    """

    def __init__(self, seats: Seats, table: JobTable, needs: MemoryNeeds) -> None:
        self._seats, self._table, self._needs = seats, table, needs
        self._reported_s: dict[NodeName, float] = {}

    def note(self, event: Event) -> None:
        """Note which probes report."""
        match event:
            case LoadsSeen():
                self._reported_s.update(dict.fromkeys(event.names, event.at_s))
            case NodeLost():
                self._reported_s.pop(event.name, None)
            case _:
                pass

    def among(self, reserved: NodeSet, at_s: float) -> Iterator[Host]:
        """Yield the jobs that others could join now.

        Args:
            reserved: nodes that are reserved for a job that waits longer.
            at_s: engine time.
        """
        cluster, jobs = self._table.cluster, self._table.jobs
        for job_id, name, seat, gpus in self._seats.hosts():
            record = jobs.get(job_id)
            if record is None or record.state is not JobState.RUNNING:
                continue
            node = cluster.index_of[name]
            spec = cluster.specs[node]
            if spec is None or not spec.has_seats or reserved >> node & 1:
                continue
            if at_s - self._reported_s.get(name, at_s) > STALE_S:
                continue
            if not may_share(record.spec) or len(record.shares) != 1:
                continue
            if _is_nvlink_heavy(cluster, record, node):
                continue
            yield Host(
                record.spec,
                name,
                node,
                seat,
                _clean(cluster, node, gpus),
                self._needs.expected_bytes(record.spec),
                int(cluster.cpu_free[node]),
                int(cluster.memory_free[node]),
            )


def may_share(job: JobSpec) -> bool:
    """Return whether a job may share GPUs: it opted in, starts in Slurm, and says what it needs."""
    return job.shares_gpus and job.binding and job.gpu_memory_bytes > 0


def _clean(cluster: Cluster, node: int, gpus: Sequence[int]) -> tuple[int, ...]:
    """Return the GPUs without a fault and without foreign memory."""
    faults, foreign = cluster.faults, cluster.foreign.used_bytes
    return tuple(gpu for gpu in gpus if (node, gpu) not in faults and (node, gpu) not in foreign)


def _is_nvlink_heavy(cluster: Cluster, record: JobRecord, node: int) -> bool:
    """Return whether a job on one node moves much between its GPUs over NVLink."""
    (share,) = record.shares
    if len(share.gpu_indices) < 2:
        return False
    now = cluster.loads.by_gpu[node].take(share.gpu_indices, axis=0)[:, _NVLINK].max()
    return max(float(now), record.nvlink_frac or 0.0) > NVLINK_HEAVY_FRAC
