"""A tiny problem whose optimum is known, a policy that begins badly, and small nets."""

import dataclasses

import numpy as np
import torch
from tests.training.environments.small_episodes import cluster

from roost_engine.queue.selector_columns import JOB_NUMBERS
from roost_sim.runs.simulation import Run
from roost_sim.traces.trace import Trace, make_trace
from roost_train.environments.episodes import Episodes
from roost_train.improvement.improvement import Improvement, Learner
from roost_train.improvement.rollout import play
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.selector_net import SelectorNet, SelectorSizes

SMALL = SelectorSizes(job_channels=(2, 2), cluster_channels=(2, 2), hidden=16)


def fresh_net() -> SelectorNet:
    torch.manual_seed(7)
    return SelectorNet(SMALL)


def net_that_prefers_long_jobs() -> SelectorNet:
    """Nothing of the learned order, and the wrong way round."""
    net = fresh_net()
    with torch.no_grad():
        net.skip *= 0.0
        net.skip[JOB_NUMBERS.index("ln_rest")] = 1.0
    return net


def wide_before_many() -> Trace:
    """A burst: eight long jobs come just before sixteen short ones; each takes the whole cluster.

    Only the wait differs at first, so an order that serves the first that came is far from best:
    shortest first is optimal on one machine (Smith, 1956).
    """
    submit_s = [float(place) * 0.01 for place in range(24)]
    duration_s = [2_000.0] * 8 + [100.0] * 16
    users = np.array([0] * 8 + [1] * 16, dtype=np.int32)
    limits_s = [4_000.0] * 8 + [200.0] * 16
    return make_trace(
        "made up",
        submit_s,
        duration_s,
        [4] * 24,
        user_id=users,
        time_limit_s=limits_s,
        user_names=("long", "short"),
    )


def best_s() -> float:
    """The first job starts alone; then the short ones, then the other seven long ones."""
    return float(np.cumsum([2_000.0, *[100.0] * 16, *[2_000.0] * 7]).mean())


class Burst(Episodes):
    """Every episode is the same burst."""

    def run(self, seed: int) -> Run:
        return dataclasses.replace(super().run(seed), trace=self.trace)


def burst() -> Burst:
    return Burst(
        trace=wide_before_many(),
        clusters=(cluster(1),),
        job_count=24,
        warm_count=0,
        loads=(1.0,),
        teacher="fifo+consolidation+open",
    )


def solved_s(learner: Learner, iteration_count: int) -> tuple[float, float]:
    """Improve until the burst is solved; return the mean completion time before and after."""
    problem = burst()
    improvement = Improvement(learner, problem)
    before_s = found_s = play(problem, [0], SelectorAgent(learner.net))[0].mean_jct_s
    for _ in range(iteration_count):
        improvement.iterate()
        found_s = play(problem, [0], SelectorAgent(learner.net))[0].mean_jct_s
        if found_s <= 1.001 * best_s():
            break
    return before_s, found_s
