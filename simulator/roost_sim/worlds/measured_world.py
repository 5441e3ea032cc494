"""The measured world: jobs run at measured speeds, and slow each other on shared links.

A job on several nodes is assumed to reduce its gradients around a ring: in each direction one flow
passes each of its nodes' ports, and one the uplinks of each of its racks and pods. The job sends
for the fraction of a step that it communicates when alone, so its average traffic is that fraction
of a port's bandwidth. Jobs slow each other only on links that cannot carry the sum of the averages;
colliding bursts are not modelled.

Jobs on the same node slow each other's exposed communication (`sharing.neighbours`), except a job
on one node whose GPUs are all connected by NVLink: it does not use what the node shares.

With links, communication takes longer where the job's GPUs of a node are not the best linked ones
(`link_bandwidth`). A job on several nodes sends each byte through the links of its nodes and
through their ports, so only links slower than a port cost it time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.topology import LinkMatrix
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier
from roost_sim.worlds.links.link_bandwidth import LinkBandwidth
from roost_sim.worlds.links.link_shares import LinkId, LinkShares, Traffic
from roost_sim.worlds.sharing.neighbours import NodeNeighbours
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.speed.speed_model import SpeedModel, Spot
from roost_sim.worlds.world import Change, Started


@dataclass(frozen=True, slots=True)
class _Running:
    spot: Spot
    profile: Profile


class MeasuredWorld:
    """Rates by profile, placement and traffic. See roost_sim.worlds.world.World.

    Args:
        cluster: where the jobs run.
        profiles: the profile of every job that will be started.
        speed: the speed model; None: as measured, on this cluster.
        is_contended: False: jobs do not slow each other on links, as in many published simulators.
        has_neighbours: False: jobs on the same node do not slow each other.
        has_links: False: all GPUs of a node count as equally close.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        profiles: Mapping[JobId, Profile],
        *,
        speed: SpeedModel | None = None,
        is_contended: bool = True,
        has_neighbours: bool = False,
        has_links: bool = False,
    ) -> None:
        self._cluster, self._profiles, self._is_contended = cluster, profiles, is_contended
        self._has_neighbours = has_neighbours
        self._nvlinked = _nvlinked(cluster)
        self._bandwidth_of = _bandwidths(cluster) if has_links else {}
        self._speed = speed or SpeedModel.of(cluster)
        self._links = LinkShares(_capacities(cluster))
        self._nodes = NodeNeighbours({node.name: node.kind.gpu_count for node in cluster.nodes})
        self._running: dict[JobId, _Running] = {}

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        job_id = change.job_id
        if isinstance(change, Started):
            names = [share.node for share in change.shares]
            spot = _spot(self._cluster, change.shares, self._link_stretch(change.shares))
            running = _Running(spot, self._profiles[job_id])
            self._running[job_id] = running
            linked = self._links.add(job_id, self._traffic(names, running))
            duty_frac = self._duty_frac(change.shares[0], running)
            beside = self._nodes.add(job_id, change.shares, duty_frac)
            return [
                (other, self.rate(other)) for other in dict.fromkeys((job_id, *linked, *beside))
            ]
        del self._running[job_id]
        changed = dict.fromkeys((*self._links.remove(job_id), *self._nodes.remove(job_id)))
        return [(other, self.rate(other)) for other in changed]

    def rate(self, job_id: JobId) -> float:
        """Return the present rate of a running job.

        Raises:
            KeyError: the job does not run.
        """
        running = self._running[job_id]
        return self._speed.rate(running.profile, running.spot, *self._slowdowns(job_id))

    def communication_frac(self, job_id: JobId) -> float:
        """Return the fraction of a running job's time that is exposed communication now.

        Raises:
            KeyError: the job does not run.
        """
        running = self._running[job_id]
        slowdowns = self._slowdowns(job_id)
        return self._speed.communication_frac(running.profile, running.spot, *slowdowns)

    def _slowdowns(self, job_id: JobId) -> tuple[float, float]:
        return self._links.share_frac(job_id), self._nodes.stretch(job_id)

    def _link_stretch(self, shares: tuple[NodeShare, ...]) -> float:
        """Return how many times longer a job communicates than over its nodes' best links."""
        if not self._bandwidth_of:
            return 1.0
        port = inf if len(shares) == 1 else self._cluster.port_bytes_per_s()
        return max(
            self._bandwidth_of[share.node].stretch(share.gpu_indices, port) for share in shares
        )

    def _is_on_nvlink(self, share: NodeShare) -> bool:
        """Return whether a job inside one node uses none of the PCIe links that the node shares."""
        if not self._bandwidth_of:
            return share.node in self._nvlinked
        return self._bandwidth_of[share.node].is_on_nvlink(share.gpu_indices)

    def _duty_frac(self, share: NodeShare, running: _Running) -> float:
        if not self._has_neighbours:
            return 0.0
        if running.spot.tier == NetworkTier.NODE and self._is_on_nvlink(share):
            return 0.0
        return self._speed.communication_frac(running.profile, running.spot)

    def _traffic(self, names: list[NodeName], running: _Running) -> Traffic:
        tier = running.spot.tier
        if tier == NetworkTier.NODE or not self._is_contended:
            return Traffic((), 0.0)
        nodes = [self._cluster.node(name) for name in names]
        links: list[LinkId] = [("node", node.name) for node in nodes]
        if tier >= NetworkTier.POD:
            links += dict.fromkeys(("rack", node.rack) for node in nodes)
        if tier >= NetworkTier.CORE:
            links += dict.fromkeys(("pod", node.pod) for node in nodes)
        flow_bytes_per_s = min(
            self._cluster.tiers[crossed].bandwidth_bytes_per_s
            for crossed in NetworkTier
            if NetworkTier.RACK <= crossed <= tier
        )
        duty_frac = self._speed.communication_frac(running.profile, running.spot)
        return Traffic(tuple(links), duty_frac * flow_bytes_per_s)


def _capacities(cluster: ClusterSpec) -> dict[LinkId, float]:
    found: dict[LinkId, float] = {}
    for node in cluster.nodes:
        found["node", node.name] = cluster.port_bytes_per_s()
        found["rack", node.rack] = cluster.rack_uplink_bytes_per_s(node.rack)
        found["pod", node.pod] = cluster.pod_uplink_bytes_per_s(node.pod)
    return found


def _nvlinked(cluster: ClusterSpec) -> frozenset[NodeName]:
    """Nodes in which every pair of GPUs is connected by NVLink."""
    kinds = {id(node.kind): node.kind for node in cluster.nodes}
    joined = {key: _is_nvlinked(kind.links) for key, kind in kinds.items()}
    return frozenset(node.name for node in cluster.nodes if joined[id(node.kind)])


def _bandwidths(cluster: ClusterSpec) -> dict[NodeName, LinkBandwidth]:
    kinds = {id(node.kind): node.kind for node in cluster.nodes}
    made = {key: LinkBandwidth.of(kind.links, kind.gpu_model) for key, kind in kinds.items()}
    return {node.name: made[id(node.kind)] for node in cluster.nodes}


def _is_nvlinked(links: LinkMatrix) -> bool:
    return all(link is None or link.nvlink_count > 0 for row in links.links for link in row)


def _spot(cluster: ClusterSpec, shares: tuple[NodeShare, ...], link_stretch: float) -> Spot:
    counts = [len(share.gpu_indices) for share in shares]
    return Spot(
        tier=cluster.network_tier(share.node for share in shares),
        gpu_count=sum(counts),
        node_count=len(counts),
        fullest_gpu_count=max(counts),
        link_stretch=link_stretch,
    )
