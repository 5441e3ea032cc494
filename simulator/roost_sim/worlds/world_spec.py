"""What world a run takes place in, as plain data: another process builds the same from it.

The same trace and seed give every policy the same profiles, so that comparisons are paired.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from roost_engine.domain.model import JobId, NodeShare
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import job_ids
from roost_sim.worlds.dally_models import DALLY_MODELS
from roost_sim.worlds.fidelity import DEFAULT_FIDELITY, Fidelity
from roost_sim.worlds.fitted_profiles import PROFILES
from roost_sim.worlds.measured_world import MeasuredWorld
from roost_sim.worlds.profiles import HasFamily, assign_profiles, select_profiles
from roost_sim.worlds.restart_cost import restart_s
from roost_sim.worlds.ring_network import RingNetwork, gpu_counts, rings_of
from roost_sim.worlds.speed import SpeedModel
from roost_sim.worlds.tier_efficiency import JobProfile
from roost_sim.worlds.union_tree import TREE_MODELS, UnionTree
from roost_sim.worlds.world import FullSpeed, PlacedWorld, World

_Chosen = TypeVar("_Chosen", bound=HasFamily)


class Speed(StrEnum):
    """Which model says how fast a job runs where it is."""

    MEASURED = "measured"  # profiles fitted on public tables of step times
    DALLY = "dally"  # hierarchical rings with the constants of Dally's simulator
    TOPDRL = "topdrl"  # the tree of edges of TopDRL's laboratory
    PUBLISHED = "published"  # that of the paper whose cluster it is; measured where there is none
    TRACE = "trace"  # as in the trace, wherever it is


_SPEED_OF_CLUSTER: Mapping[str, Speed] = {
    "dally-128": Speed.DALLY,
    "dally-256": Speed.DALLY,
    "topdrl": Speed.TOPDRL,
    "dl2": Speed.TRACE,  # its speed hangs on how many workers there are, not on where
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorld:
    """A world, and what is known of its jobs.

    Attributes:
        world: fresh, for one run.
        profile_of: of each job; empty where speed is the trace's.
        restart_s: (job, its GPUs) to seconds it idles when it is started again.
        compute_frac: (job, its GPUs) to the part of its work that is compute, 0 to 1, so that the
            rest of its run time is exposed communication; None: the model does not tell them apart.
    """

    world: World
    profile_of: Mapping[JobId, JobProfile]
    restart_s: Callable[[JobId, int], float]
    compute_frac: Callable[[JobId, int], float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """How fast jobs run, and what hinders them.

    Attributes:
        speed: the model.
        fidelity: the four switches.
        exclude_families: models that no job is given.
        compute_scale: compute takes so many times as long, so that communication weighs less. 1: as
            measured, and as Dally has it.
        congestion: every tier above the nodes has so many times less bandwidth; 1 or more.
        named_frac: how many jobs say what model they train, 0 to 1; gates ask.
    """

    speed: Speed = Speed.MEASURED
    fidelity: Fidelity = DEFAULT_FIDELITY
    exclude_families: tuple[str, ...] = ()
    compute_scale: float = 1.0
    congestion: float = 1.0
    named_frac: float = 1.0

    def __post_init__(self) -> None:
        if not self.compute_scale > 0:
            raise ValueError(f"want a compute scale above 0, got {self.compute_scale:g}")

    def build(self, cluster: ClusterSpec, trace: Trace, seed: int) -> BuiltWorld:
        """Make the world of one run. The same arguments make the same world.

        Args:
            cluster: where the jobs run.
            trace: whose jobs; one that names its model gets a profile of it where there is one.
            seed: of the profiles.

        Raises:
            ProfileError: a family to leave out does not exist, or nothing is left.
        """
        match self.speed_on(cluster):
            case Speed.DALLY:
                return self._dally(cluster.congested(self.congestion), trace, seed)
            case Speed.TOPDRL:
                return self._topdrl(cluster.congested(self.congestion), trace, seed)
            case Speed.TRACE:
                cost = self.fidelity.restart
                return BuiltWorld(
                    world=FullSpeed(),
                    profile_of={},
                    restart_s=lambda job, gpus: restart_s(cost, None, gpus),
                    compute_frac=None,
                )
            case _:
                return self._measured(cluster.congested(self.congestion), trace, seed)

    def speed_on(self, cluster: ClusterSpec) -> Speed:
        """Which model that is on a cluster: never PUBLISHED."""
        if self.speed is not Speed.PUBLISHED:
            return self.speed
        return _SPEED_OF_CLUSTER.get(cluster.name, Speed.MEASURED)

    def _measured(self, cluster: ClusterSpec, trace: Trace, seed: int) -> BuiltWorld:
        profile_of = _assign(trace, select_profiles(PROFILES, self.exclude_families), seed)
        speed = SpeedModel.of(cluster, 1.0 / self.compute_scale, self.congestion)
        world = MeasuredWorld(
            cluster,
            profile_of,
            speed=speed,
            is_contended=self.fidelity.is_contended,
            has_neighbours=self.fidelity.has_neighbours,
        )

        def compute_frac(job: JobId, gpu_count: int) -> float:
            return 1.0 / (1.0 + speed.overhead(profile_of[job], speed.closest(gpu_count)))

        return BuiltWorld(
            world=world,
            profile_of=profile_of,
            restart_s=self._restart(profile_of),
            compute_frac=compute_frac,
        )

    def _dally(self, cluster: ClusterSpec, trace: Trace, seed: int) -> BuiltWorld:
        model_of = _assign(trace, select_profiles(DALLY_MODELS, self.exclude_families), seed)
        network = RingNetwork.of(cluster, self.compute_scale)

        def rate(job: JobId, shares: tuple[NodeShare, ...]) -> float:
            return network.efficiency(model_of[job], rings_of(gpu_counts(cluster, shares)))

        return BuiltWorld(
            world=PlacedWorld(rate),
            profile_of=model_of,
            restart_s=self._restart(model_of),
            compute_frac=lambda job, gpu_count: 1.0,
        )

    def _topdrl(self, cluster: ClusterSpec, trace: Trace, seed: int) -> BuiltWorld:
        model_of = _assign(trace, select_profiles(TREE_MODELS, self.exclude_families), seed)
        tree = UnionTree.of(cluster, self.compute_scale)

        def rate(job: JobId, shares: tuple[NodeShare, ...]) -> float:
            gpus = sum(len(share.gpu_indices) for share in shares)
            racks = {cluster.node(share.node).rack for share in shares}
            return tree.rate(model_of[job], gpus, len(shares), len(racks))

        return BuiltWorld(
            world=PlacedWorld(rate),
            profile_of=model_of,
            restart_s=self._restart(model_of),
            compute_frac=lambda job, gpu_count: tree.compute_frac(model_of[job], gpu_count),
        )

    def _restart(self, profile_of: Mapping[JobId, HasFamily]) -> Callable[[JobId, int], float]:
        cost = self.fidelity.restart
        return lambda job, gpu_count: restart_s(cost, profile_of[job].family, gpu_count)


def _assign(trace: Trace, profiles: tuple[_Chosen, ...], seed: int) -> Mapping[JobId, _Chosen]:
    chosen = assign_profiles(trace, profiles, seed).tolist()
    return {job: profiles[index] for job, index in zip(job_ids(trace), chosen, strict=True)}
