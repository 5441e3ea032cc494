"""A world in which jobs run as fast as measurements say, and slow each other on shared links.

A job on several nodes is taken to reduce its gradients around a ring: in each direction one flow
passes each of its nodes' ports, and one each rack and pod it is in. It sends for as long as a step
communicates alone, so its average traffic is that part of a port's bandwidth. Neighbours then slow
each other only where their averages do not fit on a link; bursts that collide are not modelled.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from roost_sim.cluster_spec import ClusterSpec, Tier
from roost_sim.link_shares import LinkId, LinkShares, Traffic
from roost_sim.profiles import Profile
from roost_sim.speed import SpeedModel, Spot
from roost_sim.world import Change, Started
from roostd.core.model import JobId, NodeName, NodeShare


@dataclass(frozen=True, slots=True)
class _Running:
    spot: Spot
    profile: Profile


class MeasuredWorld:
    """Rates by profile, placement and traffic. See roost_sim.world.World.

    Args:
        cluster: where the jobs run.
        profiles: of every job that will be started.
        communication_scale: see SpeedModel.
        is_contended: False: every job has its links to itself, as in many published simulators.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        profiles: Mapping[JobId, Profile],
        *,
        communication_scale: float = 1.0,
        is_contended: bool = True,
    ) -> None:
        self._cluster, self._profiles, self._is_contended = cluster, profiles, is_contended
        self._speed = SpeedModel.of(cluster, communication_scale)
        self._links = LinkShares(_capacities(cluster))
        self._running: dict[JobId, _Running] = {}

    def rates_after(self, change: Change) -> Iterable[tuple[JobId, float]]:
        """See World."""
        job_id = change.job_id
        if isinstance(change, Started):
            names = [share.node for share in change.shares]
            running = _Running(_spot(self._cluster, change.shares), self._profiles[job_id])
            self._running[job_id] = running
            others = self._links.add(job_id, self._traffic(names, running))
            return [(other, self.rate(other)) for other in (job_id, *others)]
        del self._running[job_id]
        return [(other, self.rate(other)) for other in self._links.remove(job_id)]

    def rate(self, job_id: JobId) -> float:
        """How fast a running job is now.

        Raises:
            KeyError: it does not run.
        """
        running = self._running[job_id]
        share_frac = self._links.share_frac(job_id)
        return self._speed.rate(running.profile, running.spot, share_frac)

    def communication_frac(self, job_id: JobId) -> float:
        """How much of a running job's time is exposed communication now, 0 to 1.

        Raises:
            KeyError: it does not run.
        """
        running = self._running[job_id]
        share_frac = self._links.share_frac(job_id)
        return self._speed.communication_frac(running.profile, running.spot, share_frac)

    def _traffic(self, names: list[NodeName], running: _Running) -> Traffic:
        tier = running.spot.tier
        if tier == Tier.NODE or not self._is_contended:
            return Traffic((), 0.0)
        nodes = [self._cluster.node(name) for name in names]
        links: list[LinkId] = [("node", node.name) for node in nodes]
        if tier >= Tier.POD:
            links += dict.fromkeys(("rack", node.rack) for node in nodes)
        if tier >= Tier.CORE:
            links += dict.fromkeys(("pod", node.pod) for node in nodes)
        flow_bytes_per_s = min(
            self._cluster.tiers[crossed].bandwidth_bytes_per_s
            for crossed in Tier
            if Tier.RACK <= crossed <= tier
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


def _spot(cluster: ClusterSpec, shares: tuple[NodeShare, ...]) -> Spot:
    counts = [len(share.gpu_indices) for share in shares]
    return Spot(
        tier=cluster.tier_of(share.node for share in shares),
        gpu_count=sum(counts),
        node_count=len(counts),
        fullest_gpu_count=max(counts),
    )
