"""The speed model: rate of a job by its profile, its tier and its share of the links.

A rate is speed relative to the same number of GPUs placed as closely as the cluster allows, without
other jobs on the links: a job of 100 s at rate 0.5 takes 200 s. So a job on the best placement runs
for the duration in the trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier
from roost_sim.worlds.speed.profiles import Profile

LEAST_SHARE_FRAC = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a job runs, as far as its speed depends on it.

    Attributes:
        tier: how far apart its nodes are.
        gpu_count: GPUs of the whole job.
        node_count: nodes of the job.
        fullest_gpu_count: the most GPUs that the job has on one node.
        link_stretch: how many times longer communication takes than over the best links of the same
            nodes, 1 or more.
    """

    tier: NetworkTier
    gpu_count: int
    node_count: int
    fullest_gpu_count: int
    link_stretch: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.node_count <= self.gpu_count:
            raise ValueError(f"{self.gpu_count} GPUs cannot be on {self.node_count} nodes")
        if not self.gpu_count <= self.node_count * self.fullest_gpu_count:
            raise ValueError(f"{self.fullest_gpu_count} GPUs at most a node are too few")
        if (self.tier == NetworkTier.NODE) != (self.node_count == 1):
            raise ValueError(f"{self.node_count} nodes are not tier {self.tier.name}")


@dataclass(frozen=True, slots=True)
class SpeedModel:
    """Rates on one cluster.

    Attributes:
        far_factor: by tier, how many times longer communication takes than inside a rack of the
            measured machines.
        gpus_per_node: of the largest node, which decides the closest placement.
        communication_scale: multiplies all communication. 1: the ratio of network to GPU speed of
            the measured machines. Above 1: faster GPUs on the same network.
    """

    far_factor: Mapping[NetworkTier, float]
    gpus_per_node: int
    communication_scale: float = 1.0

    @classmethod
    def of(
        cls, cluster: ClusterSpec, communication_scale: float = 1.0, congestion: float = 1.0
    ) -> "SpeedModel":
        """Make the model of a cluster: tiers with less bandwidth than a rack are slower.

        Oversubscription is not part of it: it matters when several jobs share an uplink, which
        `share_frac` accounts for.

        Args:
            cluster: its tiers.
            communication_scale: see the attribute.
            congestion: how many times slower than measured the network above the nodes is.

        Raises:
            ValueError: a scale below 0, or a congestion below 1.
        """
        if not congestion >= 1:
            raise ValueError(f"want a congestion of 1 or more, got {congestion}")
        if not communication_scale >= 0:
            raise ValueError(f"want a scale of 0 or more, got {communication_scale}")
        rack_bytes_per_s = cluster.tiers[NetworkTier.RACK].bandwidth_bytes_per_s
        factor = {
            tier: max(rack_bytes_per_s / cluster.tiers[tier].bandwidth_bytes_per_s, 1.0)
            for tier in (NetworkTier.POD, NetworkTier.CORE)
        }
        factor[NetworkTier.CORE] = max(
            factor[NetworkTier.CORE], factor[NetworkTier.POD]
        )  # the path crosses both
        factor[NetworkTier.RACK] = 1.0
        factor = {tier: value * congestion for tier, value in factor.items()}
        factor[NetworkTier.NODE] = 1.0
        return cls(factor, cluster.largest_node_gpu_count, communication_scale)

    def overhead(
        self, profile: Profile, spot: Spot, share_frac: float = 1.0, node_stretch: float = 1.0
    ) -> float:
        """Return exposed communication over compute.

        Args:
            profile: of the job.
            spot: where the job runs.
            share_frac: its share of its most loaded link, 1 if alone; ignored on one node.
            node_stretch: how many times longer communication takes beside its neighbours.
        """
        scale = self.communication_scale * node_stretch * spot.link_stretch
        if spot.tier == NetworkTier.NODE:
            return profile.local_overhead(spot.gpu_count) * scale
        near = profile.spread_overhead(spot.gpu_count, spot.node_count, spot.fullest_gpu_count)
        stretch = self.far_factor[spot.tier] / min(max(share_frac, LEAST_SHARE_FRAC), 1.0)
        return near * stretch * scale

    def communication_frac(
        self, profile: Profile, spot: Spot, share_frac: float = 1.0, node_stretch: float = 1.0
    ) -> float:
        """Return the fraction of a step that is exposed communication. Arguments: see overhead."""
        overhead = self.overhead(profile, spot, share_frac, node_stretch)
        return overhead / (1.0 + overhead)

    def rate(
        self, profile: Profile, spot: Spot, share_frac: float = 1.0, node_stretch: float = 1.0
    ) -> float:
        """Return speed relative to the closest placement of as many GPUs, above 0, at most 1.

        Arguments: see overhead.
        """
        closest = self.overhead(profile, self.closest(spot.gpu_count))
        here = self.overhead(profile, spot, share_frac, node_stretch)
        return min((1.0 + closest) / (1.0 + here), 1.0)

    def closest(self, gpu_count: int) -> Spot:
        """Return the best placement of so many GPUs on the cluster: the fewest nodes."""
        return _closest(gpu_count, self.gpus_per_node)


@cache
def _closest(gpu_count: int, gpus_per_node: int) -> Spot:
    nodes = -(-gpu_count // gpus_per_node)
    return Spot(
        tier=NetworkTier.NODE if nodes == 1 else NetworkTier.RACK,
        gpu_count=gpu_count,
        node_count=nodes,
        fullest_gpu_count=-(-gpu_count // nodes),
    )
