import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split

from dataclasses import replace

import numpy as np
import pytest
import torch

from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.scoring import graph_columns as names
from roost_train.errors import TrainError
from roost_train.graph.samples import Sample
from roost_train.graph.training import (
    Batch,
    GraphHyperParameters,
    collect,
    draw_world,
    judge,
    priced,
    train,
)
from roost_train.networks.graph_net import GraphNet

pytestmark = pytest.mark.torch
SMALL = GraphHyperParameters(worlds=10, jobs=60, steps=150, batch=8)


@pytest.fixture(scope="module")
def decisions() -> list[Sample]:
    seen = list[int]()
    samples, held_out = collect(SMALL, lambda done, loss: seen.append(done))
    assert seen == list(range(1, 11))
    return sorted(samples + held_out, key=lambda one: -float(np.ptp(one.cost)))


def test_a_batch_scores_each_decision_as_if_it_were_alone(decisions: list[Sample]) -> None:
    net, few = GraphNet.random(0), decisions[:5]
    net.weights["head_weight3"] *= 10
    together = Batch.of(few).scores(net)
    alone = torch.cat([Batch.of([one]).scores(net) for one in few])
    assert torch.allclose(together, alone, atol=1e-5)


def test_the_loss_looks_at_differences_within_decisions_only(decisions: list[Sample]) -> None:
    batch = Batch.of(decisions[:3])
    assert float(batch.loss(-batch.cost)) == pytest.approx(0.0, abs=1e-7)
    shifted = -batch.cost + batch.owner["candidate"].float()  # another constant for each
    assert float(batch.loss(shifted)) == pytest.approx(0.0, abs=1e-6)
    assert float(batch.loss(torch.zeros_like(batch.cost))) > 0


def test_training_learns_what_places_cost_and_repeats(decisions: list[Sample]) -> None:
    net = train(decisions, SMALL)
    figures, untrained = judge(net, decisions), judge(GraphNet.random(0), decisions)
    assert figures.explained_frac > max(untrained.explained_frac, 0.2)
    assert figures.regret < figures.random_regret
    again = train(decisions, SMALL)
    assert all(torch.equal(net.weights[name], again.weights[name]) for name in net.weights)


def test_without_a_choice_there_is_nothing_to_learn(decisions: list[Sample]) -> None:
    with pytest.raises(TrainError, match="no decision with a choice"):
        train([], SMALL)
    flat = [replace(one, cost=np.zeros_like(one.cost)) for one in decisions[:2]]
    assert judge(GraphNet.random(0), flat).decision_count == 0


def test_a_price_adds_the_heuristics_points() -> None:
    net = GraphNet.random(0)
    rows = torch.rand(4, len(names.CANDIDATE_COLUMNS))
    context = torch.zeros(4, names.CONTEXT_WIDTH)
    added = priced(net, 0.5).scores(rows, context) - net.scores(rows, context)
    points = rows[:, : len(HEURISTIC_WEIGHTS)] @ torch.from_numpy(HEURISTIC_WEIGHTS)
    assert torch.allclose(added, 0.5 * points, atol=1e-5)


def test_worlds_differ_in_the_speed_of_gpus_and_network() -> None:
    rng = np.random.default_rng(0)
    drawn = {(w.compute_scale, w.congestion) for w in (draw_world(rng) for _ in range(40))}
    assert len(drawn) > 6
