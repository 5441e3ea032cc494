"""Tier efficiency: the efficiency of a job on one node, in one rack and across racks, for policies.

Efficiency is compute over compute and exposed communication, of a job alone in the cluster. Gates
and the interference rule use these three numbers; slowdown by neighbours is not part of them.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.speed.ring_network import RingNetwork, StepModel, rings_of, spread_evenly
from roost_sim.worlds.speed.speed_model import SpeedModel, Spot
from roost_sim.worlds.speed.union_tree import TreeModel, UnionTree

JobProfile: TypeAlias = Profile | StepModel | TreeModel
Efficiencies: TypeAlias = tuple[float, float, float]  # on one node, in one rack, across racks


@dataclass(slots=True)
class TierEfficiency:
    """Efficiencies on one cluster, cached by profile and number of GPUs.

    Attributes:
        speed: of measured profiles.
        network: of Dally's models.
        tree: of the models of TopDRL's laboratory; efficiency is speed over that of the closest
            placement.
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
        """Make the efficiencies of a cluster; scale and congestion as in world_spec.WorldSpec."""
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
        """Return efficiency on the closest placement on one node, in one rack and across racks.

        A job that fits on no node has the value of one rack for one node; a job that fits in no
        rack has the value across racks for all three. A job of one GPU has (1, 1, 1).
        """
        key = profile.name, gpu_count
        if key not in self._known:
            self._known[key] = self._compute(profile, gpu_count)
        return self._known[key]

    def _compute(self, profile: JobProfile, gpu_count: int) -> Efficiencies:
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
