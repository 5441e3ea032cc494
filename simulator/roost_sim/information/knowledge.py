"""What a policy is told before a simulation begins."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from roost_engine.domain.model import JobId
from roost_sim.information.progress import ProgressBook
from roost_sim.worlds.tier_efficiency import JobProfile, TierEfficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What a policy may be built from.

    Attributes:
        work_s: ideal run time of every job of the trace; for oracles. Where the simulation's
            fidelity says so these are predictions or limits.
        seed: of whatever it draws.
        profile_of: what each job is like; empty where jobs run at the speed of the trace.
        tiers: how fast a profile is on one node, in one rack and across racks; None: no cluster.
        predict: run times as a site could predict them, of every job: to be asked about a job
            no sooner than it arrives.
        limits: time limits as users would ask for them, of every job.
        book: how far jobs have come, filled while the simulation runs.
        restart_s: what it costs a job of so many GPUs to be stopped and started again.
        cluster_gpu_count: GPUs of the cluster; 1 where there is none.
    """

    work_s: Mapping[JobId, float]
    seed: int
    profile_of: Mapping[JobId, JobProfile] = field(default_factory=dict)
    tiers: TierEfficiency | None = None
    predict: Callable[[], Mapping[JobId, float]] = dict
    limits: Callable[[], Mapping[JobId, float]] = dict
    book: ProgressBook = field(default_factory=ProgressBook)
    restart_s: Callable[[JobId, int], float] = lambda job_id, gpu_count: 0.0
    cluster_gpu_count: int = 1
