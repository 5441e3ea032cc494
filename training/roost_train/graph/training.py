"""Training of the graph network on recorded decisions: it learns what each candidate would cost.

The loss looks at differences within a decision only: how much more a candidate costs than the mean
of its decision. The world of one decision does not show what broken sets of GPUs cost later jobs;
the heuristic keeps sets whole. So scores add its points at a price, and `price` chooses the
price by whole simulations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.scoring import graph_columns as names
from roost_sim.worlds.world_spec import WorldSpec
from roost_train.errors import TrainError
from roost_train.graph.clusters import draw_cluster, draw_trace
from roost_train.graph.samples import Sample, record
from roost_train.networks.graph_net import GraphNet

SEEN_RANGE = 0.01  # decisions whose candidates differ less are mostly left out
FLAT_FRAC = 0.05  # of these, the fraction that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphHyperParameters:
    """Everything that shapes a run.

    Attributes:
        worlds: clusters with a trace each that are simulated; every tenth is held out.
        jobs: of each trace.
        steps: of the optimiser.
        batch: decisions of a step.
        price: run times of the job that one point of the heuristic's score is worth; None:
            `price` chooses it.
        price_worlds: clusters with a trace each on which prices are tried.
    """

    seed: int = 0
    worlds: int = 60
    jobs: int = 500
    steps: int = 4000
    batch: int = 24
    first_rate: float = 3e-3
    last_rate: float = 3e-5
    price: float | None = None
    price_worlds: int = 40

    @property
    def run_name(self) -> str:
        """Return the name of a run; the seed is part of it."""
        return f"graph-w{self.worlds}-j{self.jobs}-n{self.steps}-seed{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFigures:
    """How a network does on held-out decisions with a real choice.

    Attributes:
        decision_count: decisions judged.
        explained_frac: of the variance of costs within decisions.
        regret: mean cost of the choice above the cheapest candidate, in run times.
        heuristic_regret, random_regret: the same of the heuristic, and of a random choice.
    """

    decision_count: int
    explained_frac: float
    regret: float
    heuristic_regret: float
    random_regret: float


def collect(
    parameters: GraphHyperParameters, progress: Callable[[int, float], None] = lambda n, loss: None
) -> tuple[list[Sample], list[Sample]]:
    """Simulate the worlds of a run; returns training and held-out decisions.

    The network between nodes and the speed of GPUs vary too: from the measured machines to GPUs ten
    times as fast.
    """
    train, held_out = list[Sample](), list[Sample]()
    for number in range(parameters.worlds):
        seed = parameters.seed * 10_000 + number
        rng = np.random.default_rng(seed)
        cluster = draw_cluster(rng)
        trace, spec = draw_trace(rng, cluster, parameters.jobs), draw_world(rng)
        found = record(cluster, trace, seed, 1.0, spec)
        part = held_out if number % 10 == 9 else train
        part += [one for one in found if np.ptp(one.cost) > SEEN_RANGE or rng.random() < FLAT_FRAC]
        progress(number + 1, 0.0)
    return train, held_out


def draw_world(rng: np.random.Generator) -> WorldSpec:
    """Draw how fast GPUs and network are beside each other."""
    return WorldSpec(
        compute_scale=float(rng.choice((1.0, 0.5, 0.2, 0.1))),
        congestion=float(rng.choice((1.0, 2.0, 4.0))),
    )


def train(
    samples: Sequence[Sample],
    parameters: GraphHyperParameters,
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> GraphNet:
    """Train a network. The same samples and parameters give the same weights on one machine.

    Raises:
        TrainError: there is no decision to learn from.
    """
    if not samples:
        raise TrainError("no decision with a choice was recorded; simulate more jobs")
    torch.manual_seed(parameters.seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    rng, net = np.random.default_rng(parameters.seed), GraphNet.random(parameters.seed)
    for weight in net.parameters():
        weight.requires_grad_(True)
    optimiser = torch.optim.Adam(net.parameters(), lr=parameters.first_rate)
    decay = (parameters.last_rate / parameters.first_rate) ** (1 / parameters.steps)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, decay)
    for step in range(parameters.steps):
        chosen = rng.integers(len(samples), size=parameters.batch)
        batch = Batch.of([samples[at] for at in chosen])
        loss = batch.loss(batch.scores(net))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        progress(step + 1, float(loss.detach()))
    for weight in net.parameters():
        weight.requires_grad_(False)
    return net


def priced(net: GraphNet, price: float) -> GraphNet:
    """Return a network whose scores also count the heuristic's: a high price decides as it does."""
    skip = net.weights["skip"].clone()
    skip[: len(HEURISTIC_WEIGHTS), 0] += price * torch.from_numpy(HEURISTIC_WEIGHTS)
    return GraphNet({**net.weights, "skip": skip})


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some decisions as one forest of trees."""

    rows: dict[str, torch.Tensor]
    owner: dict[str, torch.Tensor]
    counts: dict[str, int]
    cost: torch.Tensor

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Batch":
        """Put decisions beside each other, with their indices moved on."""

        def joined(arrays: Sequence[NDArray[np.generic]]) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(arrays, axis=-1 if arrays[0].ndim == 2 else 0))

        def moved(
            indices: Sequence[NDArray[np.int64]], by: Sequence[NDArray[np.generic]]
        ) -> torch.Tensor:
            begins = np.cumsum([0, *map(len, by)])[:-1]
            return joined([index + begin for index, begin in zip(indices, begins, strict=True)])

        levels = {
            names.GPUS: [one.gpus for one in samples],
            names.NODES: [one.nodes for one in samples],
            names.RACKS: [one.racks for one in samples],
            names.PODS: [one.pods for one in samples],
            names.CANDIDATES: [one.candidates for one in samples],
        }
        rows = {level: torch.from_numpy(np.concatenate(arrays)) for level, arrays in levels.items()}
        candidates = levels[names.CANDIDATES]
        decision = np.repeat(np.arange(len(samples)), [len(one) for one in candidates])
        owner = {
            "gpu": moved([one.node_of_gpu for one in samples], levels[names.NODES]),
            "node": moved([one.rack_of_node for one in samples], levels[names.RACKS]),
            "rack": moved([one.pod_of_rack for one in samples], levels[names.PODS]),
            "pod": torch.from_numpy(
                np.repeat(np.arange(len(samples)), list(map(len, levels[names.PODS])))
            ),
            "taker": moved([one.taken[0] for one in samples], candidates),
            "taken": moved([one.taken[1] for one in samples], levels[names.GPUS]),
            "part": moved([one.parts[0] for one in samples], candidates),
            "part_node": moved([one.parts[1] for one in samples], levels[names.NODES]),
            "candidate": torch.from_numpy(decision),
        }
        counts = {level: len(part) for level, part in rows.items()} | {"cluster": len(samples)}
        return cls(rows, owner, counts, joined([one.cost for one in samples]))

    def scores(self, net: GraphNet) -> torch.Tensor:
        """Score every candidate: [candidate]."""
        rows, owner, counts = self.rows, self.owner, self.counts
        gpus = net.gpus(rows[names.GPUS])
        nodes = net.level("node", rows[names.NODES], _mean(gpus, owner["gpu"], counts[names.NODES]))
        racks = net.level(
            "rack", rows[names.RACKS], _mean(nodes, owner["node"], counts[names.RACKS])
        )
        pods = net.level("pod", rows[names.PODS], _mean(racks, owner["rack"], counts[names.PODS]))
        clusters = _mean(pods, owner["pod"], counts["cluster"])
        wanted, node = counts[names.CANDIDATES], owner["part_node"]
        rack = owner["node"][node]
        context = (
            _mean(gpus[owner["taken"]], owner["taker"], wanted),
            _mean(nodes[node], owner["part"], wanted),
            _mean(racks[rack], owner["part"], wanted),
            _mean(pods[owner["rack"][rack]], owner["part"], wanted),
            clusters[owner["candidate"]],
        )
        return net.scores(rows[names.CANDIDATES], torch.cat(context, dim=1))

    def loss(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the mean error of costs within their decisions, robust to large ones."""
        decision, count = self.owner["candidate"], self.counts["cluster"]
        wrong = scores + self.cost
        centred = wrong - _mean(wrong[:, None], decision, count)[decision, 0]
        return torch.nn.functional.smooth_l1_loss(centred, torch.zeros_like(centred), beta=0.3)


def judge(net: GraphNet, samples: Sequence[Sample]) -> GraphFigures:
    """Compare a network's choices with the costs on decisions whose candidates differ."""
    real = [one for one in samples if np.ptp(one.cost) > SEEN_RANGE]
    wrong, spread = 0.0, 0.0
    regrets = list[tuple[float, float, float]]()
    for one in real:
        with torch.inference_mode():
            scores = Batch.of([one]).scores(net).numpy()
        centred = one.cost - one.cost.mean()
        wrong += float(np.square(centred + scores - scores.mean()).sum())
        spread += float(np.square(centred).sum())
        heuristic = one.candidates[:, : len(HEURISTIC_WEIGHTS)] @ HEURISTIC_WEIGHTS
        least = float(one.cost.min())
        mine, heuristics = one.cost[scores.argmax()], one.cost[heuristic.argmax()]
        regrets.append(
            (float(mine) - least, float(heuristics) - least, float(one.cost.mean()) - least)
        )
    means: list[float] = np.mean(regrets or [(0.0, 0.0, 0.0)], axis=0).tolist()
    return GraphFigures(
        decision_count=len(real),
        explained_frac=1 - wrong / spread if spread else 0.0,
        regret=means[0],
        heuristic_regret=means[1],
        random_regret=means[2],
    )


def _mean(values: torch.Tensor, group: torch.Tensor, count: int) -> torch.Tensor:
    """Return the mean of each group's values: [group, column]; 0 for an empty group."""
    sums = torch.zeros(count, values.shape[1], dtype=values.dtype).index_add(0, group, values)
    sizes = torch.bincount(group, minlength=count).clamp_min(1)
    return sums / sizes[:, None]
