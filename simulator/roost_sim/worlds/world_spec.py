"""The specification of a run's world, as plain data from which any process builds the same world.

The same trace and seed give every policy the same profiles, so that comparisons are paired.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from roost_engine.domain.model import JobId, NodeShare
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import job_ids
from roost_sim.worlds.fidelity import DEFAULT_FIDELITY, Fidelity
from roost_sim.worlds.measured_world import MeasuredWorld
from roost_sim.worlds.prediction_spec import PredictionSpec
from roost_sim.worlds.restart_cost import restart_s
from roost_sim.worlds.sharing.sharing_spec import SharingJobs, SharingSpec
from roost_sim.worlds.speed.dally_models import DALLY_MODELS
from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profiles import HasFamily, assign_profiles, select_profiles
from roost_sim.worlds.speed.ring_network import RingNetwork, gpu_counts, rings_of
from roost_sim.worlds.speed.speed_model import SpeedModel
from roost_sim.worlds.speed.tier_efficiency import JobProfile
from roost_sim.worlds.speed.union_tree import TREE_MODELS, UnionTree
from roost_sim.worlds.world import FullSpeed, PlacedWorld, World

_Chosen = TypeVar("_Chosen", bound=HasFamily)


class Speed(StrEnum):
    """The model of a job's speed by its placement."""

    MEASURED = "measured"  # profiles fitted on public tables of step times
    DALLY = "dally"  # hierarchical rings with the constants of Dally's simulator
    TOPDRL = "topdrl"  # the tree of edges of TopDRL's laboratory
    PUBLISHED = "published"  # the model of the cluster's paper; measured if it has none
    TRACE = "trace"  # as in the trace, on any placement


_SPEED_OF_CLUSTER: Mapping[str, Speed] = {
    "dally-128": Speed.DALLY,
    "dally-256": Speed.DALLY,
    "topdrl": Speed.TOPDRL,
    "dl2": Speed.TRACE,  # its speed depends on the number of workers, not on their nodes
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorld:
    """A world, and the profiles and costs of its jobs.

    Attributes:
        world: fresh, for one run.
        profile_of: the profile of each job; empty if speed is the trace's.
        restart_s: (job, its GPUs) to seconds without progress when it is started again.
        compute_frac: (job, its GPUs) to the fraction of its work that is compute, 0 to 1; the other
            part of its run time is exposed communication. None: the model has no such fraction.
        sharing: which jobs may share GPUs, and what they do to each other; None: no job shares.
    """

    world: World
    profile_of: Mapping[JobId, JobProfile]
    restart_s: Callable[[JobId, int], float]
    compute_frac: Callable[[JobId, int], float] | None
    sharing: SharingJobs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """How fast jobs run, and what slows them.

    Attributes:
        speed: the speed model.
        fidelity: the five switches.
        exclude_families: families that no job gets.
        compute_scale: factor of all compute times; above 1 communication weighs less. 1: as
            measured, and as in Dally.
        congestion: divides the bandwidth of every tier above the nodes; 1 or more.
        named_frac: fraction of the jobs that name the model they train, 0 to 1; gates use it.
        reports_speed: whether policies that ask for the speed of running jobs are told; no policy
            is under Slurm.
        predictions: of run times by the engine; the results file has what is not as in roostd.
        sharing: how jobs share GPUs under policies that let them; None: no job opts in.
    """

    speed: Speed = Speed.MEASURED
    fidelity: Fidelity = DEFAULT_FIDELITY
    exclude_families: tuple[str, ...] = ()
    compute_scale: float = 1.0
    congestion: float = 1.0
    named_frac: float = 1.0
    reports_speed: bool = True
    predictions: PredictionSpec = field(default_factory=PredictionSpec, repr=False)
    sharing: SharingSpec | None = None

    def __post_init__(self) -> None:
        if not self.compute_scale > 0:
            raise ValueError(f"want a compute scale above 0, got {self.compute_scale:g}")

    def build(self, cluster: ClusterSpec, trace: Trace, seed: int) -> BuiltWorld:
        """Make the world of one run. The same arguments make the same world.

        Args:
            cluster: where the jobs run.
            trace: the jobs; a job that names its model gets a profile of it if there is one.
            seed: for the profiles.

        Raises:
            ProfileError: a family to exclude does not exist, or no profile is left.
        """
        built = self._alone(cluster, trace, seed)
        if self.sharing is None:
            return built
        return replace(built, sharing=self.sharing.build(job_ids(trace), seed))

    def _alone(self, cluster: ClusterSpec, trace: Trace, seed: int) -> BuiltWorld:
        """Make the world in which each job has its GPUs alone."""
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
        """Return the speed model on a cluster; never PUBLISHED."""
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
            has_links=self.fidelity.has_links,
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
