"""The information that a policy is built from before a simulation begins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from roost_engine.domain.model import JobId
from roost_engine.prediction.speed.tier_speeds import NoTable, SpeedTable
from roost_sim.information.profile_speeds import ProfileSpeeds
from roost_sim.information.progress import ProgressTable
from roost_sim.worlds.prediction_spec import PredictionSpec
from roost_sim.worlds.sharing.sharing_spec import SharingJobs
from roost_sim.worlds.speed.tier_efficiency import JobProfile, TierEfficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInformation:
    """What the parts of a policy may know about jobs and the cluster.

    Attributes:
        work_s: ideal run time of every job of the trace, for oracles; predictions or limits in
            their place if the simulation's fidelity says so.
        seed: for what the policy draws.
        profile_of: the speed profile of each job; empty if jobs run at the speed of the trace.
        tiers: speed of a profile on one node, in one rack and across racks; None: no cluster.
        predict: makes the run times of all jobs as a site could predict them; a job must not be
            looked up before it arrives.
        limits: makes the time limits of all jobs as users would ask for them.
        progress: the work that jobs have done, updated while the simulation runs.
        restart_s: (job, GPUs) to the seconds that a preemption and restart cost.
        cluster_gpu_count: GPUs of the cluster; 1 if there is no cluster.
        partitions: the partitions that allow preemption of jobs with checkpoints; None: the rules
            that ask for permission may stop every job.
        limits_are_drawn: whether the time limits were drawn around the true run times, because the
            trace has none: no policy may learn from them.
        predictions: of run times by the engine.
        zero_epoch_s: the wall clock at engine time 0; None: unknown.
        sharing: which jobs may share GPUs, and what the site has measured; None: no job shares.
    """

    work_s: Mapping[JobId, float]
    seed: int
    profile_of: Mapping[JobId, JobProfile] = field(default_factory=dict)
    tiers: TierEfficiency | None = None
    predict: Callable[[], Mapping[JobId, float]] = dict
    limits: Callable[[], Mapping[JobId, float]] = dict
    progress: ProgressTable = field(default_factory=ProgressTable)
    restart_s: Callable[[JobId, int], float] = lambda job_id, gpu_count: 0.0
    cluster_gpu_count: int = 1
    partitions: tuple[str, ...] | None = None
    limits_are_drawn: bool = False
    predictions: PredictionSpec = field(default_factory=PredictionSpec)
    zero_epoch_s: float | None = None
    sharing: SharingJobs | None = None

    def speed_table(self) -> SpeedTable:
        """Return the speeds of the models that jobs may name; without profiles none is known."""
        profiles = [self.profile_of[job_id] for job_id in self.profile_of]
        if self.tiers is None or not profiles:
            return NoTable()
        return ProfileSpeeds.of(self.tiers, profiles)
