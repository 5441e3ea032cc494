"""Episodes: which jobs arrive at which cluster, drawn by a seed."""

from dataclasses import dataclass, field

import numpy as np

from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.runs.simulation import Run
from roost_sim.sweeps.sweep import drawn_window
from roost_sim.traces.trace import Trace
from roost_sim.worlds.world_spec import Speed, WorldSpec
from roost_train.environments.paused_run import WINDOW_COUNT, PausedRun
from roost_train.environments.rewards import Reward

_LOAD_STREAM = 31  # keeps the draw of a load apart from the draw of a window


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Stretches of a trace on a cluster.

    Attributes:
        trace: the jobs to draw from.
        clusters: one of them is drawn for each episode.
        job_count: consecutive jobs of the trace in one episode.
        warm_count: of these, how many arrive before decisions count: the teacher decides them, and
            the predictors learn from them.
        loads: offered loads, one of which is drawn for each episode.
        teacher: the policy whose order decides at first, and whose other parts decide all along.
        world: how fast jobs run.
        reward: what is added up.
        may_wait: whether "none" may be chosen while a job fits.
        window_count: the most jobs to choose from.
    """

    trace: Trace
    clusters: tuple[ClusterSpec, ...]
    job_count: int = 320
    warm_count: int = 64
    loads: tuple[float, ...] = (0.9, 1.1, 1.3)
    teacher: str = "learned+consolidation+patient"
    world: WorldSpec = field(default_factory=lambda: WorldSpec(speed=Speed.TRACE))
    reward: Reward = Reward.COMPLETION
    may_wait: bool = False
    window_count: int = WINDOW_COUNT

    def run(self, seed: int) -> Run:
        """Return what the episode of a seed simulates."""
        rng = np.random.default_rng([_LOAD_STREAM, seed])
        cluster = self.clusters[int(rng.integers(len(self.clusters)))]
        load = self.loads[int(rng.integers(len(self.loads)))]
        trace = drawn_window(self.trace, self.job_count, seed).fitting(cluster.gpu_count)
        return Run(
            trace=trace.at_load(load, cluster.gpu_count),
            cluster=cluster,
            policy=find_policy(self.teacher),
            world=self.world,
            seed=seed,
        )

    def begin(self, seed: int) -> PausedRun:
        """Begin the episode of a seed."""
        return PausedRun(
            self.run(seed),
            self.reward,
            may_wait=self.may_wait,
            window_count=self.window_count,
            warm_count=self.warm_count,
        )
