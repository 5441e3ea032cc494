"""The running jobs on the graph: how much each communicates, on which nodes, ports and uplinks.

Sums are computed again from the jobs of a node, rack or pod whenever one of them changes, with
math.fsum: they depend on which jobs are there, not on the order in which the jobs came.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, NodeShare


class Communication(NamedTuple):
    """Which fraction of a job's step is communication that compute does not hide, by tier."""

    local_frac: float
    rack_frac: float
    across_frac: float


Communicates: TypeAlias = Callable[[JobSpec | None, int], Communication]
"""(job, its number of GPUs) to its communication; None: nothing else is known of the job."""


@runtime_checkable
class ReadsCommunication(Protocol):
    """A score policy that asks how much jobs communicate."""

    def expect(self, communicates: Communicates) -> None:
        """Ask this from now on; without it jobs are typical."""


_TYPICAL = Communication(0.0, 0.3, 0.4)  # the complement of tier_speeds.UNKNOWN_SPEEDS


def typical(job: JobSpec | None, gpu_count: int) -> Communication:
    """Return what is typical of so many GPUs; a job of one GPU does not communicate."""
    return _TYPICAL if gpu_count > 1 else Communication(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Resident:
    """A job that holds GPUs.

    Attributes:
        gpus_on: the GPUs that it holds, by node index.
        here_frac: its communication at its tier.
        racks, pods: those whose uplinks it uses; none where it stays below them.
    """

    gpus_on: Mapping[int, tuple[int, ...]]
    here_frac: float
    racks: tuple[int, ...]
    pods: tuple[int, ...]

    @property
    def is_alone(self) -> bool:
        """Whether it runs on one node."""
        return len(self.gpus_on) == 1


@dataclass(slots=True)
class ResidentJobs:
    """The jobs on each node, and the sums over them.

    Attributes:
        jobs_on: by node, its jobs.
        network: by node, the communication of the jobs on several nodes.
        rack_crossing, pod_crossing: by rack and pod, that of the jobs that use its uplink: the
            ring of a job passes each uplink once, however many nodes are behind it.
    """

    communicates: Communicates = typical
    jobs_on: dict[int, dict[JobId, Resident]] = field(default_factory=dict)
    network: dict[int, float] = field(default_factory=dict)
    rack_crossing: dict[int, float] = field(default_factory=dict)
    pod_crossing: dict[int, float] = field(default_factory=dict)
    _residents: dict[JobId, Resident] = field(default_factory=dict)
    _in_rack: dict[int, dict[JobId, Resident]] = field(default_factory=dict)
    _in_pod: dict[int, dict[JobId, Resident]] = field(default_factory=dict)

    def update(
        self,
        cluster: Cluster,
        job_ids: Iterable[JobId],
        spec_of: Callable[[JobId], JobSpec | None],
        pod_of: Callable[[int], int],
    ) -> set[int]:
        """Read again what some jobs hold.

        Args:
            cluster: the nodes.
            job_ids: of the jobs whose allocation has changed.
            spec_of: what is known of a job.
            pod_of: rack id to the number of its pod.

        Returns:
            The nodes that these jobs held or hold.
        """
        nodes, racks, pods = set[int](), set[int](), set[int]()
        for job_id in job_ids:
            before = self._residents.pop(job_id, None)
            shares = cluster.shares(job_id)
            now = self._resident(cluster, spec_of(job_id), shares, pod_of) if shares else None
            if now is not None:
                self._residents[job_id] = now
            for resident, is_there in ((before, False), (now, True)):
                if resident is None:
                    continue
                nodes |= resident.gpus_on.keys()
                racks.update(resident.racks)
                pods.update(resident.pods)
                self._list(job_id, resident, is_there=is_there)
        self._add_up(nodes, racks, pods)
        return nodes

    def _list(self, job_id: JobId, resident: Resident, *, is_there: bool) -> None:
        """Add a job to its nodes, racks and pods, or remove it from them."""
        for index, keys in (
            (self.jobs_on, resident.gpus_on),
            (self._in_rack, resident.racks),
            (self._in_pod, resident.pods),
        ):
            for key in keys:
                jobs = index.setdefault(key, {})
                if is_there:
                    jobs[job_id] = resident
                else:
                    jobs.pop(job_id, None)

    def _resident(
        self,
        cluster: Cluster,
        spec: JobSpec | None,
        shares: tuple[NodeShare, ...],
        pod_of: Callable[[int], int],
    ) -> Resident | None:
        gpus_on = {cluster.index_of[one.node]: one.gpu_indices for one in shares if one.gpu_indices}
        if not gpus_on:
            return None
        each = self.communicates(spec, sum(map(len, gpus_on.values())))
        if len(gpus_on) == 1:
            return Resident(gpus_on, each.local_frac, (), ())
        racks = tuple(sorted({cluster.rack_of[node] for node in gpus_on}))
        pods = tuple(sorted({pod_of(rack) for rack in racks}))
        tier = 1 if len(racks) == 1 else 2
        return Resident(
            gpus_on, each[tier], racks if len(racks) > 1 else (), pods if len(pods) > 1 else ()
        )

    def _add_up(self, nodes: set[int], racks: set[int], pods: set[int]) -> None:
        for node in nodes:
            jobs = self.jobs_on[node].values()
            self.network[node] = fsum(job.here_frac for job in jobs if not job.is_alone)
        for sums, index, keys in (
            (self.rack_crossing, self._in_rack, racks),
            (self.pod_crossing, self._in_pod, pods),
        ):
            for key in keys:
                sums[key] = fsum(job.here_frac for job in index[key].values())
