"""How much of its speed a job keeps on one node, in one rack and across racks: for policies.

Efficiency is compute over compute and exposed communication, of a job alone in the cluster. Gates,
linear interference and skew rules go by these three numbers; what neighbours cost is not in them.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier
from roost_sim.worlds.profiles import Profile
from roost_sim.worlds.ring_network import RingNetwork, StepModel, rings_of, spread_evenly
from roost_sim.worlds.speed import SpeedModel, Spot
from roost_sim.worlds.union_tree import TreeModel, UnionTree

JobProfile: TypeAlias = Profile | StepModel | TreeModel
Efficiencies: TypeAlias = tuple[float, float, float]  # on one node, in one rack, across racks


@dataclass(slots=True)
class TierEfficiency:
    """Efficiencies on one cluster; asked again it remembers.

    Attributes:
        speed: of measured profiles.
        network: of Dally's models.
        tree: of the models of TopDRL's laboratory, whose efficiency is speed over the closest's.
        gpus_per_node: of the largest node.
        gpus_per_rack: of the largest rack.
    """

    speed: SpeedModel
    network: RingNetwork
    tree: UnionTree
    gpus_per_node: int
    gpus_per_rack: int
    _known: dict[tuple[str, int], Efficiencies] = field(default_factory=dict)

    @classmethod
    def of(
        cls, cluster: ClusterSpec, compute_scale: float = 1.0, congestion: float = 1.0
    ) -> "TierEfficiency":
        """Those of a cluster; scale and congestion as in roost_sim.worlds.world_spec.WorldSpec."""
        slowed = cluster.congested(congestion)
        racks: dict[str, int] = {}
        for node in cluster.nodes:
            racks[node.rack] = racks.get(node.rack, 0) + node.kind.gpu_count
        return cls(
            SpeedModel.of(slowed, 1.0 / compute_scale, congestion),
            RingNetwork.of(slowed, compute_scale),
            UnionTree.of(slowed, compute_scale),
            cluster.largest_node_gpu_count,
            max(racks.values(), default=0),
        )

    def efficiencies(self, profile: JobProfile, gpu_count: int) -> Efficiencies:
        """Efficiency at the closest placement that is no closer than one node, one rack, several.

        A job that no node holds has the second for the first, one that no rack holds the third
        for both. A job of one GPU has (1, 1, 1).
        """
        key = profile.name, gpu_count
        if key not in self._known:
            self._known[key] = self._work_out(profile, gpu_count)
        return self._known[key]

    def _work_out(self, profile: JobProfile, gpu_count: int) -> Efficiencies:
        if gpu_count == 1:
            return (1.0, 1.0, 1.0)
        fewest = -(-gpu_count // max(self.gpus_per_node, 1))
        across = self._efficiency(profile, NetworkTier.POD, gpu_count, max(fewest, 2))
        if gpu_count > self.gpus_per_rack:
            return (across, across, across)
        rack = self._efficiency(profile, NetworkTier.RACK, gpu_count, max(fewest, 2))
        node = rack if fewest > 1 else self._efficiency(profile, NetworkTier.NODE, gpu_count, 1)
        return (node, rack, across)

    def _efficiency(self, profile: JobProfile, tier: NetworkTier, gpus: int, nodes: int) -> float:
        racks = 1 if tier < NetworkTier.POD else max(2, -(-gpus // max(self.gpus_per_rack, 1)))
        nodes = max(nodes, racks)
        match profile:
            case StepModel():
                rings = rings_of(spread_evenly(gpus, nodes, racks))
                return self.network.efficiency(profile, rings)
            case TreeModel():
                return self.tree.rate(profile, gpus, nodes, racks)
            case Profile():
                fullest = -(-gpus // nodes)
                spot = Spot(tier=tier, gpu_count=gpus, node_count=nodes, fullest_gpu_count=fullest)
                return 1.0 / (1.0 + self.speed.overhead(profile, spot))


def tier_efficiencies(profile: JobProfile, gpu_count: int, cluster: ClusterSpec) -> Efficiencies:
    """Efficiency on one node, in one rack and across racks. See TierEfficiency.

    To ask for many jobs, keep a TierEfficiency: this one looks at every node of the cluster.

    Args:
        profile: what the job is like.
        gpu_count: of the job, at least 1.
        cluster: where it could run.
    """
    return TierEfficiency.of(cluster).efficiencies(profile, gpu_count)
