"""The price of the heuristic's points in the score, chosen by whole simulations.

What a placement takes from later jobs shows only in their completion times. So each price is tried:
the engine schedules the jobs of some training worlds with it, and the price with the shortest
completion times is taken. The worlds are drawn like those of the decisions, with other seeds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from roost_engine.engine import Engine, EngineConfig
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Policies
from roost_engine.plugins.policy_kinds import communication
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.scoring.graph_score import GraphScore
from roost_engine.scoring.heuristic import HeuristicScore
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.information.profile_speeds import ProfileSpeeds, named_models
from roost_sim.runs.driver import Driver
from roost_sim.runs.simulation import PARTITION, introduce
from roost_sim.traces.shapes import every_even_shape
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import arrivals
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency
from roost_sim.worlds.world_spec import WorldSpec
from roost_train.graph.clusters import draw_cluster, draw_trace
from roost_train.graph.training import draw_world, priced
from roost_train.networks.graph_net import GraphNet, TorchGraph

PRICES = (0.01, 0.03, 0.1, 0.3, 1.0)
_FIRST_SEED = 5_000_000  # away from the seeds of recorded decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTrial:
    """The result of one price.

    Attributes:
        price: see training.GraphHyperParameters.
        jct_ratio: geometric mean over the worlds of the mean completion time, over that of the
            heuristic.
    """

    price: float
    jct_ratio: float


def try_prices(
    net: GraphNet,
    seed: int,
    world_count: int,
    job_count: int,
    prices: Sequence[float] = PRICES,
    progress: Callable[[int, float], None] = lambda n, loss: None,
) -> list[PriceTrial]:
    """Simulate some worlds with each price.

    Args:
        net: without a price.
        seed: of the worlds.
        world_count: how many worlds.
        job_count: jobs of each.
        prices: that are tried.
        progress: called with (worlds done, 0).
    """
    ratios = list[list[float]]()
    for number in range(world_count):
        world_seed = _FIRST_SEED + seed * 10_000 + number
        rng = np.random.default_rng(world_seed)
        cluster = draw_cluster(rng)
        trace, spec = draw_trace(rng, cluster, job_count), draw_world(rng)
        run = partial(mean_completion_s, cluster, trace, spec, world_seed)
        base_s = run(HeuristicScore())
        ratios.append([run(GraphScore(TorchGraph(priced(net, each)))) / base_s for each in prices])
        progress(number + 1, 0.0)
    means = np.exp(np.log(np.array(ratios)).mean(axis=0)).tolist()
    return [
        PriceTrial(price=price, jct_ratio=mean) for price, mean in zip(prices, means, strict=True)
    ]


def best_price(trials: Sequence[PriceTrial]) -> float:
    """Return the price with the shortest completion times; of equals the lowest."""
    return min(trials, key=lambda trial: (trial.jct_ratio, trial.price)).price


def mean_completion_s(
    cluster: ClusterSpec, trace: Trace, spec: WorldSpec, seed: int, score: ScorePolicy
) -> float:
    """Simulate a trace under a score policy; returns the mean completion time of its jobs."""
    built = spec.build(cluster, trace, seed)
    tiers = TierEfficiency.of(cluster, spec.compute_scale, spec.congestion)
    table = ProfileSpeeds.of(tiers, built.profile_of.values())
    if isinstance(score, GraphScore):
        score.expect(partial(communication, SpeedPredictor(table), table))
    engine = Engine(EngineConfig(), Policies(score=score, candidates=WideSearch(any_gpus=True)))
    driver = Driver(engine, built.world, restart_s=built.restart_s)
    models = named_models(built.profile_of, 1.0, seed)
    jobs = arrivals(trace, every_even_shape, cluster.largest_node_gpu_count, PARTITION, models)
    outcome = driver.run(introduce(cluster), jobs)
    times = [job.ended_s - job.submit_s for job in outcome.jobs if job.ended_s is not None]
    return float(np.mean(times))
