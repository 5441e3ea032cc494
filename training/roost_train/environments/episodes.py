"""Episodes: which jobs arrive at which cluster, drawn by a seed."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from roost_engine.engine import EngineConfig
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.runs.simulation import Run
from roost_sim.sweeps.sweep import drawn_sample, drawn_window
from roost_sim.traces.trace import Trace
from roost_sim.worlds.world_spec import Speed, WorldSpec
from roost_train.environments.decision_run import DecisionRun
from roost_train.environments.paused_run import WINDOW_COUNT, PausedRun
from roost_train.environments.rewards import Reward
from roost_train.environments.slot_run import Reads, Slot, SlotRun

_LOAD_STREAM = 31  # keeps the draw of a load apart from the draw of the jobs


class Draw(StrEnum):
    """How the jobs of an episode are drawn.

    A window has the trace's own bursts, but its longest jobs are as long as the episode: hardly any
    order differs from another. A sample spans the whole trace, so jobs are short beside it and
    queues come and go.
    """

    WINDOW = "window"  # consecutive jobs
    SAMPLED = "sampled"  # jobs from all over the trace, with equal probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Jobs of a trace on a cluster.

    Attributes:
        trace: the jobs to draw from.
        clusters: one of them is drawn for each episode.
        job_count: jobs of one episode.
        draw: which jobs of the trace these are.
        warm_count: of these, how many arrive before decisions count: the teacher decides them, and
            the predictors learn from them.
        loads: offered loads, one of which is drawn for each episode.
        teacher: the policy that decides at first, and whose other parts decide all along.
        world: how fast jobs run.
        reward: what is added up.
        may_wait: whether "none" may be chosen while a job fits.
        window_count: the most jobs or candidates to choose from.
        slot: which decision of a pass is the agent's.
        reads: what the agent of the placement slot reads of a candidate.
        agents: into how many parts the cluster is split, as `engine.agents` of roostd. All parts
            are decided by the same weights, and what is added up is of the whole cluster.
    """

    trace: Trace
    clusters: tuple[ClusterSpec, ...]
    job_count: int = 320
    draw: Draw = Draw.SAMPLED
    warm_count: int = 64
    loads: tuple[float, ...] = (0.9, 1.1, 1.3)
    teacher: str = "learned+consolidation+patient"
    world: WorldSpec = field(default_factory=lambda: WorldSpec(speed=Speed.TRACE))
    reward: Reward = Reward.COMPLETION
    may_wait: bool = False
    window_count: int = WINDOW_COUNT
    slot: Slot = Slot.ORDER
    reads: Reads = Reads.SCORE
    agents: int = 1

    def run(self, seed: int) -> Run:
        """Return what the episode of a seed simulates."""
        rng = np.random.default_rng([_LOAD_STREAM, seed])
        cluster = self.clusters[int(rng.integers(len(self.clusters)))]
        load = self.loads[int(rng.integers(len(self.loads)))]
        drawn = drawn_sample if self.draw is Draw.SAMPLED else drawn_window
        trace = drawn(self.trace, self.job_count, seed).fitting(cluster.gpu_count)
        return Run(
            trace=trace.at_load(load, cluster.gpu_count),
            cluster=cluster,
            policy=find_policy(self.teacher),
            world=self.world,
            seed=seed,
            engine_config=EngineConfig(agents=self.agents),
        )

    def begin(self, seed: int) -> DecisionRun:
        """Begin the episode of a seed."""
        if self.slot is not Slot.ORDER:
            return SlotRun(
                self.run(seed),
                self.slot,
                self.reward,
                candidate_count=self.window_count,
                warm_count=self.warm_count,
                reads=self.reads,
            )
        return self.begin_order(seed)

    def begin_order(self, seed: int) -> PausedRun:
        """Begin the episode of a seed, for decisions of the order slot."""
        return PausedRun(
            self.run(seed),
            self.reward,
            may_wait=self.may_wait,
            window_count=self.window_count,
            warm_count=self.warm_count,
        )
